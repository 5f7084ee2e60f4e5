"""FedStruct's exchange gives every client its rows of the central powers, under every way to add terms up."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError, ProtocolError, SketchOverfullError
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.graph.structure_features import adjacency_powers, combined_adjacency, looped_adjacency
from fgl_secure.methods.fedstruct import row_exchange
from fgl_secure.methods.fedstruct.exchange import HopSettings, Pruning, next_rows, term
from fgl_secure.methods.fedstruct.row_exchange import (
    ClearTerms,
    HopExchange,
    SummedTerms,
    TermSums,
    exchanged_owners,
    jointly_pruned,
    term_of,
)
from fgl_secure.methods.fedstruct.sketched_terms import LinearSketch
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel, Phase, Recording
from fgl_secure.training.calls import Call, CollectiveSetting
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.program import Program
from fgl_secure.training.server_sums import grid_for
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array
from tests.error_codes import about
from tests.training.processes.runs import silo_makes, together

BITS = 24
Make = Callable[[Collectives], TermSums]


def drawn(seed: int, n: int = 30, clients: int = 3, density: float = 0.1) -> FederatedGraph:
    rng = np.random.default_rng(seed)
    directed = np.triu(rng.random((n, n)) < density, 1)
    return dealt(np.stack(np.nonzero(directed | directed.T)), rng.permutation(np.arange(n) % clients))


def dealt(edges: Array, client_of: Array) -> FederatedGraph:
    n = len(client_of)
    graph = Graph.from_arrays("drawn", np.eye(n), np.zeros(n, dtype=np.int64), edges)
    everyone = np.ones(n, dtype=np.bool_)
    return FederatedGraph.from_assignment(graph, client_of, SplitMasks(everyone, ~everyone, ~everyone))


class Exchanging(Program):
    """Nothing but the exchange."""

    def __init__(self, comm: Collectives, chosen: HopSettings, make: Make) -> None:
        super().__init__(comm)
        self._chosen, self._make = chosen, make

    def round(self, number: int) -> bool:  # noqa: ARG002  # there is one
        rows = HopExchange(self.comm, self._chosen, self._make(self.comm)).all_hops()
        self.kept = {"rows": rows.toarray()}
        return False

    @property
    def report(self) -> dict[str, Array]:
        return self.kept


WAYS: dict[str, Make] = {
    "clear": ClearTerms,
    "sketches": SummedTerms,
    "dense": lambda comm: SummedTerms(comm, dense=True),
}


def exchanged(
    graph: FederatedGraph, chosen: HopSettings, make: Make = SummedTerms, scheme: Scheme | None = None
) -> tuple[Array, Channel]:
    """The last power [n, n], each row as its client has it; and the channel."""
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), Recording.everything())
    schemes = {"clients": scheme or Plaintext()}
    process = OneProcess(graph, schemes, channel, lambda comm: Exchanging(comm, chosen, make))
    process.round(0)
    power = np.zeros((graph.num_devices, graph.num_devices))
    for program in process.programs:
        power[program.silo.nodes] = program.report["rows"]
    return power, channel


@pytest.mark.parametrize("way", WAYS)
@given(seed=st.integers(0, 1000), clients=st.integers(2, 5), hops=st.integers(1, 4))
@settings(max_examples=6)
def test_rows_are_those_of_the_central_product(way: str, seed: int, clients: int, hops: int) -> None:
    """Without pruning the power is the central one, up to (l - 1) 2^-(f + 1) with f bits behind the point."""
    graph = drawn(seed, clients=clients)
    found, _ = exchanged(graph, HopSettings(hops), WAYS[way])
    expected = adjacency_powers(graph.graph, hops)[-1].toarray()
    assert np.abs(found - expected).max() <= 1e-12 + (hops - 1) * 2.0 ** -(BITS + 1)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("pruning", [Pruning.NONE, Pruning.MATRIX])
def test_weighted_powers_are_the_filter_of_the_whole_graph(way: str, pruning: Pruning) -> None:
    """Also with weights below 0 and of power 0, and of powers that are pruned as they come; not of the last alone."""
    graph, betas, kept = drawn(3, clients=4), (1.0, -0.5, 0.0, 0.25), None if pruning is Pruning.NONE else 5
    found, channel = exchanged(graph, HopSettings(3, pruning, kept or 1, betas), WAYS[way])
    powers = adjacency_powers(graph.graph, 3, kept)
    assert np.abs(found - combined_adjacency(powers, betas).toarray()).max() < 1e-6
    assert np.abs(found - powers[-1].toarray()).max() > 0.1
    noted = [rows for rows in channel.transcript.private if rows.name == row_exchange.COMBINED_ROWS]
    entries = np.concatenate([rows.values for rows in noted])
    assert np.allclose(found[tuple(entries[:, :2].astype(int).T)], entries[:, 2])


@pytest.mark.parametrize("pruning", list(Pruning))
def test_sketches_and_dense_vectors_agree_to_the_last_bit(pruning: Pruning) -> None:
    """And with a process for each client that is put down after every turn; in the clear but for rounding."""
    graph, chosen = drawn(1, n=30, clients=3), HopSettings(3, pruning, 6)
    clear, sketched, dense = (exchanged(graph, chosen, way)[0] for way in WAYS.values())
    assert np.array_equal(sketched, dense)
    assert pruning is not Pruning.NONE or np.abs(sketched - clear).max() < 1e-6
    makes = silo_makes(graph, lambda comm: Exchanging(comm, chosen, SummedTerms), {})
    reports = together(makes, graph, Plaintext(), put_down=True)
    for silo, report in reports.items():
        assert np.array_equal(report["rows"], sketched[graph.devices_of(silo)])


def test_wrong_sums_are_noticed_by_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: a client that normalises with degrees one too small leaves the central product."""
    graph = drawn(1)
    monkeypatch.setattr(row_exchange, "next_rows", lambda own, others, degrees: next_rows(own, others, degrees - 0.5))
    found, _ = exchanged(graph, HopSettings(2), ClearTerms)
    assert np.abs(found - adjacency_powers(graph.graph, 2)[-1].toarray()).max() > 1e-3


