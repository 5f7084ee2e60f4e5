"""What somebody without a key makes of ciphertexts: their ring elements, and equations between them."""

import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tenseal import sealapi

from fgl_secure.crypto import ckks
from fgl_secure.crypto.ckks import PREFIX, PublicKey, SealContext, ring
from fgl_secure.crypto.ckks_parameters import Parameters, unpack

Ints = NDArray[np.int64]
Wide = NDArray[np.object_]


def words_of(cipher: Any, degree: int, which: Iterable[int] | None = None) -> Ints:
    """Coefficients of both polynomials below q: int64 [2, N], or those at some places of the 2 N."""
    if which is not None:
        return np.array([cipher[i] for i in which], dtype=np.int64)
    return np.array([cipher[i] for i in range(2 * degree)], dtype=np.int64).reshape(2, degree)


def elements(parameters: Parameters, data: bytes, which: Iterable[int] | None = None) -> Ints:
    """The same of a ciphertext as it is sent."""
    here = ring(parameters.chain)
    return words_of(here.ciphertext(data[PREFIX.size :], parameters), here.chain.degree, which)


def rounded(parameters: Parameters, words: Ints, length: int) -> Ints:
    """The vector that a polynomial with little noise holds; something else for any other: int64 [length]."""
    modulus, scale = ring(parameters.chain).modulus, parameters.scale
    centred = (words + modulus // 2) % modulus - modulus // 2
    return unpack(((centred + scale // 2) // scale)[None], length, parameters)


def transformed(here: SealContext, polynomials: Ints | Wide) -> Wide:
    """NTTs of two polynomials, [2, N], in which products are entry by entry."""
    first, second = (polynomials % here.modulus).astype(np.uint64)
    cipher = here.trivial(first, second, 1)
    here.evaluator.transform_to_ntt_inplace(cipher)
    return words_of(cipher, here.chain.degree).astype(object)


def from_transforms(here: SealContext, values: Wide, into: Any) -> Any:
    """The ciphertext, as NTTs, of two NTTs."""
    words = struct.pack("<Q", values.size) + (values % here.modulus).astype(np.uint64).tobytes()
    metadata = ckks._METADATA.pack(*here.level, 1, 2, here.chain.degree, 1, 1.0, 1)
    stream = ckks._wrap_uncompressed(metadata + ckks._wrap_uncompressed(words))
    return ckks.load(into, here.context, stream)


def key_transforms(key: PublicKey) -> Wide:
    """The two polynomials of a public key as NTTs, [2, N]."""
    here = ring(key.parameters.chain)
    loaded = ckks.load(sealapi.PublicKey(), here.context, key._stream)
    return words_of(loaded.data(), here.chain.degree).astype(object)


def solved(keys: tuple[PublicKey, PublicKey], sent: tuple[bytes, bytes]) -> tuple[Ints, Ints]:
    """The u of two ciphertexts under two keys, if it is one and e1 too, and what is left of the first without p0 u.

    c1 - c1' = (p1 - p1') u is one equation for one unknown.

    Returns:
        u int64 [N], within q / 2; c0 - p0 u int64 [N], below q.
    """
    parameters = keys[0].parameters
    here = ring(parameters.chain)
    first, second = (transformed(here, elements(parameters, data)) for data in sent)
    p, q = (key_transforms(key) for key in keys)
    inverse = np.array([pow(int(x), -1, here.modulus) for x in (p[1] - q[1]) % here.modulus], dtype=object)
    u = (first[1] - second[1]) * inverse % here.modulus
    cipher = from_transforms(here, np.stack([u, first[0] - p[0] * u]), sealapi.Ciphertext())
    here.evaluator.transform_from_ntt_inplace(cipher)
    found, left = words_of(cipher, here.chain.degree)
    return np.where(found > here.modulus // 2, found - here.modulus, found), left
