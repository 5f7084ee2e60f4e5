"""What all parties of coded products know, and how their messages look."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fgl_secure.algebra import PrimeField
from fgl_secure.algebra.residues import BYTE, Residues
from fgl_secure.errors import MalformedMessageError
from fgl_secure.protocols.coded_products.layout import Layout
from fgl_secure.protocols.relay_coded.wire import AUTHENTICATION_BYTES, Wire
from fgl_secure.protocols.topology import Grouping
from fgl_secure.runtime import Messages
from fgl_secure.typing import Array, Ids

WIDTH, HELD, COUNT, AGREED, SET, KEY = "width", "held", "count", "agreed", "set", "key"
COUNT_BYTES = 4 + AUTHENTICATION_BYTES
DIGEST_WORDS = 2
LARGEST_BATCH = 2**24
"""Most numbers of shares in a field that are laid out at once: devices of wide rows speak some after the others."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What all parties know.

    Attributes:
        fields: of shares.
        static_fields: how many of them, the first, hold what is shared once, and what it is multiplied to.
        T: most relays that may pool their views.
        R: relays.
        k_min: least devices of a sum that is computed.
        layout: what is multiplied.
        grouping: whose products go into which sum.
        relays: int64 [R], party identifiers.
    """

    fields: tuple[PrimeField, ...]
    static_fields: int
    T: int
    R: int
    k_min: int
    layout: Layout
    grouping: Grouping
    relays: Ids
    _by_group: tuple[Ids, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        g = self.grouping
        found = tuple(np.sort(g.source[g.target == group]) for group in range(len(g.group_owner)))
        object.__setattr__(self, "_by_group", found)

    def members(self, group: int) -> Ids:
        """The rows that go into one sum, ascending."""
        return self._by_group[group]

    @property
    def sizes(self) -> Ids:
        """How many rows are meant to go into each sum: int64 [g]."""
        return np.array([len(rows) for rows in self._by_group], dtype=np.int64)

    @property
    def silo_by_silo(self) -> Ids:
        """Where each row is, int64 [n], if those of a sum lie one behind the other, sum after sum, and others last."""
        n = len(self.grouping.row_owner)
        ordered = np.concatenate([*self._by_group, np.setdiff1d(np.arange(n), self.grouping.source)]).astype(np.int64)
        places = np.empty(n, dtype=np.int64)
        places[ordered] = np.arange(n)
        return places

    @property
    def needed(self) -> int:
        """Relays whose answers determine a sum."""
        return 2 * self.T + 1

    @property
    def _held(self) -> list[tuple[int, int, bool]]:
        """The number of each field, its prime, and whether it holds what is static."""
        return [(place, each.modulus, place < self.static_fields) for place, each in enumerate(self.fields)]

    @staticmethod
    def put(name: str, shares: Residues) -> dict[str, Array]:
        """Shares [*tapes, m, d] as fields of messages, one for each prime."""
        return {f"{name} {place}": share for place, share in enumerate(shares)}

    def read(self, wire: Wire, messages: Messages, name: str, width: int, static: int) -> Residues:
        """The shares in the fields of messages: by prime remainders [*tapes, m, width], or [*tapes, m, width - static].

        Args:
            wire: how messages look.
            messages: with shares.
            name: of the fields.
            width: numbers of a message.
            static: how many of them, the first, go in the first fields alone.

        Raises:
            MalformedMessageError: one is missing, holds something else, or is not as wide.
        """
        out = []
        for place, prime, whole in self._held:
            found = _remainders(messages, f"{name} {place}", wire.axes + 2, prime)
            due = width if whole else width - static
            if found.shape[-1] != due:
                raise MalformedMessageError(
                    f"{messages.phase.label} must have {due:,} numbers in field {place}; found {found.shape[-1]:,}"
                )
            out.append(found)
        return tuple(out)

    def size(self, width: int, static: int) -> int:
        """Bytes of a message with so many numbers, of which the first go in the first fields alone."""
        return sum(width if whole else width - static for _, _, whole in self._held) + AUTHENTICATION_BYTES


def _remainders(messages: Messages, name: str, axes: int, modulus: int) -> Array:
    """A field of messages with remainders of least magnitude."""
    value = messages[name]
    if value.dtype != BYTE or value.ndim != axes:
        raise MalformedMessageError(
            f"field {name} of {messages.phase.label} must hold rows of {BYTE}; found {value.dtype}"
        )
    if value.size and not -modulus < 2 * int(value.min()) <= 2 * int(value.max()) < modulus:
        raise MalformedMessageError(
            f"{messages.phase.label} must hold remainders of least magnitude; at least one is not"
        )
    return value
