"""Runs that attacks on structure read, and what attackers know beside their views.

What a client holds that attacks on structure features start from, and what return probabilities say.

Base FedStruct hands every client the structure features of all nodes (FedStruct, ICLR 2025, Algorithms 1 and 2).
Tables are keyed by the party identifier of the client, so that views side by side and views of one party alone give
the same.

What return probabilities say of a node: its degree, and sums of reciprocals of its neighbours' degrees.

FedStar's features, as FedStruct takes them over (ICLR 2025, App. A), are the diagonal of powers of A^ = D~^-1 (A + I),
with D~ one more than the degree. With p_k the sum of (1/d~_w)^k over the neighbours w of u,

    A^_uu   = 1 / d~_u
    A^^2_uu = (1 / d~_u + p_1) / d~_u
    A^^3_uu = (1 / d~_u^2 + 2 p_1 / d~_u + p_2 + t) / d~_u,

t being the sum of 2 / (d~_v d~_w) over the triangles u v w. One-hot degrees say the degree alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.runtime import CircumstanceKind, Phase, Role, View
from fgl_secure.typing import Floats, Ids


class StructureCircumstance(CircumstanceKind):
    """When structure features may expose a secret."""

    SHARED_FEATURES = "every client holds the structure features of all nodes"


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
    """The model that embeds structure features, which every party holds.

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
        result = [part for part in parts if part[2] is not None]
        if not result:
            return None
        observers = np.concatenate([np.full(len(nodes), client) for client, nodes, _ in result])
        return cls(observers, *(np.concatenate([part[index] for part in result]) for index in (1, 2)))


SHARED_FEATURES = "shared features"
"""Name of a client's rows (node, s_u) of other clients' nodes at the end of training."""
OWN_FEATURES = "own features"
"""Name of a client's rows (node, s_v) of its own nodes at the end of training."""
OWN_NAMES = "own names"
"""Name of a client's rows (own node, index in the list that a crawl goes by)."""

MODEL = "the embedding of structure features that every client holds, where it is not the identity"
"""Auxiliary knowledge behind `embed_features`, in words."""

MODEL_ALONE = "the model says nothing of a node without its structure features"
"""What that knowledge tells by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldFeatures:
    """Structure features in the hands of one client.

    Attributes:
        nodes: int64 [m], device indices, ascending.
        values: float64 [m, d_s].
        owners: int64 [m], the client of each node by index; -1 where no message tells.
    """

    nodes: Ids
    values: Floats
    owners: Ids

    def only(self, mask: NDArray[Any]) -> HeldFeatures:
        """Those of some rows: bool [m] or int64 [k]."""
        return HeldFeatures(self.nodes[mask], self.values[mask], self.owners[mask])


def foreign_features(view: View) -> dict[int, HeldFeatures]:
    """The structure features of other clients' nodes, by observing client: as held in the end, else as received."""
    # Rows (node, s_u) as sent, and the index of their sender, by receiver.
    result: dict[int, list[tuple[Floats, Ids]]] = {}
    for batch in view.messages(Phase.STRUCTURE_FEATURES):
        payload = np.asarray(batch.payload, dtype=np.float64)
        owners = view.parties.index_of(batch.senders, Role.SILO)
        for client in np.unique(batch.receivers).tolist():
            mask = batch.receivers == client
            result.setdefault(client, []).append((payload[mask], owners[mask]))
    received = {
        client: (np.concatenate([rows for rows, _ in parts]), np.concatenate([owners for _, owners in parts]))
        for client, parts in result.items()
    }
    last_rows = _last_rows(view, SHARED_FEATURES)
    clients = sorted(set(received) | set(last_rows))
    return {client: _join_rows(last_rows.get(client), received.get(client)) for client in clients}


def own_features(view: View) -> dict[int, HeldFeatures]:
    """The structure features of a client's own nodes, by client."""
    return {client: _join_rows(rows, None) for client, rows in _last_rows(view, OWN_FEATURES).items()}


def embed_features(features: HeldFeatures, model: EmbeddingModel) -> Floats:
    """Structure features as the model embeds them, float64 [m, c]; as they are where that is the identity."""
    return features.values if model.embed is None else np.asarray(model.embed(features.values), dtype=np.float64)


def own_rows(view: View, name: str) -> dict[int, Ids]:
    """Rows of whole numbers that a client knows from the start, by client: int64 [m, k]."""
    return {client: rows.astype(np.int64) for client, rows in _last_rows(view, name).items()}


def _last_rows(view: View, name: str) -> dict[int, NDArray[Any]]:
    """The rows of a name that each owner noted at the last step, float64 [m, k]."""
    batches = view.own(name)
    last = max((batch.step.round for batch in batches), default=None)
    parts: dict[int, list[NDArray[Any]]] = {}
    for batch in batches:
        if batch.step.round == last:
            for owner in np.unique(batch.owners).tolist():
                parts.setdefault(owner, []).append(np.asarray(batch.values[batch.owners == owner], dtype=np.float64))
    return {owner: np.concatenate(rows) for owner, rows in parts.items()}


def _join_rows(rows: NDArray[Any] | None, received: tuple[Floats, Ids] | None) -> HeldFeatures:
    """Rows as held, with the owners that messages tell; rows as received where none are held."""
    if rows is None:
        assert received is not None
        rows = received[0]
    nodes, first = np.unique(rows[:, 0].astype(np.int64), return_index=True)
    owners = np.full(len(nodes), -1, dtype=np.int64)
    if received is not None:
        sent_nodes = received[0][:, 0].astype(np.int64)
        place = np.minimum(np.searchsorted(nodes, sent_nodes), len(nodes) - 1)
        known = nodes[place] == sent_nodes
        owners[place[known]] = received[1][known]
    return HeldFeatures(nodes, rows[first, 1:], owners)


WHOLE = 1e-3
"""How far the reciprocal of a return probability may be from a whole number, in single precision."""


@dataclass(frozen=True, slots=True, eq=False)
class ReturnSums:
    """What three return probabilities say.

    Attributes:
        degrees: int64 [m], numbers of neighbours.
        reciprocals: float64 [m], p_1.
        squares: float64 [m], p_2 + t; NaN where there are only two probabilities.
    """

    degrees: Ids
    reciprocals: Floats
    squares: Floats


def neighbour_sums(values: Floats) -> ReturnSums | None:
    """Reads features [m, d] that have return probabilities in consecutive columns; None where none do."""
    column = _first_return(values)
    if column is None:
        return None
    one, two = values[:, column], values[:, column + 1]
    looped = np.rint(1 / one)
    reciprocals = two * looped - 1 / looped
    squares = np.full(len(values), np.nan)
    if column + 2 < values.shape[1]:
        squares = values[:, column + 2] * looped - 1 / looped**2 - 2 * reciprocals / looped
    return ReturnSums(looped.astype(np.int64) - 1, reciprocals, squares)


def _first_return(values: Floats) -> int | None:
    """The first column of reciprocals of whole numbers that the next column may be the square of."""
    if not len(values):
        return None
    for column in range(values.shape[1] - 1):
        one, two = values[:, column], values[:, column + 1]
        if (one <= 0).any() or (one > 1).any() or (two > 1 + WHOLE).any():
            continue
        looped = 1 / one
        if (np.abs(looped - np.rint(looped)) <= WHOLE * looped).all() and (two >= one**2 * (1 - WHOLE)).all():
            return column
    return None
