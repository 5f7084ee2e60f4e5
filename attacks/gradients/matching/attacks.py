"""Gradient matching as attacks of a server on what it receives in one round of federated averaging."""

from __future__ import annotations

from abc import abstractmethod

from fgl_secure.attacks.base import Card, InformedAttack, Measurement
from fgl_secure.attacks.gradients.knowledge import FEDAVG_SMOOTH, UPDATES, GradientKnowledge
from fgl_secure.attacks.gradients.matching.exhibits import exhibits
from fgl_secure.attacks.gradients.matching.features import deep_leakage, improved_deep_leakage, inverting_gradients
from fgl_secure.attacks.gradients.matching.joint import MOST_NODES, features_and_edges
from fgl_secure.attacks.gradients.matching.measures import (
    Inverted,
    aligned_with,
    edges_found,
    nodes_told,
    rows_recovered,
)
from fgl_secure.attacks.gradients.matching.reconstruction import Effort, Reconstruction, SeenGradient
from fgl_secure.attacks.gradients.truth import GradientTruth
from fgl_secure.runtime import PublicParameters, Role, Secret, View

KNOWN = "the model, the labels that its last bias tells, and how the nodes behind each gradient are joined"


def _card(name: str, summary: str, source: str, minimum: float, known: str = KNOWN) -> Card:
    return Card(
        name,
        f"the server finds {summary}",
        source,
        Role.SERVER,
        Secret.NODE_FEATURES,
        UPDATES,
        FEDAVG_SMOOTH,
        minimum=minimum,
        auxiliary=known,
        truth=GradientTruth,
        knowledge=GradientKnowledge,
        tells_nothing="the model and the shape of a field say nothing of rows; the prior has each class's mean row",
    )


class GradientMatching(InformedAttack[Inverted, GradientKnowledge, GradientTruth]):
    """Inputs are sought whose gradient is the one that was seen."""

    @property
    @abstractmethod
    def effort(self) -> Effort:
        """How long each gradient is tried."""

    @abstractmethod
    def invert(self, seen: SeenGradient, effort: Effort) -> Reconstruction:
        """What one gradient was taken over."""

    def takes(self, seen: SeenGradient) -> bool:  # noqa: ARG002  # of no account to most
        """Whether it can try its hand at a gradient."""
        return True

    def infer_with(self, view: View, public: PublicParameters, known: GradientKnowledge) -> Inverted | None:
        """Inverts every gradient in the view, or their sum; None without any."""
        shown = tuple(each for each in exhibits(view, public, known) if self.takes(each.seen))
        return Inverted(shown, tuple(self.invert(each.seen, self.effort) for each in shown)) if shown else None

    def score(self, guess: Inverted, truth: GradientTruth) -> tuple[Measurement, ...]:
        """The share of batch nodes whose rows are recovered, and that are told from all others by them."""
        aligned = aligned_with(guess, truth)
        return (rows_recovered(aligned, truth), nodes_told(aligned, truth))


class DeepLeakage(GradientMatching):
    """DLG."""

    @property
    def card(self) -> Card:
        """The server alone."""
        return _card("gradient-dlg", "features and labels by L-BFGS on the squared distance of gradients",
                     "DLG (Zhu et al., NeurIPS 2019)", 0.9)  # fmt: skip

    @property
    def effort(self) -> Effort:
        """Seconds for a batch of a few pictures."""
        return Effort(steps=150, restarts=2)

    def invert(self, seen: SeenGradient, effort: Effort) -> Reconstruction:
        """Of one gradient."""
        return deep_leakage(seen, effort)


class ImprovedDeepLeakage(GradientMatching):
    """iDLG."""

    @property
    def card(self) -> Card:
        """The server alone."""
        return _card("gradient-idlg", "labels from the last bias, then features by L-BFGS on gradients",
                     "iDLG (Zhao et al. 2020)", 0.9)  # fmt: skip

    @property
    def effort(self) -> Effort:
        """Seconds for a batch of a few pictures."""
        return Effort(steps=150, restarts=2)

    def invert(self, seen: SeenGradient, effort: Effort) -> Reconstruction:
        """Of one gradient."""
        return improved_deep_leakage(seen, effort)


class InvertingGradients(GradientMatching):
    """Inverting gradients."""

    @property
    def card(self) -> Card:
        """The server alone."""
        return _card("gradient-inverting", "features by the angle between gradients, with an image prior",
                     "inverting gradients (Geiping et al., NeurIPS 2020)", 0.9)  # fmt: skip

    @property
    def effort(self) -> Effort:
        """Seconds for a batch of a few pictures."""
        return Effort(steps=300)

    def invert(self, seen: SeenGradient, effort: Effort) -> Reconstruction:
        """Of one gradient."""
        return inverting_gradients(seen, effort)


class FeaturesAndEdges(GradientMatching):
    """Features and adjacency jointly."""

    @property
    def card(self) -> Card:
        """The server alone, who knows how many nodes there are and not how they are joined."""
        known = "the model, the labels that its last bias tells, and how many nodes and edges are behind each gradient"
        return _card("gradient-joint", "features and edges of a batch's surroundings together",
                     "after GLG (Sinha et al. 2024) and FedGIG (Xiao et al. 2024)", 0.6, known)  # fmt: skip

    @property
    def effort(self) -> Effort:
        """Seconds for a field of a dozen nodes."""
        return Effort(steps=200, restarts=2)

    def takes(self, seen: SeenGradient) -> bool:
        """Fields of up to 64 nodes."""
        return seen.field.nodes <= MOST_NODES

    def invert(self, seen: SeenGradient, effort: Effort) -> Reconstruction:
        """Rows and weights of pairs."""
        return features_and_edges(seen, effort)

    def score(self, guess: Inverted, truth: GradientTruth) -> tuple[Measurement, ...]:
        """The share of batch nodes told by their rows, and of edges among as many pairs of largest weight."""
        aligned = aligned_with(guess, truth)
        edges = edges_found(guess, aligned)
        return (nodes_told(aligned, truth), *(() if edges is None else (edges,)))


class WithEffort(GradientMatching):
    """An attack with another effort than its own.

    Args:
        inner: the attack.
        effort: how long each gradient is tried.
    """

    __slots__ = ("_effort", "_inner")

    def __init__(self, inner: GradientMatching, effort: Effort) -> None:
        self._inner, self._effort = inner, effort

    @property
    def card(self) -> Card:
        """The attack's."""
        return self._inner.card

    @property
    def effort(self) -> Effort:
        """As chosen."""
        return self._effort

    def takes(self, seen: SeenGradient) -> bool:
        """The attack's."""
        return self._inner.takes(seen)

    def invert(self, seen: SeenGradient, effort: Effort) -> Reconstruction:
        """The attack's."""
        return self._inner.invert(seen, effort)

    def score(self, guess: Inverted, truth: GradientTruth) -> tuple[Measurement, ...]:
        """The attack's."""
        return self._inner.score(guess, truth)
