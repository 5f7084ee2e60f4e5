"""How clients of FedStruct come by their rows of the combined adjacency (ICLR 2025, App. D)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.adjacency_powers import combined_adjacency, looped_adjacency
from fgl_secure.protocols.hop_adjacency import Holdings, HopSettings, Pruning, acquire_powers
from fgl_secure.protocols.hop_threshold import CommonThreshold
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.term_sums import ClearTerms, PackedTerms, TermSums
from fgl_secure.runtime import Channel, Role, Step
from fgl_secure.training.parties import note_membership

OWN_EDGES = "own edges"
OWN_LABELS = "own labels"
OWN_NAMES = "own names"
COMBINED_ROWS = "combined rows"


def note_own_graph(channel: Channel, graph: FederatedGraph) -> None:
    """Records what every client knows from the start: its nodes and their names, their edges, its labels.

    With each edge goes the client of its other end. A name is what a public list calls a node; here that is its number.
    """
    note_membership(channel, graph.silo_of)
    clients = channel.parties.ids(Role.SILO)
    everyone = np.arange(graph.num_devices)
    channel.note_inputs(OWN_NAMES, Step(0), clients[graph.silo_of], np.stack([everyone, everyone], axis=1))
    node, neighbour = graph.edges
    ends = np.stack([node, neighbour, graph.silo_of[neighbour]], axis=1)
    channel.note_inputs(OWN_EDGES, Step(0), clients[graph.silo_of[node]], ends)
    labelled = np.flatnonzero(graph.train_mask)
    labels = np.stack([labelled, graph.labels[labelled]], axis=1)
    channel.note_inputs(OWN_LABELS, Step(0), clients[graph.silo_of[labelled]], labels)


def note_combined_rows(channel: Channel, graph: FederatedGraph, rows: sparse.csr_array) -> None:
    """Records the rows of A-bar as their clients hold them: (own node, node, value) an entry."""
    entries = rows.tocoo()
    owners = channel.parties.ids(Role.SILO)[graph.silo_of[entries.row]]
    values = np.stack([entries.row, entries.col, entries.data], axis=1).astype(np.float64)
    channel.note_inputs(COMBINED_ROWS, Step(0), owners, values)


def holdings_of(graph: FederatedGraph) -> Holdings:
    """Whose node is whose, and the edges."""
    return Holdings(graph.silo_of, looped_adjacency(graph.graph))


def term_sums(scheme: Scheme | None, graph: FederatedGraph, settings: HopSettings) -> TermSums:
    """Terms in the clear, as published, where there is no scheme; else sketches added up under it."""
    if scheme is None:
        return ClearTerms()
    largest = int(looped_adjacency(graph.graph).sum(axis=1).max())
    return PackedTerms(scheme, largest, most_a_row=settings.most_a_row(graph.num_silos))


def exchanged_rows(
    graph: FederatedGraph,
    channel: Channel,
    scheme: Scheme | None,
    settings: HopSettings,
    weights: Sequence[float] | None = None,
) -> sparse.csr_array:
    """Runs the exchange and combines the powers.

    Args:
        graph: who has what.
        channel: between server and clients.
        scheme: adds up the terms; None shows every term to its receiver, as published.
        settings: hops and pruning.
        weights: beta_1 to beta_{L_s}; None takes the last power alone.

    Returns:
        float64 CSR [n, n], row v of A-bar as the client of v holds it.
    """
    pruned = settings.pruning is Pruning.MATRIX
    threshold = CommonThreshold(scheme or Plaintext()) if pruned else None
    powers = acquire_powers(channel, term_sums(scheme, graph, settings), holdings_of(graph), settings, threshold)
    return combined_adjacency(powers, weights)
