"""GAP and ProGAP: sums are those of the graph, their noise is what epsilon needs, and edges show in nothing else."""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fgl_reproduction.methods import GAP, ProGAP
from fgl_reproduction.methods.gap import hops
from fgl_reproduction.methods.gap.audit_target import HopSubject, edge_guarantee, make_preset
from fgl_reproduction.methods.gap.hops import NoisySums, calibrate_noise, choose_delta, normalize_rows, play_canaries
from fgl_reproduction.methods.gap.program import HopPreset, NoisyHops, make_job
from fgl_secure import audit, train
from fgl_secure.cli.printing import describe
from fgl_secure.coins import Coins, SimulationCoins
from fgl_secure.dp import BudgetExhaustedError, DiscreteGaussian, Perturbation, Unit, epsilon_spent, grid_rows
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Role
from fgl_secure.training.job import Job
from tests.error_codes import about
from tests.graphs import two_communities
from tests.methods.fed2gnn.small import some_digits
from tests.training.processes.runs import agree, apart, in_lockstep

Floats = NDArray[np.float64]
GRAPH = two_communities(devices=48, silos=3)
CLEAR: Mapping[str, Scheme] = {"neighbours": Plaintext(), "server": Plaintext()}
RELAYS = RelayCoded(k_min=1, profile=Profile.SHOWN)
QUICK, STAGED = HopPreset("honest", epochs=2), HopPreset("honest", epochs=2, progressive=True)


def noise_for(preset: HopPreset, epsilon: float = 4.0, graph: FederatedGraph = GRAPH) -> Perturbation:
    return calibrate_noise(epsilon, None, graph.edges.shape[1], preset.hops, preset.width, preset.unit)


def programs_after(job: Job, seed: int = 0) -> list[NoisyHops]:
    """The silos' programs after all rounds."""
    process = job.open(job.channel(SimulationCoins(seed)))
    in_lockstep(process)
    return [each for each in process.programs if isinstance(each, NoisyHops)]


def rows_of(programs: list[NoisyHops], graph: FederatedGraph = GRAPH) -> Floats:
    """What is cached, [blocks, n, width], in the order of all devices."""
    found = np.zeros((len(programs[0].kept["rows"]), graph.num_devices, programs[0].kept["rows"].shape[2]))
    for program in programs:
        found[:, program.silo.nodes] = program.kept["rows"]
    return found


def adjacency(graph: FederatedGraph) -> Floats:
    whole = np.zeros((graph.num_devices,) * 2)
    whole[graph.edges[1], graph.edges[0]] = 1
    return whole


def test_cached_rows_are_normalised_sums_over_neighbours() -> None:
    """Hop after hop, as a dense matrix has them, when no noise is added."""
    rows = rows_of(programs_after(make_job(GRAPH, CLEAR, replace(QUICK, hops=3), None)))
    assert rows.shape == (4, GRAPH.num_devices, QUICK.width)
    assert np.allclose(np.linalg.norm(rows[0], axis=1), 1)
    for before, after in pairwise(rows):
        assert np.allclose(after, normalize_rows(adjacency(GRAPH) @ before), atol=1e-12)


def test_every_stage_of_progap_sums_what_the_last_one_learnt() -> None:
    """Once per hop; the sum of the second hop is of no cached row of the first."""
    rows = rows_of(programs_after(make_job(GRAPH, CLEAR, STAGED, None)))
    assert rows.shape == (3, GRAPH.num_devices, STAGED.width)
    assert np.allclose(rows[2], normalize_rows(adjacency(GRAPH) @ rows[1]), atol=1e-12)
    assert not np.allclose(rows[1], normalize_rows(adjacency(GRAPH) @ rows[0]), atol=1e-3)


@pytest.mark.parametrize("preset", [QUICK, STAGED])
def test_cached_rows_carry_the_noise_that_was_drawn(preset: HopPreset) -> None:
    """In whole units of the grid, on the sum of rows on the grid: exact under relays as in plaintext."""
    settings = noise_for(preset)
    runs = [
        programs_after(make_job(GRAPH, {"neighbours": scheme, "server": Plaintext()}, preset, settings))
        for scheme in (Plaintext(), RELAYS)
    ]
    clear, hidden = map(rows_of, runs)
    if preset is QUICK:
        bits, noise = settings.fraction_bits, np.zeros((preset.hops, GRAPH.num_devices, preset.width))
        for program in runs[0]:
            noise[:, program.silo.nodes] = program.kept["noise"]
        units = adjacency(GRAPH) @ grid_rows(clear[0], 1.0, bits).rows + noise[0]
        assert np.allclose(clear[1], normalize_rows(units * 2.0**-bits), atol=1e-12)
    assert clear.shape == hidden.shape
    assert np.array_equal(clear[0], hidden[0])


