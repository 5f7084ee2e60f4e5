"""What pairwise masking says of itself: parameters, thresholds, claims, graphs, plans."""

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from fgl_secure import SecureAggregator
from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.errors import FieldRangeError, InputError, MalformedMessageError, TooFewClientsError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.pairwise_masking.drawing import Commitments, GraphSeed
from fgl_secure.protocols.pairwise_masking.graph import (
    Neighbours,
    SparseGraph,
    colluding_for,
    degree_for,
    exposure_bound,
    freedom_bits,
    local_threshold,
    shortfall_bound,
    split_bound,
)
from fgl_secure.protocols.secagg.terms import Stage
from fgl_secure.runtime import Channel, OwnDraws, Phase, Role, Secret, Step
from fgl_secure.schemes import server_scheme
from tests.error_codes import about
from tests.protocols.secagg.rounds import NEVER, NOW, SESSION, STAGES, Sum, directory_of, topology_of, vectors_of
from tests.protocols.secagg.sums import channel_of

Ints = NDArray[np.int64]

LATER = [stage for stage in Stage if stage is not Stage.DRAW]
"""Stages in which any number may fall silent, down to the threshold."""


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
        with pytest.raises(InputError, check=about("threshold")):
            scheme.machines(topology, SESSION, OwnDraws(SimulationCoins(0)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threshold": 1}, "threshold"),
        ({"degree": 3}, "degree"),
        ({"degree": 0}, "degree"),
        ({"modulus": 2}, "modulus"),
        ({"modulus": 15}, "modulus"),
    ],
)
def test_parameters_out_of_range_are_refused(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, check=about(message)):
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
    """Nothing at four neighbours, and something at sixty of a hundred."""
    assert PairwiseMasking(80, degree=4).claim_among(100).guarantees == ()
    (only,) = PairwiseMasking(80, degree=60).claim_among(100).guarantees
    colluding = only.coalition[Role.SILO]
    needed = local_threshold(100, 60, 80)
    assert colluding == colluding_for(100, 60, 80) > 10
    worst = 1 + 99 + 4851 + 156_849 + 3_764_376  # graphs to choose among, without up to four of the others' nonces
    assert freedom_bits(100) == pytest.approx(np.log2(worst))
    assert worst * (exposure_bound(100, 60, colluding, needed) + split_bound(100, 60, colluding + 20)) <= 2**-40
    above = exposure_bound(100, 60, colluding + 1, needed) + split_bound(100, 60, colluding + 21)
    assert worst * above > 2**-40


