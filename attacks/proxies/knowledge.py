"""Runs that attacks on structure proxies read, and what a server knows and sees of them.

A client sends, for every class j, the share a_j of its labelled nodes that are of the class, and a_j times the mean s_j
of these nodes' structure proxies (FedSpray, KDD 2024, Eq. 15). The two are numerator and denominator of the mean that
the server takes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Measurement
from fgl_secure.attacks.recovery import share_right
from fgl_secure.attacks.updates import SUM, Suspects, participants_of, sums_of, vectors_of
from fgl_secure.runtime import PublicParameters, View
from fgl_secure.typing import Flags, Floats, Ids

PROXIES = "structure proxies"
"""Scenario: what clients of FedSpray send to the server, or its sum: encoder, proxies and their weights."""

LAYOUT = "where the parts of a summand lie"
"""Auxiliary knowledge behind `ProxySlices`, in words."""

FEDSPRAY = "fedspray in the clear, one round"
FEDSPRAY_SUM = "fedspray under masks, one round, clients of different numbers of labelled nodes"
FEDSPRAY_ROUNDS = "fedspray in the clear, rounds between which labelled nodes were added"
"""Controls, as FedSpray makes them."""


@dataclass(frozen=True, slots=True)
class ProxySlices:
    """Where the parts of a summand lie: numerators and then denominators, part by part.

    Attributes:
        parameters: entries P of the encoder.
        classes: number of classes C.
        width: columns d of a structure proxy.
        labelled: how many labelled nodes each client has in the first round, where the server knows; else None.
        grid: shares are multiples of one over this, a public number; None where they are exact.
    """

    parameters: int
    classes: int
    width: int
    labelled: tuple[int, ...] | None = None
    grid: int | None = None

    @property
    def proxies(self) -> slice:
        """C d entries, class by class: the share of the class times its proxy."""
        return slice(self.parameters, self.parameters + self.classes * self.width)

    @property
    def shares(self) -> slice:
        """C entries: the share of each class among a client's labelled nodes."""
        start = self.proxies.stop + 3  # two figures, and the client's weight
        return slice(start, start + self.classes)


@dataclass(frozen=True, slots=True, eq=False)
class ProxyKnowledge:
    """What a server knows that tells clients what to send.

    Attributes:
        layout: where the parts of a summand lie.
        suspects: two proxies for each node that is added, of which it has one; None where no party knows any.
    """

    layout: ProxySlices
    suspects: Suspects | None = None

    def sizes_of(self, clients: Ids) -> Ids | None:
        """How many labelled nodes clients have, int64 [k]; None for a sum, or where the server doesn't know."""
        if self.layout.labelled is None or (clients < 0).any():
            return None
        return np.array(self.layout.labelled, dtype=np.int64)[clients]


GRID_BITS = 32
"""Bits behind the binary point of what is sent, where nothing else is known."""

RECOVERED = 1e-5
"""Up to this share of its length a proxy may be off and counts as recovered."""


@dataclass(frozen=True, slots=True, eq=False)
class ProxyRows:
    """What was sent in one round.

    Attributes:
        round: the training round.
        clients: int64 [k], index of the silo that each row is from; [SUM] for the sum.
        shares: float64 [k, C].
        products: float64 [k, C, d], shares times class proxies; NaN where they are not known.
        rounding: what an entry is off by at most for the numbers that sums work on.
        unit: clients round their shares to multiples of this before; 0 where they don't.
    """

    round: int
    clients: Ids
    shares: Floats
    products: Floats
    rounding: float
    unit: float = 0.0

    @property
    def is_sum(self) -> bool:
        """Whether it is the sum over all participants."""
        return bool(self.clients.tolist() == [SUM])

    @property
    def present(self) -> NDArray[np.bool_]:
        """Bool [k, C]: whether there is a share or a proxy of the class."""
        is_sent = np.nan_to_num(self.products) != 0
        return np.asarray((self.shares > 0) | is_sent.any(axis=2), dtype=np.bool_)

    @property
    def proxies(self) -> Floats:
        """float64 [k, C, d]: class proxies, NaN where there are none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            result = self.products / self.shares[:, :, None]
        return np.where(np.isfinite(result), result, np.nan)

    @property
    def total(self) -> ProxyRows:
        """The sum of the rows, which a party that sees them can take."""
        rounding = self.rounding * len(self.clients)
        summed = (self.shares.sum(axis=0)[None], self.products.sum(axis=0)[None])
        return ProxyRows(self.round, np.array([SUM]), *summed, rounding, self.unit)


def proxy_rows(view: View, public: PublicParameters, knowledge: ProxyKnowledge) -> tuple[ProxyRows, ...]:
    """What the server got in each round, in order of the rounds; single clients' rows before their sum.

    Rows of as many entries as there are classes are shares alone. Beside the sum they tell the class proxy of each
    client that alone has a class.
    """
    layout = knowledge.layout
    rounding = 2.0 ** -(1 + (GRID_BITS if public.fraction_bits is None else public.fraction_bits))
    unit = 0.0 if layout.grid is None else 1 / layout.grid
    single, sums = vectors_of(view, lambda width: width >= layout.shares.stop), sums_of(view)
    alone = vectors_of(view, lambda width: width == layout.classes)
    rows = []
    for number in sorted({*single, *alone, *sums}):
        total = None
        if number in single:
            rows.append(_read(number, *single[number], layout, rounding, unit))
            continue
        if number in sums:
            among = participants_of(view, number)
            clients = among if len(among) == 1 else np.array([SUM])  # of one client the summand itself
            total = _read(number, clients, sums[number], layout, rounding * max(len(among), 1), unit)
        if number in alone:
            clients, shares = alone[number]
            products = np.full((*shares.shape, layout.width), np.nan)
            if total is not None and total.is_sum:
                lone = np.flatnonzero((shares > 0).sum(axis=0) == 1)
                products[shares[:, lone].argmax(axis=0), lone] = total.products[0, lone]
            rows.append(ProxyRows(number, clients, shares, products, rounding, unit))
        elif total is not None:
            rows.append(total)
    return tuple(rows)


def _read(number: int, clients: Ids, rows: Floats, layout: ProxySlices, rounding: float, unit: float) -> ProxyRows:
    products = rows[:, layout.proxies].reshape(len(rows), layout.classes, layout.width)
    return ProxyRows(number, clients, rows[:, layout.shares], products, rounding, unit)


def close(read: Floats, right: Floats) -> NDArray[np.bool_]:
    """Whether proxies [..., d] are recovered, bool [...]; never where one of the two is NaN."""
    distance = np.linalg.norm(read - right, axis=-1)
    return np.asarray(distance <= RECOVERED * np.linalg.norm(right, axis=-1), dtype=np.bool_)


def share_of_cells(
    metric: str, right: Flags, cells: Flags, text: str, *, random: float = 0.0, prior: float = 0.0
) -> Measurement:
    """The share of right cells of a client and a class; cells of one client depend on each other.

    Args:
        metric: what the figure is called.
        right: bool [clients, classes].
        cells: bool [clients, classes], which cells count.
        text: see `share_right`, as the others.
        random: of random claims.
        prior: of the best claims without messages.
    """
    client = np.broadcast_to(np.arange(len(right))[:, None], right.shape)
    return share_right(metric, right[cells], client[cells], text, random=random, prior=prior)
