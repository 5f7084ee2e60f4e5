"""How clients of FedStruct come by their rows of the combined adjacency (ICLR 2025, App. D)."""

from __future__ import annotations

from collections.abc import Sequence

from scipy import sparse

from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.adjacency_powers import combined_adjacency, looped_adjacency
from fgl_secure.protocols.hop_adjacency import Holdings, HopSettings, Pruning, acquire_powers
from fgl_secure.protocols.hop_threshold import CommonThreshold
from fgl_secure.protocols.plain_vectors import PlainVectors
from fgl_secure.protocols.term_sums import ClearTerms, PackedTerms, TermSums
from fgl_secure.protocols.vector_sum import VectorScheme
from fgl_secure.runtime import Channel


def holdings_of(graph: FederatedGraph) -> Holdings:
    """Whose node is whose, and the edges."""
    return Holdings(graph.silo_of, looped_adjacency(graph.graph))


def term_sums(scheme: VectorScheme | None, graph: FederatedGraph) -> TermSums:
    """Terms in the clear, as published, where there is no scheme; else sketches added up under it."""
    if scheme is None:
        return ClearTerms()
    return PackedTerms(scheme, int(looped_adjacency(graph.graph).sum(axis=1).max()))


def exchanged_rows(
    graph: FederatedGraph,
    channel: Channel,
    scheme: VectorScheme | None,
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
    threshold = CommonThreshold(scheme or PlainVectors()) if pruned else None
    powers = acquire_powers(channel, term_sums(scheme, graph), holdings_of(graph), settings, threshold)
    return combined_adjacency(powers, weights)
