"""A loop in the shape of OpenFGL's FedAvg, plain and secured: the accuracy of both, and the time they take.

Cora at ten clients (Louvain), of whom half are drawn for each round. A client trains for three epochs of Adam: two
graph convolutions with a batch norm between them, hidden width 64, dropout .5, a fifth of its nodes. After each round
every client evaluates the new model as OpenFGL's `NodeClsTask.evaluate` does: one pass, and the loss and scikit-learn's
accuracy of its training, validation and test nodes. What OpenFGL prints is left out.

Two buffers are beyond OpenFGL: one grows by a half with each local training, past every range that is found, and in
another one client has a number of 2^40, beside which the others' there are nothing. The first convolution has no bias:
its gradient is 0 before a batch norm, and Adam makes steps of the rounding errors, which differ from one plain mean to
the next. Threads are as the libraries take them: that is what it is about. Beside the time there is the processor's,
which says more on a busy machine, and with several threads counts those that wait for work.

With `--control` there is a third loop, plain, whose means are added up in float32: by how much two runs differ that
differ in the last bits alone.

    python benchmarks/growing_loop.py --rounds 120 --seeds 3
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from sklearn.metrics import accuracy_score
from torch import nn

from fgl_secure import SecureAggregator
from fgl_secure.errors import PrecisionWarning
from fgl_secure.graph.datasets import load
from fgl_secure.graph.partition import partition
from fgl_secure.threads import most

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch_geometric.nn import GCNConv

State = dict[str, torch.Tensor]
Mean = Callable[[Sequence[State], Sequence[int]], State]
CLIENTS, DRAWN, EPOCHS, HIDDEN = 10, 5, 3, 64
LARGE = 2.0**40


class GrowingNetwork(nn.Module):
    """Two graph convolutions with a batch norm, and a buffer that grows."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first, self.norm, self.second = (
            GCNConv(features, HIDDEN, bias=False),
            nn.BatchNorm1d(HIDDEN),
            GCNConv(HIDDEN, classes),
        )
        self.register_buffer("grows", torch.ones(8))
        self.register_buffer("sizes", torch.ones(8))

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Class scores [n, classes]."""
        hidden = nn.functional.dropout(self.norm(self.first(x, edges)).relu(), training=self.training)
        out: torch.Tensor = self.second(hidden, edges)
        return out


class LoopClient:
    """A silo's nodes with the edges between them: a fifth to train on, two fifths each to validate and to test on."""

    def __init__(self, graph: Any, owner: torch.Tensor, index: int) -> None:
        mine = owner == index
        new = mine.cumsum(0) - 1
        edges = torch.tensor(graph.edges)
        self.edges = new[edges[:, mine[edges[0]] & mine[edges[1]]]]
        self.x, self.y = torch.tensor(graph.features)[mine], torch.tensor(graph.labels)[mine]
        self.size = LARGE if index == 0 else 1.0
        fifth = torch.arange(len(self.y)) % 5
        self.masks = [fifth == 0, (fifth == 1) | (fifth == 2), fifth > 2]
        self.num_samples = len(self.y)

    def train(self, model: GrowingNetwork, start: State) -> State:
        """The state after local epochs."""
        model.load_state_dict(start)
        model.train()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
        for _ in range(EPOCHS):
            optimizer.zero_grad()
            scores = model(self.x, self.edges)[self.masks[0]]
            loss: Any = nn.functional.cross_entropy(scores, self.y[self.masks[0]])
            loss.backward()
            optimizer.step()
        model.get_buffer("grows").mul_(1.5)
        model.get_buffer("sizes")[0] = self.size
        model.get_buffer("sizes")[1:] = 1.0
        return {name: value.clone() for name, value in model.state_dict().items()}

    @torch.no_grad()
    def evaluate(self, model: GrowingNetwork) -> float:
        """Accuracy on the test nodes, found beside all that OpenFGL finds."""
        model.eval()
        scores, accuracy = model(self.x, self.edges), 0.0
        for mask in self.masks:
            nn.functional.cross_entropy(scores[mask], self.y[mask])
            scores[mask].softmax(dim=1)
            accuracy = accuracy_score(self.y[mask].numpy(), scores[mask].argmax(dim=1).numpy())
        return float(accuracy)


def plain(states: Sequence[State], weights: Sequence[int], dtype: torch.dtype = torch.float64) -> State:
    """The weighted mean as loops have it; of integers the nearest one."""
    total, mean = sum(weights), {}
    for name, first in states[0].items():
        value = sum(state[name].to(dtype) * (weight / total) for state, weight in zip(states, weights, strict=True))
        assert isinstance(value, torch.Tensor)
        mean[name] = (value if first.is_floating_point() else value.round()).to(first.dtype)
    return mean


