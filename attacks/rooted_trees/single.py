"""Feature rows that a sum over one neighbour tells, and how rows of single nodes are scored.

A sum over one neighbour is that neighbour's feature row.

f_i^1 of a node with one neighbour at other clients is x of that neighbour, whatever scheme computed it (Fed2GNN,
section 4.2). In the clear each passive client's part arrives by itself, and one neighbour *at that client* is enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.rooted_trees.knowledge import FED2GNN, HOP_SUMS
from fgl_secure.attacks.rooted_trees.truth import TreeTruth
from fgl_secure.attacks.rooted_trees.views import client_sums
from fgl_secure.attacks.truth import crosses_silos
from fgl_secure.runtime import Circumstance, PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import clustered_proportion, exact_proportion
from fgl_secure.typing import Floats, Ids

CLOSE = 1e-3
"""Up to this relative distance a row counts as read; rows that rounding may move further are not claimed."""


@dataclass(frozen=True, slots=True, eq=False)
class FeatureRows:
    """Rows that clients claim to have read.

    Attributes:
        clients: int64 [k], index of the client that makes each claim.
        nodes: int64 [k], the node of another client that each row is said to belong to.
        values: float64 [k, d].
        observers: int64 [p], the clients that had sums to read.
        touched: int64 [p], how many nodes of others these sums are about.
        determined: int64 [p], how many of these they determine beyond those that are alone in a sum.
    """

    clients: Ids
    nodes: Ids
    values: Floats
    observers: Ids
    touched: Ids
    determined: Ids

    @classmethod
    def of_all(cls, parts: list[tuple[int, Ids, Floats, int, int]]) -> FeatureRows:
        """The claims of all clients side by side; at least one part.

        Args:
            parts: for each client its index, nodes [k], rows [k, d], and the numbers of touched and determined nodes.
        """
        clients = np.repeat([index for index, *_ in parts], [len(nodes) for _, nodes, *_ in parts]).astype(np.int64)
        nodes, values = (np.concatenate([part[column] for part in parts]) for column in (1, 2))
        counts = np.array([(index, touched, found) for index, _, _, touched, found in parts], dtype=np.int64)
        return cls(clients, nodes, values, *counts.T)


def sure(values: Floats, error: Floats) -> NDArray[np.bool_]:
    """Bool [k]: the rows [k, d] that an error [k] of each coordinate leaves close."""
    return np.asarray(error * np.sqrt(values.shape[1]) <= CLOSE * np.linalg.norm(values, axis=1))


def right_rows(nodes: Ids, values: Floats, truth: TreeTruth) -> tuple[NDArray[np.bool_], float]:
    """Which claimed rows are right, bool [k], and for which share the most frequent row would be.

    Where no two of the claimed nodes have the same row, none is frequent: nobody could guess it.
    """
    if not len(nodes):
        return np.zeros(0, dtype=np.bool_), 0.0
    secret = truth.features[nodes].astype(np.float64)
    off = np.linalg.norm(values - secret, axis=1)
    _, first = np.unique(nodes, return_index=True)
    rows, counts = np.unique(secret[first], axis=0, return_counts=True)
    common = float((secret == rows[counts.argmax()]).all(axis=1).mean()) if counts.max() > 1 else 0.0
    return np.asarray(off <= CLOSE * np.linalg.norm(secret, axis=1)), common


def exact_rows(right: NDArray[np.bool_], nodes: Ids, prior: float, finding: str) -> Measurement:
    """The share of claimed rows that are right; the interval resamples nodes, of which several clients may speak."""
    share = clustered_proportion(right, nodes, seed=0)
    return Measurement.of_share("exact recovery", share, finding, prior=prior)


def score_feature_rows(guess: FeatureRows, truth: TreeTruth, reading: str) -> tuple[Measurement, ...]:
    """How many rows are right, and how many of the nodes that sums are about are read.

    Args:
        guess: the claims.
        truth: with the rows that were summed as features.
        reading: how they were read, in words.
    """
    right, prior = right_rows(guess.nodes, guess.values, truth)
    total = int(guess.touched.sum())
    finding = (
        f"{int(right.sum()):,} of {len(right):,} feature rows are read exactly {reading}, of {total:,} nodes of other "
        f"clients that {len(guess.observers)} clients, each alone, get sums over."
    )
    share = _share_of_touched(guess, right, finding)
    return (exact_rows(right, guess.nodes, prior, finding), share) if len(right) else (share,)


def _share_of_touched(guess: FeatureRows, right: NDArray[np.bool_], finding: str) -> Measurement:
    """The size of the leak: each client counts each node that its sums are about once."""
    read = np.array([right[guess.clients == index].sum() for index in guess.observers.tolist()], dtype=np.int64)
    which = np.repeat(np.arange(len(read)), guess.touched)
    number = np.arange(len(which)) - np.repeat(np.cumsum(guess.touched) - guess.touched, guess.touched)
    share = clustered_proportion(number < read[which], guess.observers[which], seed=0)
    reach = int(guess.determined.sum()) / max(int(guess.touched.sum()), 1)
    return Measurement.of_share("nodes exposed", share, finding, reachable=reach, context=True)


@dataclass(frozen=True, slots=True, eq=False)
class SingleRows:
    """Sums that clients take for one neighbour's row.

    Attributes:
        targets: int64 [k], the own node that each sum is for.
        nodes: int64 [k], the neighbour.
        values: float64 [k, d], its row.
    """

    targets: Ids
    nodes: Ids
    values: Floats


class HopFeatureSingle(Attack[SingleRows, TreeTruth]):
    """A client takes each sum of the first hop that is over one node for that node's row."""

    card = Card(
        "hop-feature-single",
        "a client reads the features of a neighbour that is alone in a sum",
        "on Fed2GNN 4.2: passive clients send sums over a node's neighbours, however few these are",
        Role.SILO, Secret.NODE_FEATURES, HOP_SUMS, FED2GNN, Circumstance.SINGLE_NEIGHBOUR, truth=TreeTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> SingleRows | None:
        """Reads the sums of the first hop over one node."""
        found = [(sums, np.flatnonzero(sums.single)) for sums in client_sums(view, public)]
        if not found:
            return None
        targets = [sums.nodes[at] for sums, at in found]
        nodes = [sums.members[at].indices.astype(np.int64) for sums, at in found]
        values = [sums.values[0][at] for sums, at in found]
        return SingleRows(*(np.concatenate(parts) for parts in (targets, nodes, values)))

    def score(self, guess: SingleRows, truth: TreeTruth) -> tuple[Measurement, ...]:
        """How many rows are right, and of how many nodes a neighbour is read: see `single_neighbours`."""
        right, prior = right_rows(guess.nodes, guess.values, truth)
        total, apart = single_neighbours(truth)
        crossing = np.unique(truth.edges[1][crosses_silos(truth)])
        exposed = np.isin(crossing, guess.targets[right])
        finding = (
            f"{int(right.sum()):,} of {len(right):,} sums taken for one neighbour's features are exactly that; "
            f"{int(exposed.sum()):,} of {len(crossing):,} nodes with neighbours at other clients expose one so."
        )
        shares = [
            _share(name, exposed & where[crossing], float(where[crossing].mean()) if len(crossing) else 0.0, finding)
            for name, where in (("nodes with one neighbour elsewhere", total), ("nodes with one at a client", apart))
            if len(crossing)
        ]
        return (exact_rows(right, guess.nodes, prior, finding), *shares) if len(right) else tuple(shares)


def single_neighbours(truth: TreeTruth) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which nodes have exactly one neighbour at all other clients together, and at some one of them: bool [n] each."""
    pairs = np.unique(truth.edges[:, crosses_silos(truth)], axis=1)
    n, silos = len(truth.silo_of), int(truth.silo_of.max()) + 1
    counts = np.bincount(pairs[1] * silos + truth.silo_of[pairs[0]], minlength=n * silos).reshape(n, silos)
    return counts.sum(axis=1) == 1, (counts == 1).any(axis=1)


def _share(metric: str, read: NDArray[np.bool_], reach: float, finding: str) -> Measurement:
    share = exact_proportion(int(read.sum()), len(read))
    return Measurement.of_share(metric, share, finding, reachable=reach, context=True)
