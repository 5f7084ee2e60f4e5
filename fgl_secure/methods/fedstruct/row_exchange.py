"""How a client of FedStruct comes by its rows of a power of the adjacency (ICLR 2025, App. D, Algorithm 3).

Client i ends with its own rows of A^^L, where A^ = D~^-1 (A + I). For each hop, client k computes its term
B_ik = A~_k^[i] (A^^(l-1))^[k] from the edges between i's nodes and its own, which both know, and from its rows of the
power before; client i adds the terms up and divides by its degrees. In plaintext every client sends its term to i. Else
i asks for room, and gets the sum of the terms as vectors (`sketched_terms`) that are added up under a scheme.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.algebra.quantization import most_fraction_bits, round_fixed_point
from fgl_secure.errors import InputError, ProtocolError, SketchOverfullError
from fgl_secure.methods.fedstruct.exchange import (
    BINS,
    DIGITS,
    MOST_ENTRIES,
    UNIT_BITS,
    HopSettings,
    Pruning,
    Search,
    next_rows,
    term,
)
from fgl_secure.methods.fedstruct.sketched_terms import FIRST_ENTRIES, LinearSketch, after_sum
from fgl_secure.runtime import Phase
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Ids, Integers

HOP_ROWS = "hop rows"
"""What a client comes to know in a hop, in recordings: (own node, node, value) an entry."""
COMBINED_ROWS = "combined rows"
"""The same of the rows that it trains with."""

FINDER = 0
"""The client that learns the sums of histograms, and tells the others what follows."""
UNKNOWN = -1

NOTHING_WANTED = -1
DENSE = 0
"""Told in the place of a third of a table: no sum is wanted any more, or a dense vector."""
ATTEMPTS = 12
"""Tables that are tried, each twice as large as the one before, before giving up: far more than any run needs."""

Terms = Mapping[int, sparse.csr_array]
"""By client i: what this one computes for it, float64 CSR [n_i, n] with entries of 0 or more."""


class TermSums(ABC):
    """How a client gets the sum of the terms that the others compute for it."""

    @abstractmethod
    def sum(self, terms: Terms, hop: int) -> sparse.csr_array:
        """Adds up.

        Args:
            terms: what this client computes for each other one.
            hop: from 2.

        Returns:
            What the others computed for this one, float64 CSR [m, n].

        Raises:
            ProtocolError: another client sends what is no term, or asks for room that makes no sense.
        """


class ClearTerms(TermSums):
    """Every client sends the entries of its terms to whom they are for, as published: single terms are visible.

    Args:
        comm: the collectives of the run.
    """

    def __init__(self, comm: Collectives) -> None:
        self._comm, facts = comm, comm.silo.facts
        self._shape = len(comm.silo.nodes), facts.nodes

    def sum(self, terms: Terms, hop: int) -> sparse.csr_array:
        """An entry is (position of the row among the receiver's nodes, column, value)."""
        result = self._comm.exchange(Phase.HOP_ENTRIES, {i: entries_of(part) for i, part in terms.items()}, layer=hop)
        total = sparse.csr_array(self._shape)
        for silo in self._comm.silo.others:
            total = sparse.csr_array(total + term_of(result[silo], silo, self._shape))
        return total


def entries_of(matrix: sparse.csr_array, names: Ids | None = None) -> NDArray[np.float64]:
    """The entries of a matrix, float64 [e, 3]: row, or its name, column and value."""
    entries = matrix.tocoo()
    rows = entries.row if names is None else names[entries.row]
    return np.stack([rows, entries.col, entries.data], axis=1).astype(np.float64)


def term_of(entries: NDArray[np.float64], sender: int, shape: tuple[int, int]) -> sparse.csr_array:
    """The term that a client sent, float64 CSR.

    Raises:
        ProtocolError: entries lie outside, or are not finite numbers of 0 or more.
    """
    if entries.shape[1:] != (3,) or not np.isfinite(entries).all() or (entries < 0).any():
        raise ProtocolError(f"term of client {sender} must have finite entries of 0 or more; at least one is not")
    places = entries[:, :2].astype(np.int64)
    if (places >= shape).any():
        raise ProtocolError(f"term of client {sender} must have entries in {list(shape)}; at least one is outside")
    return sparse.csr_array((entries[:, 2], (places[:, 0], places[:, 1])), shape=shape)


MOST_FRACTION_BITS = 24


FEWEST_FRACTION_BITS = 16
"""Bits for which positions are not split yet, where the number of bits is not given."""


@dataclass(frozen=True, slots=True)
class _TermRange:
    """How large sums may become and still be exact.

    Attributes:
        limit: largest magnitude of an entry of a sum of vectors.
        terms: vectors in a sum.
        largest_degree: a public bound on the row sums of A + I, and so on the entries of the sum of terms.
    """

    limit: int
    terms: int
    largest_degree: int

    def splits(self, shape: tuple[int, int], precision: int | None) -> bool:
        """Whether positions are sent in two parts: where one number would leave too few bits for the values."""
        largest = 2 * self.terms * self.largest_degree * shape[0] * shape[1]
        return bool(self.limit // largest < 2 ** (precision or FEWEST_FRACTION_BITS))

    def bits(self, shape: tuple[int, int], precision: int | None, scheme: str) -> int:
        """Bits behind the binary point for terms of a shape: those requested, or as many as fit.

        Raises:
            InputError: not one bit fits, or fewer than were requested.
        """
        widest = LinearSketch(shape, 1, 0, self.splits(shape, precision)).largest_factor()
        room = self.limit // (2 * self.terms * self.largest_degree * widest)
        most = min(most_fraction_bits(1.0, room), MOST_FRACTION_BITS)
        if most < (precision or 1):
            raise InputError(
                f"fraction_bits must be at most {most} for terms of shape {list(shape)} under {scheme}; "
                f"found {precision or 1}"
            )
        return precision or most


LEAST_GROWTH, DAMPING = 1.15, 0.75
"""A receiver asks for at least so much more than it had last time; and rows fill up, so that growth slows down."""


def _reserve_entries(before: tuple[int, int] | None, rows: int, most_a_row: int | None) -> int:
    """Entries that a receiver asks room for: as many as the last growth leads to, with a quarter to spare.

    Args:
        before: entries of its last two sums; None before the first.
        rows: of its own.
        most_a_row: a public bound on the entries of a row of the sum; None for none.
    """
    if before is None:
        return FIRST_ENTRIES * rows
    growth = max(LEAST_GROWTH, 1.1 * (before[1] / max(before[0], 1)) ** DAMPING)
    room = max(int(before[1] * growth), 16)
    return room if most_a_row is None else min(room, most_a_row * rows)


def _in_fixed_point(term: sparse.csr_array, bits: int) -> sparse.coo_array:
    """Entries as whole units of 2^-bits; those that round to nothing are left out."""
    units = term.tocoo()
    values = round_fixed_point(units.data, bits)
    mask = values > 0
    return sparse.coo_array((values[mask], (units.row[mask], units.col[mask])), shape=term.shape)


def _packed_term(term: sparse.coo_array, plan: LinearSketch | None) -> Integers:
    """A sender's vector, int64; without a plan all entries one after the other."""
    if plan is None:
        return np.asarray(term.toarray(), dtype=np.int64).reshape(-1)
    return plan.encode(term.row.astype(np.int64), term.col.astype(np.int64), term.data)


def _unpacked_sum(total: Integers, shape: tuple[int, int], plan: LinearSketch | None) -> sparse.csr_array:
    """What a receiver reads from the sum of vectors, in units.

    Raises:
        SketchOverfullError: it has more entries than the plan has room for.
    """
    if plan is None:
        return sparse.csr_array(total.reshape(shape))
    rows, columns, values = plan.decode(total)
    return sparse.csr_array((values, (rows, columns)), shape=shape)


class SummedTerms(TermSums):
    """Terms in fixed point, as linear sketches whose size depends on their entries, added up under a scheme.

    A sketch of the sum is the sum of the sketches, and the receiver reads nothing from it but the sum. It asks for a
    number of cells; where the sum has more entries it asks again for twice as many, and where a dense matrix is smaller
    it asks for that. So all parties learn about how many entries the sum has, and no party learns how many a term has.

    Seeds of tables are public and follow from hop, attempt and receiver, so that a round is the same when it is run
    again: a table hides nothing, and a graph that happens to collide under one seed is read under the next.

    Args:
        comm: the collectives of the run.
        most_a_row: a public bound on the entries of a row of the sum, as pruning of shares gives one; None for none.
        dense: whether to send all entries even where a table is smaller, to compare.
    """

    def __init__(self, comm: Collectives, most_a_row: int | None = None, *, dense: bool = False) -> None:
        self._comm, self._most, self._dense = comm, most_a_row, dense
        facts = comm.silo.facts
        self._sizes, self._nodes = facts.sizes, facts.nodes
        self._range = _TermRange(comm.clients_limit, facts.silos - 1, facts.largest_degree + 1)
        self.entries: tuple[int, int] | None = None
        """Entries of the last two sums: they say for how many to ask room next."""

    def sum(self, terms: Terms, hop: int) -> sparse.csr_array:
        """All clients' sums side by side, until each has read its own."""
        me, result = self._comm.silo.silo, sparse.csr_array((self._sizes[self._comm.silo.silo], self._nodes))
        units = {i: _in_fixed_point(part, self.bits(i)) for i, part in terms.items()}
        room = _reserve_entries(self.entries, self._sizes[me], self._most)
        for attempt in range(ATTEMPTS):
            capacities = self._exchange_room(room, hop, attempt)
            plans = {
                i: self._plan(i, capacities[i], hop, attempt)
                for i in range(len(capacities))
                if capacities[i] != NOTHING_WANTED
            }
            if not plans:
                return result
            vectors = {i: self._length(i, plans[i]) if i == me else _packed_term(units[i], plans[i]) for i in plans}
            total = self._comm.clients(vectors, max(self._bound(i, plans[i]) for i in plans))
            if me not in plans:
                continue
            try:
                entries = _unpacked_sum(total, self._shape(me), plans[me])
            except SketchOverfullError:
                room *= 2
                continue
            self.entries, room = after_sum(self.entries, entries.nnz), 0
            result = sparse.csr_array(entries / 2 ** self.bits(me))
        if room:
            raise SketchOverfullError(f"sketches must be readable after {ATTEMPTS} attempts; client {me}'s was not")
        return result

    def bits(self, receiver: int) -> int:
        """Bits behind the binary point of the entries of a client's sum."""
        return self._range.bits(self._shape(receiver), None, "the scheme for clients")

    def _shape(self, receiver: int) -> tuple[int, int]:
        return self._sizes[receiver], self._nodes

    def _exchange_room(self, room: int, hop: int, attempt: int) -> list[int]:
        """Tells all others for how much room this client asks; what each client asks for."""
        me, capacity = self._comm.silo.silo, NOTHING_WANTED
        if room:
            split = self._range.splits(self._shape(me), None)
            plan = LinearSketch.for_entries(self._shape(me), room, seed=_seed_of(hop, attempt, me), split=split)
            capacity = DENSE if self._dense or plan.length >= self._length(me, None) else plan.third
        others = self._comm.silo.others
        received = self._comm.exchange(Phase.CAPACITIES, dict.fromkeys(others, np.array([[capacity]])), layer=hop)
        for silo in others:
            if received[silo].shape != (1, 1) or not NOTHING_WANTED <= received[silo][0, 0] <= self._length(silo, None):
                raise ProtocolError(f"silo {silo} must ask for room up to that of a dense matrix; it does not")
        return [capacity if silo == me else int(received[silo][0, 0]) for silo in range(len(received))]

    def _plan(self, receiver: int, third: int, hop: int, attempt: int) -> LinearSketch | None:
        """The table that a client asked for; None for a dense vector."""
        shape = self._shape(receiver)
        if third == DENSE:
            return None
        return LinearSketch(shape, third, _seed_of(hop, attempt, receiver), self._range.splits(shape, None))

    def _length(self, receiver: int, plan: LinearSketch | None) -> int:
        rows, columns = self._shape(receiver)
        return rows * columns if plan is None else int(plan.length)

    def _bound(self, receiver: int, plan: LinearSketch | None) -> int:
        factor = 1 if plan is None else plan.largest_factor()
        return int(2 * self._range.largest_degree * 2 ** self.bits(receiver) * factor)


def _seed_of(hop: int, attempt: int, receiver: int) -> int:
    """The public seed of a table, below 2^62."""
    data = f"fgl-secure sketch of hop {hop}, attempt {attempt}, client {receiver}".encode()
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big") >> 2


class EdgeBlocks:
    """The part of A + I that one client knows.

    Args:
        silo: what it holds.

    Attributes:
        degrees: float64 [m], row sums of its own rows.
    """

    def __init__(self, silo: Silo) -> None:
        self._silo = silo
        source, target = silo.edges[:, silo.inside[0]]
        loops = np.arange(len(silo.nodes))
        rows, columns = np.concatenate([silo.local(source), loops]), np.concatenate([target, silo.nodes])
        self._own = _ones(rows, columns, (len(silo.nodes), silo.facts.nodes))
        self.degrees: NDArray[np.float64] = self._own.sum(axis=1)

    def first_power(self) -> sparse.csr_array:
        """Its own rows of D^-1 (A + I), float64 CSR [m, n]."""
        return sparse.csr_array(sparse.diags_array(1 / self.degrees) @ self._own)

    def inside(self) -> sparse.csr_array:
        """A + I between its own nodes, float64 CSR [m, m]."""
        return sparse.csr_array(self._own[:, self._silo.nodes])

    def to(self, receiver: int) -> sparse.csr_array:
        """The edges from a client's nodes to its own: A~_k^[i], float64 CSR [n_i, m]."""
        silo = self._silo
        if receiver == silo.silo:
            return self.inside()
        source, target = silo.edges[:, silo.inside[1]]
        silos, places = silo.owners(source)
        mask = silos == receiver
        return _ones(places[mask], silo.local(target[mask]), (silo.facts.sizes[receiver], len(silo.nodes)))


def _ones(rows: Ids, columns: Ids, shape: tuple[int, int]) -> sparse.csr_array:
    matrix = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    matrix.data[:] = 1.0  # an edge counts once, also a self-loop beside the one that is added
    return matrix


class HopExchange:
    """The exchange of one client.

    Args:
        comm: the collectives of the run.
        settings: which power, and which entries are kept.
        sums: how the client gets the sum of the others' terms.

    Attributes:
        rows: float64 CSR [m, n], its rows of the last power that is finished.
    """

    def __init__(self, comm: Collectives, settings: HopSettings, sums: TermSums) -> None:
        self._comm, self._silo, self._settings, self._sums = comm, comm.silo, settings, sums
        self._edges = EdgeBlocks(comm.silo)
        self._owners = exchanged_owners(comm) if settings.pruning is Pruning.SHARES else None
        self.rows = self._edges.first_power()
        self._note(1)

    def all_hops(self) -> sparse.csr_array:
        """The rows that the client trains with: of the last power, or of the weighted sum of all of them (Eq. 2)."""
        betas = self._settings.betas
        combined = self._itself() * (0.0 if betas is None else betas[0])
        for hop in range(1, self._settings.hops + 1):
            if hop > 1:
                self.hop(hop)
            combined = self.rows if betas is None else sparse.csr_array(combined + betas[hop] * self.rows)
        if betas is not None:
            combined.eliminate_zeros()
        self._comm.note(COMBINED_ROWS, lambda: entries_of(combined, self._silo.nodes))
        return combined

    def _itself(self) -> sparse.csr_array:
        """Its rows of power 0, float64 CSR [m, n]."""
        nodes = self._silo.nodes
        return _ones(np.arange(len(nodes)), nodes, (len(nodes), self._silo.facts.nodes))

    def hop(self, number: int) -> None:
        """From the rows of one power to those of the next, number 2 or more."""
        terms = {i: self._term(i) for i in range(self._silo.facts.silos)}
        own_terms = terms.pop(self._silo.silo)
        self.rows = next_rows(own_terms, self._sums.sum(terms, number), self._edges.degrees)
        self._note(number)  # what pruning leaves out now, its client has seen
        if self._settings.pruning is Pruning.MATRIX:
            self.rows = jointly_pruned(self._comm, self.rows, self._settings.kept * self._silo.facts.nodes, number)

    def _term(self, receiver: int) -> sparse.csr_array:
        edges, facts = self._edges.to(receiver), self._silo.facts
        if self._owners is None:
            return term(edges, self.rows)
        return term(edges, self.rows, self._owners, -(-self._settings.kept // facts.silos) * facts.sizes[receiver])

    def _note(self, hop: int) -> None:
        self._comm.note(HOP_ROWS, lambda: entries_of(self.rows, self._silo.nodes), layer=hop)


def exchanged_owners(comm: Collectives) -> Ids:
    """Clients tell each other the numbers of their nodes; int64 [n], whose node each is.

    Raises:
        ProtocolError: a client names a node that there is not, or another's.
    """
    silo, facts = comm.silo, comm.silo.facts
    owners = comm.exchange(Phase.NODES, dict.fromkeys(silo.others, silo.nodes[:, None]))
    return owners_of(silo, {other: owners[other][:, 0] for other in silo.others}, facts.nodes)


def owners_of(silo: Silo, names_of_owner: Mapping[int, Ids], nodes: int) -> Ids:
    """Whose node each is, int64 [n], from what the other clients name as theirs; see `exchanged_owners`."""
    owners = np.full(nodes, UNKNOWN, dtype=np.int64)
    owners[silo.nodes] = silo.silo
    for other, numbers in names_of_owner.items():
        inside = len(numbers) == silo.facts.sizes[other] and bool(((numbers >= 0) & (numbers < nodes)).all())
        if not inside or (owners[numbers] != UNKNOWN).any() or len(np.unique(numbers)) < len(numbers):
            raise ProtocolError(f"silo {other} must name {silo.facts.sizes[other]} nodes of its own; it does not")
        owners[numbers] = other
    return owners


def _in_units(values: NDArray[np.float64]) -> Ids:
    """Entries of a power in units of 2^-36, below 2^36."""
    units: Ids = np.minimum(np.rint(values * 2.0**UNIT_BITS).astype(np.int64), 2**UNIT_BITS - 1)
    return units


def jointly_pruned(comm: Collectives, rows: sparse.csr_array, count: int, hop: int) -> sparse.csr_array:
    """Keeps the `count` largest entries of all clients' rows, or fewer where several are equal to the least of them.

    In three rounds every client counts its entries by twelve more bits of their value; the sums of these histograms go
    to one client, who tells all others between which values the threshold lies. What is learnt is the distribution of
    all entries around it, and by all clients the threshold.

    Args:
        comm: the collectives of the run.
        rows: CSR [m, n], of this client.
        count: of all clients together.
        hop: of the power.
    """
    units, search, finds = _in_units(rows.data), Search(), comm.silo.silo == FINDER
    while search.least is None:
        histogram = search.histogram(units)
        total = comm.clients({FINDER: BINS if finds else histogram}, MOST_ENTRIES)
        search = search.after(histogram + total, count) if finds else search
        search_state = np.array([[search.digit, search.prefix, UNKNOWN if search.least is None else search.least]])
        messages = dict.fromkeys(comm.silo.others, search_state if finds else search_state[:0])
        received = comm.exchange(Phase.THRESHOLDS, messages, layer=hop)
        search = search if finds else _parse_search(received[FINDER])
    row, mask = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), units >= search.least
    return sparse.csr_array((rows.data[mask], (row[mask], rows.indices[mask])), shape=rows.shape)


def _parse_search(words: Ids) -> Search:
    if words.shape != (1, 3):
        raise ProtocolError(f"silo {FINDER} must send one threshold; found {len(words)}")
    digit, prefix, least = words[0].tolist()
    if not 0 <= digit <= DIGITS or (digit == DIGITS and least == UNKNOWN) or prefix < 0 or least < UNKNOWN:
        raise ProtocolError(f"silo {FINDER} must send a threshold, or another of {DIGITS} digits; it does not")
    return Search(digit, prefix, 0, None if least == UNKNOWN else least)
