from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.attacks.truth import (
    ClientBatch,
    GradientTruth,
    MessageTruth,
    ProxyTruth,
    StructureTruth,
    TreeTruth,
    UpdateTruth,
    VirtualNodeTruth,
    foreign_neighbours,
)
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Channel, Recording, Role, Step
from fgl_secure.training.parties import hierarchy_of
from tests.attacks.message_passing.tagged import messages_of
from tests.attacks.recorded import Run, random_graph, record, star_and_path
from tests.error_codes import about

SEEDS = st.integers(0, 10_000)


@given(SEEDS)
def test_foreign_neighbours_match_a_walk_over_the_edges(seed: int) -> None:
    """A device touches the foreign silos of the devices that it sends to or hears from."""
    graph = random_graph(seed, directed=True, devices=9, pairs=8)
    slow = np.zeros((9, 3), dtype=np.bool_)
    for source, target in messages_of(graph):
        if graph.silo_of[source] != graph.silo_of[target]:
            slow[source, graph.silo_of[target]] = slow[target, graph.silo_of[source]] = True
    assert np.array_equal(foreign_neighbours(_numbered(seed).truth), slow)


@given(SEEDS, st.integers(0, 100))
def test_permuting_shuffles_within_silos(seed: int, shuffle: int) -> None:
    """Permuted truth has the same rows in each silo and as many edges between each pair of silos."""
    run = _numbered(seed)
    permuted = run.truth.permute(shuffle)
    silo, before, after = run.graph.silo_of, run.truth.embeddings[Step(0, 0)], permuted.embeddings[Step(0, 0)]
    for k in range(3):
        assert sorted(after[silo == k, 0]) == sorted(before[silo == k, 0])
    joined = [Counter(zip(*silo[each.edges].tolist(), strict=True)) for each in (run.truth, permuted)]
    assert joined[0] == joined[1]
    assert np.array_equal(permuted.silo_of, silo)


def test_permuting_repeats_by_seed_and_changes_something() -> None:
    """Equal seeds shuffle alike, different seeds differently, and the truth itself stays as it was."""
    truth = _numbered(1).truth
    before = truth.edges.copy()
    first, again, other = truth.permute(1), truth.permute(1), truth.permute(2)
    assert np.array_equal(first.edges, again.edges)
    assert not np.array_equal(first.edges, other.edges)
    assert not np.array_equal(first.edges, truth.edges)
    assert np.array_equal(truth.edges, before)


def test_permuting_leaves_no_device_its_own_row() -> None:
    """Where a silo has two devices or more, none of them keeps its row, however small the silos are."""
    for seed in range(5):
        run = _numbered(seed)
        rows = run.truth.permute(seed).embeddings[Step(0, 0)]
        assert (rows != run.truth.embeddings[Step(0, 0)]).all()


def test_refuses_inputs_that_are_not_one_row_a_device() -> None:
    graph = star_and_path()
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), Recording.everything())
    channel.note_inputs("values", Step(0, 0), channel.parties.ids(Role.DEVICE)[:3], np.zeros((3, 2)))
    with pytest.raises(InputError, check=about("transcript")):
        MessageTruth.of(channel.transcript, graph)


def _numbered(seed: int) -> Run:
    """An exchange in which device i sends the number i."""
    return record(random_graph(seed, directed=True, devices=9, pairs=8), Plaintext(), np.arange(9.0)[:, None])


@given(SEEDS)
def test_permuting_moves_batches_within_silos(seed: int) -> None:
    """Batches keep their size and their silo, no node of one stays in place, and rows that enter move along."""
    graph = random_graph(seed, directed=False)
    members = [np.flatnonzero(graph.silo_of == silo) for silo in range(3)]
    batches = tuple(ClientBatch(0, silo, nodes[:1], nodes[:4]) for silo, nodes in enumerate(members))
    rows = np.arange(24.0)[:, None]
    truth = replace(GradientTruth.of(graph), batches=batches, entering={"0.weight": rows})
    permuted = truth.permute(seed)
    for before, after in zip(truth.batches, permuted.batches, strict=True):
        assert (before.round, before.client, len(before.receptive)) == (after.round, after.client, len(after.receptive))
        assert set(graph.silo_of[after.receptive]) == {before.client}
        assert not (before.nodes == after.nodes).any()
        assert np.isin(after.nodes, after.receptive).all()
    assert not (permuted.entering["0.weight"] == rows).any()


def test_every_family_moves_what_it_hides() -> None:
    """The null control's truth has other secrets in the same places, and the truth itself stays as it was."""
    graph = random_graph(1, directed=False)
    rows, clients = np.arange(24.0)[:, None], np.arange(3)
    shares = np.array([[1.0, 0.0], [0.5, 0.5], [0.2, 0.8]])
    structure = StructureTruth.of(hierarchy_of(graph), graph, {Step(0): rows})
    tree, update = TreeTruth(graph.silo_of, graph.edges, rows), UpdateTruth({0: rows[:3]})
    proxies = ProxyTruth(clients[:, None, None], rows[:3, :, None, None], rows[:3, :, None], clients[:, None])
    virtual = VirtualNodeTruth(clients, shares, shares[2])
    hidden = [
        (structure.identity, structure.permute(1).identity),
        (structure.embeddings[Step(0)], structure.permute(1).embeddings[Step(0)]),
        (tree.features, tree.permute(1).features),
        (update.updates[0], update.permute(1).updates[0]),
        (proxies.labelled, proxies.permute(1).labelled),
        (proxies.singles, proxies.permute(1).singles),
        (proxies.added, proxies.permute(1).added),
        (virtual.clients, virtual.permute(1).clients),
    ]
    for before, after in hidden:
        assert not (before == after).any()
        assert sorted(before.ravel().tolist()) == sorted(after.ravel().tolist())
    assert virtual.permute(1).population is not None
    assert np.array_equal(proxies.permute(1).sizes, proxies.sizes)
