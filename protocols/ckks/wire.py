"""Ciphertexts as fields of messages: of fixed size, whatever the keys and vectors.

Clients share a CKKS key that the server never has. A candidate seals its key file under a group key of its own, once
for all, and the group key for every other client under the key of the pair. The server forwards what one candidate
sealed, and cannot open it.

By tags clients see that what they open is the sum of the vectors of the participant set, and of no others: a linearly
homomorphic message authentication code (Agrawal and Boneh, ACNS 2009) over GF(2^61 - 1). The tag of a client's vector x
is <k, x> + f, where the row k is the same for all clients of a sum and f is the client's own, both from the group key
that clients share and the server does not have. Tags add up as vectors do, so that the server adds both and can make
neither: for another total than that of the participant set it must guess <k, d> for a difference d that is not 0. Tags
reveal nothing to it, for f is uniform.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from fgl_secure.algebra import MERSENNE_61, Elements, PrimeField
from fgl_secure.crypto.ckks import PublicKey, ReceiverKey, wire_bytes
from fgl_secure.crypto.ckks_parameters import OVERHEAD_BYTES, Parameters
from fgl_secure.crypto.cryptography import Context, KeyPurpose
from fgl_secure.crypto.streams import KEY_BYTES, FieldStream, ModularRing
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError
from fgl_secure.protocols.secagg.terms import SumPlan, as_elements
from fgl_secure.runtime import Messages
from fgl_secure.typing import Array, Bytes, Flags, Integers


@dataclass(frozen=True, slots=True, eq=False)
class CkksPlan(SumPlan):
    """The public side of all sums of one topology.

    Attributes:
        parameters: of CKKS.
    """

    label: ClassVar[bytes] = b"fgl-secure ckks/v2"

    parameters: Parameters

    @property
    def count(self) -> int:
        """Ciphertexts of a vector."""
        return self.parameters.ciphertexts(self.terms.length)

    @property
    def agreed_bytes(self) -> bytes:
        """See `SumPlan.agreed_bytes`."""
        return self.parameters.to_bytes()


@dataclass(frozen=True, slots=True, eq=False)
class SharedKeyPlan(CkksPlan):
    """The public side of sums under a key that clients share."""

    label: ClassVar[bytes] = b"fgl-secure ckks-shared-key/v2"

    @property
    def largest(self) -> int:
        """The largest magnitude that an entry of a sum may have."""
        assert self.terms.bound is not None, "sums under CKKS have a bound"
        return self.terms.n * self.terms.bound

    def candidates(self, listed: Flags) -> Flags:
        """Which of the clients with keys make a key pair: so many of the first that one at least is left.

        Of m clients m - threshold may drop out before the sum stops, so m - threshold + 1 candidates are enough.
        """
        return listed & (np.cumsum(listed) <= int(listed.sum()) - self.terms.threshold + 1)


TAGS = 2
"""Tags of a vector: a party that guesses both is right with probability 2^-122."""
FIELD, RING = PrimeField(MERSENNE_61), ModularRing(MERSENNE_61)
DIGEST_BYTES = 32

_CHUNK = 2**17
_HALF = 31


def tags_of(context: Context, maker: int, group: bytes, clients: Iterable[int], vector: Integers) -> Elements:
    """The tags of one client's vector, or of the sum of some clients' vectors.

    Args:
        context: of the sum.
        maker: party identifier of who made the key.
        group: the key that it gave to all clients.
        clients: party identifiers of those whose vectors are in it.
        vector: int64 [length], of magnitude below 2^61 - 1.

    Returns:
        int64 [TAGS], elements.
    """
    rows = [_stream(context, maker, group, maker, b"row%d" % tag) for tag in range(TAGS)]
    total = np.zeros(TAGS, dtype=np.int64)
    for start in range(0, len(vector), _CHUNK):
        part = as_elements(vector[start : start + _CHUNK], MERSENNE_61)
        products = (FIELD.multiply(row.uniform(MERSENNE_61, len(part)), part) for row in rows)
        total = FIELD.add(total, np.array([_add_elements(product) for product in products], dtype=np.int64))
    for client in clients:
        total = FIELD.add(total, _stream(context, maker, group, client, b"own").uniform(MERSENNE_61, TAGS))
    return total


def digest_of_sum(context: Context, ciphertexts: Sequence[bytes], tags: Elements) -> bytes:
    """SHA-256, 32 bytes, of an encrypted sum and its tags: what clients vote on before they open it."""
    digest = hashlib.sha256()
    for data in ciphertexts:
        digest.update(len(data).to_bytes(8) + data)
    return context.digest(b"sum" + digest.digest() + tags.astype("<i8").tobytes())


def _stream(context: Context, maker: int, group: bytes, client: int, label: bytes) -> FieldStream:
    info = context.info(KeyPurpose.VOTE, maker, client) + label
    return FieldStream(HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=context.session, info=info).derive(group))


def _add_elements(elements: Elements) -> int:
    """The sum of up to 2^32 elements, which int64 cannot hold."""
    high, low = int((elements >> _HALF).sum()), int((elements & (2**_HALF - 1)).sum())
    return ((high << _HALF) + low) % MERSENNE_61


_SIV_KEY_BYTES, _SIV_TAG_BYTES, _LENGTH_BYTES = 64, 16, 4


def sealed_bytes(plan: SharedKeyPlan) -> int:
    """Of a sealed key file."""
    return _LENGTH_BYTES + secret_bytes(plan.parameters) + _SIV_TAG_BYTES


def wrap_key(plan: SharedKeyPlan, context: Context, maker: int, group: bytes, file: bytes) -> bytes:
    """A key file of one length, sealed under a group key (AES-SIV, RFC 5297).

    A client that goes on from an old state makes another key pair and seals it under the same group key: no repetition
    of a nonce can harm this cipher.
    """
    padded = len(file).to_bytes(_LENGTH_BYTES) + file.ljust(secret_bytes(plan.parameters), b"\0")
    return _cipher(context, maker, group).encrypt(padded, None)


def unwrap_key(plan: SharedKeyPlan, context: Context, maker: int, group: bytes, sealed: bytes) -> ReceiverKey:
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
    info = context.info(KeyPurpose.SEAL, maker, maker) + b"file"
    hkdf = HKDF(algorithm=SHA256(), length=_SIV_KEY_BYTES, salt=context.session, info=info)
    return AESSIV(hkdf.derive(group))


CIPHERTEXTS, SIZES = "ciphertexts", "sizes"
"""Fields: uint8 [m, count, bytes], and how many of these bytes are each ciphertext's, uint32 [m, count]."""
TAG = "tag"
"""Field: the tags of a vector or sum under a key that clients share, uint64 [m, TAGS]."""


