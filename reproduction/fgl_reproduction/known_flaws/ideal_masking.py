"""Ideal key agreement, masks, seals and votes, for proofs over every coin of the machines that users run."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fgl_secure.crypto.cryptography import (
    NOTHING_HEARD,
    Context,
    Cryptography,
    Elements,
    KeyPurpose,
    Mask,
    Partner,
    Source,
)
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.crypto.streams import KEY_BYTES, ModularRing
from fgl_secure.errors import MalformedMessageError, ProtocolError
from fgl_secure.typing import Bytes, Ids


class IdealCryptography(Cryptography):
    """An ideal functionality, shared by all machines of one process.

    A secret and its public key are a number; a key that two parties agree on is named by their numbers, its purpose
    and the sum; the mask of a name is drawn when the name is first used, by one of its owners, and noted as known to
    the other; a box is a number, and what it held is noted as known to the party that gets it opened. So a
    coalition's view has everything that its members know. Short numbers keep views narrow. Public keys are enough for
    two to agree, whatever the agreement: an ideal key is hidden from every other party, and has nothing to be wrapped.

    Args:
        source: coins, those of all tapes at once under enumeration.
        modulus: of the field.
        agreement: of what it stands for.
        ring: see `Cryptography`; of no more elements than the field, whose elements masks are where they are shared.
    """

    vote_bytes = 1
    signature_bytes = 0

    def __init__(
        self,
        source: Source,
        modulus: int,
        agreement: KeyAgreement = KeyAgreement.X25519,
        ring: ModularRing | None = None,
    ) -> None:
        super().__init__(source, modulus, agreement, ring)
        self.public_bytes, self.wrapped_bytes = 2, 0
        self._owners: list[int] = []
        self._keys: dict[bytes, tuple[KeyPurpose, tuple[int, ...], Any]] = {}
        self._masks: dict[bytes, Elements] = {}
        self._boxes: list[tuple[bytes, int, int, Elements]] = []
        self._votes: dict[tuple[bytes, int, int], bytes] = {}

    def fresh(self, owners: Ids, count: int, step: Any) -> Bytes:  # noqa: ARG002  # nothing is drawn
        """Numbers."""
        names = []
        for owner in np.repeat(owners, count).tolist():
            names.append(struct.pack(">Q", len(self._owners)).rjust(KEY_BYTES, b"\0"))
            self._owners.append(owner)
        return np.frombuffer(b"".join(names), dtype=np.uint8).reshape(len(owners), count, KEY_BYTES)

    def public(self, secret: bytes) -> bytes:
        """The same number, shorter."""
        return secret[-self.public_bytes :]

    def usable(self, public: bytes) -> bool:
        """Whether it was given to a party."""
        return int.from_bytes(public) < len(self._owners)

    def agree(
        self, secret: bytes, context: Context, purpose: KeyPurpose, own: int, others: Mapping[int, bytes],
        width: int = 0, heard: Mapping[int, bytes] = NOTHING_HEARD,  # noqa: ARG002  # of real ones
    ) -> dict[int, bytes]:  # fmt: skip
        """Names of pairs, and their masks at once where they are for some."""
        result = {}
        for other, public in others.items():
            if not self.usable(public):
                raise ProtocolError("a public key must be one that was published; it is not")
            pair = b"".join(sorted((secret[-self.public_bytes :], public)))
            result[other] = self._key_name(context, purpose, pair, (min(own, other), max(own, other)))
            if width:
                self.elements(result[other], width)
        return result

    def derive_key(self, secret: bytes, context: Context, purpose: KeyPurpose, owner: int) -> bytes:
        """A name of one party's."""
        return self._key_name(context, purpose, secret, (owner,))

    def elements(self, key: bytes, count: int) -> Elements:
        """Drawn the first time."""
        if key not in self._masks:
            purpose, owners, step = self._keys[key]
            self._masks[key] = self._draw_mask(purpose, owners, count, step)
        return self._masks[key]

    def add_masks(self, total: Elements, masks: Sequence[Mask], signs: Sequence[int]) -> Elements:
        """A new array, as masks have tapes that it may not have."""
        for mask, sign in zip(masks, signs, strict=True):
            values = self.elements(mask, total.shape[-1]) if isinstance(mask, bytes) else mask
            total = (total + values if sign > 0 else total - values) % self.ring.modulus
        return total

    def sealed_bytes(self, count: int) -> int:  # noqa: ARG002  # a number is as long for all
        """Of a number."""
        return 2

    def seal(self, key: bytes, context: Context, sender: int, receiver: int, values: Elements) -> bytes:  # noqa: ARG002
        """The number of the box."""
        self._boxes.append((key, sender, receiver, values))
        return (len(self._boxes) - 1).to_bytes(self.sealed_bytes(0))

    def unseal(self, key: bytes, context: Context, sender: int, receiver: int, sealed: bytes, count: int) -> Elements:
        """See `Cryptography.unseal`."""
        number = int.from_bytes(sealed)
        if number >= len(self._boxes) or self._boxes[number][:3] != (key, sender, receiver):
            raise ProtocolError(f"a box of party {sender} must be sealed for party {receiver}; it is not")
        values = self._boxes[number][3]
        if values.shape[-1] != count:
            raise MalformedMessageError(f"a box must hold {count} elements; found {values.shape[-1]}")
        self._source.note_secrets("unsealed", np.array([receiver]), values[..., None, :], context.step)
        return values

    def vote(self, key: bytes, context: Context, sender: int, receiver: int, digest: bytes) -> bytes:  # noqa: ARG002
        """Says nothing: that it was cast, and for what, is in the books."""
        self._votes[key, sender, receiver] = digest
        return bytes(self.vote_bytes)

    def is_vote(self, said: bytes, key: bytes, context: Context, sender: int, receiver: int, digest: bytes) -> bool:  # noqa: ARG002
        """Whether it was cast for that."""
        return self._votes.get((key, sender, receiver)) == digest

    def words(self, length: int, neighbours: int) -> int:
        """A mask for each neighbour."""
        return length * max(neighbours, 1)

    def seed_words(self, seed: bytes, mask: bytes, count: int, length: int) -> Elements:  # noqa: ARG002  # of real ones
        """The mask itself, padded."""
        values = self.elements(mask, length)
        out = np.zeros((*values.shape[:-1], count), dtype=np.int64)
        out[..., :length] = values
        return out

    def key_words(self, secret: bytes, masks: Mapping[int, bytes], count: int, length: int) -> Elements:  # noqa: ARG002
        """The masks themselves, one after another."""
        out = np.zeros((*self._source.batch_shape, count), dtype=np.int64)
        for place, mask in masks.items():
            out[..., place * length : (place + 1) * length] = self.elements(mask, length)
        return out

    def mask_of_seed(self, words: Elements, context: Context, owner: int, length: int) -> Mask:  # noqa: ARG002  # same
        """As opened."""
        return words[..., :length]

    def masks_of_key(
        self, words: Elements, public: bytes, context: Context, owner: int, near: Mapping[int, Partner],  # noqa: ARG002
        length: int,
    ) -> dict[int, Mask]:  # fmt: skip
        """As opened."""
        return {place: words[..., place * length : (place + 1) * length] for place in near}

    def _key_name(self, context: Context, purpose: KeyPurpose, who: bytes, owners: tuple[int, ...]) -> bytes:
        key = hashlib.sha256(context.info(purpose, owners[0], owners[-1]) + context.session + who).digest()
        self._keys[key] = purpose, owners, context.step
        return key

    def _draw_mask(self, purpose: KeyPurpose, owners: tuple[int, ...], count: int, step: Any) -> Elements:
        """A mask: coins of its first owner, which the others learn."""
        modulus = (self.field if purpose in (KeyPurpose.SHARING, KeyPurpose.VETO) else self.ring).modulus
        values = self._source.draw(purpose.words, np.array(owners[:1]), modulus, (count,), step)
        for other in owners[1:]:
            self._source.note_secrets(purpose.words, np.array([other]), values, step)
        return values[..., 0, :]
