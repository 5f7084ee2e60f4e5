"""The rules for who has which nodes, or graphs, and which of them train: one statement for both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph.attributed_graph import integers
from fgl_secure.graph.split import SplitMasks

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
