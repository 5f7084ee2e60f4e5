"""What FedVN's tables and figures (AAAI 2025) run: a set of graphs before it is drawn, and one run of each method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import cast

import numpy as np
import torch

from fgl_reproduction.tables.fedvn_baselines import PROGRAMS
from fgl_reproduction.tables.table import Choices, Metric
from fgl_secure.errors import InputError
from fgl_secure.graph.datasets import load_set
from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.methods.fedvn.preset import fedvn_preset
from fgl_secure.methods.fedvn.program import FedVNClient, clients_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.training.job import Job
from fgl_secure.typing import Array, Floats

ACCURACY = Metric("accuracy (%)", 2)
"""Of test graphs, the plain mean over clients, at the selected round."""
LAST_ACCURACY = Metric("accuracy after the last round (%)", 2)
ERROR = Metric("MAE", 4)
"""Mean absolute error over test graphs, the plain mean over clients, at the selected round."""
LAST_ERROR = Metric("MAE after the last round", 4)


@dataclass(frozen=True, slots=True)
class NamedSet:
    """A set of graphs before it is drawn: every seed draws its own.

    Attributes:
        name: in tables.
        data_root: folder of the raw data sets; None takes the environment's.
    """

    name: str
    data_root: Path | None = None

    def load(self, seed: int) -> GraphSet:
        """The graphs of a seed."""
        return _load_set(self.name, seed, self.data_root)


def load_named_set(name: str, data_root: Path | None = None) -> NamedSet:
    """A set by name, drawn once to see that it is there.

    Raises:
        FglSecureError: there is no set of that name, or its raw data is missing.
    """
    return NamedSet(_load_set(name, 0, data_root).name, data_root)


@lru_cache(maxsize=1)
def _load_set(name: str, seed: int, data_root: Path | None) -> GraphSet:
    return load_set(name, seed, data_root)


@dataclass(frozen=True, slots=True)
class GraphRun:
    """One training run, as a measure.

    Attributes:
        program: makes a client.
        changes: fields of the preset that are other ones here.
    """

    program: Callable[..., FedVNClient]
    changes: tuple[tuple[str, float], ...] = ()

    def __call__(self, data: NamedSet, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once; the seed draws graphs, split, weights, batches and dropout."""
        report = self.job(data, choices, seed).train().report
        selected, last = float(report["test"]), float(report["last/test"])
        if data.load(seed).num_classes:
            return {ACCURACY: 100 * selected, LAST_ACCURACY: 100 * last}
        return {ERROR: selected, LAST_ERROR: last}

    def job(self, data: NamedSet, choices: Choices, seed: int) -> Job:
        """The clients.

        Raises:
            InputError: a scheme was chosen, which makes no difference to accuracies.
        """
        choices.check_plaintext()
        preset = fedvn_preset(choices.preset, data.name).with_epochs(choices.epochs)
        preset = replace(preset, **dict(self.changes))  # type: ignore[arg-type]
        return clients_of(data.load(seed), Plaintext(), preset, kind=self.program, seed=seed, device=choices.place)


def run_of(line: str, **changes: float) -> GraphRun:
    """A run of what the tables call a line, with other fields of the preset."""
    return GraphRun(PROGRAMS[line], tuple(changes.items()))


AFTER = (1, 5, 10, 25, 50, 75, 100)
"""Rounds after which Figure 2's accuracies are told; where there are fewer, after the last."""


def accuracy_after(rounds: int) -> Metric:
    """Of test graphs, the plain mean over clients, after so many rounds."""
    return Metric(f"accuracy after {rounds} (%)", 2)


