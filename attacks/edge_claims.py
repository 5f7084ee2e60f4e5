"""Edges that observers claim, and how they are scored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Measurement
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import Role
from fgl_secure.statistics.metrics import advantage, clustered_proportion, node_block_proportion

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ClaimedEdges:
    """Messages that observers believe to have been sent.

    Attributes:
        sources: int64 [k], party identifiers of the senders.
        targets: int64 [k], party identifiers of the receivers.
    """

    sources: Ids
    targets: Ids


def score_claimed_edges(guess: ClaimedEdges, truth: Truth, *, crossing: bool) -> tuple[Measurement, ...]:
    """Precision, recall and advantage over ordered pairs of different devices.

    An edge that several observers claim, each alone, counts once. Without the transcript a claim is right as often as
    pairs have an edge (the density), and as many claims at random find the share of edges that they are of all pairs.

    Args:
        guess: the claims.
        truth: with the edges along which messages were sent.
        crossing: whether only pairs of devices in different silos count.
    """
    devices, there = len(truth.silo_of), truth.edges
    source, target = (truth.parties.index_of(ids, Role.DEVICE) for ids in (guess.sources, guess.targets))
    pairs = devices * (devices - 1)
    if crossing:
        there = there[:, truth.crosses_silos]
        abroad = truth.silo_of[source] != truth.silo_of[target]
        source, target = source[abroad], target[abroad]
        sizes = np.bincount(truth.silo_of)
        pairs = devices * devices - int((sizes * sizes).sum())
    claimed, edges = np.unique(source * devices + target), np.unique(there[0] * devices + there[1])
    right, read = np.isin(claimed, edges), np.isin(edges, claimed)
    what = "cross-silo messages" if crossing else "messages"
    finding = (
        f"{len(claimed):,} pairs of devices are taken for neighbours, {int(right.sum()):,} of them rightly; there are "
        f"{len(edges):,} {what}."
    )
    ends = np.stack([edges // devices, edges % devices])
    recall = node_block_proportion(read, ends, devices, seed=0)
    gain = advantage(int(read.sum()), len(edges), int((~right).sum()), max(pairs - len(edges), 0))
    random, density = len(claimed) / max(pairs, 1), len(edges) / max(pairs, 1)
    found = (
        Measurement("recall", recall.value, recall.interval, recall.n, random, random, 1.0, True, finding),
        Measurement("advantage", gain.value, gain.interval, gain.n, 0.0, 0.0, 1.0, False, finding),
    )
    if not len(right):
        return found
    precision = clustered_proportion(right, claimed // devices, seed=0)
    value, interval, n = precision.value, precision.interval, precision.n
    return (Measurement("precision", value, interval, n, density, density, 1.0, True, finding), *found)
