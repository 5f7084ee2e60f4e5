"""Which nodes train a model, which choose it and which test it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class SplitMasks:
    """Three disjoint sets of nodes. A node may be in none of them.

    Attributes:
        train: bool [n], the nodes whose labels train the model.
        validation: bool [n], the nodes whose labels choose the model.
        test: bool [n], the nodes whose labels only score it.
    """

    train: NDArray[np.bool_]
    validation: NDArray[np.bool_]
    test: NDArray[np.bool_]


def random_split(n: int, seed: int, fractions: tuple[float, float, float] = (0.6, 0.2, 0.2)) -> SplitMasks:
    """Split n nodes uniformly at random, without regard to their labels or silos.

    The two cuts through the shuffled nodes are rounded, not the three sizes: so every node falls into one set, and
    each size is less than one node away from its fraction of n.

    Args:
        n: The number of nodes, at least 1.
        seed: Repeats the split. A split is no secret, so numpy's generator is good enough for it.
        fractions: Shares of training, validation and test nodes, 0 or more, with sum 1.

    Raises:
        InputError: An argument breaks one of these rules.
    """
    if n < 1:
        raise InputError(f"n must be at least 1; found {n}")
    _check_fractions(fractions)
    order = seeded_generator(seed).permutation(n)
    train_end, validation_end = round(n * fractions[0]), round(n * (fractions[0] + fractions[1]))
    rank = np.empty(n, dtype=np.int64)
    rank[order] = np.arange(n)
    return SplitMasks(
        train=rank < train_end,
        validation=(rank >= train_end) & (rank < validation_end),
        test=rank >= validation_end,
    )


def per_client_split(
    client_of: NDArray[np.int64], seed: int, fractions: tuple[float, float, float] = (0.4, 0.3, 0.3)
) -> SplitMasks:
    """Split the nodes of every client by themselves, uniformly at random, without regard to their labels.

    What FedSpray (KDD 2024) does, with its fractions by default. The two cuts are rounded as in `random_split`, but
    every client has a training node.

    Args:
        client_of: int64 [n] in 0..K-1, the client of each node; every client has a node.
        seed: Repeats the split.
        fractions: Shares of training, validation and test nodes, 0 or more, with sum 1.

    Raises:
        InputError: An argument breaks one of these rules; the message names the client.
    """
    _check_fractions(fractions)
    sizes = np.bincount(client_of) if len(client_of) else np.zeros(1, dtype=np.int64)
    if not sizes.all():
        raise InputError(f"client_of must give every client a node; client {int(np.argmin(sizes))} has none")
    shuffled = seeded_generator(seed).permutation(len(client_of))
    by_client = shuffled[np.argsort(client_of[shuffled], kind="stable")]
    rank = np.empty(len(client_of), dtype=np.int64)
    rank[by_client] = np.arange(len(client_of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    train_end = np.maximum(np.rint(sizes * fractions[0]), 1)[client_of]
    validation_end = np.rint(sizes * (fractions[0] + fractions[1]))[client_of]
    return SplitMasks(
        train=rank < train_end,
        validation=(rank >= train_end) & (rank < validation_end),
        test=(rank >= train_end) & (rank >= validation_end),
    )


def _check_fractions(fractions: tuple[float, float, float]) -> None:
    if min(fractions) < 0 or not math.isclose(sum(fractions), 1.0, abs_tol=1e-9):
        raise InputError(f"fractions must be 0 or more, with sum 1; found {fractions}")


def seeded_generator(seed: int) -> np.random.Generator:
    """A generator for choices that are no secret: splits and partitions.

    Raises:
        InputError: The seed is negative.
    """
    if seed < 0:
        raise InputError(f"seed must be 0 or more; found {seed}")
    return np.random.default_rng(seed)
