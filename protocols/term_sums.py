"""How a client gets the sum of the terms B_ik that the other clients compute for it (FedStruct, App. D, Eq. 36)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fgl_secure.algebra.linear_sketch import LinearSketch
from fgl_secure.algebra.quantization import Integers
from fgl_secure.errors import InputError, SketchOverfullError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.sketched_terms import (
    MOST_FRACTION_BITS,
    TermRange,
    after_sum,
    in_fixed_point,
    packed_term,
    room_for,
    unpacked_sum,
)
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Channel, Phase, Role, Step

LARGEST = 2**62
"""Largest sum under a scheme that names no limit."""
ATTEMPTS = 12
"""Tables that are tried, each twice as large as the one before, before giving up: far more than any run needs."""

Terms = Mapping[int, sparse.csr_array]
"""By client index k: the term of that client, float64 CSR [n_i, n] with entries of 0 or more."""


class TermSums(ABC):
    """A way to add up terms for one client; the client's own term is not among them."""

    @abstractmethod
    def sum(self, channel: Channel, receiver: int, terms: Terms, step: Step) -> sparse.csr_array:
        """Adds up the terms of other clients.

        Args:
            channel: between server and clients.
            receiver: index of the client that is entitled to the sum.
            terms: of the other clients.
            step: whose layer is the hop.

        Returns:
            float64 CSR [n_i, n], as the receiver holds it.
        """


@dataclass(frozen=True, slots=True)
class ClearTerms(TermSums):
    """Every client sends the entries of its term to the receiver, as the paper has it: single terms are visible.

    Attributes:
        fraction_bits: bits behind the binary point that entries are rounded to, to compare with sums in fixed point;
            None sends them as they are.
    """

    fraction_bits: int | None = None

    def sum(self, channel: Channel, receiver: int, terms: Terms, step: Step) -> sparse.csr_array:
        """Sends one message an entry, (row, column, value), row being the position among the receiver's nodes."""
        clients = channel.parties.ids(Role.SILO)
        total: sparse.csr_array | None = None
        for k, term in terms.items():
            entries = term.tocoo() if self.fraction_bits is None else _rounded(term, self.fraction_bits)
            payload = np.stack([entries.row, entries.col, entries.data], axis=1).astype(np.float64)
            to = np.full(len(payload), clients[receiver], dtype=np.int64)
            arrived = channel.send(Phase.HOP_ENTRIES, step, np.full(len(payload), clients[k]), to, payload).payload
            place = (arrived[:, 0].astype(np.int64), arrived[:, 1].astype(np.int64))
            part = sparse.csr_array((arrived[:, 2], place), shape=term.shape)
            total = part if total is None else sparse.csr_array(total + part)
        if total is None:
            raise InputError("terms must come from at least one other client; found none")
        return total