class Loop:
    """Rounds of training, evaluation included, and the seconds and the processor's seconds that they have taken."""

    def __init__(self, clients: Sequence[LoopClient], classes: int, mean: Mean, seed: int) -> None:
        torch.manual_seed(seed)
        self._clients, self._mean, self._seed = clients, mean, seed
        self._draw, self._model = torch.Generator().manual_seed(seed), GrowingNetwork(clients[0].x.shape[1], classes)
        self.state: State = {name: value.clone() for name, value in self._model.state_dict().items()}
        self.rounds, self.seconds, self.processor, self.accuracy = 0, 0.0, 0.0, 0.0

    def run(self) -> None:
        """One round; dropout in it is that of all loops with this seed."""
        torch.manual_seed(2**32 * self._seed + self.rounds)
        start, used, clients, model = time.perf_counter(), time.process_time(), self._clients, self._model
        drawn = sorted(torch.randperm(len(clients), generator=self._draw)[:DRAWN].tolist())
        states = [clients[index].train(model, self.state) for index in drawn]
        self.state = self._mean(states, [clients[index].num_samples for index in drawn])
        model.load_state_dict(self.state)
        nodes = sum(client.num_samples for client in clients)
        self.accuracy = sum(client.evaluate(model) * client.num_samples for client in clients) / nodes
        self.rounds, self.seconds = self.rounds + 1, self.seconds + time.perf_counter() - start
        self.processor += time.process_time() - used


def main() -> None:
    """Runs both loops, round by round in turns, and prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=120)
    parser.add_argument(
        "--seeds", type=int, default=3, help="of models, drawn clients and dropout; both loops for each"
    )
    parser.add_argument("--scheme", default="pairwise-masking")
    parser.add_argument("--control", action="store_true", help="also a plain loop that differs in the last bits")
    parser.add_argument("--data-root", type=Path, default=None, help="folder of raw data sets")
    args = parser.parse_args()
    graph = load("Cora", args.data_root)
    owner = torch.tensor(partition("louvain-delta", graph, CLIENTS, 0))
    clients, classes = [LoopClient(graph, owner, index) for index in range(CLIENTS)], int(graph.labels.max()) + 1
    loops: dict[str, list[Loop]] = {}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", PrecisionWarning)
        _run(clients, classes, _means(args.scheme, control=False), 0, 2)  # compiles
        for seed in range(args.seeds):
            means = _means(args.scheme, control=args.control)
            for name, loop in _run(clients, classes, means, seed, args.rounds).items():
                loops.setdefault(name, []).append(loop)
    seconds = {name: [round(loop.seconds, 2) for loop in result] for name, result in loops.items()}
    accuracies = {name: [round(loop.accuracy, 4) for loop in result] for name, result in loops.items()}
    pairs = list(zip(loops["plain"], loops["secured"], strict=True))
    result = {
        "threads": {"torch": torch.get_num_threads(), "loops": most()},
        "grows to": {name: float(result[0].state["grows"][0]) for name, result in loops.items()},
        "warnings": (len(warned), str(warned[0].message) if warned else ""),
        "accuracy": accuracies,
        "differences": _differences(accuracies),
        "seconds": seconds,
        "ratio": round(statistics.median(b.seconds / a.seconds for a, b in pairs), 3),
        "ratio of processor time": round(statistics.median(b.processor / a.processor for a, b in pairs), 3),
    }
    print(json.dumps(result, indent=1))


def _means(scheme: str, *, control: bool) -> dict[str, Mean]:
    """How each loop averages."""
    means: dict[str, Mean] = {"plain": plain, "secured": SecureAggregator.for_clients(DRAWN, scheme).mean}
    return {**means, "plain in float32": partial(plain, dtype=torch.float32)} if control else means


def _run(
    clients: Sequence[LoopClient], classes: int, means: dict[str, Mean], seed: int, rounds: int
) -> dict[str, Loop]:
    """All loops, a round of each in turns, so that whatever else the machine does slows all of them."""
    loops = {name: Loop(clients, classes, mean, seed) for name, mean in means.items()}
    for _ in range(rounds):
        for loop in loops.values():
            loop.run()
    return loops


def _differences(accuracies: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """How much more accurate each loop is than the plain one: mean, deviation over seeds, and the mean's error."""
    differences = {}
    for name, accuracy in accuracies.items():
        off = [b - a for a, b in zip(accuracies["plain"], accuracy, strict=True)]
        spread = statistics.stdev(off) if len(off) > 1 else 0.0  # of one seed there is none
        figures = {"mean": statistics.mean(off), "deviation": spread, "error": spread / math.sqrt(len(off))}
        differences[name] = {
            "accuracy": round(statistics.mean(accuracy), 4),
            **{k: round(v, 4) for k, v in figures.items()},
        }
    return differences


if __name__ == "__main__":
    main()
