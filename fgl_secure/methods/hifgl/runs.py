"""The recorded runs that an audit attacks."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Reference
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.methods.hifgl.recorded_exchange import SMALL_FIELD, recorded_exchange
from fgl_secure.methods.hifgl.special_runs import (
    ROUNDS,
    as_words,
    careless_run,
    deviating_run,
    drop_out_run,
    gradient_run,
    static_run,
)
from fgl_secure.protocols.grouped_sum import Scheme
from fgl_secure.protocols.perturbed import Perturbed
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.protocols.secmp import SecretMessagePassing

NARROW = 16
"""Columns of the narrow feature exchange, the fewest for which brute force is said to be exact."""

WIDEST = 64
"""Columns of real-valued features that a variant exchanges: as many as a hidden layer has."""


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
        binary = as_words(graph)
        frequent = np.sort(np.argsort(-binary.sum(axis=0), kind="stable")[:NARROW])
        for columns in (binary, binary[:, frequent])[: 1 + (binary.shape[1] > NARROW)]:
            yield recorded_exchange(variant, graph, columns, f"{columns.shape[1]} feature columns as 0/1", seed)


def special_runs(scheme: Scheme, graph: FederatedGraph, seed: int) -> Iterator[RecordedRun]:
    """Static rows released once, summed again in rounds with drop-outs, and exchanged with deviating devices."""
    yield static_run(scheme, graph, seed)
    rounds = min(ROUNDS, scheme.settings.target.releases) if isinstance(scheme, Perturbed) else ROUNDS
    for run in (drop_out_run(scheme, graph, seed, rounds=rounds), deviating_run(scheme, graph, seed)):
        if run is not None:
            yield run


def reference_runs() -> dict[Reference, RecordedRun]:
    """The runs that attacks must break, on small fixed graphs."""
    tree, half = _tree(), _half_graphs()
    published = SecretMessagePassing()
    small = next(v for v in published.variants if (v.public.modulus or SMALL_FIELD + 1) <= SMALL_FIELD)
    schemes: dict[Reference, Scheme] = {
        Reference.PLAINTEXT: Plaintext(),
        Reference.SECMP: published,
        Reference.SMALL_FIELD: small,
        Reference.SILO_PATH: Plaintext(Path.SILO),
    }
    runs = {which: _both_ways(scheme, tree) for which, scheme in schemes.items()}
    runs[Reference.TAGS] = _both_ways(RelayCoded(k_min=1), _meshed())
    runs[Reference.UNMASKED] = careless_run(tree, 0, masked=False)
    runs[Reference.SHARED_MASKS] = careless_run(tree, 0, masked=True)
    runs[Reference.STATIC] = static_run(published, half, 0)
    runs[Reference.GRADIENTS] = gradient_run(tree, 0)
    special = {
        Reference.DROP_OUTS: drop_out_run(published, half, 0, rounds=24, presence=0.6),
        Reference.DEVIATING: deviating_run(published, half, 0),
    }
    return runs | {which: run for which, run in special.items() if run is not None}


def _both_ways(scheme: Scheme, graph: FederatedGraph) -> RecordedRun:
    return recorded_exchange(scheme, graph, graph.features.astype(np.float64), "reference", 0, both_ways=True)


def _tree() -> FederatedGraph:
    """A preferential-attachment tree: most devices have one neighbour, a few have many."""
    return _federated(nx.barabasi_albert_graph(300, 1, seed=0), 64, 0.1)


def _meshed() -> FederatedGraph:
    """A preferential-attachment graph in which hardly two devices have the same surroundings."""
    return _federated(nx.barabasi_albert_graph(300, 2, seed=0), 64, 0.1)


def _half_graphs(copies: int = 25, size: int = 6) -> FederatedGraph:
    """Bipartite half graphs, a_i joined to b_j where i + j <= size + 1: a device's neighbours differ in degree."""
    half = nx.Graph((("a", i), ("b", j)) for i in range(1, size + 1) for j in range(1, size + 2 - i))
    return _federated(nx.disjoint_union_all([half] * copies), 256, 0.08)


def _federated(graph: nx.Graph, columns: int, share: float, silos: int = 3) -> FederatedGraph:
    """A graph with random 0/1 features and two classes, its devices dealt to silos in turn."""
    devices = graph.number_of_nodes()
    pairs: NDArray[np.int64] = np.array(graph.edges, dtype=np.int64).T
    words = (np.random.default_rng(0).random((devices, columns)) < share).astype(np.float32)
    both = np.hstack([pairs, pairs[::-1]])
    federated = Graph.from_arrays("reference", words, np.arange(devices) % 2, both)
    everyone, nobody = np.ones(devices, dtype=np.bool_), np.zeros(devices, dtype=np.bool_)
    return FederatedGraph.from_assignment(federated, np.arange(devices) % silos, SplitMasks(everyone, nobody, nobody))
