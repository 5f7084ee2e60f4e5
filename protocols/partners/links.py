"""The links of some devices to their neighbours, and how neighbours choose one another.

Both ends of a link give it a random number, and its weight is what the two make together, so that neither end alone
chooses it. In every round each device wishes for its heaviest open links, as many as it has room for; a link that both
ends wish for is taken, and the links of a device without room are closed. The heaviest open link of all is always
taken, so that rounds end with the same links as taking them one by one from the heaviest on (a greedy b-matching; the
rounds are those of Manne and Bisseling 2007).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import MalformedMessageError
from fgl_secure.typing import Array, Ids

OPEN, TAKEN, CLOSED = 0, 1, 2
NOT_WISHED, WISHED, FULL = 0, 1, 2
"""What an end of an open link says in a round."""

_SHIFT = 32
_COLUMNS = ("own", "heard", "names", "states", "wishes", "answers")


class Links:
    """One row for each neighbour of each device that a process hosts.

    Args:
        owners: int64 [l], hosted devices.
        others: int64 [l], their neighbours; no pair twice.

    Attributes:
        owners: as given, ascending.
        others: as given, ascending for each owner.
        names: int64 [l], what neighbours call themselves in requests; -1 before they said.
        states: uint8 [l], OPEN, TAKEN or CLOSED.
    """

    def __init__(self, owners: Ids, others: Ids) -> None:
        order = np.lexsort((others, owners))
        self.owners, self.others = owners[order], others[order]
        self._keys = self.owners << _SHIFT | self.others
        size = len(order)
        self.own: Ids = np.zeros(size, dtype=np.int64)
        self.heard: Ids = np.full(size, -1, dtype=np.int64)
        self.names: Ids = np.full(size, -1, dtype=np.int64)
        self.states = np.zeros(size, dtype=np.uint8)
        self.wishes = np.zeros(size, dtype=np.uint8)
        self.answers = np.zeros(size, dtype=np.uint8)

    def __len__(self) -> int:
        return len(self.owners)

    def at(self, owners: Ids, others: Ids) -> Ids:
        """The places of links.

        Raises:
            MalformedMessageError: one is none.
        """
        keys = owners << _SHIFT | others
        places = np.minimum(np.searchsorted(self._keys, keys), max(len(self) - 1, 0))
        if len(keys) and (not len(self) or (self._keys[places] != keys).any()):
            raise MalformedMessageError("messages between devices must be of neighbours; at least one is not")
        return places

    @property
    def taken(self) -> Ids:
        """int64, the places of links that both ends have chosen."""
        return np.flatnonzero(self.states == TAKEN)

    def counts(self, devices: Ids) -> Ids:
        """int64 [k], how many partners each of some devices, ascending, has chosen."""
        places = np.searchsorted(devices, self.owners[self.taken])
        return np.bincount(places, minlength=len(devices)).astype(np.int64)

    def hear(self, places: Ids, numbers: Ids, names: Ids) -> None:
        """Takes the numbers and names of neighbours."""
        self.heard[places], self.names[places] = numbers, names

    def wish(self, most: int) -> Ids:
        """Makes the wishes of a round.

        Args:
            most: partners of a device.

        Returns:
            int64, the places of the links that were open; `wishes` has what is said of each.
        """
        self.states[(self.states == OPEN) & (self.heard < 0)] = CLOSED  # of a neighbour that is not there
        places = np.flatnonzero(self.states == OPEN)
        devices, device = np.unique(self.owners, return_inverse=True)
        room = most - np.bincount(device[self.taken], minlength=len(devices))
        ordered = places[np.lexsort((self.others[places], -(self.own ^ self.heard)[places], device[places]))]
        ranks = np.arange(len(ordered)) - np.searchsorted(device[ordered], device[ordered])
        left = room[device[ordered]]
        self.wishes[ordered] = np.where(left == 0, FULL, np.where(ranks < left, WISHED, NOT_WISHED))
        self.answers[places] = NOT_WISHED
        return places

    def answered(self, places: Ids, said: NDArray[np.uint8]) -> None:
        """Takes what neighbours said in the round."""
        self.answers[places] = said

    def settle(self, *, last: bool) -> None:
        """Ends a round: links that both ends wish for are taken, and those of a full end closed.

        Args:
            last: whether open links are closed.
        """
        still = self.states == OPEN
        self.states[still & ((self.wishes == FULL) | (self.answers == FULL))] = CLOSED
        self.states[still & (self.wishes == WISHED) & (self.answers == WISHED)] = TAKEN
        if last:
            self.states[self.states == OPEN] = CLOSED

    def state(self) -> dict[str, Array]:
        """All that changes."""
        return {name: getattr(self, name) for name in _COLUMNS}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken."""
        for name in _COLUMNS:
            setattr(self, name, state[name].copy())
