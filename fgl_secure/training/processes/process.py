"""Processes of parties that go in lockstep: each takes what has arrived, and says what leaves.

A program keeps nothing but arrays between two turns, so that it can be put down after each of them and taken up in
another process: Flower gives no promise that one process serves two messages. Processes send each other parcels, in the
codec of all messages; those of a scheme's machines travel in them as bytes.

Behind a mailbox that reads nothing, what goes from silo to silo is sealed end to end. In one process the way between
two silos is private by construction. Where a server carries their messages, each party publishes fresh keys in its
first turn, X25519 and where the library has it ML-KEM-768, signed where there are identities, and seals everything that
is not for the server under a key for one sender and one receiver (AES-256-GCM; the nonce is sender and turn, of which
there is one message at most). Its first message to a party is preceded by the secret that it wraps for that party.
Without identities a server that lies about keys could read along.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fgl_secure.coins import Coins
from fgl_secure.crypto.keys import PUBLIC_KEY_BYTES, KeyAgreement, KeyPair, Offer, wrap
from fgl_secure.crypto.streams import KEY_BYTES
from fgl_secure.errors import MalformedMessageError, ProtocolError, StaleMessageError
from fgl_secure.host import library_settings
from fgl_secure.protocols.identity import SIGNATURE_BYTES, Identities, Identity
from fgl_secure.runtime import MessageKind, Messages, Step, decode, encode
from fgl_secure.runtime.machine import Machine
from fgl_secure.runtime.packing import Arrays, pack, under, unpack, within
from fgl_secure.threads import one_thread
from fgl_secure.typing import Array, Ids

SERVER = 2**32 - 1
"""Stands for the server among senders and receivers, where silos and relays go by their numbers."""
_NOBODY = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Parcel:
    """One message between processes: arrays under a phase and a step.

    Attributes:
        phase: what it carries.
        step: when it is sent.
        arrays: of types that travel, with up to 3 axes.
    """

    phase: MessageKind
    step: Step
    arrays: tuple[Array, ...]

    def to_bytes(self) -> bytes:
        """Return the parcel on the wire: a batch of one message, whose ends the transport knows."""
        fields = {str(place): array[None] for place, array in enumerate(self.arrays)}
        return encode(Messages(self.phase, self.step, _NOBODY, _NOBODY, fields))

    @classmethod
    def from_bytes(cls, data: bytes) -> Parcel:
        """Read a parcel.

        Raises:
            MalformedMessageError: it is none.
        """
        try:
            result = decode(data)
        except StaleMessageError as error:
            raise MalformedMessageError("parcel must name no session; it does") from error
        if len(result) != 1 or list(result.fields) != [str(place) for place in range(len(result.fields))]:
            raise MalformedMessageError("parcel must be one message with numbered arrays; it is not")
        return cls(result.phase, result.step, tuple(value[0] for value in result.fields.values()))


Inbox = Mapping[int, Sequence[Parcel]]
"""By sender: a silo or a relay by its number, or SERVER."""
Outbox = Mapping[int, Sequence[Parcel]]
"""By receiver."""
NOTHING: Outbox = {}


def parcels_to_bytes(parcels: Sequence[Parcel]) -> bytes:
    """Return parcels for one receiver as bytes."""
    return pack([parcel.to_bytes() for parcel in parcels])


def parcels_from_bytes(data: bytes) -> tuple[Parcel, ...]:
    """Read what one sender sent.

    Raises:
        MalformedMessageError: it is no row of parcels.
    """
    return tuple(Parcel.from_bytes(field) for field in unpack(data))


def only(inbox: Inbox, sender: int, phase: MessageKind) -> Parcel:
    """Return the one parcel of a phase from a sender.

    Raises:
        ProtocolError: there is none, or more than one.
    """
    result = [parcel for parcel in inbox.get(sender, ()) if parcel.phase is phase]
    if len(result) != 1:
        raise ProtocolError(f"party {sender} must send one message of {phase.label}; found {len(result)}")
    return result[0]


def fitting(parcel: Parcel, *expected: tuple[str, tuple[int, ...]]) -> tuple[Array, ...]:
    """Return the arrays of a parcel, which must have these types and shapes.

    Args:
        parcel: what arrived.
        expected: type and shape of each array; -1 stands for any length.

    Raises:
        ProtocolError: they have not.
    """
    result = [(array.dtype.str, array.shape) for array in parcel.arrays]
    fits = len(result) == len(expected) and all(
        kind == type_ and len(shape) == len(form) and all(f in (-1, s) for f, s in zip(form, shape, strict=True))
        for (kind, shape), (type_, form) in zip(result, expected, strict=True)
    )
    if not fits:
        raise ProtocolError(f"message of {parcel.phase.label} must hold arrays {list(expected)}; found {result}")
    return parcel.arrays


def scalar(value: int | float) -> Array:
    """Return a number as an array that a state may hold: int64 or float64, without axes."""
    return np.asarray(value, dtype=np.int64 if isinstance(value, int) else np.float64)


class Process(ABC):
    """What one party does from the first turn to the last."""

    @abstractmethod
    def step(self, inbox: Inbox) -> Outbox:
        """Have one turn; the first one finds nothing in the inbox."""

    @property
    def report(self) -> dict[str, Array] | None:
        """What the party found in the end; None until then, and for relays."""
        return None

    @property
    def round_report(self) -> dict[str, Array] | None:
        """The report as it is, after a turn in which a round has ended; None after others."""
        return self.report

    @property
    def due(self) -> str:
        """The collective that the party waits for, in words that all may read; empty where there is none."""
        return ""

    @abstractmethod
    def state(self) -> dict[str, Array]:
        """Return all that changes, as arrays by name; secret, for this party alone."""

    @abstractmethod
    def restore(self, state: Arrays) -> None:
        """Go on where a state was taken."""

    def close(self) -> None:  # noqa: B027  # most hold nothing
        """Let go of threads; a state that was taken before is as good as it was."""


_Hosted = TypeVar("_Hosted", bound=Machine)


class Hosting(Generic[_Hosted]):
    """The machines of one process, and what passes between them and others.

    Args:
        machines: of the parties hosted here.
        number: of this process.
        process_of: gives the numbers of the processes that host parties, int64 [m].
        session: 16 public bytes, different in every run.
        admit: hears of the senders of messages from another process before they are checked.
    """

    def __init__(
        self,
        machines: Sequence[_Hosted],
        number: int,
        process_of: Callable[[Ids], Ids],
        session: bytes,
        admit: Callable[[int, Ids], None] = lambda sender, parties: None,  # noqa: ARG005  # nothing to learn
    ) -> None:
        self.machines = tuple(machines)
        self._number, self._process_of, self._session = number, process_of, session
        self._admit = admit
        self._local: list[Messages] = []

    def turn(self, inbox: Inbox) -> Outbox:
        """Have one turn: machines take what has arrived, and say what leaves.

        Raises:
            ProtocolError: something that arrived is not what honest parties of its sender's process send.
        """
        arrived, self._local = self._local, []
        for messages in arrived:
            self._give(messages)
        for sender, parcels in inbox.items():
            for parcel in parcels:
                self._give(self._open_parcel(sender, parcel))
        out: dict[int, list[Parcel]] = {}
        for leaving in [machine.step() for machine in self.machines]:
            for messages in leaving:
                to = self._process_of(messages.receivers)
                for process in np.unique(to).tolist():
                    part = messages.rows(to == process)
                    if process == self._number:
                        self._local.append(part)
                        continue
                    data = np.frombuffer(encode(part, self._session), dtype=np.uint8)
                    out.setdefault(process, []).append(Parcel(part.phase, part.step, (data,)))
        return out

    def _open_parcel(self, sender: int, parcel: Parcel) -> Messages:
        (data,) = fitting(parcel, ("|u1", (-1,)))
        messages = decode(data.tobytes(), self._session)
        if messages.phase is not parcel.phase or messages.step != parcel.step:
            raise ProtocolError(f"party {sender} must send messages under their own phase and step; it does not")
        self._admit(sender, messages.senders)
        if (self._process_of(messages.senders) != sender).any():
            raise ProtocolError(f"party {sender} must send for devices of its own; at least one is not")
        return messages

    def _give(self, messages: Messages) -> None:
        left = len(messages)
        for machine in self.machines:
            is_own = np.isin(messages.receivers, machine.parties)
            if is_own.any():
                left -= int(is_own.sum())
                machine.receive(messages.rows(is_own))
        if left:
            raise ProtocolError(f"messages of {messages.phase.label} must be for parties hosted here; {left} are not")

    def state(self) -> dict[str, Array]:
        """Return the states of machines, and what passes between them."""
        arrays: dict[str, Array] = {}
        for n, machine in enumerate(self.machines):
            arrays |= under(f"machine{n}", dict(machine.state()))
        inbox = {f"here{n}": np.frombuffer(encode(m, self._session), dtype=np.uint8) for n, m in enumerate(self._local)}
        return arrays | inbox

    def restore(self, state: Arrays) -> None:
        """Go on where a state was taken."""
        for n, machine in enumerate(self.machines):
            machine.restore(within(f"machine{n}", state))
        self._local = []
        while f"here{len(self._local)}" in state:
            self._local.append(decode(state[f"here{len(self._local)}"].tobytes(), self._session))


Post = Mapping[int, bytes]
"""By the other end: all that one party sends to another in one turn."""

_LABEL = b"fgl-secure silos/v2"
_NONCE = struct.Struct(">IQ")
_ENDS = struct.Struct(">II")
_KEPT = ("sending", "wrapped", "publics", "receiving")
"""What a state has of each other party: keys both ways, the secret that waits to leave, and what it published."""


class SealedParty:
    """A program and the keys of its party.

    Args:
        number: of the party: a silo, or a relay after them.
        parties: silos and relays together.
        program: what the party does.
        session: 16 public bytes, different in every run.
        coins: its own, secret.
        identity: signs its key; None sends it unsigned.
        identities: of all parties.
        agreement: on keys, the same for all parties; the best that the library has unless given.

    Attributes:
        program: as given.
        agreed: bytes for whatever else all parties must have been told alike; a message opens only where the receiver's
            are those of the sender.
    """

    agreed: bytes = b""

    def __init__(
        self,
        number: int,
        parties: int,
        program: Process,
        session: bytes,
        coins: Coins,
        identity: Identity | None = None,
        identities: Identities | None = None,
        agreement: KeyAgreement | None = None,
    ) -> None:
        self._number, self._session, self.program = number, session, program
        self._others = [other for other in range(parties) if other != number]
        self._identity, self._identities = identity, identities
        self._agreement, self._coins = agreement or KeyAgreement.best(), coins
        self._private = coins.uniform(256, (self._agreement.private_bytes,)).astype(np.uint8).tobytes()
        self._sending: dict[int, bytes] = {}
        self._wrapped: dict[int, bytes] = {}
        self._publics: dict[int, bytes] = {}
        self._receiving: dict[int, bytes] = {}
        self._turns = 0

    def __repr__(self) -> str:
        return f"SealedParty({self._number}, turns={self._turns}, keys=<secret>)"

    @property
    def turns(self) -> int:
        """How many it has had; the next one has this number."""
        return self._turns

    @property
    def due(self) -> str:
        """What the party waits for; see `Process.due`."""
        return self.program.due if self._turns > 1 else f"agreement on {'' if self.is_signed else 'unsigned '}keys"

    @property
    def is_signed(self) -> bool:
        """Whether its keys are signed, and those of others must be."""
        return self._identity is not None

    @library_settings()
    @one_thread()
    def turn(self, post: Post) -> dict[int, bytes]:
        """One turn.

        Args:
            post: by sender, what it sent; the first turn finds nothing, the second every party's key.

        Returns:
            By receiver, what leaves.

        Raises:
            ProtocolError: something was not made by who is said to have sent it, or not for this party and turn.
        """
        if self._turns == 0:
            self._turns = 1
            return dict.fromkeys(self._others, self._public_keys())
        if self._turns == 1:
            self._agree(post)
            post = {}
        opened = {sender: self._unseal(sender, data) for sender, data in post.items()}
        out = self.program.step({sender: parcels_from_bytes(data) for sender, data in opened.items()})
        sealed = {receiver: self._seal(receiver, parcels_to_bytes(parcels)) for receiver, parcels in out.items()}
        self._turns += 1
        return sealed

    def _public_keys(self) -> bytes:
        public = Offer(self._private, self._agreement).public
        return public + (b"" if self._identity is None else self._identity.sign(self._statement(self._number, public)))

    def _statement(self, owner: int, public: bytes) -> bytes:
        return _LABEL + self._session + _ENDS.pack(owner, len(public)) + public

    def _agree(self, post: Post) -> None:
        """Checks every other party's key, and makes the key under which messages to it are sealed."""
        if set(post) != set(self._others):
            raise ProtocolError(f"all of {len(self._others)} other parties must publish a key; found {len(post)}")
        size, sending, wrapped, publics = self._agreement.public_bytes, {}, {}, {}
        own_public, pair = Offer(self._private, self._agreement).public, KeyPair(self._private[:KEY_BYTES])
        for other, data in post.items():
            public, signature = data[:size], data[size:]
            if len(public) != size or len(signature) not in (0, SIGNATURE_BYTES):
                raise MalformedMessageError(
                    f"key of party {other} must have {size} bytes, {self._agreement}; it has not"
                )
            if self._identities is not None:
                self._identities.check(other, self._statement(other, public), signature)
            secret = self._coins.uniform(256, (self._agreement.secret_bytes,)).astype(np.uint8).tobytes()
            first, context = public[:PUBLIC_KEY_BYTES], self._context(self._number, other, own_public, public)
            sending[other] = pair.agree(first, session=self._session, context=context, secret=secret)
            wrapped[other], publics[other] = wrap(public, secret), public
        self._sending, self._wrapped, self._publics = sending, wrapped, publics

    def _context(self, sender: int, receiver: int, sender_key: bytes, receiver_key: bytes) -> bytes:
        return _LABEL + _ENDS.pack(sender, receiver) + sender_key + receiver_key

    def _seal(self, receiver: int, plain: bytes) -> bytes:
        if receiver == SERVER:
            return plain
        sealed = AESGCM(self._sending[receiver]).encrypt(_NONCE.pack(self._number, self._turns), plain, self.agreed)
        return self._wrapped.pop(receiver, b"") + sealed

    def _unseal(self, sender: int, data: bytes) -> bytes:
        if sender == SERVER:
            return data
        if sender not in self._publics:
            raise ProtocolError(f"sender must be one of the parties; found {sender}")
        try:
            key, sealed = self._receiving.get(sender), data
            if key is None:
                # The key of a party's messages, from the secret that precedes its first one; and what follows.
                offer, size, public = (
                    Offer(self._private, self._agreement),
                    self._agreement.wrapped_bytes,
                    self._publics[sender],
                )
                context, first = self._context(sender, self._number, public, offer.public), public[:PUBLIC_KEY_BYTES]
                (key, sealed) = offer.agree(first, data[:size], session=self._session, context=context), data[size:]
            plain = AESGCM(key).decrypt(_NONCE.pack(sender, self._turns - 1), sealed, self.agreed)
        except (InvalidTag, ProtocolError) as error:
            message = f"message of party {sender} must be sealed for this party and turn; it is not"
            raise ProtocolError(message) from error
        self._receiving[sender] = key
        return plain

    def state(self) -> dict[str, Array]:
        """Keys and the program's state: secret, for this party alone."""
        remaining = {name: getattr(self, f"_{name}") for name in _KEPT}
        return {
            "turns": np.asarray(self._turns, dtype=np.int64),
            "private": np.frombuffer(self._private, dtype=np.uint8),
            **{
                f"{name}/{other}": np.frombuffer(key, np.uint8)
                for name in _KEPT
                for other, key in remaining[name].items()
            },
            **under("program", self.program.state()),
        }

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self._turns, self._private = int(state["turns"]), state["private"].tobytes()
        for name in _KEPT:
            setattr(self, f"_{name}", {int(other): key.tobytes() for other, key in within(name, state).items()})
        self.program.restore(within("program", state))
