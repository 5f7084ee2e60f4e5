"""Labels and neighbours from the gradients of the structure features that clients send to the server.

The gradient of client i's loss in s_u is the sum over its labelled nodes v of A-bar_vu (y^_v - y_v), by way of the
Jacobian of the embedding (FedStruct, ICLR 2025, Prop. 2). The row of a labelled node is mostly its own term, which is
negative at the label and nowhere else; rows of nodes next to labelled ones come next in length. Rows of different
clients hardly collide, so their sum tells the labels as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Auxiliary, Card, InformedAttack, Material, Measurement, Reference
from fgl_secure.attacks.ego_networks import undirected
from fgl_secure.attacks.gradient_rows import GradientRows, gradient_rows, logit_gradients
from fgl_secure.attacks.node_shares import ranking_of_nodes, share_of_labels
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import PublicParameters, Role, Secret, View

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

SOURCE = "on FedStruct (ICLR 2025) Prop. 2 and Eq. 50: gradients of S at the server"
JACOBIAN = "the Jacobian of the embedding at S, which the server hands out, where the embedding is not the identity"


@dataclass(frozen=True, slots=True, eq=False)
class GradientLabels:
    """Labels that the server reads, one for each row: clients, nodes, labels int64 [k] and lengths float64 [k]."""

    clients: Ids
    nodes: Ids
    labels: Ids
    lengths: Floats


class StructureGradientLabels(InformedAttack[GradientLabels]):
    """The class of the smallest entry of a row."""

    @property
    def card(self) -> Card:
        """The server alone, with rows of single clients or with their sums."""
        return Card(
            "structure-gradient-labels",
            "the server reads training labels off the gradients of structure features, summed over clients or not",
            SOURCE,
            Role.SERVER,
            Secret.LABEL,
            Material.STRUCTURE,
            Reference.FEDSTRUCT,
            minimum=0.9,
            auxiliary=JACOBIAN,
        )

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> GradientLabels | None:  # noqa: ARG002  # needs no parameter
        """Reads a label off every row."""
        found = gradient_rows(view)
        if found is None or not len(found.nodes):
            return None
        delta = logit_gradients(found, auxiliary)
        lengths = np.linalg.norm(delta, axis=1)
        return GradientLabels(found.clients, found.nodes, delta.argmin(axis=1).astype(np.int64), lengths)

    def score(self, guess: GradientLabels, truth: Truth) -> tuple[Measurement, ...]:
        """The share of training labels that are right; a node's owner, whom the server knows, speaks for it.

        A training node that its owner sent no row of, or one of zeros, counts as wrong.
        """
        sums = bool((guess.clients < 0).all())
        owned = (guess.clients == truth.silo_of[guess.nodes]) | sums
        labels = np.full(len(truth.silo_of), -1, dtype=np.int64)
        labels[guess.nodes[owned]] = guess.labels[owned]
        nodes = np.flatnonzero(truth.labelled & (np.isin(truth.silo_of, guess.clients) | sums))
        return (share_of_labels("training labels", labels[nodes], nodes, truth),) if len(nodes) else ()


class StructureGradientMembership(Attack[GradientRows]):
    """Which nodes carry a label, by the length of their rows."""

    @property
    def card(self) -> Card:
        """The server alone, with rows of single clients or with their sums."""
        return Card(
            "structure-gradient-membership",
            "the server tells which nodes carry a label by the lengths of the gradients of their structure features",
            SOURCE,
            Role.SERVER,
            Secret.LABEL,
            Material.STRUCTURE,
            Reference.FEDSTRUCT,
            minimum=0.55,
        )

    def infer(self, view: View, public: PublicParameters) -> GradientRows | None:  # noqa: ARG002  # needs no parameter
        """Takes the rows as they are."""
        found = gradient_rows(view)
        return found if found is not None and len(found.nodes) else None

    def score(self, guess: GradientRows, truth: Truth) -> tuple[Measurement, ...]:
        """Twice the area under the curve less one, over all nodes, those without a row of their owner at 0."""
        owned = (guess.clients == truth.silo_of[guess.nodes]) | (guess.clients < 0)
        lengths = np.zeros(len(truth.silo_of))
        np.add.at(lengths, guess.nodes[owned], np.linalg.norm(guess.rows[owned], axis=1))
        if truth.labelled.all() or not truth.labelled.any():
            return ()
        what = "Nodes with and without a label"
        return (ranking_of_nodes("labelled nodes", lengths, truth.labelled, np.arange(len(lengths)), what),)


class StructureGradientNeighbours(Attack[GradientRows]):
    """Which foreign nodes are next to a client's labelled ones, by the length of that client's rows."""

    @property
    def card(self) -> Card:
        """The server alone, with rows of single clients."""
        return Card(
            "structure-gradient-neighbours",
            "the server finds the external neighbours of a client's labelled nodes by the lengths of its gradients",
            SOURCE,
            Role.SERVER,
            Secret.FOREIGN_NODE,
            Material.STRUCTURE,
            Reference.FEDSTRUCT,
            minimum=0.7,
        )

    def infer(self, view: View, public: PublicParameters) -> GradientRows | None:  # noqa: ARG002  # needs no parameter
        """Takes the rows of single clients; a sum says nothing of whose they are."""
        found = gradient_rows(view)
        return found if found is not None and (found.clients >= 0).any() else None

    def score(self, guess: GradientRows, truth: Truth) -> tuple[Measurement, ...]:
        """Twice the area under the curve less one, over all pairs of a client that sent rows and a foreign node."""
        senders = np.unique(guess.clients)
        lengths = np.zeros((len(senders), len(truth.silo_of)))
        lengths[np.searchsorted(senders, guess.clients), guess.nodes] = np.linalg.norm(guess.rows, axis=1)
        owned = truth.silo_of == senders[:, None]
        adjacency = undirected(truth.edges, len(truth.silo_of))
        next_to = np.stack([adjacency @ (mine & truth.labelled) > 0 for mine in owned])
        foreign = ~owned
        if not next_to[foreign].any() or next_to[foreign].all():
            return ()
        nodes = np.broadcast_to(np.arange(len(truth.silo_of)), owned.shape)[foreign]
        what = "External neighbours of a client's labelled nodes and other foreign nodes"
        return (ranking_of_nodes("external neighbours", lengths[foreign], next_to[foreign], nodes, what),)
