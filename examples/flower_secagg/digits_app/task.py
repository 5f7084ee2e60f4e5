"""The learning task, with nothing in it of Flower or of secure aggregation."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.graph.datasets import load_digits_graph
from fgl_secure.graph.partition import partition

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch_geometric.nn import GraphSAGE

Arrays = dict[str, NDArray[Any]]

HIDDEN = 16
STEPS = 30
RATE = 0.2


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """What a silo has after training.

    Attributes:
        arrays: of its model.
        loss: cross-entropy on its training nodes before the last step.
        examples: the number of its training nodes.
    """

    arrays: Arrays
    loss: float
    examples: int


def initial() -> Arrays:
    """The arrays of a fresh model, the same every time."""
    return _arrays(_model())


def train(arrays: Mapping[str, NDArray[Any]], silo: int, silos: int) -> TrainedModel:
    """Trains on the part of the graph that a silo has: its own nodes, and edges between them.

    Args:
        arrays: of the global model.
        silo: 0 .. silos - 1.
        silos: how many share the graph.
    """
    torch.set_num_threads(1)
    x, y, edges = _part(silo, silos)
    model = _model()
    model.load_state_dict({name: torch.tensor(value) for name, value in arrays.items()})
    optimiser = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    loss = torch.zeros(())
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x, edges), y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return TrainedModel(_arrays(model), loss.item(), len(y))


def accuracy(arrays: Mapping[str, NDArray[Any]]) -> float:
    """Share of all digits, on the whole graph, that a model names rightly."""
    graph = load_digits_graph()
    model = _model()
    model.load_state_dict({name: torch.tensor(value) for name, value in arrays.items()})
    with torch.no_grad():
        scores = model(torch.tensor(graph.features), torch.tensor(graph.edges))
    return float((scores.argmax(1).numpy() == graph.labels).mean())


def _model() -> GraphSAGE:
    torch.manual_seed(0)
    return GraphSAGE(64, HIDDEN, num_layers=2, out_channels=10)


def _arrays(model: GraphSAGE) -> Arrays:
    return {name: value.detach().numpy().copy() for name, value in model.state_dict().items()}


def _part(silo: int, silos: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    graph = load_digits_graph()
    mine = partition("random", graph, silos, seed=0) == silo
    number = np.cumsum(mine) - 1
    inside = mine[graph.edges[0]] & mine[graph.edges[1]]
    return (
        torch.tensor(graph.features[mine]),
        torch.tensor(graph.labels[mine]),
        torch.tensor(number[graph.edges[:, inside]]),
    )
