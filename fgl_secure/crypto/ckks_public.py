"""What is public about sums under CKKS: keys to encrypt with, ciphertexts and their form. See `crypto.ckks`."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.ckks_packing import checked_vector, pack
from fgl_secure.crypto.ckks_parameters import PARAMETER_BYTES, Parameters
from fgl_secure.crypto.ckks_seal import load, ring, save, seal
from fgl_secure.errors import InputError, ProtocolError

FINGERPRINT_BYTES = 16
PREFIX = struct.Struct(f">{FINGERPRINT_BYTES}sI")
"""Before SEAL's bytes: fingerprint of the key and number of terms."""
PUBLIC, SECRET = b"fgl-secure ckks public key 1", b"fgl-secure ckks secret key 1"
"""What a public context and a key file start with."""


def wire_bytes(parameters: Parameters) -> int:
    """The most bytes that one of our ciphertexts has: fingerprint, number of terms, SEAL's bytes."""
    return PREFIX.size + parameters.chain.ciphertext_bytes


class PublicKey:
    """What encrypting takes: parameters and the public key, and never a secret one. See `ReceiverKey.public`."""

    __slots__ = ("_encryptor", "_stream", "fingerprint", "parameters")

    def __init__(self, parameters: Parameters, stream: bytes) -> None:
        context = ring(parameters.chain).context
        self.parameters, self._stream = parameters, stream
        self._encryptor = seal().Encryptor(context, load(seal().PublicKey(), context, stream))
        self.fingerprint = hashlib.sha256(self.to_bytes()).digest()[:FINGERPRINT_BYTES]

    def __repr__(self) -> str:
        return f"PublicKey({self.fingerprint.hex()}, {self.parameters})"

    def to_bytes(self) -> bytes:
        """The public context, for senders and for the one who adds."""
        return PUBLIC + self.parameters.to_bytes() + self._stream

    @classmethod
    def from_bytes(cls, data: bytes) -> PublicKey:
        """Reads a public context.

        Raises:
            InputError: the bytes contain a secret key, which nobody but the receiver may hold; or they are something
                else, damaged, or have parameters that nobody may choose.
        """
        if data.startswith(SECRET):
            raise InputError("a public context must not contain a secret key; found a secret key file")
        parameters, stream = read_parameters(data, PUBLIC, "a public context")
        return cls(parameters, stream)

    def encrypt(self, vector: NDArray[Any]) -> list[bytes]:
        """Encrypts a vector, all coefficients filled.

        Args:
            vector: integers of any dtype [length], or whole floats, of magnitude up to the parameters' bound.

        Returns:
            `parameters.ciphertexts(length)` ciphertexts of up to `wire_bytes(parameters)` bytes.

        Raises:
            InputError: NaN, infinite, no integers, or another shape; FieldRangeError: beyond the bound.
        """
        here, scale = ring(self.parameters.chain), self.parameters.scale
        packed = pack(checked_vector(vector, self.parameters.bound), self.parameters)
        nothing, prefix = np.zeros(here.chain.degree, dtype=np.uint64), PREFIX.pack(self.fingerprint, 1)
        ciphertexts = []
        for coefficients in packed:
            cipher = seal().Ciphertext()
            self._encryptor.encrypt_zero(cipher)
            here.evaluator.transform_from_ntt_inplace(cipher)
            cipher.scale = float(scale)
            here.evaluator.add_inplace(cipher, here.trivial(here.residues(coefficients * scale), nothing, scale))
            ciphertexts.append(prefix + save(cipher))
        return ciphertexts


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A ciphertext that passed all checks, and the number of terms that it says it has."""

    cipher: Any
    terms: int


def opened(data: bytes, public: PublicKey) -> Opened:
    """A ciphertext for a key.

    Raises:
        ProtocolError: it is for another key, or has too many terms, or is none; see `Ring.ciphertext`.
    """
    if len(data) < PREFIX.size:
        raise ProtocolError(f"ciphertext must have at least {PREFIX.size} bytes; found {len(data)}")
    fingerprint, terms = PREFIX.unpack_from(data)
    if fingerprint != public.fingerprint:
        raise ProtocolError(
            f"ciphertext must be for the key {public.fingerprint.hex()}; found one for {fingerprint.hex()}"
        )
    if not 1 <= terms <= public.parameters.terms:
        raise ProtocolError(f"ciphertext must have 1..{public.parameters.terms} terms; found {terms}")
    return Opened(ring(public.parameters.chain).ciphertext(data[PREFIX.size :], public.parameters), terms)


def read_parameters(data: bytes, magic: bytes, what: str) -> tuple[Parameters, bytes]:
    """Parameters after the right start, and what follows them."""
    if not data.startswith(magic):
        raise InputError(f"{what} must start with {magic!r}; found {len(data):,} bytes that don't")
    start = len(magic) + PARAMETER_BYTES
    return Parameters.from_bytes(data[len(magic) : start]), data[start:]
