"""GCFL+: clusters split as the paper says, sums stay within them, and none is of fewer clients than promised."""

from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_reproduction.methods import GCFL
from fgl_reproduction.methods.gcfl import clusters as program
from fgl_reproduction.methods.gcfl.clusters import ClusterRule, Clusters, cut, dtw_distances
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FglSecureError, InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedavg.program import LocalTraining, UpdateRule, clients_of
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Phase, Recording, Role
from fgl_secure.training.job import Job
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.presets import HONEST
from tests.graphs import two_communities
from tests.training.processes.runs import agree, apart, in_lockstep

Floats = NDArray[np.float64]
SMALL = replace(HONEST, hidden=8, epochs=3)
GRAPH = two_communities(devices=96, silos=6)
SPLITTING = ClusterRule(mean_norm=100.0, largest_norm=0.0, length=2, after=1, least=3)
NEVER = replace(SPLITTING, after=1000)


def job(
    graph: FederatedGraph = GRAPH, scheme: Scheme | None = None, rule: ClusterRule = SPLITTING, *, steps: int = 1
) -> Job:
    kind = partial(program.GCFLClient, rule=rule)
    return clients_of(graph, UpdateRule(scheme or Plaintext()), SMALL, LocalTraining(steps=steps), kind=kind)


def open_rounds(made: Job, rounds: int) -> tuple[list[program.GCFLClient], OneProcess]:
    """All clients after so many rounds, with everything recorded."""
    process = made.open(made.channel(SimulationCoins(0), Recording.everything()))
    for number in range(rounds):
        process.round(number)
    return [each for each in process.programs if isinstance(each, program.GCFLClient)], process


def naive(one: Floats, two: Floats) -> float:
    """Dynamic time warping, by recursion."""

    def least(i: int, j: int) -> float:
        here = (one[i] - two[j]) ** 2
        if not i and not j:
            return float(here)
        before = [least(i - a, j - b) for a, b in ((1, 0), (0, 1), (1, 1)) if i >= a and j >= b]
        return float(here + min(before))

    return float(np.sqrt(least(len(one) - 1, len(two) - 1)))


def test_distances_are_those_of_time_warping() -> None:
    """Zero for a sequence and itself, or itself later; symmetric."""
    rows = np.random.default_rng(0).random((4, 5))
    expected = [[naive(one, two) for two in rows] for one in rows]
    assert dtw_distances(rows) == pytest.approx(np.array(expected))
    late = np.array([[0.0, 0, 1, 2], [0.0, 1, 2, 2]])
    assert dtw_distances(late)[0, 1] == 0


def weight(distances: Floats, part: NDArray[np.int64]) -> float:
    inside = np.isin(np.arange(len(distances)), part)
    return float((distances.max() - distances)[np.ix_(inside, ~inside)].sum())


@pytest.mark.parametrize("seed", range(4))
def test_the_published_cut_is_the_lightest_of_all(seed: int) -> None:
    points = np.random.default_rng(seed).random(6)
    distances = np.abs(points[:, None] - points[None, :])
    found = weight(distances, cut(distances)[0])
    subsets = [np.array(each) for size in range(1, 6) for each in combinations(range(6), size)]
    assert found == pytest.approx(min(weight(distances, each) for each in subsets))


def test_a_cut_with_large_parts_finds_two_kinds() -> None:
    """Where one client is far from all, the published cut takes it off; with large parts kinds come apart."""
    points = np.array([0.0, 1.0, 0.05, 0.95, 0.1, 1.1, 5.0])
    distances = np.abs(points[:, None] - points[None, :])
    assert [part.tolist() for part in cut(distances)] == [[0, 1, 2, 3, 4, 5], [6]]
    assert [part.tolist() for part in cut(distances[:6, :6], 3)] == [[0, 2, 4], [1, 3, 5]]


def test_clusters_split_where_the_rule_says() -> None:
    """Not before so many rounds and norms, nor with a long mean or short updates; sequences begin anew."""
    low, high = np.array([0.1, 0.1, 0.1, 0.9, 0.9, 0.9]), np.array([0.2, 0.2, 0.2, 0.5, 0.5, 0.5])
    rule = ClusterRule(0.05, 0.4, length=2, after=2)

    def after(rounds: int, mean: float = 0.01, norms: Floats = low) -> list[int]:
        clusters = Clusters(6, rule)
        for number in range(rounds):
            clusters.see(number, norms, np.full(clusters.count, mean))
        return list(clusters.of.tolist())

    assert after(2) == [0] * 6
    assert after(3) == after(4) == [0, 0, 0, 1, 1, 1]
    assert after(3, mean=0.05) == [0] * 6
    assert after(3, norms=low / 3) == [0] * 6
    assert after(3, norms=high) == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("least", [1, 2, 3])