def pad(data: Sequence[bytes], size: int) -> tuple[Bytes, NDArray[np.uint32]]:
    """Strings of bytes with zeros up to a size: uint8 [n, size], and their lengths, uint32 [n]."""
    rows = np.zeros((len(data), size), dtype=np.uint8)
    for row, one in zip(rows, data, strict=True):
        row[: len(one)] = np.frombuffer(one, dtype=np.uint8)  # longer ones raise: sizes are chosen to hold all
    return rows, np.array([len(one) for one in data], dtype=np.uint32)


def unpad(rows: Bytes, sizes: NDArray[np.uint32], name: str) -> list[bytes]:
    """What was padded.

    Args:
        rows: uint8 [n, size].
        sizes: uint32 [n].
        name: they are, for messages of errors.

    Raises:
        MalformedMessageError: a length is beyond the size.
    """
    if len(sizes) and int(sizes.max()) > rows.shape[1]:
        raise MalformedMessageError(f"{name} must have up to {rows.shape[1]:,} bytes; found {int(sizes.max()):,}")
    return [row[:size].tobytes() for row, size in zip(rows, sizes.tolist(), strict=True)]


def public_bytes(parameters: Parameters) -> int:
    """Of a public key in a message or state, padded: two polynomials."""
    return parameters.chain.ciphertext_bytes + OVERHEAD_BYTES


