"""What pairwise masking says of itself: parameters, thresholds, claims, graphs, plans."""

from __future__ import annotations

import itertools
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins, TapeCoins
from fgl_secure.crypto.ideal_cryptography import IdealCryptography
from fgl_secure.errors import FieldRangeError, InputError, MalformedMessageError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.one_sum.receiver import Receiver
from fgl_secure.protocols.one_sum.terms import Stage
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.pairwise_masking.clients import Clients
from fgl_secure.protocols.pairwise_masking.drawing import Draw, Pledges
from fgl_secure.protocols.pairwise_masking.graph import (
    COLLUDING_PART,
    COMPLETE_UP_TO,
    RECOVERY_BITS,
    Neighbours,
    colluding_for,
    degree_for,
    exposure_allowed,
    exposure_bound,
    freedom_bits,
    local_threshold,
    shortfall_bound,
    split_bound,
)
from fgl_secure.protocols.pairwise_masking.server import Server
from fgl_secure.runtime import Channel, OwnDraws, Phase, Role, Secret, Step
from tests.protocols.one_sum.rounds import (
    NEVER,
    NOW,
    SESSION,
    STAGES,
    Sum,
    directory_of,
    topology_of,
    vectors_of,
)
from tests.protocols.one_sum.sums import channel_of

Ints = NDArray[np.int64]

LATER = [stage for stage in Stage if stage is not Stage.DRAW]
"""Stages in which any number may fall silent, down to the threshold."""


def test_the_name_says_what_differs_from_the_default() -> None:
    """Parameters that are not the default's stand in brackets."""
    assert PairwiseMasking().name == "pairwise-masking"
    assert PairwiseMasking(4, 101, 6).name == "pairwise-masking[p=101,threshold=4,degree=6]"


def test_the_limit_is_half_the_field() -> None:
    """Sums up to (p - 1) / 2 on both sides of zero."""
    assert PairwiseMasking().limit(9) == 2**60 - 1
    assert PairwiseMasking(modulus=11).limit(2) == 5


@pytest.mark.parametrize(("senders", "threshold"), [(2, 2), (3, 3), (4, 3), (5, 4), (9, 7), (10, 7), (100, 67)])
def test_the_threshold_is_above_two_thirds(senders: int, threshold: int) -> None:
    """Unless given it is floor(2m/3) + 1, so that it takes a third of the senders to help a lying aggregator."""
    assert PairwiseMasking().threshold_for(senders) == threshold


@pytest.mark.parametrize("senders", range(2, 9))
def test_a_threshold_that_privacy_forbids_is_refused(senders: int) -> None:
    """At half the senders or fewer an aggregator that lies has one half open one secret and the other the other."""
    for threshold in range(2, senders + 3):
        scheme, topology = PairwiseMasking(threshold), topology_of(senders)
        if senders // 2 < threshold <= senders:
            assert len(scheme.machines(topology, SESSION, OwnDraws(SimulationCoins(0)))) == 2
            continue
        with pytest.raises(InputError, match=f"threshold must lie in {senders // 2 + 1}..{senders}"):
            scheme.machines(topology, SESSION, OwnDraws(SimulationCoins(0)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threshold": 1}, "threshold must be at least 2"),
        ({"degree": 3}, "degree must be even"),
        ({"degree": 0}, "degree must be even"),
        ({"modulus": 2}, "modulus must be odd"),
        ({"modulus": 15}, "modulus must be a prime"),
    ],
)
def test_parameters_out_of_range_are_refused(arguments: dict[str, int], message: str) -> None:
    """Each bad parameter raises when the scheme is made, and the message says which."""
    with pytest.raises(InputError, match=message):
        PairwiseMasking(**arguments)  # type: ignore[arg-type]