def test_no_cluster_is_of_fewer_clients(least: int) -> None:
    """However often clusters split."""
    rng, clusters = np.random.default_rng(1), Clusters(12, replace(SPLITTING, least=least))
    for number in range(40):
        clusters.see(number, rng.random(12), np.zeros(clusters.count))
    assert np.bincount(clusters.of).min() == least
    assert clusters.count > 1


def sums(process: OneProcess) -> list[Floats]:
    """What each client sent to train, by round, float64 [clients, columns]."""
    batches = process._channel.transcript.messages
    said = [each for each in batches if each.phase is Phase.VECTORS and not each.step.evaluation]
    return [np.asarray(each.payload, dtype=np.float64) for each in said]


def test_every_cluster_takes_its_own_mean() -> None:
    """Of the last round: parts of other clusters are zeros, and models agree within a cluster alone."""
    clients, process = open_rounds(job(), 3)
    clusters = clients[0].clusters
    assert sorted(np.bincount(clusters.of).tolist()) == [3, 3]
    rows = sums(process)
    entries = sum(each.numel() for each in clients[0].layers.parameters())
    assert [row.shape[1] for row in rows] == [entries + 1, entries + 1, 2 * entries + 2]
    for client, row in enumerate(rows[-1]):
        own = int(clusters.of[client])
        parts = [row[:entries], row[entries:-2]]
        assert parts[own].any()
        assert not parts[1 - own].any()
        assert row[-1 - own] == 0
    models = np.stack([each.report["theta"] for each in clients])
    same = (models[:, None] == models[None, :]).all(axis=2)
    assert np.array_equal(same, clusters.of[:, None] == clusters.of[None, :])


def test_without_a_split_it_is_federated_averaging() -> None:
    """To the last digits: sums are of another grid."""
    averaging = clients_of(GRAPH, UpdateRule(Plaintext()), SMALL, LocalTraining()).train()
    assert job(rule=NEVER).train().losses == pytest.approx(averaging.losses, abs=1e-5)


def test_norms_are_of_updates_and_known_to_all() -> None:
    """Every copy of the clusters has those of all clients."""
    clients, process = open_rounds(job(rule=NEVER), 1)
    rows = sums(process)[0]
    norms = np.linalg.norm(rows[:, :-1] / rows[:, -1:], axis=1)
    for client in clients:
        assert client.clusters.state()["norms"][-1] == pytest.approx(norms, rel=1e-5)


def test_masked_training_apart_is_that_in_the_clear_together() -> None:
    """Reports to the bit, with a process for each client, put down after each turn."""
    masked, clear = (job(scheme=each, steps=2) for each in (PairwiseMasking(), Plaintext()))
    agree(apart(masked, put_down=True), in_lockstep(clear.open(clear.channel(SimulationCoins(0)))))


def test_promises_are_of_clusters() -> None:
    """With three in a cluster one client beside the server learns no update; with single ones nothing is promised."""
    for least, promised in ((1, set()), (3, {Role.SERVER, Role.SILO})):
        (subject,) = GCFL(epochs=1, least=least).plan(GRAPH, "pairwise-masking").subjects
        claim = subject.claims[subject.name]
        assert {role for each in claim.guarantees for role in each.coalition} == promised
        assert all(each.coalition.get(Role.SILO, 0) <= 1 for each in claim.guarantees)
    (clear,) = GCFL(epochs=1).plan(GRAPH, "plaintext").subjects
    assert not clear.claims["plaintext"].guarantees


def test_clients_of_one_class_and_isolated_nodes_train() -> None:
    """A class that a client lacks is no hindrance, nor is a graph without edges; without labels there is no update."""
    lacking = replace(GRAPH, train_mask=GRAPH.train_mask & ((GRAPH.labels == 0) | (GRAPH.silo_of != 1)))
    none = replace(GRAPH, graph=replace(GRAPH.graph, edges=GRAPH.edges[:, :0]))
    for graph in (lacking, none):
        assert np.isfinite(job(graph).train().losses).all()
    empty = replace(GRAPH, train_mask=GRAPH.train_mask & (GRAPH.silo_of != 1))
    with pytest.raises(FglSecureError, match="client 1 has none"):
        job(empty).train()


@pytest.mark.parametrize(
    ("choice", "rule"),
    [
        ({"noise": 1.0}, "noise must not be given for gcfl"),
        ({"mean_norm": -1.0}, "mean_norm must be zero or positive; found -1"),
        ({"largest_norm": float("inf")}, "largest_norm must be zero or positive; found inf"),
        ({"least": 0}, "least must be at least 1"),
        ({"length": 0}, "length must be at least 1"),
    ],
)
def test_choices_out_of_range_are_refused(choice: dict[str, float], rule: str) -> None:
    """Before anything runs."""
    with pytest.raises(InputError, match=rule):
        GCFL(**choice).plan(GRAPH)  # type: ignore[arg-type]  # wrong on purpose
