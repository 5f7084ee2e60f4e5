"""Pairwise masking keeps what every scheme must; its parameters, claim and graph."""

from __future__ import annotations

import itertools
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.protocols.pairwise_masking import MaskOrigin, PairwiseMasking
from fgl_secure.protocols.pairwise_masking.graph import (
    COLLUDING_PART,
    COMPLETE_UP_TO,
    PRIVACY_BITS,
    RECOVERY_BITS,
    Neighbours,
    colluding_for,
    degree_for,
    exposure_bound,
    local_threshold,
    shortfall_bound,
    split_bound,
)
from fgl_secure.protocols.vector_sum import VectorGroup, VectorScheme
from fgl_secure.runtime import Phase, Role, Secret, Step
from tests.protocols.vector_conformance import FIRST, VectorConformance, channel_of, circle, total_of


class TestPairwiseMasking(VectorConformance):
    """As it is by default."""

    scheme: ClassVar[VectorScheme] = PairwiseMasking()
    vector_phase: ClassVar[Phase] = Phase.MASKED_VECTORS


class TestPairwiseMaskingOverASmallerField(VectorConformance):
    """Over 2^31 - 1, where seeds are longer and elements shorter."""

    scheme: ClassVar[VectorScheme] = PairwiseMasking(modulus=2**31 - 1)
    vector_phase: ClassVar[Phase] = Phase.MASKED_VECTORS


class TestPairwiseMaskingOnARing(VectorConformance):
    """With two or four neighbours where there are more senders than that."""

    scheme: ClassVar[VectorScheme] = PairwiseMasking(degree=4)
    vector_phase: ClassVar[Phase] = Phase.MASKED_VECTORS


class TestDrawnMasks(VectorConformance):
    """With the masks that enumeration takes, it sums as with those derived from keys."""

    scheme: ClassVar[VectorScheme] = PairwiseMasking(masks=MaskOrigin.DRAWN)
    vector_phase: ClassVar[Phase] = Phase.MASKED_VECTORS


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
    directory, group = circle(senders, split=False)
    channel = channel_of(directory)
    for threshold in range(2, senders + 3):
        scheme = PairwiseMasking(threshold)
        if senders // 2 < threshold <= senders:
            scheme.open(channel, group, 1, 1)
            continue
        with pytest.raises(InputError, match=f"threshold must lie in {senders // 2 + 1}..{senders}"):
            scheme.open(channel, group, 1, 1)
    assert channel.transcript.messages == []


def test_one_sender_is_refused() -> None:
    """A sum of one term is that term."""
    directory, group = circle(1, split=True)
    with pytest.raises(InputError, match="senders must number at least 2"):
        PairwiseMasking().open(channel_of(directory), group, 1, 1)


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


def test_an_aggregator_that_sends_is_refused() -> None:
    """It would hold a share of every secret that it asks for."""
    directory, group = circle(3, split=True)
    with pytest.raises(InputError, match="aggregator must not be one of the senders"):
        PairwiseMasking().open(channel_of(directory), VectorGroup(group.senders, group.receiver, 2), 1, 1)


def test_the_claim_follows_the_threshold() -> None:
    """Up to t - 1 senders with an aggregator that follows the protocol, up to 2t - m - 1 with one that does not."""
    passive, lying = PairwiseMasking().claim_for(10).guarantees
    assert passive.secret is lying.secret is Secret.SUMMAND
    assert passive.covers({Role.SERVER: 1, Role.SILO: 6})
    assert not passive.covers({Role.SERVER: 1, Role.SILO: 7})
    assert lying.covers({Role.SERVER: 1, Role.SILO: 3})
    assert not lying.covers({Role.SERVER: 1, Role.SILO: 4})


def test_a_sparse_graph_claims_less() -> None:
    """A tenth of the senders or more, an aggregator that keeps to the protocol, dropouts that do not know the graph."""
    claim = PairwiseMasking().claim_for(1000)
    (only,) = claim.guarantees
    assert 100 <= only.coalition[Role.SILO] < 500
    assert any("does not depend on the graph" in assumption for assumption in claim.assumptions)


def test_a_degree_of_ones_own_claims_what_its_bounds_say() -> None:
    """Nothing for any number of senders, nothing at four neighbours, and something at sixty of a hundred."""
    assert PairwiseMasking(degree=4).claim.guarantees == ()
    assert PairwiseMasking(80, degree=4).claim_for(100).guarantees == ()
    (only,) = PairwiseMasking(80, degree=60).claim_for(100).guarantees
    colluding = only.coalition[Role.SILO]
    needed = local_threshold(100, 60, 80)
    assert colluding == colluding_for(100, 60, 80) > 10
    assert exposure_bound(100, 60, colluding, needed) <= 2**-40
    assert split_bound(100, 60, colluding + 20) <= 2**-40
    above = max(exposure_bound(100, 60, colluding + 1, needed), split_bound(100, 60, colluding + 21))
    assert above > 2**-40


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
            exposure_bound(senders, degree, senders // COLLUDING_PART, needed) <= 2**-PRIVACY_BITS
            and split_bound(senders, degree, senders // COLLUDING_PART + gone) <= 2**-PRIVACY_BITS
            and shortfall_bound(senders, degree, gone, needed) <= 2**-RECOVERY_BITS
        )

    assert holds(chosen)
    assert not holds(chosen - 2)


def test_the_degree_grows_slowly() -> None:
    """Four times the senders need fewer than twenty neighbours more: the degree grows like a logarithm."""
    degrees = [degree_for(m, 4 * m // 5) for m in (500, 2000)]
    assert 0 <= degrees[1] - degrees[0] < 20


def test_many_senders_sum_along_a_sparse_graph() -> None:
    """Over 66 senders, two of whom drop out, the sum is exact and nobody has all others for a neighbour."""
    directory, group = circle(66, split=False)
    gone = group.senders[[3, 40]]
    channel = channel_of(
        directory, lambda phase, _, senders, __: (phase is not Phase.MASKED_VECTORS) | ~np.isin(senders, gone)
    )
    rows = np.arange(66 * 2, dtype=np.int64).reshape(66, 2)
    session = PairwiseMasking(60, degree=20).open(channel, group, 2, 200)
    assert session.sum(rows, FIRST).tolist() == total_of(rows, (3, 40))
    (sealed,) = [b for b in channel.transcript.messages if b.phase is Phase.SECRET_SHARES and b.receivers[0] == 0]
    assert np.asarray(sealed.payload).shape[1] == 20


def test_long_vectors_sum_in_chunks() -> None:
    """A vector longer than the pieces in which masks are drawn sums exactly, at both ends of every piece."""
    directory, group = circle(3, split=True)
    rows = np.stack([np.arange(300_001), np.full(300_001, -7), -np.arange(300_001)]).astype(np.int64)
    channel = channel_of(directory).keeping_only()
    assert (PairwiseMasking().open(channel, group, 300_001, 300_000).sum(rows, Step(3)) == -7).all()


def test_sessions_are_repeatable() -> None:
    """Equal coins give equal messages, and other coins other ones, for the same sum."""

    def sent(seed: int) -> bytes:
        directory, group = circle(3, split=True)
        channel = channel_of(directory, seed=seed)
        PairwiseMasking().open(channel, group, 2, 9).sum(np.ones((3, 2), dtype=np.int64), FIRST)
        return b"".join(np.asarray(batch.payload).tobytes() for batch in channel.transcript.messages)

    assert sent(1) == sent(1) != sent(2)
    assert SimulationCoins(1).batch_shape == ()
