"""Which nodes train a model, which choose it and which test it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph.attributed_graph import as_array, integers

Mask = NDArray[np.bool_]


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

    Returns:
        The masks of the three sets, bool [n] each.

    Raises:
        InputError: An argument breaks one of these rules.

    Examples:
        >>> int(random_split(10, seed=0).train.sum())
        6
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


def read_mask(name: str, values: Any, number: int, *, split: int | None = None, thing: str = "node") -> Mask:
    """Return a mask as bool [number], from any form that says clearly what is in it.

    Args:
        name: What the mask is called in messages.
        values: True or False, or 0 or 1, of shape [number] or [number, 1]; or [number, k], of which a column is taken;
            or the numbers of the things that are in the mask, each once. An array or tensor of any type, or a list.
        number: The number of things.
        split: The column that is taken of [number, k].
        thing: What is in the mask, for messages.

    Raises:
        InputError: It is none of these, or has several columns and `split` is none of them.
    """
    array = as_array(name, values)
    result = f"found {array.dtype} of shape {array.shape}"
    if array.ndim == 2 and len(array) == number:
        columns = array.shape[1]
        if columns > 1 and split is None:
            raise InputError(
                f"{name} must hold one split; {result}: choose a column with split=0 to {columns - 1}, or --split"
            )
        if isinstance(split, bool) or not isinstance(split or 0, int | np.integer) or not 0 <= (split or 0) < columns:
            raise InputError(f"split must be a column of {name}, 0..{columns - 1}; found {split!r}")
        array = array[:, split or 0]
    if array.shape == (number,) and np.isin(array, (0, 1)).all():
        return array.astype(np.bool_)
    # numpy makes floats of an empty list of numbers
    if array.ndim == 1 and (array.dtype.kind in "iu" or (array.dtype.kind == "f" and not array.size)):
        mask = np.zeros(number, dtype=np.bool_)
        if not array.size or (array.min() >= 0 and array.max() < number and len(np.unique(array)) == len(array)):
            mask[array.astype(np.int64)] = True
            return mask
    what = ", with other values than 0 and 1" if array.shape == (number,) else ""
    raise InputError(
        f"{name} must be bool of shape ({number},), one entry a {thing} (or 0 and 1, or the numbers of its {thing}s, "
        f"each once); {result}{what}"
    )


def check_disjoint(masks: Mapping[str, Mask], thing: str) -> None:
    """Raise unless nothing is in two masks.

    Raises:
        InputError: Something is; the message names it and the masks.
    """
    shared = np.sum(list(masks.values()), axis=0) > 1
    if shared.any():
        first = int(np.argmax(shared))
        names = " and ".join(name for name, mask in masks.items() if mask[first])
        raise InputError(f"masks must not overlap; {thing} {first} is in more than one: {names}")


_Masks = tuple[Mask, Mask, Mask]


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
            index = int(np.argmax(owner_of < 0))
            raise InputError(
                f"{self.argument} must be 0 or more; {self.thing} {index} has {self.owner} {owner_of[index]}"
            )
        used = np.unique(owner_of)
        skipped = np.flatnonzero(used != np.arange(len(used)))
        if len(skipped):
            raise InputError(
                f"{self.argument} must use every {self.owner} from 0 to {used[-1]}; {self.owner} {skipped[0]} has no "
                f"{self.thing}: number them from 0 on, without gaps"
            )
        return owner_of

    def checked_masks(self, masks: SplitMasks, owner_of: NDArray[np.int64]) -> _Masks:
        """Three disjoint bool masks of the things, the first with one of every owner; see `read_mask` for their forms.

        Raises:
            InputError: They are not; the message names the thing or the owner.
        """
        if not isinstance(masks, SplitMasks):
            raise InputError(f"masks must be SplitMasks(train, validation, test); found {type(masks).__name__}")
        given = {"masks.train": masks.train, "masks.validation": masks.validation, "masks.test": masks.test}
        named = {name: read_mask(name, mask, len(owner_of), thing=self.thing) for name, mask in given.items()}
        check_disjoint(named, self.thing)
        train, validation, test = named.values()
        if not train.any():
            raise InputError(f"masks.train must mark at least one {self.thing}; found none")
        idle = np.bincount(owner_of[train], minlength=int(owner_of.max()) + 1) == 0
        if idle.any():
            raise InputError(
                f"masks.train must mark at least one {self.thing} of every {self.owner}; {self.owner} "
                f"{int(np.argmax(idle))} has no training {self.thing}"
            )
        return train, validation, test
