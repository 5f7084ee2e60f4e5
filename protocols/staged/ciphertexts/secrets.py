"""How clients come to share a CKKS key that the server never has.

A candidate seals its key file under a group key of its own, once for all, and the group key for every other client
under the key of the pair (X25519). The server forwards what one candidate sealed, and cannot open it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fgl_secure.coins import Coins
from fgl_secure.crypto.ckks import ReceiverKey
from fgl_secure.crypto.keys import KeyPair
from fgl_secure.crypto.prg import KEY_BYTES
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.masking.keys import TAG_BYTES, Purpose, agreed, seal, unseal
from fgl_secure.protocols.staged.ciphertexts.plan import LABEL, CkksPlan
from fgl_secure.protocols.staged.ciphertexts.wire import padded, unpadded

BOX_BYTES = KEY_BYTES + TAG_BYTES
"""Of a sealed group key."""
_SIV_KEY_BYTES = 64
_SIV_TAG_BYTES = 16


@dataclass(frozen=True, slots=True)
class OwnSecrets:
    """What a client draws for one sum, 32 bytes each.

    Attributes:
        sealing: private key under which group keys pass between clients.
        group: key under which it seals its key file, should it be a candidate.
    """

    sealing: bytes = field(repr=False)
    group: bytes = field(repr=False)

    @classmethod
    def draw(cls, coins: Coins) -> OwnSecrets:
        """Fresh ones.

        Raises:
            InputError: coins are those of several tapes.
        """
        if coins.batch_shape:
            raise InputError("coins must be those of one run; found several tapes at once")
        sealing, group = coins.uniform(256, (2, KEY_BYTES)).astype(np.uint8)
        return cls(sealing.tobytes(), group.tobytes())

    @property
    def public(self) -> bytes:
        """The public key of the first."""
        return KeyPair(self.sealing).public


def boxes_for(plan: CkksPlan, own: int, secrets: OwnSecrets, listed: Sequence[int], publics: Sequence[bytes]) -> bytes:
    """The group key sealed for each listed client but the own, one box after another.

    Raises:
        ProtocolError: a public key is a point of low order.
    """
    pair, session = KeyPair(secrets.sealing), plan.terms.binding
    return b"".join(
        seal(agreed(pair, public, session, Purpose.PAIR, plan.step, (own, v)), session, plan.step, own, v,
             secrets.group)
        for v, public in zip(listed, publics, strict=True)
        if v != own
    )  # fmt: skip


def group_key_from(plan: CkksPlan, own: int, secrets: OwnSecrets, maker: int, public: bytes, box: bytes) -> bytes:
    """The group key in a box.

    Raises:
        ProtocolError: it was not sealed by its maker for this client in this sum.
    """
    session = plan.terms.binding
    pair_key = agreed(KeyPair(secrets.sealing), public, session, Purpose.PAIR, plan.step, (own, maker))
    found = unseal(pair_key, session, plan.step, maker, own, box)
    if len(found) != KEY_BYTES:
        raise ProtocolError(f"group key must have {KEY_BYTES} bytes; found {len(found)}")
    return found


def sealed_bytes(plan: CkksPlan) -> int:
    """Of a sealed key file."""
    return plan.secret_bytes + _SIV_TAG_BYTES


def wrapped(plan: CkksPlan, maker: int, group: bytes, key: ReceiverKey) -> bytes:
    """A key file sealed under a group key (AES-SIV, RFC 5297, which no repetition of a nonce can harm)."""
    return _cipher(plan, maker, group).encrypt(padded(key.secret_file(), plan.secret_bytes), None)


def unwrapped(plan: CkksPlan, maker: int, group: bytes, sealed: bytes) -> ReceiverKey:
    """The key in a sealed file.

    Raises:
        ProtocolError: it was not sealed under this group key for this sum, or holds no key of its parameters.
    """
    try:
        data = _cipher(plan, maker, group).decrypt(sealed, None)
        key = ReceiverKey.from_secret_file(unpadded(data, plan.secret_bytes, "key file"))
    except InvalidTag as error:
        raise ProtocolError(f"key file of client {maker} must be sealed under its group key; it is not") from error
    except InputError as error:
        raise ProtocolError(f"key file of client {maker} must hold a whole key; it does not") from error
    if key.parameters != plan.parameters:
        raise ProtocolError(f"key of client {maker} must have the parameters of the sum; it has others")
    return key


def _cipher(plan: CkksPlan, maker: int, group: bytes) -> AESSIV:
    info = LABEL + b"file" + struct.pack(">QI", plan.terms.number, maker)
    hkdf = HKDF(algorithm=SHA256(), length=_SIV_KEY_BYTES, salt=plan.terms.binding, info=info)
    return AESSIV(hkdf.derive(group))
