"""A node and its neighbours from the row that they average to, which the gradient at one node tells.

See `gradient_single` for the row. Public features take it apart: under GCN and SGC the node and those around it, under
GraphSAGE the node from its own row and the neighbours from their mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.base import Auxiliary, Card, InformedAttack, Material, Measurement, Reference
from fgl_secure.attacks.ego_networks import undirected
from fgl_secure.attacks.feature_neighbours import parts_of
from fgl_secure.attacks.gradient_single import single_batches, single_rows
from fgl_secure.attacks.gradient_views import client_gradients
from fgl_secure.attacks.truth import ClientBatch, Truth
from fgl_secure.runtime import PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import clustered_proportion

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SingleFields:
    """Neighbourhoods of single nodes: int64 [k] clients, what each is made of (node included), hops that they span."""

    round: int
    clients: Ids
    fields: tuple[Ids, ...]
    hops: int


class GradientSingleNeighbours(InformedAttack[SingleFields]):
    """Takes the rows that entered apart by public features."""

    @property
    def card(self) -> Card:
        """The server alone, with gradients of single clients."""
        return Card(
            "gradient-single-neighbours",
            "the server finds a node and its neighbours in the gradient of a model of one layer, with public features",
            "rank-one gradients (Geiping et al., NeurIPS 2020) and non-negative least squares on averaged rows",
            Role.SERVER,
            Secret.FOREIGN_EDGE,
            Material.UPDATES,
            Reference.FEDAVG_SINGLE,
            minimum=0.95,
            auxiliary="the model, and public features of all nodes, but no edges",
        )

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> SingleFields | None:
        """Solves for the weights of the public rows."""
        seen, candidates = client_gradients(view, public, auxiliary), auxiliary.candidates
        found = None if seen is None else single_rows(seen)
        if seen is None or found is None or candidates is None:
            return None
        dictionary = np.asarray(candidates.features, dtype=np.float64)
        fields = []
        for at, client in enumerate(found.clients):
            eligible = (candidates.clients == client) | (candidates.clients < 0)
            parts = [parts_of(rows[at], dictionary, eligible) for rows in found.rows.values()]
            fields.append(np.unique(np.concatenate(parts)))
        return SingleFields(found.round, found.clients, tuple(fields), seen.model.reach)

    def score(self, guess: SingleFields, truth: Truth) -> tuple[Measurement, ...]:
        """Recall and precision of the neighbourhoods, each with its node, by client."""
        batches = single_batches(guess.round, truth)
        if not batches:
            return ()
        step = undirected(truth.edges, len(truth.silo_of))
        named = dict(zip(guess.clients.tolist(), guess.fields, strict=True))
        actual = [_around(batch.nodes, step, guess.hops) for batch in batches]
        claimed = [named.get(batch.client, np.empty(0, dtype=np.int64)) for batch in batches]
        prior = _usual_share(batches, step, guess.hops, truth)
        found = _share("neighbourhoods found", actual, claimed, prior, "members of neighbourhoods are found")
        return (found, _share("neighbourhoods claimed", claimed, actual, prior, "members that are claimed are right"))


def _around(nodes: Ids, step: sparse.csr_array, hops: int) -> Ids:
    """Nodes at most some hops away, int64 ascending."""
    there = np.zeros(step.shape[0], dtype=np.int64)
    there[nodes] = 1
    for _ in range(hops):
        there = ((there + step @ there) > 0).astype(np.int64)
    return np.flatnonzero(there)


def _usual_share(batches: list[ClientBatch], step: sparse.csr_array, hops: int, truth: Truth) -> float:
    """The share of a neighbourhood that one gets right who knows the graph and not the node: the most frequent members.

    One claims as many nodes of a client as its neighbourhoods have on average.
    """
    shares = []
    for client in {batch.client for batch in batches}:
        nodes = np.flatnonzero(truth.silo_of == client)
        once = sparse.csr_array(step[nodes][:, nodes] + sparse.eye_array(len(nodes), dtype=np.int64))
        near = once
        for _ in range(hops - 1):
            near = sparse.csr_array(near @ once)
        often = np.sort(np.bincount(near.indices, minlength=len(nodes)))[::-1]
        size = max(1, round(often.mean()))
        shares.append(float(often[:size].sum() / often.sum()))
    return float(np.mean(shares))


def _share(metric: str, units: list[Ids], within: list[Ids], prior: float, what: str) -> Measurement:
    """Which share of the first sets' members is in the second sets; bootstrap over clients."""
    hits = [np.isin(unit, other) for unit, other in zip(units, within, strict=True)]
    right = np.concatenate(hits) if hits else np.empty(0, dtype=np.bool_)
    client = np.repeat(np.arange(len(units)), [len(unit) for unit in units])
    share = clustered_proportion(right.astype(np.bool_), client, seed=0)
    finding = f"{int(right.sum()):,} of {len(right):,} {what}."
    return Measurement(metric, share.value, share.interval, share.n, 0.0, prior, 1.0, True, finding)
