"""FedStruct's exchange gives every client its rows of the central powers, under every way to add terms up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError, ProtocolError, SketchOverfullError
from fgl_secure.protocols import hop_adjacency
from fgl_secure.protocols.hop_adjacency import Holdings, HopSettings, Pruning, acquire_powers, check_term, term
from fgl_secure.protocols.hop_threshold import CommonThreshold
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.term_sums import ClearTerms, PackedTerms, TermSums
from fgl_secure.runtime import Channel, Directory, Phase, Recording, Role, Step

BITS = 16


def holdings(seed: int, n: int = 30, clients: int = 3, density: float = 0.1) -> Holdings:
    rng = np.random.default_rng(seed)
    directed = rng.random((n, n)) < density
    looped = sparse.csr_array((directed | directed.T | np.eye(n, dtype=bool)).astype(np.float64))
    client_of = rng.permutation(np.arange(n) % clients)
    return Holdings(client_of, looped)


def channel(held: Holdings) -> Channel:
    parties = Directory.hierarchy(held.clients, len(held.client_of))
    return Channel(parties, SimulationCoins(0), Recording.everything())


def packed(held: Holdings, bits: int | None = BITS, *, dense: bool = False) -> PackedTerms:
    return PackedTerms(Plaintext(), int(held.looped.sum(axis=1).max()), bits, dense)


def central(held: Holdings, hops: int) -> list[np.ndarray]:
    first = held.looped.toarray() / held.looped.sum(axis=1)[:, None]
    return [np.linalg.matrix_power(first, hop) for hop in range(1, hops + 1)]


WAYS: dict[str, Callable[[Holdings], TermSums]] = {
    "clear": lambda held: ClearTerms(),  # noqa: ARG005  # one signature for all
    "sketches": packed,
    "dense": lambda held: packed(held, dense=True),
}


@pytest.mark.parametrize("way", WAYS)
@given(seed=st.integers(0, 1000), clients=st.integers(1, 5), hops=st.integers(1, 4))
@settings(max_examples=8)
def test_rows_are_those_of_the_central_product(way: str, seed: int, clients: int, hops: int) -> None:
    """Without pruning every power is the central one, up to (l - 1) 2^-(f + 1) with f bits behind the point."""
    held = holdings(seed, clients=clients)
    powers = acquire_powers(channel(held), WAYS[way](held), held, HopSettings(hops))
    for hop, (power, expected) in enumerate(zip(powers, central(held, hops), strict=True)):
        assert np.abs(power.toarray() - expected).max() <= 1e-12 + hop * 2.0 ** -(BITS + 1)


@pytest.mark.parametrize("pruning", list(Pruning))
def test_all_ways_agree_to_the_last_bit_in_fixed_point(pruning: Pruning) -> None:
    """Sketches and dense vectors give the powers that clear terms give when they are rounded alike."""
    held = holdings(1, n=60, clients=4)
    chosen = HopSettings(5, pruning, 6)
    found = [
        acquire_powers(channel(held), sums, held, chosen, threshold(pruning))
        for sums in (ClearTerms(BITS), packed(held), packed(held, dense=True))
    ]
    for clear, sketched, dense in zip(*found, strict=True):
        assert np.array_equal(clear.toarray(), sketched.toarray())
        assert np.array_equal(clear.toarray(), dense.toarray())


def threshold(pruning: Pruning) -> CommonThreshold | None:
    return CommonThreshold(Plaintext()) if pruning is Pruning.MATRIX else None


def test_wrong_sums_are_noticed_by_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: a client that normalises with degrees one too small leaves the central product."""
    held = holdings(1)
    right = hop_adjacency.next_rows
    monkeypatch.setattr(hop_adjacency, "next_rows", lambda own, others, degrees: right(own, others, degrees - 0.5))
    powers = acquire_powers(channel(held), ClearTerms(), held, HopSettings(2))
    assert np.abs(powers[1].toarray() - central(held, 2)[1]).max() > 1e-3


def test_pruning_of_shares_keeps_the_largest_entries_of_each() -> None:
    """Of B_ijk with p = 4 and K = 4 clients, n_i entries are kept for every j, and they are the largest."""
    held = holdings(2, n=40, clients=4, density=0.3)
    own, theirs = held.nodes_of(0), held.nodes_of(1)
    edges, power = held.looped[own][:, theirs], held.looped[theirs]
    whole = sparse.csr_array(edges @ power).toarray()
    kept = term(edges, power, held.client_of, len(own)).toarray()
    for j in range(4):
        columns = held.nodes_of(j)
        share, left = kept[:, columns], whole[:, columns]
        assert np.count_nonzero(share) == min(len(own), np.count_nonzero(left))
        assert np.array_equal(share[share > 0], left[share > 0])
        if (left[share == 0] > 0).any():
            assert share[share > 0].min() >= left[share == 0].max()


def test_the_common_threshold_keeps_the_largest_entries_of_all_clients() -> None:
    """Pruning of the matrix keeps no more than n p entries, none smaller than one that it leaves out, ties aside."""
    held = holdings(3, n=60, clients=4, density=0.2)
    whole = sparse.csr_array(central(held, 2)[1])
    for count in (1, 50, 300, 10**6):
        kept = CommonThreshold(Plaintext()).pruned(channel(held), held.client_of, whole, count, Step(0, 2))
        assert kept.nnz <= count
        left = np.sort(whole.data)[::-1][kept.nnz :]
        assert not len(left) or kept.nnz == 0 or kept.data.min() >= left.max()
        if kept.nnz < min(count, whole.nnz):  # only a tie may leave room
            rest = np.sort(whole.data)[::-1][kept.nnz : count + 1]
            assert rest.max() - rest.min() < 2.0**-35


