"""Who takes part in a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError


class Role(StrEnum):
    """The levels of HiFGL's hierarchy (section 4.1), and the relays of schemes that split trust among several."""

    SERVER = "server"
    SILO = "silo"
    DEVICE = "device"
    RELAY = "relay"


@dataclass(frozen=True, slots=True, order=True)
class Party:
    """One participant: its role, and its index among the parties of that role."""

    role: Role
    index: int

    def __str__(self) -> str:
        return f"{self.role} {self.index}"


@dataclass(frozen=True, slots=True)
class Directory:
    """Numbers all parties of a run, so that a batch of messages is a few integer arrays.

    Identifiers are consecutive: the parties of the first role, then those of the next.

    Attributes:
        counts: how many parties each role has.
    """

    counts: Mapping[Role, int]

    @classmethod
    def hierarchy(cls, silos: int, devices: int, relays: int = 0) -> Directory:
        """One server, `silos` silos, `devices` devices and, where a scheme needs them, `relays` relays."""
        helpers = {Role.RELAY: relays} if relays else {}
        return cls({Role.SERVER: 1, Role.SILO: silos, Role.DEVICE: devices, **helpers})

    def __post_init__(self) -> None:
        for role, count in self.counts.items():
            if count < 0:
                raise InputError(f"counts of parties must not be negative; found {count} for {role}")

    def __len__(self) -> int:
        return sum(self.counts.values())

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles present, in the order of their identifiers."""
        return tuple(self.counts)

    def ids(self, role: Role) -> NDArray[np.int64]:
        """int64 [count]: identifiers of all parties of a role, by index."""
        first = self._first(role)
        return np.arange(first, first + self.counts[role], dtype=np.int64)

    def id_of(self, party: Party) -> int:
        """Identifier of one party."""
        if party.role not in self.counts or not 0 <= party.index < self.counts[party.role]:
            raise InputError(f"party must exist in this run; found {party}")
        return self._first(party.role) + party.index

    def party_of(self, identifier: int) -> Party:
        """The party of an identifier."""
        role = self.roles[int(self.role_of(np.array([identifier]))[0])]
        return Party(role, identifier - self._first(role))

    def role_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64 like `ids`: position in `roles` of each party's role."""
        ends = np.cumsum(list(self.counts.values()))
        return np.searchsorted(ends, ids, side="right").astype(np.int64)

    def index_of(self, ids: NDArray[np.int64], role: Role) -> NDArray[np.int64]:
        """int64 like `ids`: index within the role; only meaningful for parties of that role."""
        return ids - self._first(role)

    def indices_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64 like `ids`: index of each party within its role."""
        counts = np.array(list(self.counts.values()), dtype=np.int64)
        return np.asarray(ids - (np.cumsum(counts) - counts)[self.role_of(ids)])

    def _first(self, role: Role) -> int:
        if role not in self.counts:
            raise InputError(f"role must be one of {', '.join(self.counts)}; found {role}")
        before = list(self.counts)[: list(self.counts).index(role)]
        return sum(self.counts[earlier] for earlier in before)
