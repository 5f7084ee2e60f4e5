"""What every party of a staged pairwise-masking sum knows: its terms, its field, and who masks with whom."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.crypto.prg import FieldStream, word_of
from fgl_secure.protocols.masking.keys import LABEL, TAG_BYTES
from fgl_secure.protocols.masking.shares import Sharing, words_per_seed
from fgl_secure.protocols.pairwise_masking.graph import Neighbours, local_threshold
from fgl_secure.protocols.staged.envelope import Envelope
from fgl_secure.protocols.staged.interface import Stage, SumTerms
from fgl_secure.runtime import Step

SCHEME = b"PAIR"

_TERMS = struct.Struct(">QQQQQQQQ")


@dataclass(frozen=True, slots=True, eq=False)
class MaskingPlan:
    """The public side of one sum.

    Attributes:
        terms: of the sum.
        field: of masked vectors and shares.
        needed: shares that open a secret, and equal votes that a client asks for, its own included.
        neighbours: who masks with whom.
    """

    terms: SumTerms
    field: PrimeField
    needed: int
    neighbours: Neighbours

    @property
    def step(self) -> Step:
        """What names the sum within its session where keys are derived."""
        return Step(self.terms.number)

    @property
    def sharing(self) -> Sharing:
        """How secrets are shared."""
        return Sharing(self.field, self.terms.clients, self.needed)

    @property
    def words(self) -> int:
        """Elements that hold one secret."""
        return words_per_seed(self.field)

    @property
    def box_bytes(self) -> int:
        """Bytes of both shares of somebody's secrets, sealed."""
        return 2 * self.words * word_of(self.field.modulus)[0].itemsize + TAG_BYTES

    def near(self, client: int) -> list[int]:
        """A client's neighbours, ascending."""
        near: list[int] = self.neighbours.table[client].tolist()
        return near

    def circle(self, client: int) -> list[int]:
        """A client's neighbours and the client itself, ascending: who holds shares of its secrets."""
        return sorted([*self.near(client), client])

    def envelope(self, stage: Stage, sender: int, receiver: int) -> Envelope:
        """Where a message belongs."""
        return Envelope(SCHEME, self.terms, stage, sender, receiver)

    @property
    def digest(self) -> bytes:
        """SHA-256 of all that parties must agree on before the sum starts."""
        terms = self.terms
        stated = terms.number, terms.clients, terms.threshold, terms.length, terms.bound or 0
        numbers = _TERMS.pack(*stated, self.field.modulus, self.neighbours.degree, self.needed)
        return hashlib.sha256(LABEL + b"terms" + terms.binding + numbers).digest()

    def statement(self, client: int, sealing: bytes, mask: bytes) -> bytes:
        """What a client's identity signs: that these are its keys in a sum under these terms."""
        return LABEL + b"keys" + self.digest + struct.pack(">I", client) + sealing + mask


@lru_cache(maxsize=4)
def plan_of(terms: SumTerms, modulus: int, degree: int) -> MaskingPlan:
    """The plan for checked terms.

    Where the graph is sparse, clients stand on the ring in the order of uniform draws from a key stream whose key is
    SHA-256 of session and sum number. So every client finds the same graph by itself, a fresh one for every sum, and
    a server that wants another has only the session id to try, in advance: let it be drawn where the server cannot
    choose it, if it is not trusted with that.

    Args:
        terms: of the sum.
        modulus: of the field.
        degree: neighbours of each client; clients - 1 for the complete graph.
    """
    n = terms.clients
    graph = Neighbours.complete(n) if degree == n - 1 else Neighbours.ring(ring_order(terms), degree)
    graph.table.flags.writeable = False
    return MaskingPlan(terms, PrimeField(modulus), local_threshold(n, degree, terms.threshold), graph)


def ring_order(terms: SumTerms) -> NDArray[np.int64]:
    """Who stands at each place of the ring: int64 [n], a permutation that follows from public data."""
    key = hashlib.sha256(LABEL + b"ring" + terms.session + struct.pack(">Q", terms.number)).digest()
    return np.argsort(FieldStream(key).uniform(2**63, terms.clients), kind="stable").astype(np.int64)