def test_terms_are_seen_by_their_receiver_in_the_clear_and_in_no_other_way() -> None:
    """Clear terms travel entry by entry; sketches leave no message with an entry of a single term's position."""
    held = holdings(4)
    for sums, phases in ((ClearTerms(), {Phase.HOP_ENTRIES}), (packed(held), {Phase.CAPACITIES, Phase.VECTORS})):
        run = channel(held)
        acquire_powers(run, sums, held, HopSettings(3))
        assert {batch.phase for batch in run.transcript.messages} == phases


def test_sizes_tell_nothing_of_a_single_term() -> None:
    """However one sum is split among the senders, all vectors have one size; entries in the clear are counted."""
    held = holdings(5, n=50, clients=3)
    whole = sparse.csr_array(held.looped[held.nodes_of(0)] / 2.0)
    nothing = sparse.csr_array(whole.shape)
    traces = []
    for sums in (packed(held), ClearTerms()):
        for split in ({1: whole, 2: nothing}, {1: nothing, 2: whole}):
            run = channel(held)
            sums.sum(run, 0, split, Step(0, 2))
            sent = [batch for batch in run.transcript.messages if batch.phase is not Phase.CAPACITIES]
            traces.append([(batch.item_bytes, tuple(batch.senders)) for batch in sent])
    assert traces[0] == traces[1]
    assert traces[2] != traces[3]  # the broken twin


def test_clients_note_what_they_hold() -> None:
    """After each hop every client holds the rows of its own nodes and no other."""
    held = holdings(6)
    run = channel(held)
    powers = acquire_powers(run, packed(held), held, HopSettings(2))
    view = run.transcript.views(Role.SILO)
    for rows in view.own("hop rows"):
        assert np.array_equal(held.client_of[rows.values[:, 0].astype(int)], rows.observers)
    total = sum(len(rows.values) for rows in view.own("hop rows"))
    assert total == sum(power.nnz for power in powers)


def test_a_client_without_edges_to_others_gets_its_rows_all_the_same() -> None:
    """Where no edge crosses clients, terms are empty and every client ends with its own powers."""
    client_of = np.array([0, 0, 0, 1, 1, 1])
    block = np.ones((3, 3))
    looped = sparse.csr_array(np.block([[block, 0 * block], [0 * block, block]]))
    held = Holdings(client_of, looped)
    powers = acquire_powers(channel(held), packed(held), held, HopSettings(3))
    assert np.allclose(powers[2].toarray(), looped.toarray() / 3)


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: HopSettings(0), "hops must be at least 1; found 0"),
        (lambda: HopSettings(2, Pruning.SHARES, 0), "kept must be at least 1 entry a node; found 0"),
        (lambda: Holdings(np.zeros(3, dtype=np.int64), sparse.csr_array(np.eye(4))), r"looped must have shape \[3, 3"),
        (lambda: PackedTerms(Plaintext(), 0), "largest_degree must be at least 1; found 0"),
        (lambda: PackedTerms(Plaintext(), 3, 25), "fraction_bits must lie in 1..24; found 25"),
        (lambda: acquire_powers(channel(holdings(0)), ClearTerms(), holdings(0), HopSettings(2, Pruning.MATRIX)),
         "threshold must be given for pruning matrix"),
    ],
)  # fmt: skip
def test_bad_choices_are_refused(make: Callable[[], object], rule: str) -> None:
    """Each rule is named together with what was found."""
    with pytest.raises(InputError, match=rule):
        make()


@pytest.mark.parametrize(
    ("data", "shape", "rule"),
    [(1.0, (3, 5), r"term of client 2 must have shape \[3, 6\]; found \[3, 5\]"),
     (np.nan, (3, 6), "finite entries"), (-1.0, (3, 6), "finite entries")],
)  # fmt: skip
def test_bad_terms_are_refused(data: float, shape: tuple[int, int], rule: str) -> None:
    """A client that sends a matrix of the wrong shape, NaN or a negative entry is named."""
    part = sparse.csr_array((np.array([data]), (np.array([0]), np.array([0]))), shape=shape)
    with pytest.raises(ProtocolError, match=rule):
        check_term(part, 2, (3, 6))


def test_too_many_bits_are_refused() -> None:
    """Where a field of 2^62 has no room for the bits asked for, the message says how many there are."""
    held = Holdings(np.arange(40) % 2, sparse.csr_array(np.eye(40)))
    with pytest.raises(InputError, match="fraction_bits must be at most"):
        PackedTerms(Plaintext(), 2**40, 20).bits((20, len(held.client_of)), 1)


def test_a_receiver_asks_for_more_room_until_the_sum_fits() -> None:
    """A first table that is far too small costs attempts and changes nothing."""
    held = holdings(7, n=200, clients=2, density=0.05)
    small = packed(held)
    small.expected = {0: (1, 1), 1: (1, 1)}
    run = channel(held)
    powers = acquire_powers(run, small, held, HopSettings(2))
    assert np.abs(powers[1].toarray() - central(held, 2)[1]).max() <= 2.0 ** -(BITS + 1)
    assert sum(batch.phase is Phase.CAPACITIES for batch in run.transcript.messages) > 4


def test_a_table_that_never_fits_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """After all attempts the error names the client."""
    held = holdings(7)

    def overfull(*_: object) -> None:
        raise SketchOverfullError("full")

    monkeypatch.setattr("fgl_secure.protocols.term_sums.unpacked_sum", overfull)
    with pytest.raises(SketchOverfullError, match="client 0's was not"):
        acquire_powers(channel(held), packed(held), held, HopSettings(2))
