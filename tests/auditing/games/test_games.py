"""Games on runs: right schemes keep their guarantees, and what differs is found and placed."""

import importlib
import sys
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from fgl_secure.algebra import MERSENNE_61
from fgl_secure.auditing import game as game_module
from fgl_secure.auditing import game_edges, game_views
from fgl_secure.auditing.audit import GAMES, audit
from fgl_secure.auditing.game import Game, play_games
from fgl_secure.auditing.game_edges import Signature, compare_graphs, signature
from fgl_secure.auditing.game_records import record_of
from fgl_secure.auditing.game_variations import Swaps, swapped_edges
from fgl_secure.auditing.game_views import Batch
from fgl_secure.auditing.matrix import State
from fgl_secure.auditing.plan import AuditPlan
from fgl_secure.auditing.records import Record
from fgl_secure.auditing.report import Report
from fgl_secure.errors import InputError
from fgl_secure.methods import FedAvg, FedStruct, HiFGL
from fgl_secure.protocols.topology import Grouping
from fgl_secure.runtime import Circumstance, Role, Secret, Step
from tests.error_codes import about
from tests.mutants.mutants import ROOT
from tests.planted.one_audit import guaranteeing
from tests.planted.sizes import pads_with_holes


@cache
def _plan(*schemes: str) -> AuditPlan:
    return HiFGL(epochs=1).plan(None, schemes, seed=0)


@cache
def _games(scheme: str, seed: int = 0) -> tuple[Game, ...]:
    return play_games(_plan(scheme).subjects[0], seed)


@pytest.mark.parametrize("scheme", ["relay-coded", "relay-coded[graph-shown]"])
def test_relay_coded_keeps_its_guarantees(scheme: str) -> None:
    """A game for each of its guarantees; none is lost, and each says how small a leak it would have seen."""
    games = _games(scheme)
    assert {(game.secret, game.role) for game in games} >= {
        (Secret.EMBEDDING, Role.RELAY),
        (Secret.EMBEDDING, Role.DEVICE),
        (Secret.PARAMETER_GRADIENT, Role.SILO),
        (Secret.SUMMAND, Role.SERVER),
        (Secret.CROSS_EDGE, Role.SILO),
    }
    assert [game.broken for game in games if game.broken] == []
    assert not any(game.null for game in games)
    assert all(game.control for game in games)
    relay = next(game for game in games if (game.secret, game.role) == (Secret.EMBEDDING, Role.RELAY))
    assert 0 < relay.share < 0.01
    assert relay.seen > 1000


def test_published_secmp_loses() -> None:
    """Masks are shared, and silos are asked for parameters along edges: the places are named."""
    assert not any(game.null for game in _games("secmp"))
    found = {(game.secret, game.role): " ".join(game.broken) for game in _games("secmp")}
    assert "codes" in found[Secret.EMBEDDING, Role.DEVICE]
    assert "parameter request" in found[Secret.CROSS_EDGE, Role.SILO]


@pytest.mark.parametrize("scheme", ["pairwise-masking", "lightsecagg", "ckks-shared-key"])
def test_sums_of_updates_keep_a_clients_vector(scheme: str) -> None:
    """Also where libraries have randomness of their own."""
    (subject,) = FedAvg(epochs=1).plan(None, (scheme,), seed=0).subjects
    games = play_games(subject, 1)
    assert (Secret.SUMMAND, Role.SERVER) in {(game.secret, game.role) for game in games}
    assert all(game.control for game in games)
    assert [game.broken for game in games if game.broken] == []


def test_no_game_without_a_guarantee() -> None:
    """Sums in the clear promise nothing."""
    assert play_games(_plan("plaintext").subjects[0], 0) == ()


def test_a_report_has_games() -> None:
    """As findings with their own names, and in the states of the matrix; they survive being written and read."""
    report = audit(HiFGL(epochs=1), schemes=["secmp"], attacks=GAMES)
    assert {record.attack for record in report.violations} >= {"game-embedding-device", "game-cross-edge-silo"}
    assert all(record.claim for record in report.violations)
    cells = {(cell.secret, cell.role): cell for cell in report.matrix}
    assert cells[Secret.EMBEDDING, "device"].state is State.VIOLATED
    assert "game-embedding-device" in report.attacks


