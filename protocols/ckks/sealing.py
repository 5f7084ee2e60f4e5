"""How clients come to share a CKKS key that the server never has.

A candidate seals its key file under a group key of its own, once for all, and the group key for every other client
under the key of the pair. The server forwards what one candidate sealed, and cannot open it.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fgl_secure.crypto.ckks import ReceiverKey
from fgl_secure.crypto.cryptography import Context, Purpose
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.ckks.plan import SharedKeyPlan
from fgl_secure.protocols.ckks.wire import secret_bytes

_SIV_KEY_BYTES, _SIV_TAG_BYTES, _LENGTH_BYTES = 64, 16, 4


def sealed_bytes(plan: SharedKeyPlan) -> int:
    """Of a sealed key file."""
    return _LENGTH_BYTES + secret_bytes(plan.parameters) + _SIV_TAG_BYTES


def wrapped(plan: SharedKeyPlan, context: Context, maker: int, group: bytes, file: bytes) -> bytes:
    """A key file of one length, sealed under a group key (AES-SIV, RFC 5297).

    A client that goes on from an old state makes another key pair and seals it under the same group key: no repetition
    of a nonce can harm this cipher.
    """
    padded = len(file).to_bytes(_LENGTH_BYTES) + file.ljust(secret_bytes(plan.parameters), b"\0")
    return _cipher(context, maker, group).encrypt(padded, None)


def unwrapped(plan: SharedKeyPlan, context: Context, maker: int, group: bytes, sealed: bytes) -> ReceiverKey:
    """The key in a sealed file.

    Args:
        plan: of the sum.
        context: of the sum.
        maker: party identifier of who sealed it.
        group: key that it was sealed under.
        sealed: file.

    Raises:
        ProtocolError: it was not sealed under this group key for this sum, or holds no key of its parameters.
    """
    try:
        data = _cipher(context, maker, group).decrypt(sealed, None)
        key = ReceiverKey.from_secret_file(data[_LENGTH_BYTES:][: int.from_bytes(data[:_LENGTH_BYTES])])
    except InvalidTag as error:
        raise ProtocolError(f"key file of party {maker} must be sealed under its group key; it is not") from error
    except InputError as error:
        raise ProtocolError(f"key file of party {maker} must hold a whole key; it does not") from error
    if key.parameters != plan.parameters:
        raise ProtocolError(f"key of party {maker} must have the parameters of the sum; it has others")
    return key


def _cipher(context: Context, maker: int, group: bytes) -> AESSIV:
    info = context.info(Purpose.SEAL, maker, maker) + b"file"
    hkdf = HKDF(algorithm=SHA256(), length=_SIV_KEY_BYTES, salt=context.session, info=info)
    return AESSIV(hkdf.derive(group))
