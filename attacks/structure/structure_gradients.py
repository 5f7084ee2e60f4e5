"""Labels, neighbours and degrees from the gradients and encoders of structure that clients send.

The gradient of client i's loss in s_u is the sum over its labelled nodes v of A-bar_vu (y^_v - y_v), by way of the
Jacobian of the embedding (FedStruct, ICLR 2025, Prop. 2). The row of a labelled node is mostly its own term, which is
negative at the label and nowhere else; rows of nodes next to labelled ones come next in length. Rows of different
clients hardly collide, so their sum tells the labels as well.

Where structure embeddings travel hop by hop, the gradient of the loss goes back the same way. In the last hop a client
gets, for each of its nodes, the sum over the node's foreign neighbours v of (y^_v - y_v) / d~_v (Lemma 1 and Eq. 9):
where there is one neighbour alone, and it is labelled, that is negative at its label and nowhere else; where it is not
labelled, it is zero.

A structure encoder begins with a linear map of a one-hot degree. The row of its weight for a degree that no node near a
labelled one has gets no gradient: a first step of Adam moves each of its entries against its own sign, by weight decay,
or not at all without any. A row with a gradient has entries that go the other way. Of the sum over all clients the same
signs say whether most clients have the degree, which is the best that can be said of each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.areas import ranking_of_nodes, share_of_labels
from fgl_secure.attacks.base import Attack, Card, InformedAttack, Measurement, Truth
from fgl_secure.attacks.neighbourhoods import clients_of, undirected
from fgl_secure.attacks.structure.knowledge import FEDSTRUCT, FEDSTRUCT_HOPWISE, STRUCTURE, EmbeddingModel, NodeClaims
from fgl_secure.attacks.structure.truth import StructureTruth
from fgl_secure.attacks.truth import moved_on
from fgl_secure.errors import InputError
from fgl_secure.runtime import Phase, PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import clustered_proportion

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

GRADIENT_SUM = "structure gradient sum"
"""Name of the server's row float64 [1, n d], the sum over clients: gradients in s_u, node after node. In the clear each
client's vector comes in the same step."""

CHUNK = 2_048
"""Rows that are solved at once."""
RANK = 1e-12
"""Squared singular values of a Jacobian up to this share of the largest count as none."""


def gradient_rows(view: View) -> NodeClaims | None:
    """The rows that the server sees of the first round: of single clients, or their sum; None where it sees neither."""
    sums = view.own(GRADIENT_SUM)
    if not sums:
        return None
    first = min(sums, key=lambda each: each.step.round)
    nodes = np.arange(view.parties.counts[Role.DEVICE])
    single = [batch for batch in view.messages(Phase.VECTORS) if batch.step == first.step]
    if not single:
        return _nonzero(np.full(len(nodes), -1), nodes, np.asarray(first.values))
    senders = view.parties.index_of(np.concatenate([batch.senders for batch in single]), Role.SILO)
    vectors = np.concatenate([np.asarray(batch.payload) for batch in single])
    return _nonzero(np.repeat(senders, len(nodes)), np.tile(nodes, len(senders)), vectors)


def logit_gradients(rows: NodeClaims, known: EmbeddingModel) -> Floats:
    """Gradients in the logits, float64 [k, c]: the rows themselves, or their least-squares solution.

    A row is J^T delta with J the Jacobian [c, d] of the embedding at the node's features.
    """
    if known.jacobian is None:
        return rows.values
    parts = [np.arange(start, min(start + CHUNK, len(rows.nodes))) for start in range(0, len(rows.nodes), CHUNK)]
    solved = [_solved(known.jacobian(rows.nodes[part]), rows.values[part]) for part in parts]
    return np.concatenate(solved)


def _solved(jacobian: NDArray[Any], rows: Floats) -> Floats:
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


class StructureGradientLabels(InformedAttack[NodeClaims, EmbeddingModel, StructureTruth]):
    """The class of the smallest entry of a row."""

    card = Card(
        "structure-gradient-labels",
        "the server reads training labels off the gradients of structure features, summed over clients or not",
        SOURCE,
        Role.SERVER, Secret.LABEL, STRUCTURE, FEDSTRUCT, minimum=0.9, auxiliary=JACOBIAN, truth=StructureTruth,
        knowledge=EmbeddingModel,
        tells_nothing="features before the first round have seen no label, and so has no Jacobian at them",
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: EmbeddingModel) -> NodeClaims | None:  # noqa: ARG002  # needs no parameter
        """Reads a label off every row."""
        found = gradient_rows(view)
        if found is None or not len(found.nodes):
            return None
        labels = logit_gradients(found, known).argmin(axis=1)
        return NodeClaims(found.observers, found.nodes, labels.astype(np.int64))

    def score(self, guess: NodeClaims, truth: StructureTruth) -> tuple[Measurement, ...]:
        """The share of training labels that are right; a node's owner, whom the server knows, speaks for it.

        A training node that its owner sent no row of, or one of zeros, counts as wrong.
        """
        sums = bool((guess.observers < 0).all())
        owned = (guess.observers == truth.silo_of[guess.nodes]) | sums
        labels = np.full(len(truth.silo_of), -1, dtype=np.int64)
        labels[guess.nodes[owned]] = guess.values[owned]
        nodes = np.flatnonzero(truth.labelled & (np.isin(truth.silo_of, guess.observers) | sums))
        return (share_of_labels("training labels", labels[nodes], nodes, truth),) if len(nodes) else ()


