"""What every party of pairwise masking knows: the terms, the field, and who masks with whom in which step."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.crypto.cryptography import Context
from fgl_secure.crypto.prg import FieldStream
from fgl_secure.protocols.one_sum.terms import OneSum
from fgl_secure.protocols.pairwise_masking.graph import Neighbours, local_threshold
from fgl_secure.protocols.pairwise_masking.sharing import Sharing
from fgl_secure.protocols.stepwise import step_bytes
from fgl_secure.runtime import Step

Ids = NDArray[np.int64]

LABEL = b"fgl-secure pairwise-masking/v2"

_NUMBERS = struct.Struct(">QQQ")
_KEPT = 4


@dataclass(frozen=True, slots=True, eq=False)
class Circles:
    """Who masks with whom in one step, and who holds shares of whose secrets.

    Attributes:
        near: int64 [n, k], the neighbours of each client, ascending.
        all: int64 [n, k + 1], the neighbours and the client itself, ascending.
        own: int64 [n], the place of each client in its own circle.
        back: int64 [n, k], at which place a client stands among the neighbours of its j-th neighbour.
        back_all: int64 [n, k + 1], the same in circles.
    """

    near: Ids
    all: Ids
    own: Ids
    back: Ids
    back_all: Ids

    @classmethod
    def of(cls, graph: Neighbours) -> Circles:
        """Of a graph."""
        n = len(graph.table)
        everybody = np.arange(n)[:, None]
        circles = np.sort(np.concatenate([graph.table, everybody], axis=1), axis=1)
        return cls(graph.table, circles, (circles < everybody).sum(axis=1), _places(graph.table), _places(circles))

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
        field: of masked vectors and shares.
        degree: neighbours of each client.
        words: elements that hold one secret.
    """

    terms: OneSum
    field: PrimeField
    degree: int
    words: int
    _circles: dict[Step, Circles] = dataclasses.field(default_factory=dict, repr=False)
    _sharing: list[Sharing] = dataclasses.field(default_factory=list, repr=False)

    @property
    def needed(self) -> int:
        """Shares that open a secret, and equal votes that a client asks for, its own included."""
        return local_threshold(self.terms.n, self.degree, self.terms.threshold)

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
        return hashlib.sha256(LABEL + b"terms" + self.terms.digest + numbers).digest()

    def circles(self, step: Step) -> Circles:
        """Who masks with whom in a step.

        Where the graph is sparse, clients stand on the ring in the order of uniform draws from a key stream whose key
        is SHA-256 of session and step. So every client finds the same graph by itself, a fresh one for every sum, and
        a server that wants another has only the session id to try, in advance: let it be drawn where the server
        cannot choose it, if it is not trusted with that.
        """
        n = self.terms.n
        when = Step(0) if self.degree == n - 1 else step
        if when not in self._circles:
            while len(self._circles) >= _KEPT:
                self._circles.pop(next(iter(self._circles)), None)
            complete = self.degree == n - 1
            graph = Neighbours.complete(n) if complete else Neighbours.ring(self.ring_order(step), self.degree)
            self._circles[when] = Circles.of(graph)
        return self._circles[when]

    def ring_order(self, step: Step) -> Ids:
        """Who stands at each place of the ring: int64 [n], a permutation that follows from public data."""
        key = hashlib.sha256(LABEL + b"ring" + self.terms.session + step_bytes(step)).digest()
        return np.argsort(FieldStream(key).uniform(2**63, self.terms.n), kind="stable").astype(np.int64)

    def context(self, step: Step) -> Context:
        """What keys of one sum are bound to."""
        return self.terms.context(LABEL, step)

    def statement(self, step: Step, place: int, *keys: bytes) -> bytes:
        """What a party's identity signs: that these are its keys in a sum under these terms."""
        return LABEL + b"keys" + self.digest + step_bytes(step) + struct.pack(">I", place) + b"".join(keys)