def test_relays_add_the_noise_of_all_sums() -> None:
    """R shares in each, also for a device without neighbours, which adds them itself."""
    lonely = replace(GRAPH, graph=replace(GRAPH.graph, edges=GRAPH.edges[:, (GRAPH.edges != 5).all(axis=0)]))
    (subject,) = GAP(epochs=1, noise="relays", epsilon=1.0).plan(lonely, "relay-coded").subjects
    assert isinstance(subject, HopSubject)
    assert subject.settings is not None
    assert subject.name.endswith("+joint")
    settings, sums = subject.settings, dict[int, list[Floats]]()
    original = NoisySums.add

    def watch(self: NoisySums, hop: int, rows: Floats, sum_rows: Any) -> Floats:
        found = original(self, hop, rows, sum_rows)
        sums.setdefault(hop, []).append(found)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NoisySums, "add", watch)
        programs = programs_after(subject.job)
    rows = rows_of(programs, lonely)
    exact = adjacency(lonely) @ grid_rows(rows[0], 1.0, settings.fraction_bits).rows
    noisy = np.zeros_like(exact)
    for program, found in zip(programs, sums[0], strict=True):
        noisy[program.silo.nodes] = found * 2.0**settings.fraction_bits
    noise = noisy - exact
    expected = settings.noise.sigma * math.sqrt(2)
    assert noise.std() == pytest.approx(expected, rel=5 / math.sqrt(2 * noise.size))
    assert np.abs(noise[5]).max() > expected / 4


def test_an_edge_moves_all_sums_of_a_hop_by_the_square_root_of_two_at_most() -> None:
    """Exactly, in grid units, for every edge of the graph and any rows; one direction alone moves them by one."""
    settings = noise_for(QUICK)
    rows = np.random.default_rng(0).normal(size=(GRAPH.num_devices, QUICK.width)) * 3
    units = grid_rows(rows, hops.CLIP, settings.fraction_bits).rows
    whole, clip, moved = adjacency(GRAPH), settings.grid_clip, []
    for source, target in GRAPH.edges.T.tolist():
        without = whole.copy()
        without[source, target] = without[target, source] = 0
        moved.append(math.sqrt((((whole - without) @ units) ** 2).sum()))
    assert max(moved) <= math.sqrt(2) * clip
    assert max(moved) > 1.4 * clip
    assert settings.target.relation.l2_sensitivity(clip) == math.sqrt(2) * clip


