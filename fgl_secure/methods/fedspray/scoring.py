"""Validation figures that choose the reported round, and accuracies at that round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedspray.preset import RoundChoice
from fgl_secure.methods.fedspray.subgraph import Subgraph
from fgl_secure.training.loop import Accuracy


@dataclass(frozen=True, slots=True)
class Scores:
    """Accuracies of one round.

    Attributes:
        accuracy: of validation and test nodes.
        minority: over the test nodes of all clients whose label is not the majority class of their client; None
            without any.
    """

    accuracy: Accuracy
    minority: float | None


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


def minority_nodes(graph: FederatedGraph) -> NDArray[np.bool_]:
    """Bool [n], the nodes whose label is not the one that is most frequent among their client's labelled nodes."""
    counts = np.zeros((graph.num_silos, graph.num_classes), dtype=np.int64)
    np.add.at(counts, (graph.silo_of[graph.train_mask], graph.labels[graph.train_mask]), 1)
    found: NDArray[np.bool_] = graph.labels != counts.argmax(axis=1)[graph.silo_of]
    return found


class Chooser:
    """Keeps the best round by the figure that the server learns.

    Args:
        graph: who has what; its masks and labels score predictions.
        choice: what the round is chosen by.
        patience: rounds without improvement after which to stop; None for never.
    """

    def __init__(self, graph: FederatedGraph, choice: RoundChoice, patience: int | None) -> None:
        if not graph.validation_mask.any():
            raise InputError(
                f"masks.validation must mark at least one node, the round is chosen by {choice}; found none"
            )
        self._graph, self._minority = graph, minority_nodes(graph)
        self._sign, self._patience = -1 if choice is RoundChoice.LOSS else 1, patience
        self._best = -np.inf
        self.best = Scores(Accuracy(None, None, ()), None)
        self.best_round = -1

    def see(self, number: int, figure: float, predictions: list[tuple[Subgraph, torch.Tensor]]) -> None:
        """Scores the predictions after a round if its figure is the best so far.

        Args:
            number: of the round.
            figure: as the server learns it.
            predictions: of each client, scores [m, C] of its nodes.
        """
        if self.best_round >= 0 and not self._sign * figure > self._best:
            return
        self._best, self.best_round = self._sign * figure, number
        correct = np.zeros(self._graph.num_devices, dtype=np.bool_)
        for subgraph, scores in predictions:
            correct[subgraph.members] = (scores.argmax(dim=1) == subgraph.labels).cpu().numpy()
        self.best = self._scores(correct)

    def stale(self, number: int) -> bool:
        """Whether the best round lies further back than there is patience for."""
        return self._patience is not None and number - self.best_round >= self._patience

    def _scores(self, correct: NDArray[np.bool_]) -> Scores:
        graph = self._graph
        test = graph.test_mask
        per_silo = tuple(_share(correct, test & (graph.silo_of == silo)) for silo in range(graph.num_silos))
        accuracy = Accuracy(_share(correct, test), _share(correct, graph.validation_mask), per_silo)
        return Scores(accuracy, _share(correct, test & self._minority))


def _share(correct: NDArray[np.bool_], mask: NDArray[np.bool_]) -> float | None:
    return float(correct[mask].mean()) if mask.any() else None