@given(st.integers(2, 40), st.data())
def test_a_ring_is_a_regular_graph(senders: int, data: st.DataObject) -> None:
    """Every sender has `degree` different neighbours, is no neighbour of its own, and is its neighbours' neighbour."""
    order = np.array(data.draw(st.permutations(range(senders))))
    if senders == 2:
        graph = Neighbours.complete(2)
    else:
        graph = Neighbours.ring(order, 2 * data.draw(st.integers(1, (senders - 1) // 2)))
    adjacent = adjacency(graph)
    assert (adjacent == adjacent.T).all()
    assert not adjacent.diagonal().any()
    assert (adjacent.sum(axis=1) == graph.degree).all()


def adjacency(graph: Neighbours) -> NDArray[np.bool_]:
    """Who is whose neighbour, bool [m, m]."""
    found = np.zeros((len(graph.table),) * 2, dtype=np.bool_)
    np.put_along_axis(found, graph.table, True, axis=1)
    return found


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
    graph = adjacency(Neighbours.ring(np.arange(m), degree))
    sets = list(itertools.combinations(range(m), gone))
    apart = exposed = short = first_exposed = first_short = 0
    for some in sets:
        left = np.setdiff1d(np.arange(m), some)
        apart += not is_connected(graph[np.ix_(left, left)])
        exposed += bool((graph[np.ix_(left, np.array(some))].sum(axis=1) >= needed).any())
        remaining = graph[:, left].sum(axis=1) + np.isin(np.arange(m), left)
        short += bool((remaining < needed).any())
        if 0 in left:
            first_exposed += bool(graph[0, list(some)].sum() >= 5)
        else:
            first_short += bool(graph[0, left].sum() < 2)
    assert 0 < apart / len(sets) <= split_bound(m, degree, gone) < 1
    assert 0 < exposed / len(sets) <= exposure_bound(m, degree, gone, needed)
    assert 0 < short / len(sets) <= shortfall_bound(m, degree, gone, needed)
    staying, going = math.comb(m - 1, gone), math.comb(m - 1, gone - 1)
    assert m * first_exposed / staying == pytest.approx(exposure_bound(m, degree, gone, 5))
    assert m * first_short / going == pytest.approx(shortfall_bound(m, degree, gone - 1, 2))
    emptied = sum(set(range(degree // 2)) <= set(some) for some in sets)
    assert m * emptied / len(sets) == pytest.approx(split_bound(m, degree, gone))


def printed(text: str) -> float:
    """The probability in a sentence of a claim."""
    (bits,) = re.findall(r"probability of at most 2\^-([0-9.]+)", text)
    return float(2 ** -float(bits))


@pytest.mark.parametrize(
    ("scheme", "senders", "degree"),
    [
        (PairwiseMasking(), 1000, 236), (PairwiseMasking(), 10_000, 338), (PairwiseMasking(dropout=0.2), 1000, 94),
        (PairwiseMasking(dropout=0.2), 10_000, 128), (PairwiseMasking(dropout=0.1, collusion=0.3), 1000, None),
    ],
)  # fmt: skip
def test_the_claim_prints_hypergeometric_tails(scheme: PairwiseMasking, senders: int, degree: int | None) -> None:
    """What it says of exposure and of sums that are not opened is what scipy's tails say, to a tenth of a bit."""
    threshold, k = scheme.threshold_for(senders), scheme.degree_for(senders)
    assert degree in (None, k)
    claim, gone, run = scheme.claim_among(senders), senders - threshold, k // 2
    (only,) = claim.guarantees
    colluding, needed = only.coalition[Role.SILO], k // 2 + 1
    assert colluding >= int((scheme.collusion or 0.1) * senders)
    assert f"up to {gone:,} drop out" in only.statement
    exposed = stats.hypergeom(senders - 1, colluding, k).sf(needed - 1)
    apart = stats.hypergeom(senders, colluding + gone, run).pmf(run)
    graphs = sum(math.comb(senders - 1, missing) for missing in range(5))
    worst = graphs * senders * (exposed + apart)
    assert worst <= printed(only.statement) <= min(2**0.11 * worst, 2**-40)
    short = senders * stats.hypergeom(senders - 1, gone, k).sf(k - needed)
    assert short <= printed(claim.assumptions[-1]) <= max(2**0.11 * short, 2**-200)
    assert short <= 2**-20


def test_shares_of_the_senders_are_stated_once_and_in_range() -> None:
    """A threshold or a degree beside what it follows from is refused, and so is a share of a half or more."""
    for arguments in (
        {"dropout": 0.5},
        {"dropout": -0.1},
        {"collusion": float("nan")},
        {"dropout": 0.2, "threshold": 8},
        {"collusion": 0.2, "degree": 8},
    ):
        with pytest.raises(InputError):
            PairwiseMasking(**arguments)  # type: ignore[arg-type]
    for senders in (2, 3, 10, 99, 1000):
        scheme = PairwiseMasking(dropout=0.3)
        assert scheme.threshold_for(senders) == max(2, senders - 3 * senders // 10)
        assert PairwiseMasking(dropout=0.49).threshold_for(senders) > senders / 2
    named = server_scheme("pairwise-masking[dropout=0.2,collusion=0.05]")
    assert named == PairwiseMasking(dropout=0.2, collusion=0.05)
    assert named.name == "pairwise-masking[dropout=0.2,collusion=0.05]"


def test_a_stated_drop_out_rate_reaches_the_aggregator() -> None:
    """With a tenth that may drop out, nine of ten clients are enough, and eight are not."""
    aggregator = SecureAggregator.for_clients(10, scheme="pairwise-masking[dropout=0.1]", bound=1.0)
    values = [{"x": np.full(3, at / 10)} for at in range(10)]
    assert aggregator.mean(values, dropped={9})["x"] == pytest.approx(np.full(3, 0.4))
    with pytest.raises(TooFewClientsError):
        aggregator.mean(values, dropped={8, 9})


@pytest.mark.parametrize("senders", [200, 1000])
def test_the_degree_rule_takes_the_least_that_keeps_its_bounds(senders: int) -> None:
    """Both bounds hold at the chosen degree, and one of them fails two below it."""
    threshold, colluding = 4 * senders // 5, senders // 10
    chosen = degree_for(senders, threshold, colluding)
    assert chosen < senders - 1

    def holds(degree: int) -> bool:
        graph = SparseGraph(senders, degree, threshold)
        return graph.privacy_bits(colluding) >= 40 and graph.recovery_bits >= 20

    assert holds(chosen)
    assert not holds(chosen - 2)


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


def drawn(n: int, coins: np.random.Generator) -> GraphSeed:
    """What n clients drew, all of whom revealed it."""
    everybody = np.ones(n, dtype=np.bool_)
    entries, keys, nonces = coins.integers(0, 256, (3, n, 32), dtype=np.uint8)
    return GraphSeed(Commitments(everybody, entries), everybody, keys, nonces)


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
    assert plan.required_shares == local_threshold(90, 20, 61) == 11
    everybody = np.arange(90)[:, None]
    assert (circles.neighbours[circles.neighbours, circles.reverse_index] == everybody).all()
    assert (circles.closed_neighbours[circles.closed_neighbours, circles.closed_reverse_index] == everybody).all()
    assert (circles.closed_neighbours[np.arange(90), circles.self_index] == np.arange(90)).all()
    assert circles.closed_neighbours.shape == (90, 21)


def test_every_part_of_the_terms_is_signed() -> None:
    """What an identity signs differs as soon as one term, the field, the graph, the step, the party or a key does."""
    good = topology_of(6, length=3)
    plans = [
        PairwiseMasking(5, modulus, degree=degree).plan_for(topology, session)
        for modulus, degree, topology, session in (
            (2**61 - 1, None, good, SESSION), (2**31 - 1, None, good, SESSION), (2**61 - 1, 4, good, SESSION),
            (2**61 - 1, None, good, bytes(16)), (2**61 - 1, None, good, SESSION + bytes(32)),
            (2**61 - 1, None, topology_of(7, length=3), SESSION), (2**61 - 1, None, topology_of(6, length=4), SESSION),
            (2**61 - 1, None, topology_of(6, length=3, bound=7), SESSION),
            (2**61 - 1, None, topology_of(6, length=3, bound=None), SESSION),
            (2**61 - 1, None, topology_of(6, length=3, split=True), SESSION),
        )
    ]  # fmt: skip
    others = PairwiseMasking(6), PairwiseMasking(5, keys=KeyAgreement.X25519)
    plans += [scheme.plan_for(good, SESSION) for scheme in others]
    said = [plan.statement(NOW, 1, b"a" * 32, b"b" * 32) for plan in plans]
    said += [plans[0].statement(NOW, 2, b"a" * 32, b"b" * 32), plans[0].statement(NOW, 1, b"b" * 32, b"a" * 32)]
    said.append(plans[0].statement(Step(4), 1, b"a" * 32, b"b" * 32))
    assert len(set(said)) == len(said)


def test_a_state_serves_one_scheme_and_one_sum() -> None:
    """Under another field, threshold or graph it is refused."""
    state = Sum.of(PairwiseMasking(4), topology_of(5), vectors_of(5)).machines[1].state()
    for scheme in (PairwiseMasking(4, 2**31 - 1), PairwiseMasking(4, degree=2), PairwiseMasking(5)):
        with pytest.raises(MalformedMessageError, check=about("state")):
            Sum.of(scheme, topology_of(5), vectors_of(5)).machines[1].restore(state)


def test_a_field_with_too_few_points_is_refused() -> None:
    """There are as many points as clients and shares that open a secret."""
    with pytest.raises(FieldRangeError):
        PairwiseMasking(4, 7).machines(topology_of(5, bound=None), SESSION, OwnDraws(SimulationCoins(0)))
