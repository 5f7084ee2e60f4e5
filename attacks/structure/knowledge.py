"""Runs that attacks on structure read, and what attackers know beside their views."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.typing import Ids

STRUCTURE = "shared structure"
"""Scenario: what clients of FedStruct exchange before and in the first round, and what they hold in the end."""

FEDSTRUCT = "fedstruct in the clear, random partition"
FEDSTRUCT_LOUVAIN = "fedstruct in the clear, Louvain partition"
FEDSTRUCT_HOPWISE = "fedstruct hop by hop in the clear"
FEDSTRUCT_QUERIES = "fedstruct with aggregated queries, audited by counting"
"""Controls, as FedStruct makes them."""


@dataclass(frozen=True, slots=True, eq=False)
class CrawledGraph:
    """A copy of the graph, or of part of it, as a public directory or a crawl shows it.

    Attributes:
        edges: int64 [2, m], both directions of edges between listed nodes, by their index in that list, which
            `StructureTruth.identity` resolves.
        owners: int64 [n], the index of the client that each listed node belongs to: patients of a hospital and
            customers of a bank are known as such.
        rate: the share of the edges that the crawl has; 1 is an upper bound, and findings say so.
        structure_features: the rule by which clients compute structure features, which all of them know:
            (edges int64 [2, m], owners int64 [n]) -> float [n, d_s]; None where features are learnt.
    """

    edges: Ids
    owners: Ids
    rate: float = 1.0
    structure_features: Callable[[Ids, Ids], NDArray[Any]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingModel:
    """The model that embeds structure features, which everybody holds.

    Attributes:
        embed: structure features float [m, d_s] -> logits float [m, c]; None where the embedding is the identity.
        jacobian: nodes int64 [m], by device index -> float [m, c, d_s], the Jacobian of the embedding at the structure
            features that these nodes have in the first round, as the server can compute it that hands out both; None
            where the embedding is the identity.
    """

    embed: Callable[[NDArray[Any]], NDArray[Any]] | None = None
    jacobian: Callable[[Ids], NDArray[Any]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class NodeClaims:
    """What observers say of nodes.

    Attributes:
        observers: int64 [k], party identifiers of the clients that say it, or, at the server, the index of the client
            that it is said of; -1 for all clients together.
        nodes: int64 [k], device indices.
        values: [k, ...], what is said: labels, scores, degrees, ego networks or gradient rows.
    """

    observers: Ids
    nodes: Ids
    values: NDArray[Any]

    @classmethod
    def of_all(cls, parts: Iterable[tuple[int, Ids, NDArray[Any] | None]]) -> NodeClaims | None:
        """The claims of all clients, each with its identifier, nodes and values; None without any."""
        found = [part for part in parts if part[2] is not None]
        if not found:
            return None
        observers = np.concatenate([np.full(len(nodes), client) for client, nodes, _ in found])
        return cls(observers, *(np.concatenate([part[at] for part in found]) for at in (1, 2)))
