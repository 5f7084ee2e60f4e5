"""A method as one silo runs it: what happens between two collectives is its own business."""

from __future__ import annotations

from abc import ABC, abstractmethod

from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.collectives import Collectives
from fgl_secure.typing import Array


class Program(ABC):
    """A method as one silo runs it, in rounds; all silos run the same one.

    A round depends on nothing but the program's state, its number and what collectives give, so that it can be run
    again up to the call that is due, in another process.

    Args:
        talk: the collectives of the run; `talk.silo` is what the silo holds.

    Attributes:
        kept: arrays that change from round to round, by name. Who keeps more than arrays extends `state` and `restore`.
    """

    def __init__(self, talk: Collectives) -> None:
        self.talk, self.silo = talk, talk.silo
        self.kept: dict[str, Array] = {}

    def begin(self) -> None:  # noqa: B027  # most have nothing to do
        """What comes before the first round; nothing unless a method has something."""

    @abstractmethod
    def round(self, number: int) -> bool:
        """One round.

        Args:
            number: of the round, from 0.

        Returns:
            Whether there is another one; the same for all silos.
        """

    @property
    @abstractmethod
    def report(self) -> dict[str, Array]:
        """What was found, as arrays by name."""

    def state(self) -> dict[str, Array]:
        """All that changes from round to round, as arrays by name; secret, for this silo alone."""
        return under("kept", self.kept)

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self.kept = within("kept", state)
