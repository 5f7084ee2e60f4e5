"""Validation figures that choose the reported round, and accuracies at that round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedspray.preset import FedSprayPreset, RoundChoice
from fgl_secure.methods.fedspray.subgraph import Subgraph
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import SERVER
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job, Make, Task
from fgl_secure.training.loop import COUNTS, counts_of, share_of
from fgl_secure.training.presets import Selection
from fgl_secure.training.rounds import NOTHING, Figures, Rounds
from fgl_secure.training.server_sums import FRACTION_BITS
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array, Floats


def validation_sums(subgraph: Subgraph, scores: torch.Tensor, choice: RoundChoice) -> tuple[float, float]:
    """A client's validation figures, summed over its validation nodes, and how many there are.

    Args:
        subgraph: the client's.
        scores: float32 [m, C], of its nodes.
        choice: losses or right predictions.
    """
    places = subgraph.validation
    if choice is RoundChoice.LOSS:
        total = functional.cross_entropy(scores[places], subgraph.labels[places], reduction="sum")
    else:
        total = (scores[places].argmax(dim=1) == subgraph.labels[places]).sum()
    return float(total), float(len(places))


def minority_nodes(silo: Silo) -> NDArray[np.bool_]:
    """Bool [m], the nodes whose label is not the one that is most frequent among the client's labelled nodes."""
    found: NDArray[np.bool_] = silo.labels != np.bincount(silo.labels[silo.train]).argmax()
    return found


class ChosenRounds(Rounds):
    """A client's rounds, of which a validation figure chooses one: what FedSpray and its baselines have in common.

    Args:
        talk: the collectives of the run.
        preset: rounds, patience, and how the round is chosen.
        device: where model compute runs.

    Attributes:
        subgraph: what the client holds.
        predictions: float32 [m, C], scores of its nodes by which the last round was judged.
    """

    def __init__(self, talk: Collectives, preset: FedSprayPreset, device: torch.device) -> None:
        super().__init__(talk, preset.epochs, Selection.VALIDATION, preset.patience)
        self.preset, self.subgraph, self.predictions = preset, Subgraph.of(talk.silo, device), torch.empty(0)

    def added(
        self, loss: float, parts: Sequence[Array] = (), denominators: Array = NOTHING
    ) -> tuple[list[Floats], Figures]:
        """One sum of all clients: of a round's fractions, and of the figures that judge it.

        Args:
            loss: of the client's network.
            parts: float [P] each, numerators.
            denominators: float, one for each part.

        Returns:
            The quotients, float64 [P] each, NaN where a sum of denominators is 0; and the figures.
        """
        n, choice = self.silo.facts.nodes, self.preset.choice
        once = 0.5 ** n.bit_length()  # about one over all nodes, and exact on the grid
        figure, nodes = validation_sums(self.subgraph, self.predictions, choice)
        own = self._counts()
        (*found, chosen, mean), counts = self.talk.ratios(
            [*parts, np.array([figure / n]), np.array([once * loss])],
            np.array([*denominators, nodes / n, once]),
            own,
            grid=self.talk.grid(FRACTION_BITS),
        )
        score = float(chosen[0]) * (-1 if choice is RoundChoice.LOSS else 1)
        return found, Figures(float(mean[0]), counts, own, score)

    def _counts(self) -> NDArray[np.int64]:
        """Int64 [COUNTS + 2]: with right predictions and predictions of minority nodes behind the others."""
        predicted: NDArray[np.int64] = self.predictions.argmax(dim=1).cpu().numpy()
        minority = minority_nodes(self.silo) & self.silo.test
        right = int((minority & (predicted == self.silo.labels)).sum())
        return np.array([*counts_of(self.silo, predicted), right, minority.sum()], dtype=np.int64)

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, and the accuracy over test nodes that are not of their client's majority class."""
        return {**super().report, "minority": share_of(self._scores.best[COUNTS:])}

    @property
    def own_minority(self) -> float:
        """The same over this client's nodes, which nobody else is told; NaN without any."""
        return float(share_of(self._scores.own[COUNTS:]))


def chosen(graph: FederatedGraph, scheme: Scheme, preset: FedSprayPreset, make: Make) -> Job:
    """Rounds of all clients, of which one is reported for all of them.

    Args:
        graph: who has what; edges between clients go unused.
        scheme: adds the clients' vectors up.
        preset: rounds, and how the round is chosen.
        make: makes a client's `ChosenRounds`.
    """
    return Job(Task(make, {SERVER: scheme}, preset.epochs), graph, heard=graph.restricted_to_silos())
