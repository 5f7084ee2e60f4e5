"""Labels and neighbours from the gradients of structure that clients send.

The gradient of client i's loss in s_u is the sum over its labelled nodes v of A-bar_vu (y^_v - y_v), via the
Jacobian of the embedding (FedStruct, ICLR 2025, Prop. 2). The row of a labelled node is mostly its own term, which is
negative at the label and nowhere else; rows of nodes next to labelled ones come next in length. Rows of different
clients hardly collide, so their sum tells the labels as well.

Where structure embeddings travel hop by hop, the gradient of the loss goes back the same way. In the last hop a client
gets, for each of its nodes, the sum over the node's foreign neighbours v of (y^_v - y_v) / d~_v (Lemma 1 and Eq. 9):
where there is one neighbour alone, and it is labelled, that is negative at its label and nowhere else; where it is not
labelled, it is zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.areas import ranking_of_nodes, share_of_labels
from fgl_secure.attacks.base import Attack, Card, DataSecret, InformedAttack, Measurement
from fgl_secure.attacks.neighbourhoods import clients_of, undirected_adjacency
from fgl_secure.attacks.structure.knowledge import FEDSTRUCT, FEDSTRUCT_HOPWISE, STRUCTURE, EmbeddingModel, NodeClaims
from fgl_secure.attacks.truth import StructureTruth
from fgl_secure.errors import InputError
from fgl_secure.runtime import Phase, PublicParameters, Role, Secret, View
from fgl_secure.typing import Floats, Ids

GRADIENT_SUM = "structure gradient sum"
"""Name of the server's row float64 [1, n d], the sum over clients: gradients in s_u, node after node. In plaintext each
client's vector comes in the same step."""

CHUNK = 2_048
"""Rows that are solved at once."""
RANK = 1e-12
"""Squared singular values of a Jacobian up to this share of the largest count as none."""


def _gradient_rows(view: View) -> NodeClaims | None:
    """The rows that the server sees of the first round: of single clients, or their sum; None where it sees neither."""
    sums = view.own(GRADIENT_SUM)
    if not sums:
        return None
    first = min(sums, key=lambda item: item.step.round)
    nodes = np.arange(view.parties.counts[Role.DEVICE])
    single = [batch for batch in view.messages(Phase.VECTORS) if batch.step == first.step]
    if not single:
        return _nonzero(np.full(len(nodes), -1), nodes, np.asarray(first.values))
    senders = view.parties.index_of(np.concatenate([batch.senders for batch in single]), Role.SILO)
    vectors = np.concatenate([np.asarray(batch.payload) for batch in single])
    return _nonzero(np.repeat(senders, len(nodes)), np.tile(nodes, len(senders)), vectors)


def _logit_gradients(rows: NodeClaims, model: EmbeddingModel) -> Floats:
    """Gradients in the logits, float64 [k, c]: the rows themselves, or their least-squares solution.

    A row is J^T delta with J the Jacobian [c, d] of the embedding at the node's features.
    """
    if model.jacobian is None:
        return rows.values
    parts = [np.arange(start, min(start + CHUNK, len(rows.nodes))) for start in range(0, len(rows.nodes), CHUNK)]
    solved = [_least_squares(model.jacobian(rows.nodes[part]), rows.values[part]) for part in parts]
    return np.concatenate(solved)


def _least_squares(jacobian: NDArray[Any], rows: Floats) -> Floats:
    """The delta [k, c] of least |J^T delta - row|, by the normal equations."""
    if jacobian.ndim != 3 or (len(jacobian), jacobian.shape[2]) != rows.shape:
        raise InputError(
            f"embed_jacobian must give [nodes, classes, {rows.shape[1]}] for {len(rows)} nodes; found shape "
            f"{list(jacobian.shape)}"
        )
    wide = jacobian.astype(np.float64)
    inverse = np.linalg.pinv(wide @ wide.transpose(0, 2, 1), rcond=RANK, hermitian=True)
    return np.asarray(np.einsum("kcb,kbd,kd->kc", inverse, wide, rows, optimize=True))


def _nonzero(clients: Ids, nodes: Ids, vectors: NDArray[Any]) -> NodeClaims:
    """The rows that are not zero of vectors [k, n d], node after node."""
    rows = vectors.astype(np.float64).reshape(len(nodes), -1)
    telling = rows.any(axis=1)
    return NodeClaims(clients[telling], nodes[telling], rows[telling])


SOURCE = "on FedStruct (ICLR 2025) Prop. 2 and Eq. 50: gradients of S at the server"
JACOBIAN = "the Jacobian of the embedding at S, which the server hands out, where the embedding is not the identity"


class _StructureGradientLabels(InformedAttack[NodeClaims, EmbeddingModel, StructureTruth]):
    """The class of the smallest entry of a row."""

    card = Card(
        "structure-gradient-labels",
        "the server reads training labels off the gradients of structure features, summed over clients or not",
        SOURCE,
        Role.SERVER, DataSecret.LABEL, STRUCTURE, FEDSTRUCT, minimum=0.9, auxiliary=JACOBIAN, truth=StructureTruth,
        knowledge=EmbeddingModel,
        tells_nothing="features before the first round have seen no label, and so has no Jacobian at them",
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: EmbeddingModel) -> NodeClaims | None:  # noqa: ARG002  # needs no parameter
        result = _gradient_rows(view)
        if result is None or not len(result.nodes):
            return None
        labels = _logit_gradients(result, known).argmin(axis=1)
        return NodeClaims(result.observers, result.nodes, labels.astype(np.int64))

    def score(self, guess: NodeClaims, truth: StructureTruth) -> tuple[Measurement, ...]:
        """The share of training labels that are right; a node's owner, whom the server knows, speaks for it.

        A training node that its owner sent no row of, or one of zeros, counts as wrong.
        """
        sums = bool((guess.observers < 0).all())
        owned = (guess.observers == truth.silo_of[guess.nodes]) | sums
        labels = np.full(len(truth.silo_of), -1, dtype=np.int64)
        labels[guess.nodes[owned]] = guess.values[owned]
        nodes = np.flatnonzero(truth.labelled & (np.isin(truth.silo_of, guess.observers) | sums))
        return share_of_labels("training labels", labels[nodes], nodes, truth)


