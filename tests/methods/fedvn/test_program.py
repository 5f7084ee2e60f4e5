"""What clients of FedVN send, and what they make of what comes back."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import SplitMasks
from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.methods.fedvn.preset import FedVNPreset, fedvn_preset
from fgl_secure.methods.fedvn.program import SCORED, UNIT, ClientGraphs, FedVNClient, clients_of, first_model
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Channel, Phase, Recording
from fgl_secure.training.parameters import flat
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.server_sums import FRACTION_BITS
from tests.error_codes import about
from tests.methods.fedvn.sets import random_set

SETS = random_set()
SMALL = replace(fedvn_preset("honest", "random"), hidden=6, virtual_nodes=3, batch=4, learning_rate=0.1)
OFF = 2.0**-FRACTION_BITS * 30


class Alone(FedVNClient):
    """A client that keeps what it comes to, and goes its own way."""

    came_to: NDArray[np.float32]

    def average(self, loss: float) -> float:
        self.came_to = flat(self.shared)
        return super().average(loss)


def one_round(preset: FedVNPreset = SMALL, sets: GraphSet = SETS) -> tuple[list[Alone], NDArray[Any], NDArray[Any]]:
    """Clients after a round, and the rows of counts and of models that they sent in it."""
    channel = Channel(hierarchy_of(sets.union()), SimulationCoins(0), Recording.everything())
    process = clients_of(sets, Plaintext(), preset, kind=Alone, seed=5).open(channel)
    process.begin()
    process.round(0)
    counts, models = (b.payload for b in channel.transcript.messages if b.phase is Phase.VECTORS)
    assert counts is not None
    assert models is not None
    return [each for each in process.programs if isinstance(each, Alone)], counts, models


def shares(rows: NDArray[Any]) -> NDArray[np.float64]:
    """What rows of models hold, no longer weighted."""
    means: NDArray[np.float64] = rows[:, :-1] / rows[:, -1:]
    return means


def test_all_take_over_the_mean_weighted_by_graphs() -> None:
    """Shared parameters and virtual nodes afterwards are the clients' means with weights by training graphs."""
    clients, _, _ = one_round()
    came_to = np.stack([client.came_to for client in clients])
    for client in clients:
        np.testing.assert_allclose(flat(client.shared), came_to.mean(axis=0), atol=1e-6)
    assert not np.array_equal(came_to[0], came_to[1])


def test_rows_hold_what_the_method_says_and_nothing_else() -> None:
    """Model, virtual nodes, score vector, loss and weight in one row, counts in another; no generator."""
    clients, counts, rows = one_round()
    model = first_model(2, 3, SMALL, 0)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert rows.shape == (3, parameters + 3 * 6 + 3 + 1 + 1)
    found = shares(rows)
    for client, row, counted in zip(clients, found, counts, strict=True):
        np.testing.assert_allclose(row[: parameters + 18], client.came_to, atol=OFF)
        np.testing.assert_allclose(row[-4:-1], client.local_score.numpy() / UNIT, atol=OFF)
        assert counted[0] in [0, SCORED, 2 * SCORED]
        assert counted[1] == 2
        assert counted[2] in [0, SCORED // 2, SCORED]
        assert counted[3] == 1
    assert clients[0].losses == [pytest.approx(found[:, -1].mean() * UNIT)]


def test_each_phase_changes_its_own_part_alone() -> None:
    """Generators start differently and learn in phase 1, model and virtual nodes in phase 2."""
    channel = Channel(hierarchy_of(SETS.union()), SimulationCoins(0))
    client, other = clients_of(SETS, Plaintext(), SMALL, seed=5).open(channel).programs[:2]
    assert isinstance(client, FedVNClient)
    assert isinstance(other, FedVNClient)
    generator = client.generator
    assert not torch.equal(generator.output.weight, other.generator.output.weight)
    model, started = flat(list(client.model.parameters())), flat(list(generator.parameters()))
    client.train_generator()
    assert np.array_equal(flat(list(client.model.parameters())), model)
    assert not flat([client.virtual]).any()
    learnt = flat(list(generator.parameters()))
    assert not np.array_equal(learnt, started)
    client.train_model()
    assert np.array_equal(flat(list(generator.parameters())), learnt)
    assert not np.array_equal(flat(list(client.model.parameters())), model)
    assert flat([client.virtual]).any()


def test_a_client_without_training_graphs_is_named() -> None:
    train = SETS.train & (SETS.client_of != 1)
    with pytest.raises(InputError, check=about("masks.train")):
        one_round(sets=replace(SETS, train=train))


def test_a_client_holds_its_own_graphs_alone() -> None:
    """What it is given of others is how many graphs there are, and what labels and types of nodes."""
    values = np.arange(len(SETS.features), dtype=np.float64)[:, None]
    typed = GraphSet.from_arrays(
        "typed",
        values,
        SETS.edges,
        SETS.graph_of,
        SETS.targets,
        SETS.client_of,
        SplitMasks(SETS.train, SETS.validation, SETS.test),
        "none",
        node_types=True,
    )
    held = ClientGraphs.of_silo(ClientGraphs.share_of(typed, 1))
    own = np.flatnonzero(SETS.client_of[SETS.graph_of] == 1)
    assert (held.graphs, held.outputs, held.types) == (30, 3, len(values))
    assert held.own.features[:, 0].tolist() == own.tolist()
    assert held.own.num_clients == 1
    for number, graph in enumerate(typed.graphs_of(1).tolist()):
        mine, theirs = held.own.batch([number]), typed.batch([graph])
        for field in ("features", "edges", "graph_of", "targets"):
            assert np.array_equal(getattr(mine, field), getattr(theirs, field))