def test_the_claim_follows_the_threshold() -> None:
    """Up to t - 1 senders with an aggregator that follows the protocol, up to 2t - m - 1 with one that does not."""
    passive, lying = PairwiseMasking().claim_among(10).guarantees
    assert passive.secret is lying.secret is Secret.SUMMAND
    assert passive.covers({Role.SERVER: 1, Role.SILO: 6})
    assert not passive.covers({Role.SERVER: 1, Role.SILO: 7})
    assert lying.covers({Role.SERVER: 1, Role.SILO: 3})
    assert not lying.covers({Role.SERVER: 1, Role.SILO: 4})


def test_a_sparse_graph_claims_less() -> None:
    """A tenth of the senders or more, an aggregator that keeps to the protocol, dropouts that do not know the graph."""
    claim = PairwiseMasking().claim_among(1000)
    (only,) = claim.guarantees
    assert 100 <= only.coalition[Role.SILO] < 500
    assert any("does not depend on the graph" in assumption for assumption in claim.assumptions)


def test_a_degree_of_ones_own_claims_what_its_bounds_say() -> None:
    """Nothing for any number of senders, nothing at four neighbours, and something at sixty of a hundred."""
    assert PairwiseMasking(degree=4).claim.guarantees == ()
    assert PairwiseMasking(80, degree=4).claim_among(100).guarantees == ()
    (only,) = PairwiseMasking(80, degree=60).claim_among(100).guarantees
    colluding = only.coalition[Role.SILO]
    needed = local_threshold(100, 60, 80)
    assert colluding == colluding_for(100, 60, 80) > 10
    worst = 1 + 99 + 4851 + 156_849 + 3_764_376  # graphs to choose among, without up to four of the others' nonces
    assert freedom_bits(100) == pytest.approx(np.log2(worst))
    assert worst * exposure_bound(100, 60, colluding, needed) <= 2**-40
    assert worst * split_bound(100, 60, colluding + 20) <= 2**-40
    above = max(exposure_bound(100, 60, colluding + 1, needed), split_bound(100, 60, colluding + 21))
    assert worst * above > 2**-40


def test_a_given_threshold_is_claimed_where_everybody_masks_with_everybody() -> None:
    """Threshold 4 means at most seven senders and three colluding; with a threshold for many one is claimed."""
    assert PairwiseMasking(4).claim.guarantees[0].coalition[Role.SILO] == 3
    assert PairwiseMasking(60).claim.guarantees[0].coalition[Role.SILO] == 1


