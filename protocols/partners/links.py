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

OPEN, CHOSEN, CLOSED = 0, 1, 2
NOT_WISHED, WISHED, FULL = 0, 1, 2
"""What an end of an open link answers in a round."""

_SHIFT = 32
_COLUMNS = ("own_numbers", "neighbour_numbers", "names", "states", "wishes", "answers")


class Links:
    """One row for each neighbour of each device that a process hosts.

    Args:
        owners: int64 [l], hosted devices.
        others: int64 [l], their neighbours; no pair twice.

    Attributes:
        owners: as given, ascending.
        others: as given, ascending for each owner.
        names: int64 [l], names of neighbours in requests; -1 before they arrive.
        states: uint8 [l], OPEN, CHOSEN or CLOSED.
    """

    def __init__(self, owners: Ids, others: Ids) -> None:
        order = np.lexsort((others, owners))
        self.owners, self.others = owners[order], others[order]
        self._keys = self.owners << _SHIFT | self.others
        size = len(order)
        self.own_numbers: Ids = np.zeros(size, dtype=np.int64)
        self.neighbour_numbers: Ids = np.full(size, -1, dtype=np.int64)
        self.names: Ids = np.full(size, -1, dtype=np.int64)
        self.states = np.zeros(size, dtype=np.uint8)
        self.wishes = np.zeros(size, dtype=np.uint8)
        self.answers = np.zeros(size, dtype=np.uint8)

    def __len__(self) -> int:
        return len(self.owners)

    def find_links(self, owners: Ids, others: Ids) -> Ids:
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
    def chosen(self) -> Ids:
        """int64, the places of links that both ends have chosen."""
        return np.flatnonzero(self.states == CHOSEN)

    def counts(self, devices: Ids) -> Ids:
        """int64 [k], how many partners each of some devices, ascending, has chosen."""
        places = np.searchsorted(devices, self.owners[self.chosen])
        return np.bincount(places, minlength=len(devices)).astype(np.int64)

    def receive_numbers(self, places: Ids, numbers: Ids, names: Ids) -> None:
        """Store the numbers and names of neighbours."""
        self.neighbour_numbers[places], self.names[places] = numbers, names

    def choose_wishes(self, max_partners: int) -> Ids:
        """Choose the wishes of a round.

        Args:
            max_partners: partners of a device.

        Returns:
            int64, the places of the links that were open; `wishes` has the answer for each.
        """
        self.states[(self.states == OPEN) & (self.neighbour_numbers < 0)] = CLOSED  # of a neighbour that is not there
        places = np.flatnonzero(self.states == OPEN)
        devices, device = np.unique(self.owners, return_inverse=True)
        capacity = max_partners - np.bincount(device[self.chosen], minlength=len(devices))
        weights = self.own_numbers ^ self.neighbour_numbers
        ordered = places[np.lexsort((self.others[places], -weights[places], device[places]))]
        ranks = np.arange(len(ordered)) - np.searchsorted(device[ordered], device[ordered])
        free_slots = capacity[device[ordered]]
        self.wishes[ordered] = np.where(free_slots == 0, FULL, np.where(ranks < free_slots, WISHED, NOT_WISHED))
        self.answers[places] = NOT_WISHED
        return places

    def receive_answers(self, places: Ids, wishes: NDArray[np.uint8]) -> None:
        """Store the wishes of neighbours in this round."""
        self.answers[places] = wishes

    def end_round(self, *, last: bool) -> None:
        """End a round: links that both ends wish for are taken, and those of a full end closed.

        Args:
            last: whether open links are closed.
        """
        is_open = self.states == OPEN
        self.states[is_open & ((self.wishes == FULL) | (self.answers == FULL))] = CLOSED
        self.states[is_open & (self.wishes == WISHED) & (self.answers == WISHED)] = CHOSEN
        if last:
            self.states[self.states == OPEN] = CLOSED

    def state(self) -> dict[str, Array]:
        """All that changes."""
        return {name: getattr(self, name) for name in _COLUMNS}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken."""
        for name in _COLUMNS:
            setattr(self, name, state[name].copy())
