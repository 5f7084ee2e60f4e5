"""Models of one client's graph, whose edges it all knows: GCN, GraphSAGE, DAGNN and a perceptron.

Federated averaging of one such model is here as well: its clients each have a graph of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import torch
from scipy import sparse
from torch import nn
from torch.nn import functional

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.dropout import CoinDropout
from fgl_secure.training.loop import Figures, TrainingRounds, counts_of, probabilities
from fgl_secure.training.parameters import SGD, Adam, flat, optimiser_state, overwrite, remind
from fgl_secure.training.presets import AveragedPreset
from fgl_secure.training.server_sums import FRACTION_BITS
from fgl_secure.training.sparse_products import MOST_DENSE, multiply, to_torch
from fgl_secure.typing import Array, Floats, Ids


class Propagation(StrEnum):
    """What a model does with a node's neighbours."""

    SYMMETRIC = "symmetric"
    """D^-1/2 (A + I) D^-1/2 with D the degrees of A + I (Kipf and Welling 2017)."""
    MEAN = "mean"
    """The mean over the neighbours, the node itself left out (Hamilton et al. 2017)."""


class Matrix:
    """A matrix that never changes, kept sparse where that is worth it.

    Args:
        values: [n, m].
        device: where products are computed.
    """

    def __init__(self, values: sparse.csr_array, device: torch.device | None = None) -> None:
        self._transposed: torch.Tensor | None = None
        if values.nnz <= MOST_DENSE * values.shape[0] * values.shape[1]:
            self._matrix = to_torch(values, device)
            self._transposed = to_torch(sparse.csr_array(values.T), device)
        else:
            self._matrix = torch.from_numpy(values.toarray().astype(np.float32)).to(device)

    @property
    def width(self) -> int:
        """The number of columns."""
        return int(self._matrix.shape[1])

    def __matmul__(self, values: torch.Tensor) -> torch.Tensor:
        """The product with values [m, c], differentiable in them: float [n, c]."""
        return self._matrix @ values if self._transposed is None else multiply(self._matrix, self._transposed, values)


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """One client's graph as a model computes on it.

    Attributes:
        rows: [n, d], features of all nodes.
        neighbours: [n, n], what a node makes of its neighbours' rows, row by row.
    """

    rows: Matrix
    neighbours: Matrix


class NodeModel(nn.Module, ABC):
    """From features and edges to one score a class and node."""

    @property
    def shared_parameters(self) -> list[torch.Tensor]:
        """What federated averaging averages: all parameters, unless a model keeps some with its client."""
        return list(self.parameters())

    @abstractmethod
    def forward(self, graph: Surroundings, dropout: CoinDropout) -> torch.Tensor:
        """The scores, float [n, classes]; units are dropped in training mode alone."""


def _linear(d_in: int, d_out: int, coins: torch.Generator) -> nn.Parameter:
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(d_in, d_out), generator=coins))


class GCNModel(NodeModel):
    """Graph convolutions with ReLU and dropout between them.

    Args:
        widths: of the input and of every layer's output.
        coins: draw the initial weights.
    """

    def __init__(self, widths: tuple[int, ...], coins: torch.Generator) -> None:
        super().__init__()
        self.weights = nn.ParameterList(_linear(d_in, d_out, coins) for d_in, d_out in pairwise(widths))
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(d_out)) for d_out in widths[1:])

    def forward(self, graph: Surroundings, dropout: CoinDropout) -> torch.Tensor:
        """The scores, float [n, classes]."""
        hidden: torch.Tensor = graph.neighbours @ (graph.rows @ self.weights[0]) + self.biases[0]
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            hidden = dropout(torch.relu(hidden), training=self.training)
            hidden = graph.neighbours @ (hidden @ weight) + bias
        return hidden


