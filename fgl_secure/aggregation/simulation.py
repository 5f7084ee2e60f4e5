"""A round with all parties in this process: machines over a channel that records, and clients that it loses."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.aggregation.layout import Layout, Tree
from fgl_secure.aggregation.precision import warn_of_lost_precision
from fgl_secure.aggregation.purposes import Found, Purpose
from fgl_secure.aggregation.record import RoundRecord, recording_for
from fgl_secure.aggregation.rounded import KeptErrors
from fgl_secure.aggregation.rules import Rules
from fgl_secure.aggregation.server_round import Outcome
from fgl_secure.algebra.quantization import Integers
from fgl_secure.coins import Coins
from fgl_secure.errors import FieldRangeError, InputError, ProtocolError
from fgl_secure.protocols.collective import Collective
from fgl_secure.runtime import Channel, Phase, Role, Step

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]

EARLY = frozenset({Phase.KEYS, Phase.DRAW, Phase.SECRET_SHARES})
"""What clients still say that vanish before they hand in a vector."""


@dataclass(frozen=True, slots=True, eq=False)
class Brought:
    """What clients bring to a round.

    Attributes:
        rules: of the round.
        layout: of the mappings.
        mappings: what they hold, by number; a client that is not there never came.
        weights: one for each client, come or not.
        dropped: clients that say nothing from their vector on.
        coins: of all parties.
        kept: rounding errors of those that are there, by number; empty where they are not fed back.
    """

    rules: Rules
    layout: Layout
    mappings: Mapping[int, Tree]
    weights: Sequence[float]
    dropped: Set[int]
    coins: Coins
    kept: Mapping[int, KeptErrors] = field(default_factory=dict)

    @property
    def loses(self) -> bool:
        """Whether any message is lost."""
        return bool(self.dropped) or len(self.mappings) < self.rules.clients

    def vectors(self, purpose: Purpose, found: Found) -> tuple[Integers, Flags]:
        """The vector of every client, int64 [n, length], and whether it vetoes the sum, bool [n].

        Vectors are of zeros for those whose vector goes nowhere.

        Raises:
            InputError: a client refuses its mapping or weight; names the client.
        """
        width = self.rules.topology(purpose, self.layout, found.bounds).width
        rows, vetoes = np.empty((self.rules.clients, width), dtype=np.int64), np.zeros(self.rules.clients, dtype=bool)
        there = self.mappings.keys() - self.dropped
        rows[[index not in there for index in range(self.rules.clients)]] = 0
        for index in there:
            held, kept = self.mappings[index], self.kept.get(index)
            with _named(index):
                vetoes[index] = self.rules.outgrown(purpose, self.layout, found, held)
                rows[index] = (
                    0
                    if vetoes[index]
                    else self.rules.vector(purpose, self.layout, found, held, self.weights[index], self.coins, kept)
                )
        rows.flags.writeable = False  # recordings need no copy
        return rows, vetoes

    def arrives(self, phase: Phase, step: Step, senders: Ids, receivers: Ids) -> Flags:  # noqa: ARG002  # a `Loss`
        """Which messages arrive: none from or for clients that never came, and only the first from those that left."""
        clients = self.rules.parties.ids(Role.SILO)
        present = np.isin(np.arange(self.rules.clients), list(self.mappings))
        kept: Flags = ~(np.isin(senders, clients[~present]) | np.isin(receivers, clients[~present]))
        if phase not in EARLY:
            kept &= ~np.isin(senders, clients[list(self.dropped)])
        return kept


def simulated(
    brought: Brought, number: int, known: Mapping[str, float] | None
) -> tuple[Any, RoundRecord, Mapping[str, float] | None]:
    """One round.

    Args:
        brought: what clients bring.
        number: of the round in the session.
        known: ranges, as a round before found them.

    Returns:
        The mean, what was seen of the round, and the ranges that hold now.

    Raises:
        InputError: a client refuses its mapping or weight; names the client.
        TooFewClientsError: fewer than the threshold are left.
    """
    rules, layout, start = brought.rules, brought.layout, time.perf_counter()
    loss = brought.arrives if brought.loses else None
    channel = Channel(rules.parties, brought.coins, recording_for(rules, layout), loss)
    found = Found(known if rules.finds_ranges(layout) else None)
    purpose = rules.first(layout, found.bounds)
    while True:
        summed = _summed(brought, channel, purpose, number, found)
        if purpose.is_mean and summed is not None:
            total, included = summed
            break
        if summed is not None:
            found = rules.found(purpose, layout, found, summed[0])
        purpose = rules.after(purpose, layout)
    if rules.warns(layout):
        there = {client: held for client, held in brought.mappings.items() if client not in brought.dropped}
        warn_of_lost_precision(rules.code(layout, found.bounds), there)
    outcome = Outcome(rules, layout, found, total, included)
    for client in included:
        if client in brought.kept:
            brought.kept[client].settle()
    return outcome.mean, outcome.record(number, channel, time.perf_counter() - start), found.bounds


def _summed(
    brought: Brought, channel: Channel, purpose: Purpose, number: int, found: Found
) -> tuple[Integers, tuple[int, ...]] | None:
    """One sum, int64 [length], and whose vectors are in it; None where it was vetoed."""
    rules, (vectors, vetoes) = brought.rules, brought.vectors(purpose, found)
    collective = Collective(rules.scheme, rules.topology(purpose, brought.layout, found.bounds), channel)
    total: Integers = collective.sum(vectors, rules.step(purpose, number), vetoes)[0]
    if collective.vetoed:
        return None
    included = collective.included
    if included is None:
        raise ProtocolError("scheme must say whose vectors are in a sum; it does not")
    return total, tuple(np.flatnonzero(np.isin(rules.parties.ids(Role.SILO), included)).tolist())


@contextmanager
def _named(index: int) -> Iterator[None]:
    """Says whose input it was."""
    try:
        yield
    except (FieldRangeError, InputError) as error:
        kind = FieldRangeError if isinstance(error, FieldRangeError) else InputError
        raise kind(f"client {index}: {error}") from error
