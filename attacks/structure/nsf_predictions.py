"""What clients predict of foreign nodes from their structure features: degrees, ego networks, labels, membership.

"Client i may target client j by identifying NSFs within client j that closely match some of its own NSFs ... compare
the topology of the matched local nodes and infer the topology" (FedStruct, ICLR 2025, App. G.1). No auxiliary data.

Hop2Vec's features are minimised on the training loss and nothing else (5.5): where the embedding is the identity they
are a table of logits that has memorised the labels, and every client holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from fgl_secure.attacks.areas import ranking_of_nodes, share_of_labels
from fgl_secure.attacks.base import Attack, Card, DataSecret, InformedAttack, Measurement
from fgl_secure.attacks.neighbourhoods import OWN_EDGES, ego_networks, undirected_adjacency
from fgl_secure.attacks.recovery import largest_share, share_right
from fgl_secure.attacks.structure.knowledge import (
    FEDSTRUCT,
    FEDSTRUCT_LOUVAIN,
    MODEL,
    MODEL_ALONE,
    STRUCTURE,
    EmbeddingModel,
    HeldFeatures,
    NodeClaims,
    embed_features,
    foreign_features,
    neighbour_sums,
    own_features,
    own_rows,
)
from fgl_secure.attacks.structure.nsf_identity import comparable, nearest
from fgl_secure.attacks.truth import StructureTruth
from fgl_secure.runtime import PublicParameters, Role, Secret, View
from fgl_secure.typing import Floats, Ids


@dataclass(frozen=True, slots=True, eq=False)
class _KnownNodes:
    """What one client knows."""

    client: int  # its party identifier
    foreign: HeldFeatures  # features of other clients' nodes
    own: HeldFeatures  # features of its own nodes
    adjacency: sparse.csr_array  # 0/1 [n, n], the edges with an end among its nodes

    def lenders(self, among: Ids) -> Ids:
        """int64 [m]: for each foreign node the nearest of some own nodes (positions in `own.nodes`).

        Return probabilities are compared by what they say of neighbours' degrees, which is what an ego network is.
        """
        sums = neighbour_sums(np.concatenate([self.foreign.values, self.own.values]))
        if sums is None:
            rows, table = self._tables()
            return self._nearest(rows, table, among)
        around = np.stack([sums.degrees.astype(np.float64), sums.reciprocals, np.nan_to_num(sums.squares)], axis=1)
        return self._nearest(around[: len(self.foreign.nodes)], around[len(self.foreign.nodes) :], among)

    def degree_lenders(self, degrees: Ids) -> Ids:
        """int64 [m]: the nearest own nodes in the one column that goes with the degree of own nodes, else in all.

        Args:
            degrees: int64 [n], right for own nodes.
        """
        rows, table = self._tables()
        column = _degree_column(table, degrees[self.own.nodes])
        columns = slice(None) if column is None else slice(column, column + 1)
        return self._nearest(rows[:, columns], table[:, columns], np.arange(len(table)))

    def _tables(self) -> tuple[Floats, Floats]:
        both = comparable(np.concatenate([self.foreign.values, self.own.values]))
        # Two tables in units of the standard deviations of the second; columns of zeros and ones stay as they are.
        rows = both[: len(self.foreign.nodes)]
        table = both[len(self.foreign.nodes) :]
        spread = table.std(axis=0)
        flags = ((table == 0) | (table == 1)).all(axis=0) & ((rows == 0) | (rows == 1)).all(axis=0)
        unit = np.where(flags | (spread == 0), 1.0, spread)
        return rows / unit, table / unit

    def _nearest(self, rows: Floats, table: Floats, among: Ids) -> Ids:
        nearest_rows = nearest(rows, table[among], 1, np.random.default_rng(self.client))[:, 0]
        return np.asarray(self.own.nodes[among[nearest_rows]])


def _known_nodes(view: View) -> list[_KnownNodes]:
    """What every client knows, of those that know features of both and their own edges."""
    foreign, own_nodes, edges = foreign_features(view), own_features(view), own_rows(view, OWN_EDGES)
    size = len(view.parties.ids(Role.DEVICE))
    return [
        _KnownNodes(client, foreign[client], own_nodes[client], undirected_adjacency(edges[client][:, :2].T, size))
        for client in sorted(set(foreign) & set(own_nodes) & set(edges))
    ]


def _degree_column(table: Floats, degrees: Ids) -> int | None:
    """The first column that has one value for each degree and no value for two; None without one or with one degree."""
    kinds = len(np.unique(degrees))
    for column in range(table.shape[1] if kinds > 2 else 0):
        values = np.round(table[:, column], 6)
        pairs = np.unique(np.stack([values, degrees]), axis=1).shape[1]
        if pairs == kinds == len(np.unique(values)):
            return column
    return None


@dataclass(frozen=True, slots=True)
class _Lent(Attack[NodeClaims, StructureTruth]):
    """A client gives every foreign node what its own node with the nearest features has."""

    card: Card = field()  # no default: the base class has a property of that name
    metric: str
    lent: Callable[[_KnownNodes], Ids | None]
    which: int  # of degrees and ego networks

    def infer(self, view: View, public: PublicParameters) -> NodeClaims | None:  # noqa: ARG002  # needs none
        return NodeClaims.of_all((node.client, node.foreign.nodes, self.lent(node)) for node in _known_nodes(view))

    def score(self, guess: NodeClaims, truth: StructureTruth) -> tuple[Measurement, ...]:
        """The share that is right; random is a random own node's value, the prior the most frequent one.

        What no own node of a client has is out of reach.
        """
        actual = ego_networks(undirected_adjacency(truth.edges, len(truth.silo_of)))[self.which]
        client, right = truth.parties.index_of(guess.observers, Role.SILO), guess.values == actual[guess.nodes]
        values, name = np.unique(actual, return_inverse=True)
        lent = np.zeros((int(truth.silo_of.max()) + 1, len(values)))
        np.add.at(lent, (truth.silo_of, name), 1)
        lent /= np.maximum(lent.sum(axis=1, keepdims=True), 1)
        chance = lent[client, name[guess.nodes]]
        prior, reach = largest_share(actual[guess.nodes][:, None]), max(float((chance > 0).mean()), float(right.mean()))
        text, random = f"{self.metric} are those of the nearest own node.", float(chance.mean())
        return (share_right(self.metric, right, guess.nodes, text, random=random, prior=prior, reachable=reach),)


def _degrees(known_nodes: _KnownNodes) -> Ids:
    degrees, _ = ego_networks(known_nodes.adjacency)
    return np.asarray(degrees[known_nodes.degree_lenders(degrees)])


def _ego_nets(known_nodes: _KnownNodes) -> Ids | None:
    """int64 [m]; None where no own node's ego network is known.

    Neighbours abroad have the degrees that `_NsfDegrees` predicts, and no edges between each other; an own node that
    has neighbours without known features lends no party its ego network.
    """
    degrees, _ = ego_networks(known_nodes.adjacency)
    degrees[known_nodes.foreign.nodes] = _degrees(known_nodes)
    unknown = np.ones(len(degrees), dtype=np.int64)
    unknown[known_nodes.own.nodes] = unknown[known_nodes.foreign.nodes] = 0
    complete = np.flatnonzero(known_nodes.adjacency[known_nodes.own.nodes] @ unknown == 0)
    if not len(complete):
        return None
    return np.asarray(ego_networks(known_nodes.adjacency, degrees)[1][known_nodes.lenders(complete)])


SOURCE = "on FedStruct (ICLR 2025) 5.5 and App. G.1: guess the labels of the identified nodes"


@dataclass(frozen=True, slots=True)
class _Labels(InformedAttack[NodeClaims, EmbeddingModel, StructureTruth]):
    """A client reads the class of the largest logit of every foreign node, or scores those that train alone."""

    card: Card = field()  # no default: the base class has a property of that name
    metric: str
    training: bool

    def infer_with(self, view: View, public: PublicParameters, known: EmbeddingModel) -> NodeClaims | None:  # noqa: ARG002  # needs no parameter
        features = foreign_features(view).items()
        return NodeClaims.of_all(
            (client, item.nodes, embed_features(item, known).argmax(axis=1)) for client, item in features
        )

    def score(self, guess: NodeClaims, truth: StructureTruth) -> tuple[Measurement, ...]:
        counted = truth.labelled[guess.nodes] if self.training else np.ones(len(guess.nodes), dtype=np.bool_)
        return share_of_labels(self.metric, guess.values[counted], guess.nodes[counted], truth)


class _NsfMembership(Attack[NodeClaims, StructureTruth]):
    """Which foreign nodes carry a label: training pushes their own features farthest from the start."""

    card = Card(
        "nsf-membership",
        "a client tells which foreign nodes train the model by the length of their learnt structure features",
        "on FedStruct (ICLR 2025) 5.5, as Duddu et al. (2020) for node embeddings",
        Role.SILO, DataSecret.LABEL, STRUCTURE, FEDSTRUCT, minimum=0.55, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> NodeClaims | None:  # noqa: ARG002  # needs no parameter
        features = foreign_features(view).items()
        return NodeClaims.of_all((client, item.nodes, np.linalg.norm(item.values, axis=1)) for client, item in features)

    def score(self, guess: NodeClaims, truth: StructureTruth) -> tuple[Measurement, ...]:
        training = truth.labelled[guess.nodes]
        if training.all() or not training.any():
            return ()
        text = "Foreign nodes that train the model and those that don't"
        return (ranking_of_nodes("training nodes", guess.values, training, guess.nodes, text),)


ATTACKS: tuple[Attack[Any, Any], ...] = (
    _Lent(Card(
        "nsf-degrees",
        "a client takes the degree of a foreign node from its own node with the nearest structure features",
        "FedStruct (ICLR 2025) App. G.1: NSFs that closely match some of its own",
        Role.SILO, Secret.DEGREE, STRUCTURE, FEDSTRUCT_LOUVAIN, minimum=0.8, truth=StructureTruth,
    ), "degrees", _degrees, 0),
    _Lent(Card(
        "nsf-ego-nets",
        "a client takes triangles and neighbours' degrees of a foreign node from its nearest own node",
        "FedStruct (ICLR 2025) App. G.1: infer the topology of some of the nodes within j",
        Role.SILO, DataSecret.IDENTITY, STRUCTURE, FEDSTRUCT_LOUVAIN, minimum=0.55, truth=StructureTruth,
    ), "ego networks", _ego_nets, 1),
    _Labels(Card(
        "nsf-labels",
        "a client reads the label of any foreign node off its learnt structure features",
        SOURCE,
        Role.SILO, DataSecret.LABEL, STRUCTURE, FEDSTRUCT, minimum=0.55, auxiliary=MODEL, truth=StructureTruth,
        knowledge=EmbeddingModel, tells_nothing=MODEL_ALONE,
    ), "labels of foreign nodes", training=False),
    _Labels(Card(
        "nsf-training-labels",
        "a client reads the labels that others train on off their nodes' learnt structure features",
        SOURCE,
        Role.SILO, DataSecret.LABEL, STRUCTURE, FEDSTRUCT, minimum=0.9, auxiliary=MODEL, truth=StructureTruth,
        knowledge=EmbeddingModel, tells_nothing=MODEL_ALONE,
    ), "labels of foreign training nodes", training=True),
    _NsfMembership(),
)  # fmt: skip