class SageModel(NodeModel):
    """GraphSAGE layers W_own h + W_told mean(h of the neighbours) + b with ReLU and dropout between them.

    Args:
        widths: of the input and of every layer's output.
        coins: draw the initial weights.
    """

    def __init__(self, widths: tuple[int, ...], coins: torch.Generator) -> None:
        super().__init__()
        self.own = nn.ParameterList(_linear(d_in, d_out, coins) for d_in, d_out in pairwise(widths))
        self.told = nn.ParameterList(_linear(d_in, d_out, coins) for d_in, d_out in pairwise(widths))
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(d_out)) for d_out in widths[1:])

    def forward(self, graph: Surroundings, dropout: CoinDropout) -> torch.Tensor:
        """The scores, float [n, classes]."""
        hidden: torch.Tensor = (
            graph.rows @ self.own[0] + graph.neighbours @ (graph.rows @ self.told[0]) + self.biases[0]
        )
        for self_weight, neighbour_weight, bias in zip(self.own[1:], self.told[1:], self.biases[1:], strict=True):
            hidden = dropout(torch.relu(hidden), training=self.training)
            hidden = hidden @ self_weight + graph.neighbours @ (hidden @ neighbour_weight) + bias
        return hidden


class DAGNNModel(NodeModel):
    """DAGNN (Liu, Gao and Ji, KDD 2020): a perceptron, K propagations of its outputs, and a gate that weighs them.

    With Z the perceptron's outputs and H_l = A-hat^l Z, a node's scores are the sum over l = 0..K of
    sigmoid(H_l s + b) H_l, where the gate s is learnt.

    Args:
        widths: of the input, of the perceptron's hidden layers and of the output.
        hops: K.
        coins: draw the initial weights.
    """

    def __init__(self, widths: tuple[int, ...], hops: int, coins: torch.Generator) -> None:
        super().__init__()
        self.weights = nn.ParameterList(_linear(d_in, d_out, coins) for d_in, d_out in pairwise(widths))
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(d_out)) for d_out in widths[1:])
        self.gate = _linear(widths[-1], 1, coins)
        self.gate_bias = nn.Parameter(torch.zeros(1))
        self._hops = hops

    def forward(self, graph: Surroundings, dropout: CoinDropout) -> torch.Tensor:
        """The scores, float [n, classes]."""
        hidden = graph.rows @ self.weights[0] + self.biases[0]
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            hidden = dropout(torch.relu(hidden), training=self.training) @ weight + bias
        total = self._gate(hidden)
        for _ in range(self._hops):
            hidden = graph.neighbours @ hidden
            total = total + self._gate(hidden)
        return total

    def _gate(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(hidden @ self.gate + self.gate_bias) * hidden


class PerceptronModel(NodeModel):
    """Two linear layers with ReLU and dropout between them; edges are not looked at.

    Args:
        widths: of the input, of the hidden layer and of the output.
        coins: draw the initial weights.
    """

    def __init__(self, widths: tuple[int, int, int], coins: torch.Generator) -> None:
        super().__init__()
        self.first = _linear(widths[0], widths[1], coins)
        self.first_bias = nn.Parameter(torch.zeros(widths[1]))
        self.second = _linear(widths[1], widths[2], coins)
        self.second_bias = nn.Parameter(torch.zeros(widths[2]))

    def forward(self, graph: Surroundings, dropout: CoinDropout) -> torch.Tensor:
        """The scores, float [n, classes]."""
        hidden = torch.relu(graph.rows @ self.first + self.first_bias)
        return dropout(hidden, training=self.training) @ self.second + self.second_bias


@dataclass(frozen=True, slots=True)
class _Backbone:
    """A kind of model.

    Attributes:
        propagation: what it does with neighbours.
        make: the model from the widths of input, hidden layer and output, the number of hops and coins.
    """

    propagation: Propagation
    make: Callable[[tuple[int, int, int], int, torch.Generator], NodeModel]


def _repeat_widths(widths: tuple[int, int, int], hops: int) -> tuple[int, ...]:
    return (widths[0], *(widths[1],) * (hops - 1), widths[2])


BACKBONES: Mapping[str, _Backbone] = MappingProxyType(
    {
        "gcn": _Backbone(
            Propagation.SYMMETRIC, lambda widths, hops, coins: GCNModel(_repeat_widths(widths, hops), coins)
        ),
        "sage": _Backbone(Propagation.MEAN, lambda widths, hops, coins: SageModel(_repeat_widths(widths, hops), coins)),
        "dagnn": _Backbone(Propagation.SYMMETRIC, DAGNNModel),
    }
)


def backbone_of(name: str) -> _Backbone:
    """The backbone of a name."""
    if name not in BACKBONES:
        raise UnknownNameError("backbone", name, tuple(BACKBONES))
    return BACKBONES[name]


def make_model(name: str, widths: tuple[int, int, int], hops: int, seed: int) -> NodeModel:
    """A model whose initial weights depend on the seed alone.

    Args:
        name: "gcn", "sage" or "dagnn".
        widths: of input, hidden layers and output.
        hops: K, the number of layers, or of propagations of a DAGNN.
        seed: of the initial weights.
    """
    if hops < 1:
        raise InputError(f"hops must be at least 1; found {hops}")
    return backbone_of(name).make(widths, hops, torch.Generator().manual_seed(seed))


def degree_weights(
    source: np.ndarray, target: np.ndarray, count: np.ndarray, degree: np.ndarray, kind: Propagation
) -> sparse.csr_array:
    """The matrix of a propagation, where one node may stand for several.

    With these weights a node that stands for n others sends what they would send together; for a GCN they give the
    sums of Fed2GNN's appendix A, which scales features instead.

    Args:
        source: int64 [m], where each message comes from.
        target: int64 [m], where it goes to.
        count: float64 [m], for how many nodes the source stands, as seen from the target.
        degree: float64 [n], numbers of neighbours in the whole graph.
        kind: of propagation.

    Returns:
        float64 CSR [n, n], row `target`.
    """
    n = len(degree)
    if kind is Propagation.MEAN:
        weights = count / np.maximum(degree[target], 1)
        return sparse.csr_array(sparse.coo_array((weights, (target, source)), shape=(n, n)))
    root = np.sqrt(degree + 1)
    weights = np.concatenate([count / (root[source] * root[target]), 1 / (degree + 1)])
    nodes = np.arange(n)
    places = (np.concatenate([target, nodes]), np.concatenate([source, nodes]))
    return sparse.csr_array(sparse.coo_array((weights, places), shape=(n, n)))


APART = 1_000_003
"""How far apart the seeds of clients are."""


@dataclass(frozen=True, slots=True)
class LocalSteps:
    """The steps that a client takes in a round.

    Attributes:
        learning_rate: of a step.
        weight_decay: factor of the L2 penalty.
        keep_moments: whether Adam goes on from round to round.
        steps: how many.
        descent: whether they are of gradient descent, and not of Adam.
    """

    learning_rate: float
    weight_decay: float
    keep_moments: bool = True
    steps: int = 1
    descent: bool = False


class Learner:
    """A model that every client has, and takes steps on.

    Args:
        comm: sums over clients.
        model: with its initial weights, the same for every client.
        local: what a client does in a round.
        dropout: of the client.
        device: where model compute runs.
    """

    def __init__(
        self, comm: Collectives, model: NodeModel, local: LocalSteps, dropout: CoinDropout, device: torch.device
    ) -> None:
        silo = comm.silo
        self._comm, self.model, self._local, self._dropout = comm, model.to(device), local, dropout
        self._optimiser = self._fresh()
        self._training = torch.from_numpy(np.flatnonzero(silo.train)).to(device)
        self._labels = torch.from_numpy(silo.labels[silo.train]).to(device)

    @property
    def training_nodes(self) -> int:
        """The client's training nodes."""
        return len(self._training)

    def step(self, graph: Surroundings) -> float:
        """Steps on the own graph, and the mean over the clients, weighted by labelled nodes; the loss before them.

        The mean is of what the model shares. A client without labelled nodes has nothing to learn from, and no weight.
        """
        if not self._local.keep_moments:
            self._optimiser = self._fresh()
        self.model.train()
        losses = [self._one_step(graph) for _ in range(self._local.steps if self.training_nodes else 0)]
        weight = self.training_nodes / self._comm.silo.facts.nodes
        shared = self.model.shared_parameters
        row = np.append(weight * flat(shared), weight)
        parts = [parameter.numel() for parameter in shared]
        sums, _ = self._comm.server(row, grid=self._comm.grid(FRACTION_BITS), parts=parts)
        overwrite(shared, (sums[:-1] / sums[-1]).astype(np.float32))
        return losses[0] if losses else 0.0

    def _one_step(self, graph: Surroundings) -> float:
        loss = functional.cross_entropy(self.model(graph, self._dropout)[self._training], self._labels)
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._optimiser.step()
        return float(loss.detach())

    def scores(self, graph: Surroundings) -> torch.Tensor:
        """Class scores of the own nodes, which come first in the graph, [m, classes]."""
        self.model.eval()
        with torch.no_grad():
            scores: torch.Tensor = self.model(graph, self._dropout)[: len(self._comm.silo.nodes)]
        return scores

    def classes(self, graph: Surroundings) -> Ids:
        """int64 [m], what the model predicts for the own nodes."""
        result: Ids = self.scores(graph).argmax(dim=1).cpu().numpy()
        return result

    def _fresh(self) -> torch.optim.Optimizer:
        kind = SGD if self._local.descent else Adam
        return kind(self.model.parameters(), lr=self._local.learning_rate, weight_decay=self._local.weight_decay)

    @property
    def _parameters(self) -> list[torch.Tensor]:
        return list(self.model.parameters())

    def state(self) -> dict[str, Array]:
        """Parameters, what Adam remembers, and where dropout's coins are."""
        moments = under("optimiser", optimiser_state(self._optimiser))
        return {"theta": flat(self._parameters), "coins": self._dropout.position, **moments}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        overwrite(self._parameters, state["theta"])
        remind(self._optimiser, within("optimiser", state))
        self._dropout.position = state["coins"]


class AveragedRounds(TrainingRounds):
    """One client's part in training a model on its own graph; models are scored before each round and after the last.

    Args:
        comm: the collectives of the run.
        preset: how to train.
        model: with its initial weights, the same for every client.
        seed: of dropout and all else that is drawn.
        device: where model compute runs; the CPU by default.
    """

    def __init__(
        self,
        comm: Collectives,
        preset: AveragedPreset,
        model: NodeModel,
        *,
        seed: int = 0,
        device: torch.device | None = None,
    ) -> None:
        super().__init__(comm, preset.epochs, preset.selection, preset.patience)
        self.seed, self.device = seed, device or torch.device("cpu")
        local = LocalSteps(
            preset.learning_rate, preset.weight_decay, preset.keep_moments, preset.local_steps, preset.descent
        )
        dropout = CoinDropout(preset.dropout, seed + APART * (1 + self.silo.silo))
        self.learner = Learner(comm, model, local, dropout, self.device)
        self._graph: Surroundings | None = None

    @abstractmethod
    def surroundings(self) -> Surroundings:
        """What the client computes on; its own nodes come first. No party is asked any more."""

    @property
    def graph(self) -> Surroundings:
        """The same, made when it is first needed."""
        if self._graph is None:
            self._graph = self.surroundings()
        return self._graph

    def train(self, number: int) -> Figures:  # noqa: ARG002  # every round is alike
        """Scores the model, takes steps, and takes over the mean."""
        counts = counts_of(self.silo, self.learner.classes(self.graph))
        return self.figures(counts, self.learner.step(self.graph), self.learner.training_nodes)

    def judge(self, number: int) -> Figures:  # noqa: ARG002  # whenever it is
        """Scores the model as it is."""
        return self.figures(counts_of(self.silo, self.learner.classes(self.graph)))

    def answers(self) -> Mapping[str, Floats]:
        """See `TrainingRounds.answers`."""
        return {"features and edges": probabilities(self.learner.scores(self.graph))}

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, and the model after the last round."""
        return {**super().report, "theta": flat(list(self.learner.model.parameters()))}

    def state(self) -> dict[str, Array]:
        """The model in training, and all that is kept."""
        return {**super().state(), **under("learner", self.learner.state())}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        self.learner.restore(within("learner", state))
        self._graph = None
