"""Rounds of FedStar for attacks: what the server knows of the encoder, the truth, and what attacks must break."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import MappingProxyType

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.attacks.structure.structure_gradients import FEDSTAR, STRUCTURE_ENCODERS, DegreeTruth, EncoderStart
from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.methods.fedstar.preset import HONEST, FedStarPreset
from fgl_secure.methods.fedstar.structure import StructureEncoder
from fgl_secure.methods.fedstar.training import clients_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import PublicParameters, Recording, Transcript
from fgl_secure.training.parameters import flat

PAIRS = ((2, 4), (3, 5), (4, 6), (2, 7), (3, 6), (5, 7), (2, 5), (4, 7))
"""Of degrees that a client's nodes have, half of them either; few are also the next client's."""
PART = 12
"""Nodes of a client of one degree."""
COLUMNS = 8


def attacked_round(
    transcript: Transcript, graph: FederatedGraph, preset: FedStarPreset, label: str, what: str, seed: int
) -> RecordedRun:
    """A recorded first round as attacks read it.

    Args:
        transcript: what was said.
        graph: who has what.
        preset: widths of the encoder.
        label: what the scheme is called.
        what: what was exchanged, in words.
        seed: of the encoder's initial weights.
    """
    truth = DegreeTruth(present_degrees(graph.restricted_to_silos(), preset))
    known = encoder_start(preset, seed)
    return RecordedRun(label, what, STRUCTURE_ENCODERS, PublicParameters(), transcript, (truth,), (known,))


def encoder_start(preset: FedStarPreset, seed: int) -> EncoderStart:
    """Where the weight of the one-hot degree begins; in the encoder's first map it is behind that of random walks."""
    coins = torch.Generator().manual_seed(seed)
    encoder = StructureEncoder(preset.walks + preset.degrees, preset.hidden, preset.layers, coins)
    place = slice(preset.walks * preset.hidden, (preset.walks + preset.degrees) * preset.hidden)
    start = flat(list(encoder.parameters()))[place].astype(np.float64)
    return EncoderStart(start.reshape(preset.degrees, preset.hidden), place)


def present_degrees(local: FederatedGraph, preset: FedStarPreset) -> NDArray[np.bool_]:
    """Which degrees the nodes have that a client's loss depends on: bool [clients, degrees].

    Args:
        local: the graph without edges between clients.
        preset: how many layers the loss looks through, and columns of the degree.
    """
    reached = local.train_mask.copy()
    for _ in range(preset.layers):
        reached[local.edges[0][reached[local.edges[1]]]] = True
    degree = np.clip(np.bincount(local.edges[0], minlength=local.num_devices), 1, preset.degrees)
    found = np.zeros((local.num_silos, preset.degrees), dtype=np.bool_)
    found[local.silo_of[reached], degree[reached] - 1] = True
    return found


def first_round(
    graph: FederatedGraph, preset: FedStarPreset, scheme: Scheme, *, seed: int = 0, label: str = "drawn for attacks"
) -> RecordedRun:
    """The first round alone, with everything recorded, under repeatable coins.

    Args:
        graph: who has what.
        preset: how to train.
        scheme: adds up encoders.
        seed: of all that is drawn.
        label: what the scheme is called.
    """
    job = clients_of(graph, scheme, preset, seed=seed)
    channel = job.channel(SimulationCoins(seed), Recording.everything(1))
    job.opened(channel).round(0)
    return attacked_round(channel.transcript, graph, preset, label, "first round of training", seed)


def reference() -> FederatedGraph:
    """Two random regular graphs a client, of degrees that no other client has both of; normal features."""
    edges = [
        np.array(nx.random_regular_graph(degree, PART, seed=place).edges, dtype=np.int64) + place * PART
        for place, degree in enumerate(np.ravel(PAIRS).tolist())
    ]
    pairs, nodes = np.concatenate(edges), np.size(PAIRS) * PART
    rows = np.random.default_rng(0).normal(size=(nodes, COLUMNS))
    graph = Graph.from_arrays("reference", rows, np.arange(nodes) % 2, np.concatenate([pairs, pairs[:, ::-1]]).T)
    everyone = np.ones(nodes, dtype=np.bool_)
    masks = SplitMasks(everyone, ~everyone, ~everyone)
    return FederatedGraph.from_assignment(graph, np.arange(nodes) // (2 * PART), masks, "degrees")


@cache
def _in_the_clear() -> RecordedRun:
    """Every client has two degrees of its own."""
    return first_round(reference(), replace(HONEST, epochs=1, degrees=8), Plaintext())


CONTROLS: Makers = MappingProxyType({FEDSTAR: _in_the_clear})
"""What attacks on structure encoders must break, by name; made when it is first asked for."""
