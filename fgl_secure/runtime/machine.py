"""Parties, and the role of a protocol as a machine that turns messages into messages, for any transport."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import Coins
from fgl_secure.errors import InputError
from fgl_secure.runtime.messages import Messages, Step
from fgl_secure.typing import Array, Ids


class Role(StrEnum):
    """The levels of HiFGL's hierarchy (section 4.1), relays of schemes that split trust, and who asks a finished model.

    Examples:
        >>> str(Role.SILO)
        'silo'
    """

    SERVER = "server"
    SILO = "silo"
    DEVICE = "device"
    RELAY = "relay"
    OUTSIDER = "outsider"


@dataclass(frozen=True, slots=True, order=True)
class Party:
    """One participant: its role, and its index among the parties of that role.

    Examples:
        >>> str(Party(Role.SILO, 2))
        'silo 2'
    """

    role: Role
    index: int

    def __str__(self) -> str:
        return f"{self.role} {self.index}"


@dataclass(frozen=True, slots=True)
class Directory:
    """Numbers all parties of a run, so that a batch of messages is a few integer arrays.

    Identifiers are consecutive: the parties of the first role, then those of the next.

    Attributes:
        counts: how many parties each role has.

    Examples:
        >>> Directory({Role.SILO: 3, Role.SERVER: 1}).ids(Role.SERVER).tolist()
        [3]
    """

    counts: Mapping[Role, int]

    @classmethod
    def hierarchy(cls, silos: int, devices: int, relays: int = 0) -> Directory:
        """One server, `silos` silos, `devices` devices and, where a scheme needs them, `relays` relays."""
        helpers = {Role.RELAY: relays} if relays else {}
        return cls({Role.SERVER: 1, Role.SILO: silos, Role.DEVICE: devices, **helpers})

    def __post_init__(self) -> None:
        for role, count in self.counts.items():
            if count < 0:
                raise InputError(f"counts of parties must not be negative; found {count} for {role}")

    def __len__(self) -> int:
        return sum(self.counts.values())

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles present, in the order of their identifiers."""
        return tuple(self.counts)

    def ids(self, role: Role) -> NDArray[np.int64]:
        """int64 [count]: identifiers of all parties of a role, by index."""
        first = self._first(role)
        return np.arange(first, first + self.counts[role], dtype=np.int64)

    def id_of(self, party: Party) -> int:
        """Identifier of one party."""
        if party.role not in self.counts or not 0 <= party.index < self.counts[party.role]:
            raise InputError(f"party must exist in this run; found {party}")
        return self._first(party.role) + party.index

    def party_of(self, identifier: int) -> Party:
        """The party of an identifier."""
        role = self.roles[int(self.role_of(np.array([identifier]))[0])]
        return Party(role, identifier - self._first(role))

    def role_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64 like `ids`: position in `roles` of each party's role."""
        ends = np.cumsum(list(self.counts.values()))
        return np.searchsorted(ends, ids, side="right").astype(np.int64)

    def index_of(self, ids: NDArray[np.int64], role: Role) -> NDArray[np.int64]:
        """int64 like `ids`: index within the role; only meaningful for parties of that role."""
        return ids - self._first(role)

    def indices_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64 like `ids`: index of each party within its role."""
        counts = np.array(list(self.counts.values()), dtype=np.int64)
        return np.asarray(ids - (np.cumsum(counts) - counts)[self.role_of(ids)])

    def _first(self, role: Role) -> int:
        if role not in self.counts:
            raise InputError(f"role must be one of {', '.join(self.counts)}; found {role}")
        before = list(self.counts)[: list(self.counts).index(role)]
        return sum(self.counts[earlier] for earlier in before)


SETUP = Step(round=0)


class Draws(ABC):
    """The coins of the parties that a process hosts, and a place to note what they draw and bring.

    A simulation records both, as they belong to the parties' views; elsewhere no party does.
    """

    @property
    @abstractmethod
    def coins(self) -> Coins:
        """The coins, for samplers that need more than uniform elements; note their results with `note_coins`."""

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Leading axes of every draw and field: (), or (tapes,) under enumeration."""
        return self.coins.batch_shape

    @abstractmethod
    def draw(self, name: str, owners: Ids, modulus: int, shape: tuple[int, ...], step: Step = SETUP) -> Array:
        """Draws secret coins for each owner: int64 [*batch_shape, len(owners), *shape], below `modulus`."""

    def name_of(self, party: int) -> str:
        """What a party is called in messages to people."""
        return f"party {party}"

    @abstractmethod
    def note_coins(self, name: str, owners: Ids, values: Array, step: Step = SETUP) -> None:
        """Notes what owners drew with a sampler of their own, or were configured with: values [m, ...]."""

    @abstractmethod
    def note_secrets(self, name: str, owners: Ids, values: Array, step: Step = SETUP) -> None:
        """Notes what owners know by ideal means, without a message: values [*batch_shape, m, ...]."""

    @abstractmethod
    def note_inputs(self, name: str, step: Step, owners: Ids, values: Array) -> None:
        """Notes what owners bring into the run: values [m, ...]."""


