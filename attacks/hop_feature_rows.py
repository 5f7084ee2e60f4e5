"""Feature rows of single nodes that clients claim to have read from sums, and how they are scored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Measurement
from fgl_secure.attacks.truth import Truth
from fgl_secure.statistics.metrics import clustered_proportion

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

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


def right_rows(nodes: Ids, values: Floats, truth: Truth) -> tuple[NDArray[np.bool_], float]:
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
    return Measurement("exact recovery", share.value, share.interval, share.n, 0.0, prior, 1.0, True, finding)


def score_feature_rows(guess: FeatureRows, truth: Truth, reading: str) -> tuple[Measurement, ...]:
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
    value, interval, n = share.value, share.interval, share.n
    reach = int(guess.determined.sum()) / max(int(guess.touched.sum()), 1)
    return Measurement("nodes exposed", value, interval, n, 0.0, 0.0, reach, True, finding, context=True)
