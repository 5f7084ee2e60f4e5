"""Which nodes train a model, which choose it and which test it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph.attributed_graph import integers


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


Masks = tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class AssignmentRules:
    """What things are called in messages.

    Attributes:
        argument: the assignment, such as "silo_of".
        thing: what is assigned, such as "node".
        owner: to whom, such as "silo".
    """

    argument: str
    thing: str
    owner: str

    def checked_owners(self, values: ArrayLike, number: int) -> NDArray[np.int64]:
        """The owner of each thing, int64 [number] in 0..K-1, no owner left out.

        Raises:
            InputError: They are not; the message names the thing or the owner.
        """
        owner_of = integers(self.argument, values)
        if owner_of.shape != (number,):
            raise InputError(
                f"{self.argument} must have shape ({number},), one entry a {self.thing}; found shape {owner_of.shape}"
            )
        if owner_of.min() < 0:
            at = int(np.argmax(owner_of < 0))
            raise InputError(f"{self.argument} must be 0 or more; {self.thing} {at} has {self.owner} {owner_of[at]}")
        used = np.unique(owner_of)
        skipped = np.flatnonzero(used != np.arange(len(used)))
        if len(skipped):
            raise InputError(
                f"{self.argument} must use every {self.owner} from 0 to {used[-1]}; {self.owner} {skipped[0]} has no "
                f"{self.thing}"
            )
        return owner_of

    def checked_masks(self, masks: SplitMasks, owner_of: NDArray[np.int64]) -> Masks:
        """Three disjoint bool masks of the things, the first with one of every owner.

        Raises:
            InputError: They are not; the message names the thing or the owner.
        """
        named = {"train": masks.train, "validation": masks.validation, "test": masks.test}
        train, validation, test = (self._mask(name, mask, len(owner_of)) for name, mask in named.items())
        shared = np.sum([train, validation, test], axis=0) > 1
        if shared.any():
            raise InputError(f"masks must not overlap; {self.thing} {int(np.argmax(shared))} is in more than one")
        if not train.any():
            raise InputError(f"masks.train must mark at least one {self.thing}; found none")
        idle = np.bincount(owner_of[train], minlength=int(owner_of.max()) + 1) == 0
        if idle.any():
            raise InputError(
                f"masks.train must mark at least one {self.thing} of every {self.owner}; {self.owner} "
                f"{int(np.argmax(idle))} has no training {self.thing}"
            )
        return train, validation, test

    def _mask(self, name: str, values: ArrayLike, number: int) -> NDArray[np.bool_]:
        mask = np.array(values)
        if mask.dtype != np.bool_ or mask.shape != (number,):
            raise InputError(
                f"masks.{name} must be bool of shape ({number},), one entry a {self.thing}; "
                f"found {mask.dtype} of shape {mask.shape}"
            )
        return mask
