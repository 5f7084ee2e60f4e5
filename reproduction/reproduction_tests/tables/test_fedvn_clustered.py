"""GCFL+ on sets of graphs: each cluster of clients has the mean of its models."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from fgl_reproduction.methods.gcfl.clusters import ClusterRule
from fgl_reproduction.tables.fedvn_baselines import FEDAVG, PROGRAMS, ClusteredFedVN
from fgl_secure.coins import SimulationCoins
from fgl_secure.methods.fedvn.preset import fedvn_preset
from fgl_secure.methods.fedvn.program import clients_of
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.training.job import Job
from tests.methods.fedvn.sets import random_set
from tests.training.processes.runs import agree, apart, in_lockstep

SETS = random_set()
SMALL = replace(fedvn_preset("honest", "random"), hidden=6, epochs=4, batch=4, learning_rate=0.1)
SPLITTING = ClusterRule(mean_norm=100.0, largest_norm=0.0, length=1, after=1, least=1)


def job(scheme: Scheme | None = None) -> Job:
    """Clusters split as soon as they can."""
    return clients_of(SETS, scheme or Plaintext(), SMALL, kind=partial(ClusteredFedVN, rule=SPLITTING), seed=5)


def test_without_a_split_it_is_federated_averaging() -> None:
    """The published rule splits nothing in four rounds."""
    averaging, found = (
        clients_of(SETS, Plaintext(), SMALL, kind=PROGRAMS[each], seed=5).train() for each in (FEDAVG, "GCFL+")
    )
    assert found.losses == pytest.approx(averaging.losses, abs=1e-5)
    assert not found.report["clusters"].any()


def test_masked_training_apart_is_that_in_the_clear_together() -> None:
    """Reports to the bit, with a process for each client, put down after each turn."""
    masked, clear = (job(each) for each in (PairwiseMasking(), Plaintext()))
    agree(apart(masked, put_down=True), in_lockstep(clear.open(clear.channel(SimulationCoins(0)))))


def test_models_agree_within_clusters_alone() -> None:
    """Means of all clusters are known to all, and each client has its own cluster's."""
    made = job()
    process = made.open(made.channel(SimulationCoins(0)))
    for number in range(3):
        process.round(number)
    clients = [each for each in process.programs if isinstance(each, ClusteredFedVN)]
    clusters = clients[0].clusters
    assert clusters.count > 1
    models = np.stack([each.report["theta"] for each in clients])
    same = (models[:, None] == models[None, :]).all(axis=2)
    assert np.array_equal(same, clusters.of[:, None] == clusters.of[None, :])
    for client, model in zip(clients, models, strict=True):
        assert np.array_equal(client.kept["means"][clusters.of[client.silo.silo]], model)