class StructureGradientMembership(Attack[NodeClaims, StructureTruth]):
    """Which nodes carry a label, by the length of their rows."""

    card = Card(
        "structure-gradient-membership",
        "the server tells which nodes carry a label by the lengths of the gradients of their structure features",
        SOURCE,
        Role.SERVER, Secret.LABEL, STRUCTURE, FEDSTRUCT, minimum=0.55, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> NodeClaims | None:  # noqa: ARG002  # needs no parameter
        """Takes the rows as they are."""
        found = gradient_rows(view)
        return found if found is not None and len(found.nodes) else None

    def score(self, guess: NodeClaims, truth: StructureTruth) -> tuple[Measurement, ...]:
        """Twice the area under the curve less one, over all nodes, those without a row of their owner at 0."""
        owned = (guess.observers == truth.silo_of[guess.nodes]) | (guess.observers < 0)
        lengths = np.zeros(len(truth.silo_of))
        np.add.at(lengths, guess.nodes[owned], np.linalg.norm(guess.values[owned], axis=1))
        if truth.labelled.all() or not truth.labelled.any():
            return ()
        what = "Nodes with and without a label"
        return (ranking_of_nodes("labelled nodes", lengths, truth.labelled, np.arange(len(lengths)), what),)


class StructureGradientNeighbours(Attack[NodeClaims, StructureTruth]):
    """Which foreign nodes are next to a client's labelled ones, by the length of that client's rows."""

    card = Card(
        "structure-gradient-neighbours",
        "the server finds the external neighbours of a client's labelled nodes by the lengths of its gradients",
        SOURCE,
        Role.SERVER, Secret.FOREIGN_NODE, STRUCTURE, FEDSTRUCT, minimum=0.7, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> NodeClaims | None:  # noqa: ARG002  # needs no parameter
        """Takes the rows of single clients; a sum says nothing of whose they are."""
        found = gradient_rows(view)
        return found if found is not None and (found.observers >= 0).any() else None

    def score(self, guess: NodeClaims, truth: StructureTruth) -> tuple[Measurement, ...]:
        """Twice the area under the curve less one, over all pairs of a client that sent rows and a foreign node."""
        senders = np.unique(guess.observers)
        lengths = np.zeros((len(senders), len(truth.silo_of)))
        lengths[np.searchsorted(senders, guess.observers), guess.nodes] = np.linalg.norm(guess.values, axis=1)
        owned = truth.silo_of == senders[:, None]
        adjacency = undirected(truth.edges, len(truth.silo_of))
        next_to = np.stack([adjacency @ (mine & truth.labelled) > 0 for mine in owned])
        foreign = ~owned
        if not next_to[foreign].any() or next_to[foreign].all():
            return ()
        nodes = np.broadcast_to(np.arange(len(truth.silo_of)), owned.shape)[foreign]
        what = "External neighbours of a client's labelled nodes and other foreign nodes"
        return (ranking_of_nodes("external neighbours", lengths[foreign], next_to[foreign], nodes, what),)


HOP_GRADIENTS = "hop gradients"
"""Name of a client's rows (own node, what came back to it in a hop)."""


class HopGradientLabels(Attack[NodeClaims, StructureTruth]):
    """The class of the smallest entry of what comes back to a node with a single foreign neighbour."""

    card = Card(
        "hop-gradient-labels",
        "a client reads labels of foreign nodes off the gradients that come back to their only neighbours",
        "on hop-wise sums in place of FedStruct's (ICLR 2025) App. D: gradients that travel back",
        Role.SILO, Secret.LABEL, STRUCTURE, FEDSTRUCT_HOPWISE, minimum=0.9, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> NodeClaims | None:  # noqa: ARG002  # needs no parameter
        """Reads the last hop of the first round, at every client alone."""
        returned, neighbour = view.own(HOP_GRADIENTS), _only_neighbours(view)
        if not returned:
            return None
        last = max((rows for rows in returned if rows.step.round == returned[0].step.round), key=lambda r: r.step.layer)
        nodes = last.values[:, 0].astype(np.int64)
        rows = last.values[:, 1:]
        read = (neighbour[nodes] >= 0) & (np.abs(rows).max(axis=1, initial=0.0) > 0)
        return NodeClaims(last.owners[read], neighbour[nodes[read]], rows[read].argmin(axis=1).astype(np.int64))

    def score(self, guess: NodeClaims, truth: StructureTruth) -> tuple[Measurement, ...]:
        """The share of the labels that are right, over all that clients read."""
        if not len(guess.nodes):
            return ()
        return (share_of_labels("labels of foreign neighbours", guess.values, guess.nodes, truth),)


def _only_neighbours(view: View) -> Ids:
    """int64 [n]: the one foreign neighbour of each node as its client knows it; -1 where there are none or several."""
    only = np.full(view.parties.counts[Role.DEVICE], -1, dtype=np.int64)
    for client in clients_of(view):
        crossing = client.crossing
        single = np.flatnonzero(np.diff(crossing.indptr) == 1)
        only[single] = crossing[single].indices
    return only


Marks = NDArray[np.bool_]

SERVER_SUM = "server sum"
"""What the server receives, as recordings call it."""

STRUCTURE_ENCODERS = "structure encoders"
"""Scenario: a round after which clients average encoders of structure."""

FEDSTAR = "fedstar in the clear, clients of regular graphs"
"""Control, as FedStar makes it."""


@dataclass(frozen=True, slots=True, eq=False)
class EncoderStart:
    """What the server hands out before the round.

    Attributes:
        start: float64 [degrees, hidden], the weight of the one-hot degree.
        place: where it lies among the entries of an encoder.
    """

    start: Floats
    place: slice


@dataclass(frozen=True, slots=True, eq=False)
class DegreeTruth(Truth):
    """Bool [clients, degrees], which degrees the nodes have that a client's first step reaches."""

    present: Marks

    def permuted(self, seed: int) -> DegreeTruth:  # noqa: ARG002  # clients move on by one
        """Every client's degrees at the next client."""
        return replace(self, present=moved_on(self.present))


@dataclass(frozen=True, slots=True, eq=False)
class GuessedDegrees:
    """Which degrees clients are believed to have: clients int64 [k], bool [k, degrees]."""

    clients: Ids
    present: Marks


class EncoderDegrees(InformedAttack[GuessedDegrees, EncoderStart, DegreeTruth]):
    """Signs of the steps of the map that an encoder begins with."""

    card = Card(
        "encoder-degrees",
        "the server tells from the structure encoder that a client sends which degrees its nodes have",
        "zero gradients of inputs that do not occur; FedStar (AAAI 2023) section 4.2 shares the encoder",
        Role.SERVER, Secret.SUMMAND, STRUCTURE_ENCODERS, FEDSTAR,
        auxiliary="where the encoder begins, which the server hands out", truth=DegreeTruth, knowledge=EncoderStart,
        tells_nothing="where all begin says nothing of where steps on own nodes led",
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: EncoderStart) -> GuessedDegrees | None:  # noqa: ARG002  # needs no parameter
        """Of every client by its own encoder, or else of all by their mean; None without either."""
        silos = view.parties.counts.get(Role.SILO, 0)
        sent = [batch for batch in view.messages(Phase.VECTORS, round=0) if not batch.step.evaluation]
        sent = [batch for batch in sent if len(batch.senders)]
        if sent:
            clients = np.concatenate([view.parties.index_of(batch.senders, Role.SILO) for batch in sent])
            rows = np.concatenate([np.asarray(batch.payload, dtype=np.float64) for batch in sent])
            weighed = rows[:, -1] > 0
            return GuessedDegrees(clients[weighed], moved(rows[weighed], known))
        sums = [rows for rows in view.own(SERVER_SUM) if rows.step.round == 0 and not rows.step.evaluation]
        if not sums:
            return None
        mean = moved(np.asarray(sums[0].values, dtype=np.float64), known)
        return GuessedDegrees(np.arange(silos, dtype=np.int64), np.repeat(mean, silos, axis=0))

    def score(self, guess: GuessedDegrees, truth: DegreeTruth) -> tuple[Measurement, ...]:
        """How often two clients are told apart of which one has a degree, with a bootstrap over the one that has it.

        It is the share of pairs that are told the right way round less that of the wrong way round; what is said of all
        clients alike is worth 0.
        """
        actual, said = truth.present[guess.clients], guess.present.astype(np.int64)
        having, lacking, degree = np.nonzero(actual[:, None] & ~actual[None, :])
        if not len(degree):
            return ()
        sign = said[having, degree] - said[lacking, degree]
        halves = np.concatenate([sign > 0, sign >= 0])  # a pair that is not told apart is half right
        share = clustered_proportion(halves, np.tile(guess.clients[having], 2), seed=0)
        finding = (
            f"{int((sign > 0).sum()):,} of {len(sign):,} times the server tells which of two clients has a degree that "
            f"the other lacks, and {int((sign < 0).sum()):,} times the wrong one."
        )
        return (Measurement.of_area("degrees told", share.value, share.interval, share.n, finding),)


def moved(rows: Floats, known: EncoderStart) -> Marks:
    """Which rows of the weight went elsewhere than against their own signs.

    Args:
        rows: float64 [k, P + 1], encoders times a weight, and the weight.
        known: where they began.

    Returns:
        bool [k, degrees].
    """
    weights = (rows[:, :-1] / rows[:, -1:])[:, known.place].reshape(len(rows), *known.start.shape)
    along = (weights - known.start) * np.sign(known.start)
    return np.asarray((along > ROUNDING).any(axis=2))


ROUNDING = 1e-6
"""What single precision and the grid of sums may move an entry by; a step is a thousandth or more."""