@dataclass(frozen=True, slots=True)
class FedVNAccuracyCurve:
    """The accuracies of one run while it trains, as a measure.

    Attributes:
        run: what is trained.
    """

    run: GraphRun

    def __call__(self, data: NamedSet, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once.

        Raises:
            InputError: the targets of the set are numbers.
        """
        if not data.load(seed).num_classes:
            raise InputError(f"dataset must have classes, for there to be accuracies; found {data.name}")
        course = self.run.job(data, choices, seed).train().report["course"]
        return {accuracy_after(after): 100 * float(course[min(after, len(course) - 1)]) for after in AFTER}


MEAN_COSINE, LEAST_COSINE, LARGEST_COSINE = (
    Metric(f"cosine of two virtual nodes, {which}", 3) for which in ("mean", "least", "largest")
)
"""Over all pairs of them after the last round (Figure 4)."""


@dataclass(frozen=True, slots=True)
class VirtualSimilarities:
    """How like each other virtual nodes are after the last round of one run, as a measure.

    Attributes:
        run: what is trained; it has two virtual nodes or more.
    """

    run: GraphRun

    def __call__(self, data: NamedSet, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once."""
        rows = unit_rows(_train_clients(self.run, data, choices, seed)[0].virtual.detach().cpu().double().numpy())
        pairs = (rows @ rows.T)[np.triu_indices(len(rows), k=1)]
        return {MEAN_COSINE: pairs.mean(), LEAST_COSINE: pairs.min(), LARGEST_COSINE: pairs.max()}


CLASSES = 3
"""Of Motif."""


def between_clients(label: int, which: str) -> Metric:
    """Of two clients' embeddings of test graphs of a class: over all pairs of clients, or of the least pair."""
    return Metric(f"cosine between clients, class {label}, {which}", 3)


@dataclass(frozen=True, slots=True)
class ClientSimilarities:
    """How like another client's embeddings a client's are of the same class, after the last round, as a measure.

    Attributes:
        run: what is trained, on graphs of `CLASSES` classes.
    """

    run: GraphRun

    def __call__(self, data: NamedSet, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once.

        Raises:
            InputError: the set has not so many.
        """
        classes = data.load(seed).num_classes
        if classes != CLASSES:
            raise InputError(f"dataset must have {CLASSES} classes, as Motif has; found {data.name} with {classes}")
        result: dict[Metric, float] = {}
        embedded = [embeddings(client) for client in _train_clients(self.run, data, choices, seed)]
        for label in range(CLASSES):
            of_class = [unit_rows(rows[targets == label]) for rows, targets in embedded]
            pairs = mean_cosines([rows for rows in of_class if len(rows)])
            result[between_clients(label, "mean")] = float(pairs.mean())
            result[between_clients(label, "least")] = float(pairs.min())
        return result


def embeddings(client: FedVNClient) -> tuple[Floats, Array]:
    """Embeddings of a client's test graphs, float64 [g, hidden], and their targets [g]."""
    with client.evaluation():
        result = [
            client.model.embed_graphs(batch, links=client.link_nodes(batch)) for batch in client.batches(client.test)
        ]
        rows: Floats = torch.cat(result).cpu().double().numpy()
    return rows, client.held.own.targets[client.test]


def unit_rows(rows: Floats) -> Floats:
    """Rows [r, d] of length 1; those of length 0 stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    result: Floats = rows / np.where(lengths > 0, lengths, 1)
    return result


def mean_cosines(groups: Sequence[Floats]) -> Floats:
    """For each two groups of rows [r, d] of length 1 the mean over pairs of a row of each, float64 [pairs].

    Raises:
        InputError: there are less than two groups.
    """
    if len(groups) < 2:
        raise InputError(f"groups must be at least 2, for there to be a pair; found {len(groups)}")
    means = np.stack([rows.mean(axis=0) for rows in groups])
    cosines: Floats = (means @ means.T)[np.triu_indices(len(means), k=1)]
    return cosines


def _train_clients(run: GraphRun, data: NamedSet, choices: Choices, seed: int) -> tuple[FedVNClient, ...]:
    """The clients as they are after the last round."""
    held: list[tuple[FedVNClient, ...]] = []
    job = run.job(data, choices, seed)
    replace(job, shown=lambda programs: held.append(cast("tuple[FedVNClient, ...]", programs))).train()
    return held[-1]