def test_pruning_of_shares_keeps_the_largest_entries_of_each() -> None:
    """Of B_ijk with p = 4 and K = 4 clients, n_i entries are kept for every j, and they are the largest."""
    graph = drawn(2, n=40, clients=4, density=0.3)
    looped, own, theirs = looped_adjacency(graph.graph), graph.devices_of(0), graph.devices_of(1)
    edges, power = sparse.csr_array(looped[own][:, theirs]), sparse.csr_array(looped[theirs])
    whole = term(edges, power).toarray()
    kept = term(edges, power, graph.silo_of, len(own)).toarray()
    for j in range(4):
        columns = graph.devices_of(j)
        share, left = kept[:, columns], whole[:, columns]
        assert np.count_nonzero(share) == min(len(own), np.count_nonzero(left))
        assert np.array_equal(share[share > 0], left[share > 0])
        if (left[share == 0] > 0).any():
            assert share[share > 0].min() >= left[share == 0].max()


@pytest.mark.parametrize("kept", [1, 5, 1000])
def test_joint_pruning_keeps_the_largest_entries_of_all_clients(kept: int) -> None:
    """No more than n p entries, none smaller than one that is left out, ties aside."""
    graph = drawn(3, n=60, clients=4, density=0.2)
    found, _ = exchanged(graph, HopSettings(2, Pruning.MATRIX, kept), ClearTerms)
    whole = np.sort(adjacency_powers(graph.graph, 2)[-1].data)[::-1]
    count, most = int((found > 0).sum()), kept * 60
    assert count <= most
    left = whole[count:]
    assert not len(left) or not count or found[found > 0].min() >= left.max() - 1e-12
    if count < min(most, len(whole)):  # only a tie may leave room
        rest = whole[count : most + 1]
        assert rest.max() - rest.min() < 2.0**-35


def test_terms_are_seen_by_their_receiver_in_the_clear_and_in_no_other_way() -> None:
    """Clear terms travel entry by entry; under masks no message shows an entry of a single term."""
    graph = drawn(4)
    _, clear = exchanged(graph, HopSettings(3), ClearTerms)
    assert {batch.phase for batch in clear.transcript.messages} == {Phase.HOP_ENTRIES}
    _, masked = exchanged(graph, HopSettings(3), SummedTerms, PairwiseMasking())
    phases = {batch.phase for batch in masked.transcript.messages}
    assert Phase.MASKED_VECTORS in phases
    assert not phases & {Phase.HOP_ENTRIES, Phase.VECTORS, Phase.VALUES}


