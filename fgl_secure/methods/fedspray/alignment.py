"""What clients add, and the server divides: FedAvg (Eq. 14) and proxy alignment (Eq. 15) in one sum.

Fractions of clients with different numbers of labelled nodes have different denominators, and their exact sum often has
one explanation only. Multiples of one unit all have the same denominator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fgl_secure.errors import InputError
from fgl_secure.typing import Floats, Ids


def shares_of(counts: Ids, grid: int | None) -> Floats:
    """Shares that sum to one.

    On a grid, each is rounded down to a multiple of 1 / grid, and what is missing to one goes, a unit each, to those
    that lost most (largest remainders; of equals to the class of the lower number). So a share is off by less than
    1 / grid, that of an absent class is zero, and one below 1 / grid may become zero: then the class weighs nothing.

    Args:
        counts: int64 [C], labelled nodes of each class.
        grid: public number of units that make one; None for exact shares.

    Returns:
        float64 [C]; zeros without a labelled node.
    """
    labelled = int(counts.sum())
    if not labelled:
        return np.zeros(len(counts))
    if grid is None:
        return np.asarray(counts / labelled, dtype=np.float64)
    units, lost = np.divmod(counts.astype(np.int64) * grid, labelled)
    missing = grid - int(units.sum())
    units[np.argsort(-lost, kind="stable")[:missing]] += 1
    return np.asarray(units / grid, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class ProxyLayout:
    """Where the parts of a summand lie: numerators, then denominators, no count or share by itself.

    Attributes:
        parameters: entries P of the encoder.
        classes: number of classes C.
        width: columns d of a structure proxy.
    """

    parameters: int
    classes: int
    width: int

    def __post_init__(self) -> None:
        for name, value in (("parameters", self.parameters), ("classes", self.classes), ("width", self.width)):
            if value < 1:
                raise InputError(f"{name} must be at least 1; found {value}")

    @classmethod
    def of(cls, features: int, classes: int, width: int) -> ProxyLayout:
        """That of a run with the encoder of these widths."""
        return cls((features + 1) * width + 2 * (width + 1) * classes, classes, width)

    @property
    def model(self) -> slice:
        """P entries: the encoder omega, times the client's weight."""
        return slice(0, self.parameters)

    @property
    def proxies(self) -> slice:
        """C d entries, class by class: the share of the class times its local proxy."""
        return slice(self.parameters, self.parameters + self.classes * self.width)

    @property
    def right(self) -> slice:
        """One entry, over the number of all nodes: what the round is chosen by.

        That is how many validation nodes are predicted right, or the sum of their losses.
        """
        return slice(self.proxies.stop, self.proxies.stop + 1)

    @property
    def loss(self) -> slice:
        """One entry: the loss of the client's network, times about one over the number of all nodes."""
        return slice(self.right.stop, self.right.stop + 1)

    @property
    def weight(self) -> slice:
        """One entry: the client's number of nodes over that of the whole graph (Eq. 14)."""
        return slice(self.loss.stop, self.loss.stop + 1)

    @property
    def shares(self) -> slice:
        """C entries: the share a_j of each class among the client's labelled nodes (Eq. 15)."""
        return slice(self.weight.stop, self.weight.stop + self.classes)

    @property
    def scored(self) -> slice:
        """One entry: the client's validation nodes, over the number of all nodes."""
        return slice(self.shares.stop, self.shares.stop + 1)

    @property
    def length(self) -> int:
        """Entries of a summand up to the counts of right predictions; the last one is the factor of the loss."""
        return int(self.scored.stop) + 1


def fractions(encoder: Floats, weight: float, proxies: Floats, shares: Floats) -> tuple[list[Floats], Floats]:
    """One client's numerators and denominators.

    Args:
        encoder: [P], omega after the client's second phase.
        weight: its nodes over those of the whole graph.
        proxies: [C, d], its class-wise proxies.
        shares: [C], of the classes among its labelled nodes.

    Returns:
        The encoder and each class's proxy, float64 [P] and C of [d], times their weights; and these, float64 [1 + C].
    """
    return [weight * encoder, *(shares[:, None] * proxies)], np.array([weight, *shares])
