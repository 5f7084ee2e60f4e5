"""Tags by which clients see that what they open is the sum of the vectors on a roster, and of no others.

A linearly homomorphic message authentication code (Agrawal and Boneh, ACNS 2009), over GF(2^61 - 1): the tag of a
client's vector x is <k, x> + f, where the row k is the same for all clients of a sum and f is the client's own, both
from the group key that clients share and the server does not have. Tags add up as vectors do, so that the server adds
both and can make neither: for another total than that of the roster it must guess <k, d> for a difference d that is
not 0. Tags tell it nothing, for f is uniform.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from fgl_secure.algebra import MERSENNE_61, Elements, PrimeField
from fgl_secure.crypto.cryptography import Context, Purpose
from fgl_secure.crypto.prg import KEY_BYTES, FieldStream
from fgl_secure.crypto.ring import Ring
from fgl_secure.protocols.one_sum.terms import as_elements

Integers = NDArray[np.int64]

TAGS = 2
"""Tags of a vector: whoever guesses both is right with probability 2^-122."""
FIELD, RING = PrimeField(MERSENNE_61), Ring(MERSENNE_61)
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
        total = FIELD.add(total, np.array([_added(product) for product in products], dtype=np.int64))
    for client in clients:
        total = FIELD.add(total, _stream(context, maker, group, client, b"own").uniform(MERSENNE_61, TAGS))
    return total


def digest_of_sum(context: Context, ciphertexts: Sequence[bytes], tags: Elements) -> bytes:
    """SHA-256, 32 bytes, of an encrypted sum and its tags: what clients vote on before they open it."""
    digest = hashlib.sha256()
    for data in ciphertexts:
        digest.update(len(data).to_bytes(8) + data)
    return context.digest(b"sum" + digest.digest() + tags.astype("<i8").tobytes())


def _stream(context: Context, maker: int, group: bytes, client: int, what: bytes) -> FieldStream:
    info = context.info(Purpose.VOTE, maker, client) + what
    return FieldStream(HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=context.session, info=info).derive(group))


def _added(elements: Elements) -> int:
    """The sum of up to 2^32 elements, which int64 cannot hold."""
    high, low = int((elements >> _HALF).sum()), int((elements & (2**_HALF - 1)).sum())
    return ((high << _HALF) + low) % MERSENNE_61
