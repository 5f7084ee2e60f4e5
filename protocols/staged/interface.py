"""The interface of a sum whose parties talk in messages: a client's part, a server's part, and what makes them.

The server leads. In each stage it has one message for each client that is still there (`requests`), a client answers
with one message (`reply`), and whoever has not answered when the server goes on (`advance`) has dropped out. Bytes are
all that passes between the two, so that the same code runs in one process, over Flower, or over a wire of one's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import Coins
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.protocols.promising import Promising
from fgl_secure.runtime import Claim

Integers = NDArray[np.int64]

SESSION_BYTES = 16
CONTEXT_BYTES = 32


class Stage(IntEnum):
    """What a round trip between server and clients is for; a scheme has those that it needs, in this order."""

    KEYS = 0
    """Clients publish keys of this sum."""
    SHARES = 1
    """Clients hear each other's keys, and share what lets others finish without them."""
    VECTORS = 2
    """Clients hand in their vectors, protected."""
    AGREEMENT = 3
    """Clients tell each other what the server says of who is in the sum."""
    OPENING = 4
    """Clients open what protects the sum, and nothing else."""


@dataclass(frozen=True, slots=True)
class SumTerms:
    """What everybody knows of one sum before it starts.

    Attributes:
        session: 16 public bytes, different in every session.
        number: which sum of the session, from 0; a client takes part in each once, in ascending order.
        clients: how many there are, n >= 2; they go by 0 .. n - 1.
        threshold: least clients that must be left at every stage.
        length: entries of every vector.
        bound: largest magnitude of an entry; None for sums modulo the scheme's field, whose entries are any elements.
        context: 32 bytes, or none, that stand for what else all must have been told alike, such as how entries are
            written: clients with different ones have no keys in common, and no sum.
    """

    session: bytes
    number: int
    clients: int
    threshold: int
    length: int
    bound: int | None
    context: bytes = b""

    @property
    def binding(self) -> bytes:
        """What keys, seals and votes are bound to: session and context."""
        return self.session + self.context


class StagedClient(ABC):
    """One client's part in one sum. Holds secrets: its repr shows none."""

    @abstractmethod
    def provide(self, vector: Integers) -> None:
        """Takes the vector that this client adds; wanted before it is asked for it.

        Args:
            vector: int64 [length], of magnitude up to the bound, or 0 .. modulus - 1 where there is none.

        Raises:
            InputError: another shape or dtype, a value beyond the bound (not shown), or a second vector.
        """

    @abstractmethod
    def reply(self, message: bytes) -> bytes:
        """Answers the server.

        Args:
            message: as the server's `requests` gave it.

        Raises:
            MalformedMessageError: it is cut, too long, or not of this protocol.
            StaleMessageError: it is of another session, sum or stage than the one that is due.
            ProtocolError: it asks for what an honest client does not give.
            InputError: no vector was provided.
            In all these cases the client is as it was before, and answers a good message later.
        """

    @abstractmethod
    def state(self) -> bytes:
        """Everything that `StagedScheme.restored` needs to go on in another process; secret, for this client alone."""


class StagedServer(ABC):
    """The server's part in one sum."""

    @property
    @abstractmethod
    def stage(self) -> Stage | None:
        """The stage that answers are awaited for; None when the sum is done."""

    @abstractmethod
    def requests(self) -> Mapping[int, bytes]:
        """What to send in this stage, by client; clients that have dropped out get nothing."""

    @abstractmethod
    def receive(self, client: int, message: bytes) -> None:
        """Takes an answer.

        Args:
            client: who sent it, as the transport authenticates it.
            message: as the client's `reply` gave it.

        Raises:
            MalformedMessageError: it is cut, too long, or not of this protocol.
            StaleMessageError: it is of another session, sum or stage.
            ProtocolError: it is from somebody else, a second answer, or holds what this stage does not allow.
            In all these cases the server is as it was before, and the client may still answer.
        """

    @abstractmethod
    def advance(self) -> None:
        """Ends the stage: clients that have not answered have dropped out.

        Raises:
            TooFewClientsError: fewer than the threshold are left; names the stage and both numbers.
            ProtocolError: answers contradict each other beyond repair.
        """

    @property
    @abstractmethod
    def included(self) -> tuple[int, ...]:
        """Whose vectors are in the sum, ascending; empty until the vectors are in."""

    @abstractmethod
    def result(self) -> Integers:
        """The exact sum of the included clients' vectors, int64 [length]; residues where the terms have no bound.

        Raises:
            ProtocolError: the sum is not done.
        """


class StagedScheme(Promising):
    """A scheme whose parties talk in messages."""

    @abstractmethod
    def limit(self, terms: int) -> int:
        """The largest magnitude that a sum of up to `terms` vectors may reach and still be exact."""

    @property
    @abstractmethod
    def modulus(self) -> int | None:
        """Of sums without a bound; None where there are none."""

    @abstractmethod
    def threshold_for(self, clients: int) -> int:
        """The threshold among so many clients: the scheme's own, or its default.

        Raises:
            InputError: too few clients, or a threshold that privacy forbids.
        """

    @abstractmethod
    def claim_for(self, clients: int) -> Claim:
        """What holds for so many clients."""

    @abstractmethod
    def check(self, terms: SumTerms) -> None:
        """Raises unless sums under these terms are exact and private.

        Raises:
            InputError: fewer than two clients, a threshold that privacy forbids, a length below 1, a session of
                another size, no bound where the scheme needs one.
            FieldRangeError: clients * bound is beyond `limit`.
        """

    @abstractmethod
    def client(
        self,
        terms: SumTerms,
        index: int,
        coins: Coins,
        identity: Identity | None = None,
        identities: Identities | None = None,
    ) -> StagedClient:
        """A client's part. With identities, keys are signed and checked, so that the server cannot pass on its own."""

    @abstractmethod
    def server(self, terms: SumTerms, coins: Coins) -> StagedServer:
        """The server's part."""

    @abstractmethod
    def restored(self, terms: SumTerms, state: bytes) -> StagedClient:
        """A client that goes on where `state` was taken.

        Raises:
            MalformedMessageError: it is not a state of this scheme.
        """
