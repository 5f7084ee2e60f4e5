"""A server in the middle: it passes on keys of its own, and opens and seals again what silos send each other."""

from collections.abc import Mapping

from fgl_secure.coins import SystemCoins
from fgl_secure.runtime.packing import Arrays
from fgl_secure.training.processes.process import SERVER, Inbox, Outbox, Parcel, Post, Process, SealedParty
from fgl_secure.typing import Array


class _Passing(Process):
    """Hands out what it is given, and keeps what arrives."""

    def __init__(self) -> None:
        self.arrived: Inbox = {}
        self.leaving: Outbox = {}

    def step(self, inbox: Inbox) -> Outbox:
        self.arrived = inbox
        return self.leaving

    @property
    def report(self) -> dict[str, Array] | None:
        return None

    def state(self) -> dict[str, Array]:
        return {}

    def restore(self, state: Arrays) -> None:
        """There is none."""


class Middle:
    """For each party one that poses as it, towards all others.

    Args:
        parties: how many there are.
        session: of the run.

    Attributes:
        read: the parcels that parties sent each other.
    """

    def __init__(self, parties: int, session: bytes) -> None:
        self._heard, self._said = ([_Passing() for _ in range(parties)] for _ in range(2))
        self._hears, self._speaks = (
            [SealedParty(number, parties, program, session, SystemCoins()) for number, program in enumerate(programs)]
            for programs in (self._heard, self._said)
        )
        for hears, speaks in zip(self._hears, self._speaks, strict=True):
            speaks.restore(hears.state())  # one key for both
        self._keys: Mapping[int, Post] = {}
        self.read: list[Parcel] = []

    def passed(self, posts: Mapping[int, Post]) -> dict[int, Post]:
        """What all parties find in place of what the others sent; what is for the server is left alone."""
        between = {
            receiver: {sender: post[receiver] for sender, post in posts.items() if receiver in post}
            for receiver in posts
        }
        return self._with_own_keys(between, posts) if self._speaks[0].turns == 0 else self._resealed(between, posts)

    def _with_own_keys(self, keys: Mapping[int, Post], posts: Mapping[int, Post]) -> dict[int, Post]:
        self._keys = keys
        for number, party in enumerate(self._hears):
            party.turn({})
            party.turn(keys[number])
        return {number: {**posts[number], **party.turn({})} for number, party in enumerate(self._speaks)}

    def _resealed(self, between: Mapping[int, Post], posts: Mapping[int, Post]) -> dict[int, Post]:
        leaving: dict[int, dict[int, list[Parcel]]] = {number: {} for number in posts}
        for number, party in enumerate(self._hears):
            party.turn(between[number])
            for sender, parcels in self._heard[number].arrived.items():
                leaving[sender][number] = list(parcels)
                self.read += parcels
        out: dict[int, Post] = {}
        for number, party in enumerate(self._speaks):
            self._said[number].leaving = leaving[number]
            sealed = party.turn(self._keys[number] if party.turns == 1 else {})
            kept = {SERVER: posts[number][SERVER]} if SERVER in posts[number] else {}
            out[number] = {**kept, **sealed}
        return out