def test_noise_has_the_variance_that_the_accountant_assumes() -> None:
    """All hops together cost the target's epsilon for sensitivity sqrt(2), and noise of hops and devices is apart."""
    settings = noise_for(QUICK)
    noise = NoisySums.draw(settings, np.ones(4000, dtype=np.bool_), SimulationCoins(1)).noise
    sigma = settings.noise.sigma
    assert noise.std() == pytest.approx(sigma, rel=0.01)
    target, multiplier = settings.target, sigma / (math.sqrt(2) * settings.grid_clip)
    assert epsilon_spent(multiplier, target.releases, target.delta) <= target.epsilon
    assert epsilon_spent(multiplier, target.releases, target.delta) > 0.97 * target.epsilon
    assert abs(np.corrcoef(noise[0].ravel(), noise[1].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(noise[0, 0::2].ravel(), noise[0, 1::2].ravel())[0, 1]) < 0.03


@pytest.mark.parametrize("silenced", [True, False])
def test_edges_show_in_nothing_but_noisy_sums(silenced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same rows in place of sums, two graphs give the same reports; negative control: their own sums."""
    if silenced:
        monkeypatch.setattr(NoisySums, "add", lambda _sums, _hop, rows, _sum_rows: rows)
    other = GRAPH.without_edges()
    first, second = (
        programs_after(make_job(graph, CLEAR, STAGED, noise_for(STAGED)))[0].report for graph in (GRAPH, other)
    )
    alike = all(np.array_equal(first[name], second[name], equal_nan=True) for name in first)
    assert alike == silenced


EPSILON_4 = noise_for(QUICK)


def drawing(change: Any) -> Any:
    """Draws noise that is changed before it is added."""

    def draw(settings: Perturbation, adding: NDArray[np.bool_], coins: Coins) -> NoisySums:
        drawn = NoisySums.draw(settings, adding, coins)
        return replace(drawn, noise=change(drawn.noise))

    return draw


def skip_nodes(noise: NDArray[np.int64]) -> NDArray[np.int64]:
    """One end of each pair adds none."""
    changed = noise.copy()
    changed[:, ::2] = 0
    return changed


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_lower_bounds_stay_below_the_claim(epsilon: float) -> None:
    """And reach half of epsilon 4, both of them."""
    settings = calibrate_noise(epsilon, 1e-5, 10_556, QUICK.hops, QUICK.width)
    gaussian, one_run = play_canaries(settings, SimulationCoins(0)).bounds(settings.target.delta)
    assert 0.5 * epsilon * (epsilon > 1) < gaussian.epsilon <= epsilon
    assert 0.4 * epsilon * (epsilon > 1) < one_run.epsilon <= epsilon


def test_audits_exceed_the_claim_no_more_often_than_stated() -> None:
    """Of 60 at 95 %, at most 8 (exceeded with probability 0.1 % at most)."""
    runs = [play_canaries(EPSILON_4, SimulationCoins(seed), 1000).bounds(1e-3) for seed in range(60)]
    target = epsilon_spent(
        EPSILON_4.noise.sigma / (math.sqrt(2) * EPSILON_4.grid_clip), EPSILON_4.target.releases, 1e-3
    )
    for which in range(2):
        assert sum(found[which].epsilon > target for found in runs) <= 8


@pytest.mark.parametrize(
    ("claimed", "draw"),
    [
        (EPSILON_4, drawing(lambda noise: noise // 2)),
        (EPSILON_4, drawing(skip_nodes)),
        (EPSILON_4, drawing(np.zeros_like)),
        (calibrate_noise(4.0, None, 300, 2, 16, Unit.MESSAGE), NoisySums.draw),
    ],
    ids=["half the noise", "a skipped node", "no noise", "sensitivity 1"],
)
def test_broken_noise_exceeds_the_claim(claimed: Perturbation, draw: Any) -> None:
    """Each at the claimed epsilon of an undirected edge."""
    bounds = play_canaries(claimed, SimulationCoins(0), draw=draw).bounds(claimed.target.delta)
    assert bounds[0].epsilon > 4.0


@pytest.mark.parametrize("preset", [QUICK, STAGED])
def test_a_process_for_each_silo_trains_as_one_process(preset: HopPreset) -> None:
    """Without noise to the last bit, also when processes are stopped after every turn."""
    job = make_job(GRAPH, {"neighbours": Plaintext(), "server": PairwiseMasking()}, preset, None)
    agree(apart(job, put_down=True), in_lockstep(job.open(job.channel(SimulationCoins(0)))))


@pytest.mark.parametrize("preset", [QUICK, STAGED])
def test_a_program_that_goes_on_draws_nothing_anew(preset: HopPreset) -> None:
    """Its noise is that of the first life, and its releases stay spent."""
    job = make_job(GRAPH, CLEAR, preset, noise_for(preset))
    first = programs_after(job, 0)[0]
    again = job.open(job.channel(SimulationCoins(9))).programs[0]
    assert isinstance(again, NoisyHops)
    assert not np.array_equal(again.kept["noise"], first.kept["noise"])
    again.restore(first.state())
    assert np.array_equal(again._sums.noise, first.kept["noise"])
    assert np.array_equal(again.report["theta"], first.report["theta"])
    with pytest.raises(BudgetExhaustedError):
        again._sums.add(0, np.zeros((len(again.silo.nodes), 16)), lambda rows: rows)


def test_labels_enter_as_devices_sent_them() -> None:
    """Drawn once; at an epsilon that hides them, true labels change nothing but the scores of test devices."""
    flipped = replace(GRAPH, graph=replace(GRAPH.graph, labels=1 - GRAPH.labels))
    models = [
        [program.report["theta"] for program in programs_after(make_job(graph, CLEAR, QUICK, None, epsilon))]
        for graph in (GRAPH, flipped)
        for epsilon in (1e-6, None)
    ]
    assert np.array_equal(models[0], models[2])
    assert not np.array_equal(models[1], models[3])


def test_edges_are_left_out_if_they_bring_nothing() -> None:
    """At an epsilon that hides all, the reported accuracy is the encoder's; `paper` never reports the encoder's."""
    graph = some_digits(300, 3)
    for preset, eligible in (("honest", True), ("paper", False)):
        done = train(GAP(epsilon=0.01, epochs=15, preset=preset), graph, "plaintext", device="cpu")
        assert done.privacy is not None
        assert (done.result.selected_round < 15) == eligible
        if eligible:
            assert done.accuracy.test == pytest.approx(done.privacy.accuracy_without_edges)


def test_a_run_prints_what_epsilon_costs_beside_its_baselines() -> None:
    graph = some_digits(300, 3)
    done = train(GAP(epochs=10), graph, device="cpu")
    text, cost = describe(done), done.privacy
    assert cost is not None
    assert 2.0 < cost.measured.bound.epsilon <= cost.measured.claimed == 4.0
    assert cost.measured.one_run is not None
    for said in ("without noise", "without features", "without edges", "one run", "undirected edge"):
        assert said in text


def test_an_audit_finds_embeddings_in_plaintext_and_not_over_relays() -> None:
    report = audit(ProGAP(epochs=1), GRAPH, device="cpu", attacks=["clear-values"])
    assert [name.split("[")[0] for name in report.claims] == ["plaintext", "relay-coded"]
    found = {record.protocol.split("[")[0]: record.value for record in report.records}
    assert found["plaintext"] == 1
    assert found.get("relay-coded", 0) == 0
    assert not report.violations


def test_the_guarantee_names_unit_and_figures() -> None:
    """Against servers and silos; relays that see traffic are none of them."""
    promise = edge_guarantee(noise_for(QUICK))
    assert promise.covers({Role.SILO: 3, Role.SERVER: 1})
    assert not promise.covers({Role.RELAY: 1})
    for said in ("(4, 0.001)", "one undirected edge", "2 sums"):
        assert said in promise.statement
    assert make_preset(GAP(preset="paper")).unit is Unit.MESSAGE


@pytest.mark.parametrize(("edges", "delta"), [(9, 0.1), (10, 0.01), (10_556, 1e-5), (238_162, 1e-6)])
def test_delta_is_below_one_edge(edges: int, delta: float) -> None:
    assert choose_delta(edges) == pytest.approx(delta)
    assert choose_delta(edges) < 1 / edges


@pytest.mark.parametrize(
    ("choices", "named"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": 0.1}, "delta"),
        ({"hops": 0}, "hops"),
        ({"label_epsilon": 0.0}, "label_epsilon"),
        ({"edges": 10}, "edges"),
        ({"noise": "relays"}, "noise"),
    ],
)
def test_bad_choices_are_refused_before_training(choices: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, check=about(named)):
        GAP(**choices).plan(GRAPH, "plaintext")


@pytest.mark.parametrize(
    "scheme", ["relay-coded[k_min=3,profile=graph-shown]", "relay-coded[k_min=1,profile=graph-hidden]", "secmp",
               "plaintext[path=silo]", "plaintext[minimum_group=2]"],
)  # fmt: skip
def test_schemes_whose_sums_depend_on_edges_otherwise_are_refused(scheme: str) -> None:
    """Refused sums, degree-capped partners, and sums that other parties than the receiver read."""
    with pytest.raises(InputError, check=about("scheme")):
        GAP().plan(GRAPH, scheme)


def test_directed_graphs_are_refused() -> None:
    directed = replace(GRAPH, graph=replace(GRAPH.graph, edges=GRAPH.edges[:, GRAPH.edges[0] < GRAPH.edges[1]]))
    with pytest.raises(InputError, check=about("graph")):
        GAP().plan(directed, "plaintext")


def test_noise_on_the_grid_is_a_discrete_gaussian() -> None:
    """By a chi-square test of 40,000 draws against its law."""
    settings = noise_for(QUICK)
    assert isinstance(settings.noise, DiscreteGaussian)
    sigma = settings.noise.sigma
    drawn = NoisySums.draw(settings, np.ones(1250, dtype=np.bool_), SimulationCoins(3)).noise.ravel()[:40_000]
    ends = np.floor(sigma * np.linspace(-2.5, 2.5, 21)) + 0.5
    counts = np.histogram(drawn, np.concatenate([[-np.inf], ends, [np.inf]]))[0]
    chances = np.diff(stats.norm.cdf(np.concatenate([[-np.inf], ends, [np.inf]]) / sigma))
    assert stats.chisquare(counts, len(drawn) * chances).pvalue > 1e-4
