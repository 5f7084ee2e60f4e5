"""What a process that hosts all devices of a silo is left with when it subtracts their rows from sums."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.topology import NEIGHBOURS, Contributors, Topology, is_computed
from fgl_secure.runtime import Channel, Circumstance, Direction, Role, Secret, Step
from fgl_secure.schemes import parse
from fgl_secure.training.one_process import open_neighbours
from fgl_secure.training.parties import hierarchy_of, neighbour_sums
from tests.attacks.recorded import both_ways, federated

SILOS, DEVICES = 4, 9
"""Devices are those of one silo."""
ALONE = (5, 6, 7, 8)
"""Devices of each silo that have one neighbour elsewhere."""

Reals = NDArray[np.float64]


def communities() -> FederatedGraph:
    """Silos of nine devices with four neighbours each; most have one to three at other silos besides."""
    inside = [
        (s * DEVICES + p, s * DEVICES + (p + step) % DEVICES)
        for s in range(SILOS) for p in range(DEVICES) for step in (1, 2)
    ]  # fmt: skip
    across = [(s * DEVICES + p, t * DEVICES + p) for s in range(SILOS) for t in range(s + 1, SILOS) for p in (0, s)]
    single = [(s * DEVICES + p, (s + 1) * DEVICES + p) for s in (0, 2) for p in ALONE]
    pairs = sorted({(min(each), max(each)) for each in inside + across + single})
    return federated(both_ways(pairs), np.arange(SILOS * DEVICES) // DEVICES)


def left_over(scheme: RelayCoded, graph: FederatedGraph, direction: Direction) -> tuple[Reals, Reals]:
    """Rows [n, d], and the sums [n, d] without the rows of devices of the receiver's silo."""
    channel = Channel(hierarchy_of(graph, scheme.helpers), SimulationCoins(0))
    session = open_neighbours(scheme, neighbour_sums(graph), 4, channel)
    rows = np.random.default_rng(1).normal(size=(graph.num_devices, 4))
    sums = session.sum(rows, Step(0, 0, direction))
    way = scheme.answered_grouping(session.topology.grouping)
    way = way if direction is Direction.FORWARD else scheme.answered_grouping(way.reverse())
    own = graph.silo_of[way.source] == graph.silo_of[way.target]
    np.subtract.at(sums, way.target[own], rows[way.source[own]])
    return rows, sums


def read(scheme: RelayCoded, direction: Direction) -> int:
    """How many devices' rows some other silo's process is left with, exactly."""
    graph = communities()
    rows, left = left_over(scheme, graph, direction)
    same = np.abs(left[:, None] - rows[None]).max(axis=2) < 1e-3
    return int((same & (graph.silo_of[:, None] != graph.silo_of)).any(axis=0).sum())


@pytest.mark.parametrize("direction", [Direction.FORWARD, Direction.BACKWARD])
@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("k_min", [2, 3])
def test_no_row_of_another_silo_is_left_over(profile: Profile, k_min: int, direction: Direction) -> None:
    """Where all contributors count, rows are read exactly; where those of other silos do, none is."""
    shared = {"k_min": k_min, "profile": profile, "max_degree": 12 if profile is Profile.HIDDEN else None}
    assert read(RelayCoded(**shared), direction) >= SILOS * len(ALONE)  # type: ignore[arg-type]
    assert read(RelayCoded(contributors=Contributors.FOREIGN, **shared), direction) == 0  # type: ignore[arg-type]


def test_a_partner_behind_others_of_the_same_silo_is_not_foreign() -> None:
    """Ends of a path of three are partners by way of the middle, whose row would be left of a sum over both."""
    first = np.arange(0, 12, 3)
    pairs = np.concatenate([np.stack([first, first + 1]), np.stack([first + 1, first + 2])], axis=1)
    graph = federated(both_ways(pairs.T.tolist()), np.tile([0, 1, 0], 4))
    scheme = RelayCoded(k_min=2, max_degree=4, contributors=Contributors.FOREIGN)
    rows, left = left_over(scheme, graph, Direction.FORWARD)
    assert np.abs(left[np.concatenate([first, first + 2])]).max() < 1e-3
    assert np.allclose(left[first + 1], rows[first] + rows[first + 2], atol=1e-3)


@pytest.mark.parametrize("profile", Profile)
def test_sums_are_computed_without_the_rows_that_are_refused(profile: Profile) -> None:
    """A sum over enough rows of the own silo goes without the few of others, and one over enough of these has all."""
    every, some = (
        left_over(
            RelayCoded(profile=profile, max_degree=12 if profile is Profile.HIDDEN else None, contributors=each),
            communities(),
            Direction.FORWARD,
        )[1]
        for each in Contributors
    )
    firsts = np.arange(SILOS) * DEVICES
    assert np.allclose(some[firsts], every[firsts], atol=1e-3)  # three neighbours at other silos each
    assert np.abs(every[firsts]).min() > 0
    others = np.setdiff1d(np.arange(SILOS * DEVICES), firsts)
    assert np.abs(some[others]).max() < 1e-3


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.booleans()), max_size=40), st.integers(1, 4))
def test_sums_have_enough_foreign_messages_or_none(messages: list[tuple[int, bool, bool]], least: int) -> None:
    """Whatever counts: at least `least` of all, and of the foreign ones at least that many or none."""
    groups = np.array([group for group, _, _ in messages], dtype=np.int64)
    foreign, counted = (np.array([m[k] for m in messages], dtype=np.bool_) for k in (1, 2))
    in_sums = is_computed(groups, least, foreign, counted) & counted
    plain = is_computed(groups, least, None, counted) & counted
    for group in range(5):
        of_it = groups == group
        total, strangers = int((in_sums & of_it).sum()), int((in_sums & of_it & foreign).sum())
        assert total == 0 or total >= least
        assert strangers == 0 or strangers >= least
        assert int((plain & of_it).sum()) in (0, int((counted & of_it).sum()))
        own = int((counted & of_it & ~foreign).sum())
        assert own < least or total >= own
        assert int((counted & of_it & foreign).sum()) < least or strangers >= least


@pytest.mark.parametrize("profile", Profile)
def test_the_claim_says_what_a_host_is_left_with(profile: Profile) -> None:
    """The claim declares what a process that hosts devices learns, and says what is left under either rule."""
    whose: dict[Contributors, str] = {}
    for contributors in Contributors:
        scheme = RelayCoded(profile=profile, contributors=contributors)
        claim = scheme.claim_for(Topology.example(NEIGHBOURS))
        assert claim.broken_by(Secret.EMBEDDING, {Role.SILO: 1}, Circumstance.HOSTED_DEVICES) is None
        assert claim.broken_by(Secret.EMBEDDING, {Role.SILO: 1}, Circumstance.ANY) is not None
        (whose[contributors],) = (
            leak.statement for leak in claim.leaks_by_design if leak.circumstance is Circumstance.HOSTED_DEVICES
        )
    assert "row of one device of another silo may be left" in whose[Contributors.ALL]
    assert "at least k_min = 3 rows of other silos" in whose[Contributors.FOREIGN]


def test_the_rule_is_named_in_brackets() -> None:
    """What a scheme is called is read back, and the default stays unnamed."""
    _, scheme = parse("relay-coded[foreign-contributors,k_min=2]")
    assert parse(scheme.name) == (NEIGHBOURS, scheme)
    assert scheme == RelayCoded(k_min=2, contributors=Contributors.FOREIGN)
    assert RelayCoded().name == "relay-coded"
