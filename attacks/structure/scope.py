"""Runs that attacks on structure read, what attackers know beside their views, and what they are scored against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Truth
from fgl_secure.graph import FederatedGraph, within_silos
from fgl_secure.runtime import Directory, Step

Ids = NDArray[np.int64]

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
class StructureTruth(Truth):
    """Edges, labels, who is labelled, who is who, and structure embeddings.

    Attributes:
        parties: numbering of the parties.
        silo_of: int64 [n], the silo index of each device.
        edges: int64 [2, m], source above target, device indices.
        labels: int64 [n], the label of each device.
        labelled: bool [n], the devices whose labels train the model.
        identity: int64 [n], which device an outsider's list calls by each index.
        embeddings: for each step, [n, d], what enters the sums.
    """

    parties: Directory
    silo_of: Ids
    edges: Ids
    labels: Ids
    labelled: NDArray[np.bool_]
    identity: Ids
    embeddings: Mapping[Step, NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, parties: Directory, graph: FederatedGraph, embeddings: Mapping[Step, NDArray[Any]] | None = None
    ) -> StructureTruth:
        """The truth of a graph whose nodes an outsider's list calls by their own index.

        Args:
            parties: numbering of the parties.
            graph: who has what.
            embeddings: what enters the sums, by step; nothing unless given.
        """
        everyone = np.arange(graph.num_devices, dtype=np.int64)
        labelled = graph.train_mask.copy()
        return cls(parties, graph.silo_of, graph.edges, graph.labels, labelled, everyone, embeddings or {})

    def permuted(self, seed: int) -> StructureTruth:
        """The devices of each silo shuffled among themselves."""
        swap = within_silos(self.silo_of, seed)
        return replace(
            self,
            edges=swap[self.edges],
            labels=self.labels[swap],
            labelled=self.labelled[swap],
            identity=self.identity[swap],
            embeddings={step: rows[swap] for step, rows in self.embeddings.items()},
        )


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