@pytest.mark.parametrize("null", [False, True])
def test_a_game_that_tells_equal_inputs_apart_violates_nothing(null: bool) -> None:
    """Its null control fails, and what it found is no evidence."""
    plan = _plan("secmp")
    game = next(each for each in _games("secmp") if each.broken)
    record = record_of(replace(game, null=null), "secmp", plan)
    assert record.controls_hold is record.violates_guarantee is not null
    assert record.value == 1


def test_a_guarantee_that_holds_is_not_violated() -> None:
    """The state is that of a guarantee that was tested."""
    report: Report = audit(FedAvg(epochs=1), schemes=["lightsecagg"], attacks=GAMES)
    assert report.violations == ()
    states = {(cell.secret, cell.role): cell.state for cell in report.matrix}
    assert states[Secret.SUMMAND, "server"] is State.NOT_VIOLATED


def test_swaps_keep_the_sums_of_observers() -> None:
    """And change other sums."""
    rng = np.random.default_rng(3)
    source, target = np.nonzero(rng.random((30, 30)) < 0.15)
    owners = np.arange(100, 130)
    grouping = Grouping(owners, owners, source, target, np.zeros(30, dtype=int), np.zeros(30, dtype=int))
    swaps = Swaps.of(grouping, owners, 0, whole=grouping, most=8)
    rows = rng.normal(size=(30, 4))
    other = swaps(rows)
    assert len(swaps.observers)
    assert not np.array_equal(rows, other)
    sums, others = (np.zeros((30, 4)), np.zeros((30, 4)))
    np.add.at(sums, target, rows[source])
    np.add.at(others, target, other[source])
    changed = np.asarray(~np.isclose(sums, others).all(axis=1))
    assert not changed[swaps.observers - 100].any()
    assert changed.any()


@pytest.mark.parametrize("degrees", [True, False])
def test_edges_move(degrees: bool) -> None:
    """Between silos, both ways, as many as before, and many of them; degrees stay where they are to."""
    graph = _plan("secmp").graph.some_neighbourhoods(64, 0)
    other = swapped_edges(graph, 1, degrees=degrees)
    assert other is not None
    assert other.edges.shape == graph.edges.shape
    assert np.array_equal(np.sort(other.in_degree), np.sort(graph.in_degree)) or degrees
    assert np.array_equal(other.in_degree, graph.in_degree) is not degrees
    assert other.in_degree.max() == graph.in_degree.max()
    moved = set(map(tuple, graph.edges.T.tolist())) - set(map(tuple, other.edges.T.tolist()))
    assert len(moved) > graph.edges.shape[1] // 10
    assert replace(other, graph=graph.graph).edges is graph.edges


def test_a_declared_part_hides_no_other_flaw() -> None:
    """FedStruct declares how many entries terms have; that the server sees nothing else of them is still tested."""
    (subject,) = FedStruct(epochs=1).plan(None, ("pairwise-masking",), seed=0).subjects
    assert not subject.claim.borne_on(Secret.SUMMAND, {Role.SERVER: 1}, Circumstance.ANY)
    games = {game.role: game for game in play_games(subject, 0) if game.secret is Secret.SUMMAND}
    assert games[Role.SERVER].broken == ()
    assert 0 < games[Role.SERVER].share < 0.01


def _view(graph: int, coins: int, *, leaky: bool) -> Signature:
    """A relay that opens circuits of twenty groups: random names, four rows each, and more or fewer of one sender."""
    rng = np.random.default_rng((graph, coins))
    groups = np.repeat(rng.integers(1, 2**62, size=20), 4)
    silos = rng.permutation(np.arange(80) % 5) if not leaky or graph else np.arange(80) // 16
    values = np.stack([silos, groups], axis=1)
    party = np.zeros(80, dtype=np.int64)
    return signature([Batch("circuits", Step(0), party, party, 0, {"": values}, sent=False)])


