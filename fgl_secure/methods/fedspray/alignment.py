"""What clients send and what the server makes of the sum: FedAvg (Eq. 14) and proxy alignment (Eq. 15) in one.

Fractions of clients with different numbers of labelled nodes have different denominators, and their exact sum often has
one explanation only. Multiples of one unit all have the same denominator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError

Ids = NDArray[np.int64]
Reals = NDArray[np.float64]


def shares_of(counts: Ids, grid: int | None) -> Reals:
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
    """Where the parts of a summand lie: numerators and denominators, no count or share by itself.

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

    @property
    def model(self) -> slice:
        """P entries: the encoder omega, times the client's weight."""
        return slice(0, self.parameters)

    @property
    def weight(self) -> slice:
        """One entry: the client's number of nodes over that of the whole graph (Eq. 14)."""
        return slice(self.parameters, self.parameters + 1)

    @property
    def proxies(self) -> slice:
        """C d entries, class by class: the share of the class times its local proxy."""
        return slice(self.weight.stop, self.weight.stop + self.classes * self.width)

    @property
    def shares(self) -> slice:
        """C entries: the share a_j of each class among the client's labelled nodes (Eq. 15)."""
        return slice(self.proxies.stop, self.proxies.stop + self.classes)

    @property
    def right(self) -> slice:
        """One entry, over the number of all nodes: what the round is chosen by.

        That is how many validation nodes are predicted right, or the sum of their losses.
        """
        return slice(self.shares.stop, self.shares.stop + 1)

    @property
    def scored(self) -> slice:
        """One entry: the client's validation nodes, over the number of all nodes."""
        return slice(self.right.stop, self.right.stop + 1)

    @property
    def length(self) -> int:
        """Entries of a summand."""
        return self.parameters + 1 + self.classes * (self.width + 1) + 2


@dataclass(frozen=True, slots=True, eq=False)
class Aligned:
    """What the server holds after a round.

    Attributes:
        encoder: float64 [P], omega.
        proxies: float64 [C, d], S.
        figure: what the round is chosen by, a mean over the validation nodes of all clients; NaN without any.
    """

    encoder: Reals
    proxies: Reals
    figure: float


def summand(
    layout: ProxyLayout, encoder: Reals, weight: float, proxies: Reals, shares: Reals, scored: tuple[float, float]
) -> Reals:
    """One client's term of the sum: numerators and denominators, in the order of the layout.

    Args:
        layout: of the term.
        encoder: [P], omega after the client's second phase.
        weight: its nodes over those of the whole graph.
        proxies: [C, d], its class-wise proxies.
        shares: [C], of the classes among its labelled nodes.
        scored: sum of its validation figures, and number of its validation nodes, both over all nodes.

    Returns:
        float64 [layout.length].
    """
    row = np.empty(layout.length)
    row[layout.model] = weight * encoder
    row[layout.weight] = weight
    row[layout.proxies] = (shares[:, None] * proxies).reshape(-1)
    row[layout.shares] = shares
    row[layout.right], row[layout.scored] = scored
    return row


def align(layout: ProxyLayout, total: Reals, before: Reals) -> Aligned:
    """The server's round, from the sum alone.

    Args:
        layout: of the sum.
        total: float64 [layout.length], over all clients.
        before: float64 [C, d], the proxies that were; a class that nobody has a labelled node of keeps its own.
    """
    shares = total[layout.shares][:, None]
    numerators = total[layout.proxies].reshape(layout.classes, layout.width)
    proxies = np.where(shares > 0, numerators / np.where(shares > 0, shares, 1.0), before)
    scored = float(total[layout.scored][0])
    figure = float(total[layout.right][0]) / scored if scored > 0 else np.nan
    return Aligned(total[layout.model] / total[layout.weight], proxies, figure)
