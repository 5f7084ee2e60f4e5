"""What is cryptographic about relay-coded sums, as one object: keys, masks, seals, pseudonyms and routes.

A mask is named by its session, circuit or sender, relay, round, layer, part, direction, attempt and slot. Session,
circuit or sender, and relay are in the key. All else but the slot is in the nonce; the slot of a sender's message is
the place in the stream behind it. A circuit has a key of its own for each relay, and carries one row in a step.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, PrimeField
from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.keys import PUBLIC_KEY_BYTES, KeyAgreement, KeyPair, Offer, Sealing, Unsealing, wrap
from fgl_secure.crypto.streams import KEY_BYTES, KeyedStreams
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.relay_coded.pseudonyms import Pseudonyms
from fgl_secure.protocols.relay_coded.rows import hide_rows, reveal_rows, width_of
from fgl_secure.runtime import Direction, Draws, Step
from fgl_secure.runtime.messages import SESSION_BYTES
from fgl_secure.runtime.transcript import Numbers
from fgl_secure.typing import Array, Bytes, Flags, Ids

Arrays = Mapping[str, Array]

_AT_ONCE = 2**16
"""Circuits whose coins are drawn together."""

_NONCE = struct.Struct(">IHIBBI")


def mask_nonce(step: Step, attempt: int = 0) -> bytes:
    """The counter block at which the masks of a step begin, 16 bytes; different for different steps and attempts.

    Args:
        step: round below 2^32, layer -1 to 2^16 - 2, part below 2^32.
        attempt: 0, or how often a message was made anew (not resent) in this step, below 256.
    """
    kind = 2 * (step.direction is Direction.BACKWARD) + step.evaluation
    try:
        return _NONCE.pack(step.round, step.layer + 1, step.part, kind, attempt, 0)
    except struct.error as error:
        raise InputError(
            f"step must have round < 2^32, layer in -1..65534, part < 2^32 and attempt < 256; found {step}, {attempt}"
        ) from error


def attempt_of(opening: int) -> int:
    """Return the attempt in nonces, from the number of the opening: circuits' keys are fresh in each."""
    return opening % 256


def mask_context(sender_key: bytes, relay_key: bytes, sender: int, relay: int) -> bytes:
    """Says what a key is for and between whom: fixed lengths, so that no two pairs share a context.

    Args:
        sender_key: what it published; its length tells one key agreement from another.
        relay_key: the X25519 key of the relay.
        sender: party identifier.
        relay: party identifier.
    """
    kind = struct.pack(">H", len(sender_key))
    return b"fgl-secure relay-coded/v2 mask" + kind + sender_key + relay_key + struct.pack(">QQ", sender, relay)


def make_offers(private: Bytes, agreement: KeyAgreement) -> list[Offer]:
    """The keys of senders, from private ones uint8 [s, private bytes]; they take as long to make as to agree on one."""
    return [Offer(row.tobytes(), agreement) for row in private]


def public_keys(offers: Sequence[Offer], agreement: KeyAgreement) -> Bytes:
    """What senders publish: uint8 [s, public bytes]."""
    return _rows([offer.public for offer in offers], agreement.public_bytes)


def answer_offers(private: Bytes, publics: Bytes, secrets: Bytes) -> tuple[Bytes, NDArray[np.bool_]]:
    """What a relay, with its private key uint8 [32], answers senders: its X25519 key and a secret wrapped for each.

    Args:
        private: of the relay.
        publics: uint8 [s, public bytes], of senders.
        secrets: uint8 [s, secret bytes], one for each.

    Returns:
        uint8 [k, 32 + wrapped bytes], and bool [s]: which k senders published keys that can be answered.
    """
    public_key, replies, valid = KeyPair(private.tobytes()).public, [], np.ones(len(publics), dtype=np.bool_)
    for index, (public, secret) in enumerate(zip(publics, secrets, strict=True)):
        try:
            replies.append(public_key + wrap(public.tobytes(), secret.tobytes()))
        except ProtocolError:
            valid[index] = False
    return _rows(replies, len(replies[0]) if replies else PUBLIC_KEY_BYTES), valid


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """Keys between some senders and some relays.

    Attributes:
        senders: int64 [s], ascending party identifiers.
        secrets: for each relay uint8 [s, 32].
    """

    senders: Ids
    secrets: Sequence[Bytes] = attribute(repr=False)