@pytest.mark.parametrize("leaky", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_numbers_that_vary_show_a_graph(seed: int, leaky: bool) -> None:
    """Which silos stand beside one group, whose name is another one in every run."""
    one, other = (lambda coins, g=g: _view(g, 1000 * seed + coins, leaky=leaky) for g in (0, 1))
    found = compare_graphs(one, other)
    assert bool(found.broken) is leaky
    assert {kind for kind, _ in found.broken} <= {"circuits"}


def _dealt() -> Any:
    """The scheme of `examples/scheme/dealt_pads.py`."""
    sys.path.insert(0, str(ROOT / "examples" / "scheme"))
    return importlib.import_module("dealt_pads")


def test_a_thorough_audit_finds_a_smaller_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    """The printed share is smaller; words without pads in a share between the two are found by that audit alone."""
    pads = _dealt()
    schemes = [{"server": pads.DealtPads()}]

    def server(*, thorough: bool) -> Record:
        report = audit(FedAvg(epochs=1), schemes=schemes, attacks=GAMES, thorough=thorough)
        assert report.run["thorough"] is thorough
        return next(record for record in report.records if record.attack == "game-summand-server")

    brief, small = server(thorough=False).detectable_advantage, server(thorough=True).detectable_advantage
    assert 0 < small < brief
    words, holes = [0], [0]
    begin = pads.PaddedClients.begin

    def leaky(self: Any, step: Step, rows: Any = None) -> None:
        """Leave out one pad of each client in rounds that a game of two rounds does not have."""
        where = np.zeros(rows.shape, dtype=np.bool_)
        if step.round > 2:
            where[0, : max(int(rows.size * (small + brief) / 2 * 7 / 4), 1)] = True
        words[0], holes[0] = words[0] + where.size, holes[0] + int(where.sum())
        super(pads.PaddedClients, self).begin(step, (rows + pads_with_holes(self, step, where)) % MERSENNE_61)

    monkeypatch.setattr(pads.PaddedClients, "begin", leaky)
    assert not server(thorough=False).violates_guarantee
    words[0], holes[0] = 0, 0
    found = server(thorough=True)
    monkeypatch.setattr(pads.PaddedClients, "begin", begin)
    assert found.violates_guarantee
    assert small < holes[0] / words[0] < brief


def test_thorough_is_checked() -> None:
    """It is a truth value, and speaks of games."""
    with pytest.raises(InputError, check=about("thorough")):
        audit(FedAvg(epochs=1), schemes=["lightsecagg"], thorough=1)  # type: ignore[arg-type]
    with pytest.raises(InputError, check=about("thorough")):
        audit(FedAvg(epochs=1), schemes=["lightsecagg"], attacks="containment-device", thorough=True)


@pytest.mark.parametrize("blind", ["differences", "trials"])
def test_a_blind_game_tests_nothing(blind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distinguisher that reads nothing fails its positive control: the guarantee is not tested."""
    for module in (game_module, game_views):
        monkeypatch.setattr(module, blind, lambda *_args, **_options: iter(()), raising=module is game_module)
    report = audit(FedAvg(epochs=1), schemes=["pairwise-masking"], attacks=GAMES)
    record = next(record for record in report.records if record.attack == "game-summand-server")
    assert record.positive_control == 0
    assert not record.controls_hold
    states = {(cell.secret, cell.role): cell.state for cell in report.matrix}
    assert states[Secret.SUMMAND, "server"] is State.NOT_TESTED


def test_a_blind_game_about_edges_tests_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where graphs are compared."""
    (subject,) = _plan("relay-coded").subjects
    with guaranteeing(subject, "CROSS_EDGE", "silo"):
        (seeing,) = play_games(subject, 0)
        for module in (game_module, game_edges):
            monkeypatch.setattr(module, "signature", lambda _batches: Signature())
        (blind,) = play_games(subject, 0)
    assert (seeing.control, blind.control) == (True, False)
    assert not record_of(blind, "relay-coded", _plan("relay-coded")).controls_hold