class Splitting(Program):
    """One sum for client 0 of terms that are given."""

    def __init__(self, comm: Collectives, split: dict[int, sparse.csr_array], make: Make) -> None:
        super().__init__(comm)
        self._split, self._sums = split, make(comm)

    def round(self, number: int) -> bool:  # noqa: ARG002  # there is one
        sizes, n = self.silo.facts.sizes, self.silo.facts.nodes
        terms = {i: sparse.csr_array((sizes[i], n)) for i in self.silo.others}
        if 0 in terms:
            terms[0] = self._split[self.silo.silo]
        self._sums.sum(terms, 2)
        return False

    @property
    def report(self) -> dict[str, Array]:
        return {}


def test_sizes_tell_nothing_of_a_single_term() -> None:
    """However one sum is split among the senders, all vectors have one size; entries in the clear are counted."""
    graph = drawn(5, n=50, clients=3)
    whole = sparse.csr_array(looped_adjacency(graph.graph)[graph.devices_of(0)] / 2.0)
    nothing = sparse.csr_array(whole.shape)
    traces = []
    for make in (SummedTerms, ClearTerms):
        for split in ({1: whole, 2: nothing}, {1: nothing, 2: whole}):
            channel = Channel(hierarchy_of(graph), SimulationCoins(0))
            OneProcess(graph, {}, channel, lambda comm, s=split, m=make: Splitting(comm, s, m)).round(0)  # type: ignore[misc]
            sent = [batch for batch in channel.transcript.messages if batch.phase is not Phase.CAPACITIES]
            traces.append([(batch.item_bytes, tuple(batch.senders)) for batch in sent])
    assert traces[0] == traces[1]
    assert traces[2] != traces[3]  # the broken twin


@pytest.mark.parametrize(
    ("entry", "rule"),
    [
        ((0.0, 6.0, 1.0), "term of client 2"),
        ((0.0, 0.0, np.nan), "term of client 2"),
        ((0.0, 0.0, -1.0), "term of client 2"),
        ((-1.0, 0.0, 1.0), "term of client 2"),
    ],
)
def test_bad_terms_are_refused(entry: tuple[float, float, float], rule: str) -> None:
    """A client that sends an entry outside, NaN or a negative one is named."""
    with pytest.raises(ProtocolError, check=about(rule)):
        term_of(np.array([entry]), 2, (3, 6))


def small_room(comm: Collectives) -> SummedTerms:
    sums = SummedTerms(comm)
    sums.entries = (1, 1)
    return sums


def test_a_receiver_asks_for_more_room_until_the_sum_fits() -> None:
    """A first table that is far too small costs attempts and changes nothing."""
    graph = drawn(7, n=200, clients=2, density=0.05)
    found, run = exchanged(graph, HopSettings(2), small_room)
    assert np.array_equal(found, exchanged(graph, HopSettings(2))[0])
    asked = [batch for batch in run.transcript.messages if batch.phase is Phase.CAPACITIES]
    assert len(asked) > 3


def test_a_table_that_never_fits_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:

    def overfull(*_: object) -> None:
        raise SketchOverfullError("full")

    monkeypatch.setattr(row_exchange, "_unpacked_sum", overfull)
    with pytest.raises(SketchOverfullError, check=about("sketches")):
        exchanged(drawn(7), HopSettings(2))


def talking(graph: FederatedGraph, heard: list[Array]) -> Collectives:
    """What client 0 talks through, where the others say what is given."""
    silo, scheme = Silo.of(graph, 0), Plaintext()
    nobody = np.zeros(len(silo.nodes), dtype=np.int64)
    setting = CollectiveSetting(nobody, grid_for(scheme, 3), lambda _step: False, schemes={"clients": scheme})
    comm = Collectives(silo, setting)

    def ask(call: Call) -> Array | list[Array]:
        return np.zeros(2**12, dtype=np.int64) if call.phase is None else heard

    comm.start(None, ask)
    return comm


@pytest.mark.parametrize("asked", [[[-2]], [[10**9]], [[5], [5]]])
def test_room_that_makes_no_sense_is_refused(asked: list[list[int]]) -> None:
    heard = [np.array(asked)] * 3
    comm = talking(drawn(8), heard)
    with pytest.raises(ProtocolError, check=about("silo 1")):
        HopExchange(comm, HopSettings(2), SummedTerms(comm)).hop(2)