class OwnDraws(Draws):
    """Coins of a process that records nothing: a silo's or a client's own.

    Args:
        coins: its coins.
    """

    __slots__ = ("_coins",)

    def __init__(self, coins: Coins) -> None:
        self._coins = coins

    @property
    def coins(self) -> Coins:
        """Those given."""
        return self._coins

    def draw(
        self,
        name: str,  # noqa: ARG002  # for recordings
        owners: Ids,
        modulus: int,
        shape: tuple[int, ...],
        step: Step = SETUP,  # noqa: ARG002  # the same
    ) -> Array:
        """Draws, and notes nothing."""
        return self._coins.uniform(modulus, (len(owners), *shape))

    def note_coins(self, name: str, owners: Ids, values: Array, step: Step = SETUP) -> None:
        """Notes nothing."""

    def note_secrets(self, name: str, owners: Ids, values: Array, step: Step = SETUP) -> None:
        """Notes nothing."""

    def note_inputs(self, name: str, step: Step, owners: Ids, values: Array) -> None:
        """Notes nothing."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that a machine met and dealt with.

    Attributes:
        step: when.
        party: identifier of who is at fault, as far as that can be told.
        what: what happened, in words and without any secret.
    """

    step: Step
    party: int
    what: str


class Machine(ABC):
    """A role, for the set of its parties that one process hosts.

    A driver gives a machine everything that arrives for its parties (`receive`), and then, when all has arrived that
    will, asks what leaves (`step`). Who stays silent, lies or is late does so in the driver's hands: a machine takes
    what there is. Between two turns a machine is nothing but arrays, so that it can go on in another process.
    """

    def __init__(self, parties: Ids) -> None:
        self.parties = parties
        self.remarks: list[Remark] = []

    @abstractmethod
    def receive(self, messages: Messages) -> None:
        """Takes messages for parties hosted here, and keeps what is good of them until its next turn.

        Raises:
            ProtocolError: they are not what an honest party sends; the machine is as it was before.
        """

    @abstractmethod
    def step(self) -> Iterable[Messages]:
        """What leaves now. What is large may be made while it is read, once.

        Raises:
            ProtocolError: what has arrived leaves no way on.
        """

    def on_idle(self) -> bool:
        """Hears that no party had anything to say, so that nothing more will arrive; it may make do with what there is.

        Returns:
            Whether it wants another turn.

        Raises:
            ProtocolError: what has arrived is too little.
        """
        return False

    @abstractmethod
    def state(self) -> Mapping[str, Array]:
        """All that changes, as arrays by name; secret, for the process of these parties alone."""

    @abstractmethod
    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken.

        Raises:
            MalformedMessageError: it is no state of such a machine.
        """

    def remark(self, step: Step, party: int, text: str) -> None:
        """Leave a remark for the driver of the machine."""
        self.remarks.append(Remark(step, party, text))