@dataclass(slots=True, eq=False)
class PackedTerms(TermSums):
    """Terms in fixed point, as linear sketches whose size depends on their entries, added up under a scheme.

    A sketch of the sum is the sum of the sketches, and the receiver reads nothing from it but the sum. The receiver
    asks for a number of cells; where the sum has more entries it asks again for twice as many, and where a dense
    matrix is smaller it asks for that. So all parties learn about how many entries the sum has, and nobody learns
    how many a term has. The server learns no position: it sees vectors of one length from every client.

    Attributes:
        scheme: adds up the vectors.
        largest_degree: a public bound on the row sums of A + I, and so on the entries of the sum.
        fraction_bits: bits behind the binary point of an entry; None takes as many as fit, up to 24.
        most_a_row: a public bound on the entries of a row of the sum, as pruning of shares gives one; None for none.
        dense: whether to send all n_i n entries even where a sketch is smaller, to compare.
        expected: by client index, entries of its last two sums: how many it asks room for next.
    """

    scheme: Scheme
    largest_degree: int
    fraction_bits: int | None = None
    dense: bool = False
    most_a_row: int | None = None
    expected: dict[int, tuple[int, int]] | None = None

    def __post_init__(self) -> None:
        if self.largest_degree < 1:
            raise InputError(f"largest_degree must be at least 1; found {self.largest_degree}")
        if self.fraction_bits is not None and not 1 <= self.fraction_bits <= MOST_FRACTION_BITS:
            raise InputError(f"fraction_bits must lie in 1..{MOST_FRACTION_BITS}; found {self.fraction_bits}")
        self.expected = {} if self.expected is None else self.expected

    def bits(self, shape: tuple[int, int], terms: int) -> int:
        """Bits behind the binary point for terms of a shape.

        Raises:
            InputError: not one bit fits, or fewer than were asked for.
        """
        return self._range(terms).bits(shape, self.fraction_bits, self.scheme.name)

    def _range(self, terms: int) -> TermRange:
        return TermRange(self.scheme.limit(terms) or LARGEST, terms, self.largest_degree)

    def sum(self, channel: Channel, receiver: int, terms: Terms, step: Step) -> sparse.csr_array:
        """Adds up sketches of growing size until one can be read, or dense vectors where those are smaller."""
        shape = next(iter(terms.values())).shape
        bits = self.bits(shape, len(terms))
        rounded = [in_fixed_point(term, bits) for term in terms.values()]
        room = self._room(receiver, shape)
        for attempt in range(ATTEMPTS):
            plan = self._plan(channel, receiver, shape, room, len(terms), attempt)
            vectors = np.stack([packed_term(term, plan) for term in rounded])
            widest = 1 if plan is None else plan.largest_factor()
            bound = 2 * self.largest_degree * 2**bits * widest
            now = Step(step.round, step.layer, part=attempt)
            total = self._added(channel, receiver, list(terms), vectors, bound, now)
            try:
                entries = unpacked_sum(total, shape, plan)
            except SketchOverfullError:
                room *= 2
                continue
            self._remember(receiver, entries.nnz)
            return sparse.csr_array(entries / 2**bits)
        raise SketchOverfullError(f"sketches must be readable after {ATTEMPTS} attempts; client {receiver}'s was not")

    def _room(self, receiver: int, shape: tuple[int, int]) -> int:
        assert self.expected is not None
        return room_for(self.expected.get(receiver), shape[0], self.most_a_row)

    def _remember(self, receiver: int, entries: int) -> None:
        assert self.expected is not None
        self.expected[receiver] = after_sum(self.expected.get(receiver), entries)

    def _plan(
        self, channel: Channel, receiver: int, shape: tuple[int, int], room: int, terms: int, attempt: int
    ) -> LinearSketch | None:
        """What the receiver asks everybody for, by way of the server; None for a dense vector."""
        party = channel.parties.ids(Role.SILO)[receiver : receiver + 1]
        step = Step(0, part=attempt)
        seed = int(channel.draw("sketch seed", party, 2**62, (), step)[0])
        split = self._range(terms).splits(shape, self.fraction_bits)
        plan = LinearSketch.for_entries(shape, room, seed=seed, split=split)
        dense = self.dense or plan.length >= shape[0] * shape[1]
        asked = np.array([[0 if dense else plan.third, seed]], dtype=np.int64)
        channel.send(Phase.CAPACITIES, step, party, channel.parties.ids(Role.SERVER), asked)
        return None if dense else plan

    def _added(
        self, channel: Channel, receiver: int, senders: list[int], vectors: Integers, bound: int, step: Step
    ) -> Integers:
        clients = channel.parties.ids(Role.SILO)
        topology = Topology.to_client(
            channel.parties, clients[senders], int(clients[receiver]), vectors.shape[1], bound
        )
        total: Integers = Collective(self.scheme, topology, channel).sum(vectors, step)[0]
        return total


def _rounded(term: sparse.csr_array, bits: int) -> sparse.coo_array:
    return sparse.coo_array(in_fixed_point(term, bits) / 2**bits)
