"""Keys of pairwise masking: what two parties agree on, what a key is for, and messages sealed under it.

Every key names its purpose, session, step and ends in the `info` of HKDF (RFC 5869), in fields of fixed length, so
no key serves two purposes and no mask is made twice.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from enum import Enum

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from fgl_secure.crypto.keys import KeyPair
from fgl_secure.crypto.prg import BLOCK_BYTES, KEY_BYTES
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.relay_coded.cryptography import mask_nonce
from fgl_secure.runtime import Step

LABEL = b"fgl-secure pairwise-masking/v1"
TAG_BYTES = 16
"""Of a vote for a roster, and what authenticated encryption adds to a message."""

_NONCE = bytes(12)  # of a key that seals one message


class Purpose(Enum):
    """What a key is for."""

    PAIR = b"pair"
    SEAL = b"seal"
    VOTE = b"vote"
    PAIR_MASK = b"pmsk"
    SELF_MASK = b"smsk"
    RECEIVER_MASK = b"rmsk"


def info_of(purpose: Purpose, step: Step | None, sender: int, receiver: int) -> bytes:
    """What names a key: label, purpose, step (zeros for the whole session) and both ends."""
    when = bytes(1 + BLOCK_BYTES) if step is None else b"\x01" + mask_nonce(step)
    return LABEL + purpose.value + when + struct.pack(">QQ", sender, receiver)


def derived(secret: bytes, session: bytes, purpose: Purpose, step: Step, sender: int, receiver: int) -> bytes:
    """The 32-byte key for one purpose, step and pair of ends."""
    info = info_of(purpose, step, sender, receiver)
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=session, info=info).derive(secret)


def agreed(
    own: KeyPair, other: bytes, session: bytes, purpose: Purpose, step: Step | None, ends: tuple[int, int]
) -> bytes:
    """The 32-byte key that the owners of two key pairs share, the same on both sides.

    Args:
        own: one key pair.
        other: the other's public key.
        session: public, and different in every session.
        purpose: what for.
        step: when; None for the whole session.
        ends: party identifiers of both, in any order.

    Raises:
        ProtocolError: `other` is a point of low order.
    """
    first, second = sorted(ends)
    keys = b"".join(sorted((own.public, other)))
    return own.agree(other, session=session, context=info_of(purpose, step, first, second) + keys)


def is_usable(public: bytes) -> bool:
    """Whether a public key agrees with anybody on a secret: points of low order agree on zero with all."""
    try:
        KeyPair(bytes(range(KEY_BYTES))).agree(public, session=LABEL, context=LABEL)
    except ProtocolError:
        return False
    return True


def seal(pair_key: bytes, session: bytes, step: Step, sender: int, receiver: int, plain: bytes) -> bytes:
    """A message that only the other owner of the pair's key can open, and nobody else can have made (AES-256-GCM)."""
    return AESGCM(derived(pair_key, session, Purpose.SEAL, step, sender, receiver)).encrypt(_NONCE, plain, None)


def unseal(pair_key: bytes, session: bytes, step: Step, sender: int, receiver: int, sealed: bytes) -> bytes:
    """What was sealed.

    Raises:
        ProtocolError: it was sealed under another key, in another session or step, by or for somebody else, or
            changed on the way.
    """
    try:
        return AESGCM(derived(pair_key, session, Purpose.SEAL, step, sender, receiver)).decrypt(_NONCE, sealed, None)
    except InvalidTag as error:
        raise ProtocolError(
            f"shares of sender {sender} must be sealed for {receiver} in this session and step; found a message that "
            f"is not, in round {step.round}"
        ) from error


def roster_digest(session: bytes, step: Step, asked: NDArray[np.uint8]) -> bytes:
    """SHA-256 of what the aggregator asked of somebody in a step: uint8 [m]."""
    return hashlib.sha256(LABEL + session + mask_nonce(step) + asked.tobytes()).digest()


def vote(pair_key: bytes, session: bytes, step: Step, sender: int, receiver: int, digest: bytes) -> bytes:
    """A sender's word to another of which roster it was told, 16 bytes (HMAC-SHA256)."""
    key = derived(pair_key, session, Purpose.VOTE, step, sender, receiver)
    return hmac.digest(key, digest, "sha256")[:TAG_BYTES]


def is_vote_for(said: bytes, expected: bytes) -> bool:
    """Whether a vote is the expected one, compared in constant time."""
    return hmac.compare_digest(said, expected)
