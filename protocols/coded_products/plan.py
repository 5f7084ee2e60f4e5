"""What all parties of coded products know, and how their messages look."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.algebra.residues import Residues
from fgl_secure.errors import MalformedMessageError
from fgl_secure.protocols.coded_products.code import Layout
from fgl_secure.protocols.relay_coded.wire import AUTHENTICATION_BYTES, Wire
from fgl_secure.protocols.topology import Grouping
from fgl_secure.runtime import Messages

Array = NDArray[Any]
Ids = NDArray[np.int64]

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
        T: most relays that may pool their views.
        R: relays.
        k_min: least devices of a sum that is computed.
        layout: what is multiplied.
        grouping: whose products go into which sum.
        relays: int64 [R], party identifiers.
    """

    fields: tuple[PrimeField, ...]
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

    @staticmethod
    def put(name: str, shares: Residues) -> dict[str, Array]:
        """Shares [*tapes, m, d] as fields of messages, one for each prime."""
        return {f"{name} {place}": share for place, share in enumerate(shares)}

    def read(self, wire: Wire, messages: Messages, name: str, width: int) -> Residues:
        """The shares in the fields of messages: by prime, elements [*tapes, m, d].

        Raises:
            MalformedMessageError: one is missing, holds something else, or is not as wide.
        """
        found = tuple(
            wire.elements(messages, f"{name} {place}", field.dtype, field.modulus)
            for place, field in enumerate(self.fields)
        )
        if any(each.shape[-1] != width for each in found):
            raise MalformedMessageError(
                f"{messages.phase.label} must have {width:,} numbers in each field; found {found[0].shape[-1]:,}"
            )
        return found

    def size(self, width: int) -> int:
        """Bytes of a message with so many numbers."""
        return width * sum(each.dtype.itemsize for each in self.fields) + AUTHENTICATION_BYTES
