"""Rounds of FED-PUB for attacks: what clients know of the rules, the truth, and the run that attacks must break."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType

import numpy as np

from fgl_secure.attacks.personal_averages.knowledge import FEDPUB, PERSONAL_AVERAGES, AverageRules
from fgl_secure.attacks.personal_averages.truth import ModelTruth
from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.methods.fedpub.preset import FedPubPreset
from fgl_secure.methods.fedpub.program import FedPub
from fgl_secure.methods.fedpub.training import clients_of
from fgl_secure.runtime import PublicParameters, Recording
from fgl_secure.training.job import Job
from fgl_secure.training.parameters import flat

KINDS = (0, 2, 0, 1, 2, 1, 1, 2, 0)
"""Of clients: such that who is like whom says nothing of the clients after them."""
NODES, CLASSES, COLUMNS = 20, 6, 24


def first_round(job: Job, preset: FedPubPreset, label: str, what: str, seed: int) -> RecordedRun:
    """The first round with everything recorded, under repeatable coins.

    Args:
        job: the run.
        preset: how to train.
        label: what the schemes are called.
        what: what was exchanged, in words.
        seed: of the coins.
    """
    channel, graph = job.channel(SimulationCoins(seed), Recording.everything(1)), job.graph
    process = job.opened(channel)
    clients = [each for each in process.programs if isinstance(each, FedPub)]
    start = flat(clients[0].model.shared).astype(np.float64)
    bits = clients[0].talk.clients_grid.fraction_bits
    process.round(0)
    counts = np.zeros((graph.num_silos, graph.num_classes))
    np.add.at(counts, (graph.silo_of[graph.train_mask], graph.labels[graph.train_mask]), 1)
    truth = ModelTruth(np.stack([each.sent for each in clients]), counts / np.maximum(counts.sum(axis=1)[:, None], 1))
    last = slice(len(start) - graph.num_classes, len(start))
    rules = AverageRules(start, preset.temperature, bits, last)
    return RecordedRun(label, what, PERSONAL_AVERAGES, PublicParameters(), channel.transcript, (truth,), (rules,))


@cache
def _in_the_clear() -> RecordedRun:
    """Every kind of client has two classes of its own, half of its nodes in each."""
    preset = FedPubPreset("honest", hidden=16, epochs=1)
    job = clients_of(_three_kinds(), {}, preset)
    return first_round(job, preset, "drawn for attacks", "reference, three kinds of clients", 0)


def _three_kinds() -> FederatedGraph:
    """Rings of nodes, a client each, whose features tell their labels."""
    rng, total = np.random.default_rng(0), len(KINDS) * NODES
    node, client = np.arange(total), np.arange(total) // NODES
    labels = 2 * np.array(KINDS)[client] + node % 2
    features = rng.normal(size=(total, COLUMNS)) + 4 * np.eye(CLASSES, COLUMNS)[labels]
    after = client * NODES + (node + 1) % NODES
    edges = np.stack([np.concatenate([node, after]), np.concatenate([after, node])])
    graph = Graph.from_arrays("reference", features, labels, edges)
    everyone = np.ones(total, dtype=np.bool_)
    return FederatedGraph.from_assignment(graph, client, SplitMasks(everyone, ~everyone, ~everyone))


CONTROLS: Makers = MappingProxyType({FEDPUB: _in_the_clear})
"""What attacks on personal averages must break, by name; made when it is first asked for."""
