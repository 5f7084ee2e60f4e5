"""Clusters of clients by how the norms of their gradients went, as GCFL+ (NeurIPS 2021, section 4) splits them.

A cluster splits in two where its mean update is short, so that its clients have converged together, while some client's
is long. What is cut is the graph of all its clients whose edges weigh how alike two sequences of norms are: the largest
distance less their own, by dynamic time warping. Sequences begin anew after a split.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import networkx as nx
import numpy as np

from fgl_secure.errors import InputError
from fgl_secure.methods.fedavg.program import FedAvgClient
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.presets import Preset
from fgl_secure.typing import Array, Floats, Ids

PAIR = 2
"""Clients that do not split."""


@dataclass(frozen=True, slots=True)
class ClusterRule:
    """When a cluster splits.

    Attributes:
        mean_norm: epsilon_1; its mean update must be shorter.
        largest_norm: epsilon_2; some client's update must be longer.
        length: of the sequences that are compared; shorter ones split nothing.
        after: rounds before the first split.
        least: fewest clients of a cluster; 1 as in the paper, which has no such bound.
    """

    mean_norm: float = 0.05
    largest_norm: float = 0.1
    length: int = 5
    after: int = 20
    least: int = 3

    def __post_init__(self) -> None:
        for name in ("mean_norm", "largest_norm"):
            value = getattr(self, name)
            if not (isfinite(value) and value >= 0):
                raise InputError(f"{name} must be zero or positive; found {value}")
        for name, low in (("length", 1), ("after", 0), ("least", 1)):
            if getattr(self, name) < low:
                raise InputError(f"{name} must be at least {low}; found {getattr(self, name)}")


class Clusters:
    """Who averages with whom. Every client keeps a copy, from the same sums, so that all are the same.

    Args:
        clients: how many there are; all in one cluster at first.
        rule: when a cluster splits.

    Attributes:
        of: int64 [clients], the number of each one's cluster.
    """

    def __init__(self, clients: int, rule: ClusterRule) -> None:
        self._rule, self.of = rule, np.zeros(clients, dtype=np.int64)
        self._norms = np.empty((0, clients))

    @property
    def count(self) -> int:
        """How many clusters there are."""
        return int(self.of.max()) + 1

    def see(self, number: int, norms: Floats, means: Floats) -> None:
        """Takes the norms of a round, and splits what is to be split.

        Args:
            number: of the round, from 0.
            norms: float64 [clients], of their updates.
            means: float64 [clusters], of the clusters' mean updates.
        """
        self._norms = np.concatenate([self._norms, norms[None]])[-self._rule.length :]
        if number < self._rule.after or len(self._norms) < self._rule.length:
            return
        split = False
        for cluster in range(self.count):
            members = np.flatnonzero(self.of == cluster)
            if len(members) > PAIR and means[cluster] < self._rule.mean_norm:
                split |= norms[members].max() > self._rule.largest_norm and self._split(members)
        if split:
            self._norms = self._norms[:0]

    def _split(self, members: Ids) -> bool:
        """Cuts a cluster in two, unless it has too few clients for that."""
        if len(members) < 2 * self._rule.least:
            return False
        _, other = cut(dtw_distances(self._norms[:, members].T), self._rule.least)
        self.of[members[other]] = self.count
        return True

    def state(self) -> dict[str, Array]:
        """Who is where, and the norms so far."""
        return {"of": self.of, "norms": self._norms}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self.of, self._norms = state["of"].copy(), state["norms"].copy()


def dtw_distances(sequences: Floats) -> Floats:
    """Distances by dynamic time warping, float64 [n, n], of sequences [n, t].

    That of two is the root of the least sum of squared differences along a path through all pairs of their entries
    which goes on by one in either or both (Sakoe and Chiba 1978).
    """
    n, length = sequences.shape
    apart = np.square(sequences[:, None, :, None] - sequences[None, :, None, :])
    total = np.full((n, n, length + 1, length + 1), np.inf)
    total[:, :, 0, 0] = 0
    for i in range(1, length + 1):
        for j in range(1, length + 1):
            before = np.minimum(np.minimum(total[:, :, i - 1, j], total[:, :, i, j - 1]), total[:, :, i - 1, j - 1])
            total[:, :, i, j] = apart[:, :, i - 1, j - 1] + before
    return np.asarray(np.sqrt(total[:, :, length, length]))


def cut(distances: Floats, least: int = 1) -> tuple[Ids, Ids]:
    """A light cut of the graph of all clients whose edges weigh the largest distance less their own.

    Args:
        distances: float64 [n, n], symmetric, n at least 2 and twice `least`.
        least: fewest clients of a part. With 1 it is the lightest cut of all, as published, which mostly takes off one
            client; else the lightest among those that divide the clients as the second eigenvector of the graph's
            Laplacian orders them.

    Returns:
        The two parts, int64, ascending; the one with the first client comes first.
    """
    weights = distances.max() - distances
    np.fill_diagonal(weights, 0.0)
    one, two = _lightest(weights) if least == 1 else _in_order(weights, least)
    return (one, two) if one[0] < two[0] else (two, one)


def _lightest(weights: Floats) -> tuple[Ids, Ids]:
    network = nx.Graph()
    for row, column in zip(*np.triu_indices(len(weights), 1), strict=True):
        network.add_edge(int(row), int(column), weight=float(weights[row, column]))
    _, (one, two) = nx.stoer_wagner(network)
    return np.sort(np.array(one, dtype=np.int64)), np.sort(np.array(two, dtype=np.int64))


def _in_order(weights: Floats, least: int) -> tuple[Ids, Ids]:
    laplacian = np.diag(weights.sum(axis=1)) - weights
    order = np.argsort(np.linalg.eigh(laplacian)[1][:, 1], kind="stable").astype(np.int64)
    sizes = range(least, len(order) - least + 1)
    costs = [weights[np.ix_(order[:size], order[size:])].sum() for size in sizes]
    size = sizes[int(np.argmin(costs))]
    return np.sort(order[:size]), np.sort(order[size:])


class GCFLClient(FedAvgClient):
    """One client's copy of its cluster's model: federated averaging with a mean for each cluster, and norms of clients.

    Each client puts its update into its cluster's part of one sum, and zeros into the others', so that the sum has the
    mean update of every cluster and no single one; and the norm of its update at its own place into another. From both
    all parties work out alike which cluster splits: see `Clusters`. Published is that the server gets every update, and
    splits with those of the current round; here a split holds from the next round on, for means are known after the sum
    alone. A cluster's step is that of federated averaging here, of Adam along its mean (FedAdam), and an update is the
    sum of the gradients of local steps; published are differences of weights after an epoch of Adam at each client.
    With one local step the norm is that of a gradient.

    Args:
        comm: the collectives of the run.
        preset: how to train.
        rule: when a cluster splits.
        rest: as for `FedAvgClient`.

    Attributes:
        clusters: who averages with whom.
    """

    def __init__(self, comm: Collectives, preset: Preset, *rest: Any, rule: ClusterRule, **more: Any) -> None:
        super().__init__(comm, preset, *rest, **more)
        self.clusters = Clusters(comm.silo.facts.silos, rule)

    def _mean(self, update: Array, weight: int, number: int) -> Floats:
        """The mean update of the own cluster; clusters are split behind it."""
        silo, clusters = self.silo, self.clusters
        share, own = weight / silo.facts.nodes, np.arange(clusters.count) == clusters.of[silo.silo]
        means, _ = self.comm.ratios([share * update.astype(np.float64) * mine for mine in own], share * own)
        norms = np.zeros(silo.facts.silos)
        norms[silo.silo] = np.linalg.norm(update.astype(np.float64))
        with self.comm.evaluation():
            told, _ = self.comm.server(norms)
        mine = means[int(clusters.of[silo.silo])]
        clusters.see(number, told, np.array([np.linalg.norm(mean) for mean in means]))
        return mine

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, and which cluster each client is in after the last round."""
        return {**super().report, "clusters": self.clusters.of.copy()}

    def state(self) -> dict[str, Array]:
        """The clusters, too."""
        return {**super().state(), **under("clusters", self.clusters.state())}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        self.clusters.restore(within("clusters", state))