@given(st.integers(2, 40), st.data())
def test_a_ring_is_a_regular_graph(senders: int, data: st.DataObject) -> None:
    """Every sender has `degree` different neighbours, is no neighbour of its own, and is its neighbours' neighbour."""
    order = np.array(data.draw(st.permutations(range(senders))))
    if senders == 2:
        graph = Neighbours.complete(2)
    else:
        graph = Neighbours.ring(order, 2 * data.draw(st.integers(1, (senders - 1) // 2)))
    assert (graph.adjacent == graph.adjacent.T).all()
    assert not graph.adjacent.diagonal().any()
    assert (graph.adjacent.sum(axis=1) == graph.degree).all()
    back = graph.table[graph.table, graph.places]
    assert (back == np.arange(senders)[:, None]).all()


def is_connected(adjacent: NDArray[np.bool_]) -> bool:
    """Whether a graph is in one piece, by walking it."""
    reached, ahead = {0}, [0]
    while ahead:
        new = set(np.flatnonzero(adjacent[ahead.pop()]).tolist()) - reached
        reached |= new
        ahead += new
    return len(reached) == len(adjacent)


def test_the_bounds_hold_exactly_on_a_small_ring() -> None:
    """On fourteen senders, over all sets of six that go, each failure is at most as frequent as its bound says."""
    m, degree, gone, needed = 14, 6, 6, 4
    graph = Neighbours.ring(np.arange(m), degree).adjacent
    sets = list(itertools.combinations(range(m), gone))
    apart = exposed = short = 0
    for some in sets:
        left = np.setdiff1d(np.arange(m), some)
        apart += not is_connected(graph[np.ix_(left, left)])
        exposed += bool((graph[np.ix_(left, np.array(some))].sum(axis=1) >= needed).any())
        remaining = graph[:, left].sum(axis=1) + np.isin(np.arange(m), left)
        short += bool((remaining < needed).any())
    assert 0 < apart / len(sets) <= split_bound(m, degree, gone) < 1
    assert 0 < exposed / len(sets) <= exposure_bound(m, degree, gone, needed)
    assert 0 < short / len(sets) <= shortfall_bound(m, degree, gone, needed)


def test_few_senders_mask_with_everybody() -> None:
    """Up to 64 the graph is complete."""
    assert all(degree_for(m, 2 * m // 3 + 1) == m - 1 for m in range(2, COMPLETE_UP_TO + 1))


@pytest.mark.parametrize("senders", [200, 1000])
def test_the_degree_rule_takes_the_least_that_keeps_its_bounds(senders: int) -> None:
    """The three bounds hold at the chosen degree, and one of them fails two below it."""
    threshold = 4 * senders // 5
    chosen = degree_for(senders, threshold)
    assert chosen < senders - 1

    def holds(degree: int) -> bool:
        needed, gone = local_threshold(senders, degree, threshold), senders - threshold
        return bool(
            exposure_bound(senders, degree, senders // COLLUDING_PART, needed) <= exposure_allowed(senders)
            and split_bound(senders, degree, senders // COLLUDING_PART + gone) <= exposure_allowed(senders)
            and shortfall_bound(senders, degree, gone, needed) <= 2**-RECOVERY_BITS
        )

    assert holds(chosen)
    assert not holds(chosen - 2)


def test_the_degree_grows_slowly() -> None:
    """Four times the senders need fewer than twenty neighbours more: the degree grows like a logarithm."""
    degrees = [degree_for(m, 4 * m // 5) for m in (500, 2000)]
    assert 0 <= degrees[1] - degrees[0] < 20


def test_many_clients_sum_along_a_sparse_graph() -> None:
    """Over 70 clients, ten of whom fall silent at any stages, the sum is exact and nobody masks with all others."""
    scheme, silent = PairwiseMasking(60, degree=20), {7 * at: LATER[at % 5] for at in range(10)}
    assert PairwiseMasking().degree_for(70) < 69
    topology = topology_of(70)
    since = {int(topology.senders[u]): stage for u, stage in silent.items()}

    def arrives(phase: Phase, _: Step, senders: Ints, __: Ints) -> NDArray[np.bool_]:
        return np.array([STAGES.get(phase, Stage.KEYS) < since.get(end, NEVER) for end in senders.tolist()])

    channel = channel_of(70, arrives)
    kept = [u for u in range(70) if silent.get(u, NEVER) > Stage.VECTORS]
    total = Collective(scheme, topology, channel).sum(vectors_of(70), NOW)
    assert total.tolist() == [vectors_of(70)[kept].sum(axis=0).tolist()]
    boxes = next(b for b in channel.transcript.messages if b.phase is Phase.SECRET_SHARES)
    assert boxes.fields is not None
    assert boxes.fields["boxes"].shape[1] == 20


def test_long_vectors_sum_in_chunks() -> None:
    """A vector longer than the pieces in which masks are drawn sums exactly, at both ends of every piece."""
    rows = np.stack([np.arange(300_001), np.full(300_001, -7), -np.arange(300_001)]).astype(np.int64)
    channel = Channel(directory_of(3), SimulationCoins(0))
    topology = topology_of(3, split=True, length=300_001, bound=300_000)
    assert (Collective(PairwiseMasking(), topology, channel).sum(rows, NOW) == -7).all()


def test_vectors_are_made_and_added_up_one_at_a_time() -> None:
    """No two masked vectors are there at one time, however many clients there are."""
    made: list[weakref.ref[Any]] = []
    most = 0
    topology = topology_of(6, length=1000)
    server, clients = PairwiseMasking().machines(topology, SESSION, Channel(directory_of(6), SimulationCoins(0)))
    server.begin(NOW)
    clients.begin(NOW, np.ones((6, 1000), dtype=np.int64))
    for _ in range(20):
        for machine, other in ((clients, server), (server, clients)):
            for batch in machine.turn():
                if batch.phase is Phase.MASKED_VECTORS:
                    vector = batch["vector"]
                    made.append(weakref.ref(vector if vector.base is None else vector.base))
                    del vector
                    most = max(most, sum(one() is not None for one in made))
                other.take(batch)
                del batch
    assert server.sums is not None
    assert len(made) == 6
    assert most <= 2  # the one that is added, and the next while its name still stands for the last


@pytest.mark.parametrize(("modulus", "degree"), [(2**61 - 1, None), (2**31 - 1, None), (100_003, None), (2**61 - 1, 4)])
@given(st.integers(2, 6), st.data())
@settings(max_examples=6)
def test_sums_are_exact_whoever_falls_silent(modulus: int, degree: int | None, n: int, data: st.DataObject) -> None:
    """With as many silent as may be where all mask with all, the sum is that of who handed in a vector."""
    scheme = PairwiseMasking(modulus=modulus, degree=degree)
    most = n - scheme.threshold_for(n) if scheme.degree_for(n) == n - 1 else 0
    gone = data.draw(st.lists(st.integers(0, n - 1), unique=True, max_size=most))
    silent = {u: data.draw(st.sampled_from(LATER)) for u in gone}
    rows = data.draw(hnp.arrays(np.int64, (n, 2), elements=st.integers(-1000, 1000)))
    run = Sum.of(scheme, topology_of(n, bound=1000), rows, known=data.draw(st.booleans())).play(silent)
    kept = [u for u in range(n) if silent.get(u, NEVER) > Stage.VECTORS]
    assert run.included == kept
    assert run.result == rows[kept].sum(axis=0).tolist()


def drawn(n: int, coins: np.random.Generator) -> Draw:
    """What n clients drew, all of whom revealed it."""
    everybody = np.ones(n, dtype=np.bool_)
    entries, keys, nonces = coins.integers(0, 256, (3, n, 32), dtype=np.uint8)
    return Draw(Pledges(everybody, entries), everybody, keys, nonces)


def test_the_ring_follows_from_what_clients_drew() -> None:
    """It is a permutation, and another for every session, step, nonce, key, commitment, and set of those that count."""
    scheme, first = PairwiseMasking(degree=20), drawn(90, np.random.default_rng())
    last, not_seven = np.zeros((90, 32), dtype=np.uint8), np.arange(90) != 7
    last[89, 31] = 1
    draws = [
        first,
        replace(first, nonces=first.nonces ^ last),
        replace(first, keys=first.keys ^ last),
        replace(first, pledges=replace(first.pledges, entries=first.pledges.entries ^ last)),
        replace(first, pledges=replace(first.pledges, made=not_seven)),
        replace(first, revealed=not_seven),
    ]
    orders = [
        tuple(scheme.plan_for(topology_of(90), session).ring_order(step, draw.seed).tolist())
        for session in (bytes(16), bytes([1] * 16))
        for step in (NOW, Step(0), Step(3, 1), Step(3, part=1))
        for draw in draws
    ]
    assert len(set(orders)) == 48
    assert all(sorted(order) == list(range(90)) for order in orders)
    other = scheme.plan_for(topology_of(90, length=5, bound=None), bytes(16)).ring_order(NOW, draws[0].seed)
    assert tuple(other.tolist()) == orders[0]


def test_a_sparse_plan_asks_for_a_majority_of_the_circle() -> None:
    """Everybody is its neighbours' neighbour, and circles say at which places."""
    plan = PairwiseMasking(61, degree=20).plan_for(topology_of(90), SESSION)
    circles = plan.circles(NOW, bytes(32))
    assert plan.needed == local_threshold(90, 20, 61) == 11
    everybody = np.arange(90)[:, None]
    assert (circles.near[circles.near, circles.back] == everybody).all()
    assert (circles.all[circles.all, circles.back_all] == everybody).all()
    assert (circles.all[np.arange(90), circles.own] == np.arange(90)).all()
    assert circles.all.shape == (90, 21)


def test_every_part_of_the_terms_is_signed() -> None:
    """What an identity signs differs as soon as one term, the field, the graph, the step, the party or a key does."""
    good = topology_of(6, length=3)
    plans = [
        PairwiseMasking(5, modulus, degree).plan_for(topology, session)
        for modulus, degree, topology, session in (
            (2**61 - 1, None, good, SESSION), (2**31 - 1, None, good, SESSION), (2**61 - 1, 4, good, SESSION),
            (2**61 - 1, None, good, bytes(16)), (2**61 - 1, None, good, SESSION + bytes(32)),
            (2**61 - 1, None, topology_of(7, length=3), SESSION), (2**61 - 1, None, topology_of(6, length=4), SESSION),
            (2**61 - 1, None, topology_of(6, length=3, bound=7), SESSION),
            (2**61 - 1, None, topology_of(6, length=3, bound=None), SESSION),
            (2**61 - 1, None, topology_of(6, length=3, split=True), SESSION),
        )
    ]  # fmt: skip
    plans.append(PairwiseMasking(6).plan_for(good, SESSION))
    said = [plan.statement(NOW, 1, b"a" * 32, b"b" * 32) for plan in plans]
    said += [plans[0].statement(NOW, 2, b"a" * 32, b"b" * 32), plans[0].statement(NOW, 1, b"b" * 32, b"a" * 32)]
    said.append(plans[0].statement(Step(4), 1, b"a" * 32, b"b" * 32))
    assert len(set(said)) == len(said)


def test_a_state_serves_one_scheme_and_one_sum() -> None:
    """Under another field, threshold or graph it is refused."""
    state = Sum.of(PairwiseMasking(4), topology_of(5), vectors_of(5)).machines[1].state()
    for scheme in (PairwiseMasking(4, 2**31 - 1), PairwiseMasking(4, degree=2), PairwiseMasking(5)):
        with pytest.raises(MalformedMessageError, match="state must be that of this machine"):
            Sum.of(scheme, topology_of(5), vectors_of(5)).machines[1].restore(state)


def test_real_cryptography_takes_no_tapes() -> None:
    """Keys are those of one run."""
    (machine,) = PairwiseMasking().machines(topology_of(3), SESSION, OwnDraws(TapeCoins(3, 2)), np.array([1]))
    with pytest.raises(InputError, match="coins must be those of one run"):
        machine.begin(NOW)


def test_a_field_with_too_few_points_is_refused() -> None:
    """There are as many points as clients and shares that open a secret."""
    with pytest.raises(FieldRangeError, match="distinct points"):
        PairwiseMasking(4, 7).machines(topology_of(5, bound=None), SESSION, OwnDraws(SimulationCoins(0)))


def test_one_class_plays_each_role() -> None:
    """In a simulation, over bytes, and over every coin: the machines are of the same classes."""
    topology = topology_of(5, split=True)
    kinds = []
    for scheme, draws in (
        (PairwiseMasking(), OwnDraws(SimulationCoins(0))),
        (PairwiseMasking(), channel_of(5)),
        (PairwiseMasking(modulus=13, cryptography=IdealCryptography), OwnDraws(TapeCoins(13, 1))),
    ):
        topology = topology_of(5, split=True, bound=None)
        kinds.append([type(machine) for machine in scheme.machines(topology, SESSION, draws)])
    assert kinds == [[Server, Clients, Receiver]] * 3