class Cryptography:
    """What the parties that one process hosts can do; secrets are theirs and passed in. This is what users run.

    X25519, with ML-KEM-768 or alone, HKDF, AES-256 in counter mode, random pseudonyms and routes.

    Where a process hosts both ends of a secret, as a simulation does, it works it out once.

    Args:
        field: of the masks.
        T: masks of each message.
        session: 16 public bytes, different in every session; None draws them with the keys, where a process hosts all.
        agreement: how keys are agreed on, and what messages are sealed with.

    Attributes:
        agreement: as given.
        pseudonyms: of groups.
    """

    unlinkable: ClassVar[bool] = True
    """Whether pseudonyms, routes and orders are random, so that they reveal no sender and no receiver."""

    def __init__(
        self, field: PrimeField, T: int, *, session: bytes | None = None, agreement: KeyAgreement = KeyAgreement.X25519
    ) -> None:
        self._field, self._T, self._session = field, T, session
        self._both_ends, self.agreement, self.pseudonyms = session is None, agreement, Pseudonyms()
        self._agreed: dict[tuple[int, bytes], tuple[Ids, Bytes, Bytes]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(T={self._T})"

    def session(self, draws: Draws) -> bytes:
        """The session's name."""
        if self._session is None:
            self._session = bytes(draws.coins.uniform(256, (SESSION_BYTES,)).tolist())
        return self._session

    @property
    def named_session(self) -> Bytes:
        """The session's name for a state: uint8 [16], or empty before it is drawn."""
        return np.frombuffer(self._session or b"", dtype=np.uint8)

    def name_session(self, named: Bytes) -> None:
        """Takes the name from a state."""
        self._session = named.tobytes() or None

    @property
    def keyed(self) -> bool:
        """Whether senders and the first T relays agree on keys before the first sum."""
        return True

    @property
    def expanded(self) -> int:
        """How many relays, from the first on, expand their shares themselves."""
        return self._T

    def nonce(self, step: Step, attempt: int = 0) -> bytes:
        """See `mask_nonce`."""
        return mask_nonce(step, attempt)

    def shuffle(self, draws: Draws, count: int) -> Ids | None:
        """int64 [count], by which a sender's circuits are put in order; None leaves them in that of groups."""
        return draws.coins.uniform(2**63, (count,))

    def routes(self, draws: Draws, step: Step, silos: Ids) -> Ids:
        """Return coins of silos for circuits: via which silo each goes on, and its order; int64 [m, 2].

        Args:
            draws: coins of the silos.
            step: when circuits are opened.
            silos: int64 [m], whose circuit each is.
        """
        return draws.draw("routes", silos, 2**63, (2,), step)

    def openings(self, draws: Draws, step: Step, owners: Ids) -> Ids:
        """Return fresh openings of pseudonyms: int64 [g, 2], one for each group, known to its owner alone."""
        return draws.draw("openings", owners, 2**63, (2,), step)

    def names(self, draws: Draws, step: Step, owners: Ids) -> Ids:
        """Return pseudonyms of circuits: int64 [m, 2]."""
        return draws.draw("pseudonyms", owners, 2**63, (2,), step)

    def circuit_keys(self, draws: Draws, step: Step, owners: Ids, relays: int) -> Bytes:
        """Return a key of each circuit for each relay: uint8 [relays, m, 32]; [relays, m, 0] where none is needed."""
        out = np.empty((relays, len(owners), KEY_BYTES), dtype=np.uint8)
        for keys in out:
            for start in range(0, len(owners), _AT_ONCE):
                chunk = slice(start, start + _AT_ONCE)
                keys[chunk] = draws.draw("circuit keys", owners[chunk], 256, (KEY_BYTES,), step)
        return out

    def sealing_keys(self, draws: Draws, relays: Ids) -> Bytes:
        """Return the private keys of relays, for which circuits are sealed: uint8 [k, bytes]."""
        return draws.draw("sealing keys", relays, 256, (self.agreement.private_bytes,)).astype(np.uint8)

    def public_key(self, private: Bytes) -> Bytes:
        """Return what a relay publishes: uint8 [bytes]."""
        return np.frombuffer(Unsealing(private.tobytes(), self.agreement).public, dtype=np.uint8)

    @property
    def public_bytes(self) -> int:
        """Size of what a relay publishes."""
        return self.agreement.public_bytes

    def sealed_bytes(self, content: int) -> int:
        """Return the size of a seal of so many bytes."""
        return content + self.agreement.seal_bytes

    def seal(self, draws: Draws, owners: Ids, publics: Sequence[Bytes], contents: Sequence[Bytes]) -> Bytes:
        """Seal circuits for all relays.

        Args:
            draws: coins of the owners.
            owners: int64 [m], of the circuits.
            publics: for each relay uint8 [bytes].
            contents: for each relay uint8 [m, c].

        Returns:
            uint8 [m, relays * sealed_bytes(c)].
        """
        salt, counted = self.session(draws), self._counts_seals(draws)
        sealing = Sealing([public.tobytes() for public in publics], salt, counted=counted)
        out = np.empty((len(owners), len(publics) * self.sealed_bytes(contents[0].shape[1])), dtype=np.uint8)
        for start in range(0, len(owners), _AT_ONCE):
            chunk = slice(start, start + _AT_ONCE)
            fresh = draws.draw("ephemeral keys", owners[chunk], 256, (KEY_BYTES,)).astype(np.uint8)
            for row, ephemeral, *content in zip(out[chunk], fresh, *(part[chunk] for part in contents), strict=True):
                row[:] = np.frombuffer(
                    sealing.seal(ephemeral.tobytes(), [part.tobytes() for part in content]), dtype=np.uint8
                )
        return out

    def unseal(self, draws: Draws, private: Bytes, sealed: Bytes) -> tuple[Bytes, Flags]:
        """Open seals for one relay: uint8 [m, s] to uint8 [m, c], and bool [m]: which were made for it."""
        unsealing, salt = Unsealing(private.tobytes(), self.agreement), self.session(draws)
        counted = self._counts_seals(draws)
        size = sealed.shape[1] - self.agreement.seal_bytes
        out, valid = np.zeros((len(sealed), max(size, 0)), dtype=np.uint8), np.zeros(len(sealed), dtype=np.bool_)
        for place, row in enumerate(sealed if size > 0 else ()):
            content = unsealing.unseal(row.tobytes(), salt, counted=counted)
            if content is not None:
                out[place], valid[place] = np.frombuffer(content, dtype=np.uint8), True
        return out, valid

    def _counts_seals(self, draws: Draws) -> bool:
        """Whether one process hosts all parties under coins that are no secret: an audit opens millions of circuits."""
        return self._both_ends and isinstance(draws.coins, SimulationCoins)

    def hidden_width(self, width: int, kind: np.dtype[Any]) -> int:
        """Return how many numbers a row of so many elements takes once it is hidden."""
        return width_of(width, kind)

    def hide(self, step: Step, attempt: int, keys: Bytes, rows: Array, out: Array | None = None) -> Array:
        """See `rows.hide_rows`."""
        return hide_rows(keys, self.nonce(step, attempt), rows, out)

    def reveal(
        self, step: Step, attempt: int, keys: Bytes, hidden: Array, kind: np.dtype[Any]
    ) -> tuple[Array, Flags]:  # fmt: skip
        """See `rows.reveal_rows`."""
        return reveal_rows(keys, self.nonce(step, attempt), hidden, kind)

    def circuit_masks(self, step: Step, attempt: int, keys: Bytes, width: int) -> Elements:
        """Return what a relay expands from circuits' keys uint8 [m, 32]: elements [m, width]."""
        return self._read(step, attempt, keys, np.ones(len(keys), dtype=np.int64), width)

    def drawn(self, draws: Draws, step: Step, senders: Ids, width: int) -> dict[str, Array]:  # noqa: ARG002
        """None."""
        return {}

    def masks(
        self,
        step: Step,
        attempt: int,
        senders: Numbers,
        width: int,
        drawn: Arrays,  # noqa: ARG002  # none
        keys: Keys | Bytes | None,
        places: Ids | slice | None = None,
    ) -> list[Elements]:
        """What senders draw for the masks of a step: arrays by name; none where masks are expanded from keys."""
        places = slice(None) if places is None else places
        if isinstance(keys, np.ndarray):
            return [self.circuit_masks(step, attempt, secrets[places], width) for secrets in keys[: self._T]]
        assert keys is not None, "named senders have keys"
        places = np.arange(len(senders))[places]
        owners = senders[places]
        slots = places - np.searchsorted(senders, owners)
        return [self._from_keys(step, keys.senders, secrets, owners, slots, width) for secrets in keys.secrets]

    def expand(self, step: Step, names: Ids, keys: Keys, width: int) -> Elements:
        """The same, at the relay's end."""
        return self._from_keys(step, keys.senders, keys.secrets[0], names >> 32, names & (2**32 - 1), width)

    def _read(self, step: Step, attempt: int, keys: Bytes, ends: Ids, width: int) -> Elements:
        """Return the masks of so many messages under each key: elements [sum of ends, width]."""
        streams, field = KeyedStreams(keys), self._field
        return streams.uniform(field.modulus, ends * width, self.nonce(step, attempt), field.dtype).reshape(-1, width)

    def _from_keys(self, step: Step, owners: Ids, secrets: Bytes, senders: Numbers, slots: Ids, width: int) -> Elements:
        """Masks of some messages of each sender: streams are read up to the last of them."""
        place = np.searchsorted(owners, senders)
        first, stop = int(place.min(initial=len(owners))), int(place.max(initial=-1)) + 1
        place, ends = place - first, np.zeros(max(stop - first, 0), dtype=np.int64)
        np.maximum.at(ends, place, slots + 1)
        read = self._read(step, 0, secrets[first:stop], ends, width)
        rows = (np.cumsum(ends) - ends)[place] + slots
        return read if len(rows) == len(read) else read[rows]  # all of them, ascending, or some

    def sender_keys(
        self, offers: Sequence[Offer], senders: Ids, answered: Bytes, relay: int, session: bytes
    ) -> Bytes:  # fmt: skip
        """From X25519, ML-KEM where it is agreed on, and HKDF."""
        relay_key, keys = answered[:1, :PUBLIC_KEY_BYTES].tobytes(), []
        for offer, sender, answer in zip(offers, senders.tolist(), answered, strict=True):
            context, wrapped = mask_context(offer.public, relay_key, sender, relay), answer[PUBLIC_KEY_BYTES:].tobytes()
            keys.append(offer.agree(relay_key, wrapped, session=session, context=context))
        derived = _rows(keys, KEY_BYTES)
        if self._both_ends:
            self._agreed[relay, relay_key] = (senders, public_keys(offers, self.agreement), derived)
        return derived

    def relay_keys(
        self, private: Bytes, relay: int, publics: Bytes, secrets: Bytes, senders: Ids, session: bytes
    ) -> Bytes:
        """What one relay, with its private key uint8 [32], agrees on with each sender: the same.

        Args:
            private: of the relay.
            relay: party identifier.
            publics: uint8 [s, public bytes], what senders published.
            secrets: uint8 [s, secret bytes], that it wrapped for them.
            senders: int64 [s], party identifiers.
            session: its name.
        """
        pair, keys = KeyPair(private.tobytes()), []
        cached = self._agreed.pop((relay, pair.public), None)
        if cached is not None and np.array_equal(cached[0], senders) and np.array_equal(cached[1], publics):
            return cached[2]
        for row, secret, sender in zip(publics, secrets, senders.tolist(), strict=True):
            public = row.tobytes()
            context, first = mask_context(public, pair.public, sender, relay), public[:PUBLIC_KEY_BYTES]
            keys.append(pair.agree(first, session=session, context=context, secret=secret.tobytes()))
        return _rows(keys, KEY_BYTES)


def _rows(keys: Sequence[bytes], size: int) -> Bytes:
    return np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), size)