def secret_bytes(parameters: Parameters) -> int:
    """Of a key file in a message or state, padded: three polynomials."""
    return 2 * parameters.chain.ciphertext_bytes + OVERHEAD_BYTES


def public_key(data: bytes, parameters: Parameters) -> PublicKey:
    """The key that bytes hold.

    Raises:
        MalformedMessageError: they hold no public key, or not a whole one.
        ProtocolError: it has other parameters.
    """
    try:
        public = PublicKey.from_bytes(data)
    except InputError as error:
        raise MalformedMessageError("public key must be a whole one; it is not") from error
    if public.parameters != parameters:
        raise ProtocolError(f"public key must have {parameters}; found {public.parameters}")
    return public


def secret_keys(rows: Bytes, sizes: NDArray[np.uint32]) -> list[ReceiverKey]:
    """The key pairs of padded key files in a state.

    Raises:
        MalformedMessageError: one of them is none.
    """
    try:
        return [ReceiverKey.from_secret_file(data) for data in unpad(rows, sizes, "key files")]
    except InputError as error:
        raise MalformedMessageError("state must hold whole keys; it does not") from error


def encrypt(key: PublicKey, vector: Integers) -> Iterator[bytes]:
    """The ciphertexts of a vector, made one after the other.

    Args:
        key: to encrypt under.
        vector: int64 [length], of magnitude up to the bound of the key's parameters.
    """
    for first in range(0, len(vector), key.parameters.entries):
        yield from key.encrypt(vector[first : first + key.parameters.entries])


def ciphertext_fields(
    vectors: Iterable[Iterable[bytes]], m: int, count: int, parameters: Parameters
) -> dict[str, Array]:
    """Fields of messages that carry a vector's ciphertexts each; those are made one after the other.

    Args:
        vectors: the ciphertexts of each.
        m: how many vectors.
        count: ciphertexts of a vector.
        parameters: of CKKS.
    """
    rows = np.zeros((m, count, wire_bytes(parameters)), dtype=np.uint8)
    sizes = np.zeros((m, count), dtype=np.uint32)
    for row, length, ciphertexts in zip(rows, sizes, vectors, strict=True):
        for index, data in enumerate(ciphertexts):
            row[index, : len(data)], length[index] = np.frombuffer(data, dtype=np.uint8), len(data)
    return {CIPHERTEXTS: rows, SIZES: sizes}


def check_ciphertexts(messages: Messages, count: int, parameters: Parameters) -> None:
    """Raises unless messages carry so many ciphertexts each.

    Raises:
        MalformedMessageError: they do not.
    """
    check_field(messages, CIPHERTEXTS, np.dtype(np.uint8), (count, wire_bytes(parameters)))
    check_field(messages, SIZES, np.dtype(np.uint32), (count,))


def ciphertexts_of(messages: Messages, row: int) -> list[bytes]:
    """The ciphertexts of one message that `check_ciphertexts` has passed.

    Raises:
        MalformedMessageError: a length is beyond what there is.
    """
    return unpad(messages[CIPHERTEXTS][row], messages[SIZES][row], "ciphertexts")


def check_field(messages: Messages, name: str, kind: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Raises unless messages have a field of a type and shape.

    Raises:
        MalformedMessageError: they have not.
    """
    result = messages[name]
    if result.dtype != kind or result.shape[1:] != shape:
        raise MalformedMessageError(
            f"field {name} must be {kind} [m{''.join(f', {length}' for length in shape)}]; found {result.dtype} "
            f"{list(result.shape)}"
        )
