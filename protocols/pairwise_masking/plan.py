"""What every party of pairwise masking knows: the terms, the field, and who masks with whom in which step."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.crypto.cryptography import Context
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.crypto.prg import FieldStream
from fgl_secure.crypto.ring import Ring
from fgl_secure.protocols.one_sum.terms import OneSum
from fgl_secure.protocols.pairwise_masking.graph import Neighbours, local_threshold
from fgl_secure.protocols.pairwise_masking.sharing import Sharing
from fgl_secure.protocols.stepwise import step_bytes
from fgl_secure.runtime import Step

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]

LABEL = b"fgl-secure pairwise-masking/v3"

_NUMBERS = struct.Struct(">QQQ")
_RING = struct.Struct(">Q")
_KEPT = 4


@dataclass(frozen=True, eq=False)
class Circles:
    """Who masks with whom in one step, and who holds shares of whose secrets.

    Attributes:
        near: int64 [n, k], the neighbours of each client, ascending.
        all: int64 [n, k + 1], the neighbours and the client itself, ascending.
        own: int64 [n], the place of each client in its own circle.
        leads: bool [n, k], for which of its neighbours a client wraps a secret; the others do so for it.
    """

    near: Ids
    all: Ids
    own: Ids
    leads: Flags

    @classmethod
    def of(cls, graph: Neighbours, order: Ids) -> Circles:
        """Of a graph.

        Args:
            graph: who is whose neighbour.
            order: int64 [n], a ring: everybody leads those that follow within half of it, so (k + 1) // 2 at most.
        """
        n = len(graph.table)
        everybody = np.arange(n)[:, None]
        circles = np.sort(np.concatenate([graph.table, everybody], axis=1), axis=1)
        place = np.argsort(order)
        ahead = 2 * ((place[graph.table] - place[:, None]) % n)
        leads = (ahead < n) | ((ahead == n) & (everybody < graph.table))
        return cls(graph.table, circles, (circles < everybody).sum(axis=1), leads)

    @cached_property
    def leading(self) -> Ids:
        """Which of those that it leads a neighbour is, where it is one: int64 [n, k]."""
        return np.cumsum(self.leads, axis=1) - 1

    @cached_property
    def following(self) -> Ids:
        """Which of those that lead it a neighbour is, where it is one: int64 [n, k]."""
        return np.cumsum(~self.leads, axis=1) - 1

    @cached_property
    def back(self) -> Ids:
        """At which place a client stands among the neighbours of its j-th neighbour: int64 [n, k], for servers."""
        return _places(self.near)

    @cached_property
    def back_all(self) -> Ids:
        """The same in circles: int64 [n, k + 1]."""
        return _places(self.all)

    def others(self, client: int) -> NDArray[np.bool_]:
        """Bool [k + 1], which places in a client's circle are not its own."""
        return np.asarray(np.arange(self.all.shape[1]) != self.own[client])


def _places(table: Ids) -> Ids:
    """At which place of row table[u, j] u stands: int64 like the table, which is a symmetric graph's."""
    n, k = table.shape
    everybody = np.arange(n)[:, None]
    ascending = (everybody * n + table).ravel()
    return np.asarray(np.searchsorted(ascending, table * n + everybody) - table * k)


@dataclass(frozen=True, slots=True, eq=False)
class MaskingPlan:
    """The public side of all sums of one topology.

    Attributes:
        terms: of the sums.
        field: of shares.
        degree: neighbours of each client.
        words: elements that hold one secret.
        keys: how clients agree on keys.
        ring: of masked vectors; the field unless given.
    """

    terms: OneSum
    field: PrimeField
    degree: int
    words: int
    keys: KeyAgreement = KeyAgreement.X25519
    ring: Ring | None = None
    _circles: dict[tuple[Step, bytes], Circles] = dataclasses.field(default_factory=dict, repr=False)
    _sharing: list[Sharing] = dataclasses.field(default_factory=list, repr=False)

    @property
    def needed(self) -> int:
        """Shares that open a secret, and equal votes that a client asks for, its own included."""
        return local_threshold(self.terms.n, self.degree, self.terms.threshold)

    @property
    def sealed(self) -> int:
        """Elements that one client seals for another: shares of both secrets, and of its veto where it may have one."""
        return 2 * self.words + int(self.terms.veto)

    @property
    def sharing(self) -> Sharing:
        """How secrets are shared."""
        if not self._sharing:
            self._sharing.append(Sharing(self.field, self.terms.n, self.needed))
        return self._sharing[0]

    @property
    def digest(self) -> bytes:
        """SHA-256 of all that parties must agree on before a sum starts, but for the step."""
        numbers = _NUMBERS.pack(self.field.modulus, self.degree, self.needed)
        ring = b"" if self.ring is None else _RING.pack(self.ring.modulus)
        said = self.terms.digest + numbers + self.keys.encode() + ring
        return hashlib.sha256(LABEL + b"terms" + said).digest()

    @property
    def led(self) -> int:
        """Most neighbours that a client leads, or is led by."""
        return (self.degree + 1) // 2

    @property
    def sparse(self) -> bool:
        """Whether each client masks with a few neighbours, and not with everybody."""
        return self.degree < self.terms.n - 1

    def circles(self, step: Step, seed: bytes = b"") -> Circles:
        """Who masks with whom in a step.

        Args:
            step: of the sum.
            seed: of a sparse graph, as a `Draw` gives it; what it is does not matter where everybody masks with
                everybody.
        """
        when = (step, seed) if self.sparse else (Step(0), b"")
        if when not in self._circles:
            while len(self._circles) >= _KEPT:
                self._circles.pop(next(iter(self._circles)), None)
            order = self.ring_order(step, seed) if self.sparse else np.arange(self.terms.n)
            graph = Neighbours.ring(order, self.degree) if self.sparse else Neighbours.complete(self.terms.n)
            self._circles[when] = Circles.of(graph, order)
        return self._circles[when]

    def ring_order(self, step: Step, seed: bytes) -> Ids:
        """Who stands at each place of the ring: int64 [n], in the order of uniform draws from a key stream."""
        key = hashlib.sha256(LABEL + b"ring" + self.terms.session + step_bytes(step) + seed).digest()
        return np.argsort(FieldStream(key).uniform(2**63, self.terms.n), kind="stable").astype(np.int64)

    def context(self, step: Step, seed: bytes = b"") -> Context:
        """What keys of one sum are bound to; with a seed, those of clients, which share a graph."""
        return Context(LABEL, self.terms.session + seed, step_bytes(step), step)

    def statement(self, step: Step, place: int, *keys: bytes) -> bytes:
        """What a party's identity signs: that these are its keys in a sum under these terms."""
        return LABEL + b"keys" + self.digest + step_bytes(step) + struct.pack(">I", place) + b"".join(keys)