class _StructureGradientMembership(Attack[NodeClaims, StructureTruth]):
    """Which nodes carry a label, by the length of their rows."""

    card = Card(
        "structure-gradient-membership",
        "the server tells which nodes carry a label by the lengths of the gradients of their structure features",
        SOURCE,
        Role.SERVER, DataSecret.LABEL, STRUCTURE, FEDSTRUCT, minimum=0.55, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> NodeClaims | None:  # noqa: ARG002  # needs no parameter
        result = _gradient_rows(view)
        return result if result is not None and len(result.nodes) else None

    def score(self, guess: NodeClaims, truth: StructureTruth) -> tuple[Measurement, ...]:
        owned = (guess.observers == truth.silo_of[guess.nodes]) | (guess.observers < 0)
        lengths = np.zeros(len(truth.silo_of))
        np.add.at(lengths, guess.nodes[owned], np.linalg.norm(guess.values[owned], axis=1))
        if truth.labelled.all() or not truth.labelled.any():
            return ()
        text = "Nodes with and without a label"
        return (ranking_of_nodes("labelled nodes", lengths, truth.labelled, np.arange(len(lengths)), text),)


class _StructureGradientNeighbours(Attack[NodeClaims, StructureTruth]):
    """Which foreign nodes are next to a client's labelled ones, by the length of that client's rows."""

    card = Card(
        "structure-gradient-neighbours",
        "the server finds the external neighbours of a client's labelled nodes by the lengths of its gradients",
        SOURCE,
        Role.SERVER, Secret.FOREIGN_NODE, STRUCTURE, FEDSTRUCT, minimum=0.7, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> NodeClaims | None:  # noqa: ARG002  # needs no parameter
        result = _gradient_rows(view)
        return result if result is not None and (result.observers >= 0).any() else None

    def score(self, guess: NodeClaims, truth: StructureTruth) -> tuple[Measurement, ...]:
        senders = np.unique(guess.observers)
        lengths = np.zeros((len(senders), len(truth.silo_of)))
        lengths[np.searchsorted(senders, guess.observers), guess.nodes] = np.linalg.norm(guess.values, axis=1)
        owned = truth.silo_of == senders[:, None]
        adjacency = undirected_adjacency(truth.edges, len(truth.silo_of))
        next_to = np.stack([adjacency @ (members & truth.labelled) > 0 for members in owned])
        foreign = ~owned
        if not next_to[foreign].any() or next_to[foreign].all():
            return ()
        nodes = np.broadcast_to(np.arange(len(truth.silo_of)), owned.shape)[foreign]
        text = "External neighbours of a client's labelled nodes and other foreign nodes"
        return (ranking_of_nodes("external neighbours", lengths[foreign], next_to[foreign], nodes, text),)


HOP_GRADIENTS = "hop gradients"
"""Name of a client's rows (own node, what came back to it in a hop)."""


class _HopGradientLabels(Attack[NodeClaims, StructureTruth]):
    """The class of the smallest entry of what comes back to a node with a single foreign neighbour."""

    card = Card(
        "hop-gradient-labels",
        "a client reads labels of foreign nodes off the gradients that come back to their only neighbours",
        "on hop-wise sums in place of FedStruct's (ICLR 2025) App. D: gradients that travel back",
        Role.SILO, DataSecret.LABEL, STRUCTURE, FEDSTRUCT_HOPWISE, minimum=0.9, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> NodeClaims | None:  # noqa: ARG002  # needs no parameter
        returned, neighbour = view.own(HOP_GRADIENTS), _only_neighbours(view)
        if not returned:
            return None
        last = max((rows for rows in returned if rows.step.round == returned[0].step.round), key=lambda r: r.step.layer)
        nodes = last.values[:, 0].astype(np.int64)
        rows = last.values[:, 1:]
        read = (neighbour[nodes] >= 0) & (np.abs(rows).max(axis=1, initial=0.0) > 0)
        return NodeClaims(last.owners[read], neighbour[nodes[read]], rows[read].argmin(axis=1).astype(np.int64))

    def score(self, guess: NodeClaims, truth: StructureTruth) -> tuple[Measurement, ...]:
        return share_of_labels("labels of foreign neighbours", guess.values, guess.nodes, truth)


def _only_neighbours(view: View) -> Ids:
    """int64 [n]: the one foreign neighbour of each node as its client knows it; -1 where there are none or several."""
    only = np.full(view.parties.counts[Role.DEVICE], -1, dtype=np.int64)
    for client in clients_of(view):
        crossing = client.crossing
        single = np.flatnonzero(np.diff(crossing.indptr) == 1)
        only[single] = crossing[single].indices
    return only


ATTACKS: tuple[Attack[Any, Any], ...] = (
    _HopGradientLabels(),
    _StructureGradientLabels(),
    _StructureGradientMembership(),
    _StructureGradientNeighbours(),
)