@pytest.mark.parametrize("named", [[0] * 10, list(range(10)), [99] * 10, [-1] * 10, [1]])
def test_nodes_that_are_not_a_clients_are_refused(named: list[int]) -> None:
    graph = dealt(np.array([[0], [29]]), np.arange(30) // 10)
    with pytest.raises(ProtocolError, check=about("silo 1")):
        exchanged_owners(talking(graph, [np.array(named)[:, None]] * 3))


@pytest.mark.parametrize("told", [[[4, 0, -1]], [[3, 0, -1]], [[0, -1, -1]], [[0, 0, -2]], [[0, 0, 0], [0, 0, 0]]])
def test_thresholds_that_make_no_sense_are_refused(told: list[list[int]]) -> None:
    """More digits than there are, none at the end, below 0, or two."""
    graph = drawn(8)
    swapped = replace(graph, silo_of=(graph.silo_of + 1) % 3)
    comm = talking(swapped, [np.array(told)] * 3)
    silo = Silo.of(swapped, 1)
    comm.silo = silo
    with pytest.raises(ProtocolError, check=about("silo 0")):
        jointly_pruned(comm, sparse.csr_array(np.eye(len(silo.nodes))), 5, 2)


SHAPE = (40, 50)


def sparse_entries(seed: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    keys = np.sort(rng.choice(SHAPE[0] * SHAPE[1], size=count, replace=False))
    return keys // SHAPE[1], keys % SHAPE[1], rng.integers(1, 2**20, size=count)


def read(sketch: LinearSketch, table: np.ndarray) -> np.ndarray:
    """The matrix that a table stands for."""
    rows, columns, values = sketch.decode(table)
    dense = np.zeros(sketch.shape, dtype=np.int64)
    dense[rows, columns] = values
    return dense


def dense_of(entries: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
    dense = np.zeros(SHAPE, dtype=np.int64)
    dense[entries[0], entries[1]] = entries[2]
    return dense


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 60), st.booleans())
def test_a_sum_of_tables_is_read_as_the_sum_of_the_matrices(seed: int, terms: int, count: int, split: bool) -> None:
    """Whoever adds up tables of several matrices can read the sum of the matrices, whatever they share.

    Two entries may have all three cells in common, some thousand times less often than not: tables are then drawn anew.
    """
    parts, found = [sparse_entries(seed + k, count) for k in range(terms)], None
    for drawn in range(5):
        sketch = LinearSketch.for_entries(SHAPE, 8 * terms * count, seed=seed + drawn * 10**7, split=split)
        try:
            found = read(sketch, np.sum([sketch.encode(*part) for part in parts], axis=0))
            break
        except SketchOverfullError:
            continue
    assert found is not None
    assert np.array_equal(found, np.sum([dense_of(part) for part in parts], axis=0))


@pytest.mark.parametrize("split", [False, True])
def test_a_table_is_a_function_of_the_sum_alone(split: bool) -> None:
    """Two ways to split a matrix among clients give one and the same sum of tables: it tells nothing but the sum."""
    sketch = LinearSketch.for_entries(SHAPE, 100, seed=3, split=split)
    rows, columns, values = sparse_entries(0, 50)
    halves = sketch.encode(rows, columns, values // 2 + 1) + sketch.encode(rows, columns, values - values // 2)
    first, second = slice(0, 20), slice(20, 50)
    apart = sketch.encode(rows[first], columns[first], values[first] + 1) + sketch.encode(
        rows[second], columns[second], values[second] + 1
    )
    assert np.array_equal(halves, apart)


@given(st.integers(0, 1000), st.booleans())
def test_an_overfull_table_is_refused(seed: int, split: bool) -> None:
    sketch = LinearSketch(SHAPE, 40, seed, split)
    with pytest.raises(SketchOverfullError):
        sketch.decode(sketch.encode(*sparse_entries(seed, 300)))


@pytest.mark.parametrize(
    ("rows", "columns", "values", "rule"),
    [([40], [0], [1], "rows"), ([0], [-1], [1], "columns"),
     ([0], [0], [0], "values")],
)  # fmt: skip
def test_entries_outside_the_matrix_are_refused(
    rows: list[int], columns: list[int], values: list[int], rule: str
) -> None:
    """A position outside the matrix or a value below 1 has no place in a table."""
    sketch = LinearSketch.for_entries(SHAPE, 5, seed=1, split=False)
    with pytest.raises(InputError, check=about(rule)):
        sketch.encode(np.array(rows), np.array(columns), np.array(values))
