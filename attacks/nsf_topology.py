"""Degrees and ego networks of foreign nodes, copied from the own node with the nearest structure features.

"Client i may target client j by identifying NSFs within client j that closely match some of its own NSFs ... compare
the topology of the matched local nodes and infer the topology" (FedStruct, ICLR 2025, App. G.1). No auxiliary data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, Material, Measurement, Reference
from fgl_secure.attacks.ego_networks import ego_networks, undirected
from fgl_secure.attacks.nsf_lenders import KnownNodes, known_nodes
from fgl_secure.attacks.recovery import largest_share
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import clustered_proportion

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class PredictedTopology:
    """What clients believe about foreign nodes.

    Attributes:
        observers: int64 [k], party identifiers of the clients.
        nodes: int64 [k], device indices.
        values: int64 [k], numbers of neighbours, or ego networks as `ego_networks` names them.
    """

    observers: Ids
    nodes: Ids
    values: Ids


class NsfDegrees(Attack[PredictedTopology]):
    """A client predicts how many neighbours foreign nodes have."""

    @property
    def card(self) -> Card:
        """Every client alone."""
        return Card(
            "nsf-degrees",
            "a client takes the degree of a foreign node from its own node with the nearest structure features",
            "FedStruct (ICLR 2025) App. G.1: NSFs that closely match some of its own",
            Role.SILO,
            Secret.DEGREE,
            Material.STRUCTURE,
            Reference.FEDSTRUCT_LOUVAIN,
            minimum=0.8,
        )

    def infer(self, view: View, public: PublicParameters) -> PredictedTopology | None:  # noqa: ARG002  # needs none
        """Gives every foreign node the degree of the own node whose features are nearest, at every client alone."""
        return _gathered([(known, _degrees(known)) for known in known_nodes(view)])

    def score(self, guess: PredictedTopology, truth: Truth) -> tuple[Measurement, ...]:
        """The share of degrees that are right; the prior is the most frequent degree."""
        degrees, _ = ego_networks(undirected(truth.edges, len(truth.silo_of)))
        return (_share_right("degrees", degrees, guess, truth),)


class NsfEgoNets(Attack[PredictedTopology]):
    """A client predicts the whole ego network of foreign nodes, which tells most nodes from all others."""

    @property
    def card(self) -> Card:
        """Every client alone."""
        return Card(
            "nsf-ego-nets",
            "a client takes triangles and neighbours' degrees of a foreign node from its nearest own node",
            "FedStruct (ICLR 2025) App. G.1: infer the topology of some of the nodes within j",
            Role.SILO,
            Secret.IDENTITY,
            Material.STRUCTURE,
            Reference.FEDSTRUCT_LOUVAIN,
            minimum=0.55,
        )

    def infer(self, view: View, public: PublicParameters) -> PredictedTopology | None:  # noqa: ARG002  # needs none
        """Gives every foreign node the ego network of the own node whose features are nearest."""
        return _gathered([(known, _ego_nets(known)) for known in known_nodes(view)])

    def score(self, guess: PredictedTopology, truth: Truth) -> tuple[Measurement, ...]:
        """The share of ego networks that are exact; those that no own node has are out of reach."""
        _, ego_nets = ego_networks(undirected(truth.edges, len(truth.silo_of)))
        return (_share_right("ego networks", ego_nets, guess, truth),)


def _degrees(known: KnownNodes) -> Ids:
    degrees, _ = ego_networks(known.adjacency)
    return np.asarray(degrees[known.degree_lenders(degrees)])


def _ego_nets(known: KnownNodes) -> Ids | None:
    """int64 [m]; None where no own node's ego network is known.

    Neighbours abroad have the degrees that `NsfDegrees` predicts, and no edges between each other; an own node that
    has neighbours without known features lends nobody its ego network.
    """
    degrees, _ = ego_networks(known.adjacency)
    degrees[known.foreign.nodes] = _degrees(known)
    unknown = np.ones(len(degrees), dtype=np.int64)
    unknown[known.own.nodes] = unknown[known.foreign.nodes] = 0
    whole = np.flatnonzero(known.adjacency[known.own.nodes] @ unknown == 0)
    if not len(whole):
        return None
    return np.asarray(ego_networks(known.adjacency, degrees)[1][known.lenders(whole)])


def _gathered(found: list[tuple[KnownNodes, Ids | None]]) -> PredictedTopology | None:
    there = [(known, values) for known, values in found if values is not None]
    if not there:
        return None
    observers = [np.full(len(values), known.client) for known, values in there]
    nodes, values = [known.foreign.nodes for known, _ in there], [values for _, values in there]
    return PredictedTopology(*(np.concatenate(parts) for parts in (observers, nodes, values)))


def _share_right(metric: str, actual: Ids, guess: PredictedTopology, truth: Truth) -> Measurement:
    """The share of predictions that are right; random is a random own node's value, the prior the most frequent one."""
    client = truth.parties.index_of(guess.observers, Role.SILO)
    right = guess.values == actual[guess.nodes]
    share = clustered_proportion(right, guess.nodes, seed=0)
    values, name = np.unique(actual, return_inverse=True)
    lent = np.zeros((int(truth.silo_of.max()) + 1, len(values)))
    np.add.at(lent, (truth.silo_of, name), 1)
    lent /= np.maximum(lent.sum(axis=1, keepdims=True), 1)
    chance = lent[client, name[guess.nodes]]
    prior = largest_share(actual[guess.nodes][:, None])
    finding = f"{int(right.sum()):,} of {len(right):,} {metric} are those of the nearest own node."
    return Measurement(
        metric, share.value, share.interval, share.n, float(chance.mean()), prior, max(float((chance > 0).mean()),
        share.value), True, finding,
    )  # fmt: skip
