"""The recorded runs that an audit attacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Material, Reference
from fgl_secure.attacks.truth import Truth
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.learning.exchange import exchange
from fgl_secure.learning.hifgl import hierarchy_of
from fgl_secure.protocols.grouped_sum import Scheme
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.runtime import Channel, PublicParameters, Recording, Transcript

SMALL_FIELD = 31
"""Largest field that counts as small: its decoders can be tried one by one."""

NARROW = 16
"""Columns of the narrow feature exchange, the fewest for which brute force is said to be exact."""

WIDEST = 64
"""Columns of real-valued features that a variant exchanges: as many as a hidden layer has."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordedRun:
    """A run with everything that was said, and its truth for scoring.

    Attributes:
        protocol: the scheme's name, parameters included.
        what: what was exchanged, in words.
        material: which attacks can use it.
        public: what everybody knows of the scheme.
        transcript: what was said.
        truth: what was secret.
    """

    protocol: str
    what: str
    material: Material
    public: PublicParameters
    transcript: Transcript
    truth: Truth


def variant_runs(scheme: Scheme, graph: FederatedGraph, seed: int) -> Iterator[RecordedRun]:
    """One exchange of the devices' features under every variant of a scheme.

    In a small field the features are cut to 0 and 1 at their mean, as whole rows and as their 16 most frequent
    columns; elsewhere the first 64 columns are exchanged as they are.
    """
    for variant in scheme.variants:
        if (variant.public.modulus or SMALL_FIELD + 1) > SMALL_FIELD:
            values = graph.features[:, :WIDEST].astype(np.float64)
            yield recorded_exchange(variant, graph, values, f"{values.shape[1]} feature columns", seed)
            continue
        binary = (graph.features > graph.features.mean()).astype(np.float64)
        frequent = np.sort(np.argsort(-binary.sum(axis=0), kind="stable")[:NARROW])
        for columns in (binary, binary[:, frequent])[: 1 + (binary.shape[1] > NARROW)]:
            yield recorded_exchange(variant, graph, columns, f"{columns.shape[1]} feature columns as 0/1", seed)


def recorded_exchange(
    scheme: Scheme,
    graph: FederatedGraph,
    values: NDArray[np.float64],
    what: str,
    seed: int,
    *,
    both_ways: bool = False,
) -> RecordedRun:
    """One exchange with everything recorded, under repeatable coins."""
    channel = Channel(hierarchy_of(graph), SimulationCoins(seed), Recording.everything())
    exchange(graph, scheme, channel, values, both_ways=both_ways)
    small = (scheme.public.modulus or SMALL_FIELD + 1) <= SMALL_FIELD
    material = Material.FEATURES if small else Material.TRAINING
    truth = Truth.of(channel.transcript, graph)
    return RecordedRun(scheme.name, what, material, scheme.public, channel.transcript, truth)


def reference_runs() -> dict[Reference, RecordedRun]:
    """The runs that attacks must break, on a small fixed graph with devices of one neighbour and of many."""
    graph = _reference_graph()
    published = SecretMessagePassing()
    small = next(v for v in published.variants if (v.public.modulus or SMALL_FIELD + 1) <= SMALL_FIELD)
    schemes: dict[Reference, Scheme] = {
        Reference.PLAINTEXT: Plaintext(),
        Reference.SECMP: published,
        Reference.SMALL_FIELD: small,
        Reference.SILO_PATH: Plaintext(Path.SILO),
    }
    values = graph.features.astype(np.float64)
    return {
        which: recorded_exchange(scheme, graph, values, "reference", 0, both_ways=True)
        for which, scheme in schemes.items()
    }


def _reference_graph(devices: int = 300, silos: int = 3, features: int = 64) -> FederatedGraph:
    """A preferential-attachment tree: most devices have one neighbour, a few have many."""
    tree = nx.barabasi_albert_graph(devices, 1, seed=0)
    pairs = np.array(tree.edges, dtype=np.int64).T
    rng = np.random.default_rng(0)
    words = (rng.random((devices, features)) < 0.1).astype(np.float32)
    graph = Graph.from_arrays("reference", words, np.arange(devices) % 2, np.hstack([pairs, pairs[::-1]]))
    everyone, nobody = np.ones(devices, dtype=np.bool_), np.zeros(devices, dtype=np.bool_)
    return FederatedGraph.from_assignment(graph, np.arange(devices) % silos, SplitMasks(everyone, nobody, nobody))
