"""Rounds for generators for attacks: what everybody knows of generators, the truth, and the positive control."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import MappingProxyType

import networkx as nx
import numpy as np

from fgl_secure.attacks.generators.knowledge import FEDSAGE, GENERATORS, GeneratorShape
from fgl_secure.attacks.generators.truth import ClientRows
from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.methods.fedsage.preset import HONEST, FedSagePreset, GeneratorPreset
from fgl_secure.methods.fedsage.training import clients_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import PublicParameters, Recording, Transcript
from fgl_secure.training.server_sums import grid_for


def generator_run(
    graph: FederatedGraph, preset: FedSagePreset, scheme: Scheme, transcript: Transcript, label: str, what: str
) -> RecordedRun:
    """A recorded first round for generators as attacks read it.

    Args:
        graph: who has what.
        preset: how generators are trained.
        scheme: adds up their gradients.
        transcript: what was said.
        label: what the scheme is called.
        what: what was exchanged, in words.
    """
    chosen, bits = preset.generator, grid_for(scheme, graph.num_silos - 1).fraction_bits
    known = GeneratorShape(chosen.latent, chosen.width, graph.graph.num_features, bits, chosen.cross)
    truth = ClientRows(graph.silo_of, graph.features)
    return RecordedRun(label, what, GENERATORS, PublicParameters(), transcript, (truth,), (known,))


def first_round(
    graph: FederatedGraph, preset: FedSagePreset, scheme: Scheme, *, seed: int = 0, label: str = "drawn for attacks"
) -> RecordedRun:
    """The first round for generators alone, with everything recorded, under repeatable coins.

    Args:
        graph: who has what.
        preset: how generators are trained.
        scheme: adds up their gradients.
        seed: of all that is drawn.
        label: what the scheme is called.
    """
    job = clients_of(graph, {"clients": scheme}, preset, seed=seed)
    channel = job.channel(SimulationCoins(seed), Recording.everything(1))
    process = job.opened(channel)
    process.begin()
    process.round(0)
    return generator_run(graph, preset, scheme, channel.transcript, label, "first round for generators")


FEW = replace(HONEST, generator=GeneratorPreset(most=1, latent=32, width=256, alone=5, rounds=1))


def reference(clients: int = 8, nodes: int = 480, features: int = 12) -> FederatedGraph:
    """A random regular graph whose clients have a stretch of it each; normal features."""
    pairs = np.array(nx.random_regular_graph(3, nodes, seed=0).edges, dtype=np.int64)
    rows = np.random.default_rng(0).normal(size=(nodes, features))
    edges = np.concatenate([pairs, pairs[:, ::-1]]).T
    graph, everyone = Graph.from_arrays("reference", rows, np.arange(nodes) % 2, edges), np.ones(nodes, dtype=np.bool_)
    masks = SplitMasks(everyone, ~everyone, ~everyone)
    return FederatedGraph.from_assignment(graph, np.arange(nodes) * clients // nodes, masks, "stretches")


@cache
def _in_the_clear() -> RecordedRun:
    """Every client generates fewer rows than its generator is wide: each gradient is solved."""
    return first_round(reference(), FEW, Plaintext())


CONTROLS: Makers = MappingProxyType({FEDSAGE: _in_the_clear})
"""What attacks on generators must break, by name; made when it is first asked for."""
