"""Exact sums of integer vectors under CKKS (Cheon, Kim, Kim, Song, ASIACRYPT 2017), by SEAL through TenSEAL.

The receiver of a sum makes a key pair and hands its public part to those who encrypt and to the one who adds. No
relinearisation or Galois key is ever made: what can be done with ciphertexts is to add them. Sums are exact, because
the parameters keep the error of a coefficient below 1/2 (`Parameters.error`) and the receiver rounds. What the receiver
decrypts is the sum and noise that has nothing to do with the terms: encoding integers as coefficients rounds nothing.

What CKKS doesn't give: the error of an approximate decryption tells about the secret key, so a receiver that hands
unrounded decryptions onward gives its key away (Li, Micciancio, EUROCRYPT 2021: CKKS is not IND-CPA-D).
`ReceiverKey.decrypt` returns rounded integers alone. Nor is a ciphertext authentic: a party that has the public key can
make one.

Randomness is SEAL's own: Blake2xb generators, each seeded from the operating system. `Coins` can't replace it, so runs
under CKKS aren't repeatable bit by bit, though their sums are.

SEAL as TenSEAL binds it: rings of our parameters, coefficients in and out, serialisation in memory.

TenSEAL's own contexts make relinearisation keys whatever one does and need a special prime for them, its vectors have
N / 2 real slots in floating point, and `make_context_public` keeps a decryptor. `tenseal.sealapi` has none of that.
Ciphertexts stay in coefficient form, where integers are added exactly. Its polynomials can be read, not set, and its
encoder rounds floats: so `SealContext.trivial` writes SEAL's uncompressed form itself; all else is SEAL's own.
"""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.ckks_parameters import PARAMETER_BYTES, Chain, Parameters, checked_vector, pack, unpack
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.typing import Integers

Residues = NDArray[np.uint64]

REFUSALS = (RuntimeError, ValueError, IndexError, MemoryError)
"""What pybind makes of SEAL's exceptions."""
FILES_IN_MEMORY = hasattr(os, "memfd_create") and Path("/proc/self/fd").exists()
"""Whether the system has files that no folder holds."""
_HEADER = struct.Struct("<HBBBBHQ")
"""SEAL's header: magic, its size, version (two bytes), compression, reserved, size of the whole object."""
_SIZE_FIELD = slice(8, 16)
_METADATA = struct.Struct("<4QBQQQdQ")
"""Of a ciphertext: level, whether in NTT form, polynomials, N, primes, scale, correction factor (of BGV alone)."""


@cache
def _seal() -> Any:
    """SEAL's own interface, via TenSEAL; loaded when the first key is made."""
    from tenseal import sealapi  # noqa: PLC0415  # no other party needs it

    return sealapi


class SealContext:
    """SEAL's objects that hold no key.

    Args:
        chain: degree and modulus.
    """

    def __init__(self, chain: Chain) -> None:
        settings = _seal().EncryptionParameters(_seal().SCHEME_TYPE.CKKS)
        settings.set_poly_modulus_degree(chain.degree)
        moduli = _seal().CoeffModulus.Create(chain.degree, [chain.bits])
        settings.set_coeff_modulus(moduli)
        self.context = _seal().SEALContext(settings, True, _seal().SEC_LEVEL_TYPE.TC128)
        if not self.context.parameters_set():
            raise InputError(f"chain must be one that SEAL takes at 128 bits of security; found {chain}")
        self.chain, self.modulus = chain, int(moduli[0].value())
        self.evaluator = _seal().Evaluator(self.context)
        self.level = self.context.first_parms_id()

    def trivial(self, first: Residues, second: Residues, scale: int) -> Any:
        """The ciphertext of two given polynomials, uint64 [N] below q each, in coefficient form."""
        data = np.concatenate([first, second]).tobytes()
        words = struct.pack("<Q", 2 * self.chain.degree) + data
        metadata = _METADATA.pack(*self.level, 0, 2, self.chain.degree, 1, float(scale), 1)
        return load(_seal().Ciphertext(), self.context, _wrap_uncompressed(metadata + _wrap_uncompressed(words)))

    def residues(self, integers: NDArray[np.int64]) -> Residues:
        """uint64 like `integers`, which must lie within q / 2."""
        return np.where(integers < 0, integers + self.modulus, integers).astype(np.uint64)

    def centered_coefficients(self, cipher: Any) -> NDArray[np.int64]:
        """int64 [N]: the first polynomial of a ciphertext in coefficient form, within q / 2."""
        words = cipher.dyn_array()  # which gives a word in half the time that the ciphertext takes
        result = np.array(list(map(words.__getitem__, range(self.chain.degree))), dtype=np.int64)
        return np.where(result > self.modulus // 2, result - self.modulus, result)

    def ciphertext(self, stream: bytes, parameters: Parameters) -> Any:
        """A ciphertext from SEAL's bytes.

        Raises:
            ProtocolError: the bytes are none, or of other parameters, of another scale, or hide nothing.
        """
        if len(stream) > self.chain.ciphertext_bytes:
            raise ProtocolError(
                f"ciphertext must have up to {self.chain.ciphertext_bytes:,} bytes; found {len(stream):,}"
            )
        try:
            result = load(_seal().Ciphertext(), self.context, stream)
        except InputError as error:
            raise ProtocolError(f"ciphertext must be valid at N = {self.chain.degree} and this modulus") from error
        if result.size() != 2 or result.is_ntt_form():
            raise ProtocolError(f"ciphertext must have two polynomials as coefficients; found {result.size()}, or NTTs")
        if result.scale != float(parameters.scale):
            raise ProtocolError(f"ciphertext must have scale {parameters.scale:,}; found {result.scale:,.17g}")
        if result.is_transparent():
            raise ProtocolError("ciphertext must hide its plaintext; found one that is readable without a key")
        return result


@cache
def ring(chain: Chain) -> SealContext:
    """The ring of a chain, built once."""
    return SealContext(chain)


def save(item: Any) -> bytes:
    """SEAL's bytes of a key or a ciphertext."""
    with _memory() as (file, path):
        item.save(path)
        return file.read()


def load(item: Any, context: Any, stream: bytes) -> Any:
    """Fills an empty key or ciphertext from SEAL's bytes, with SEAL's own checks.

    Raises:
        InputError: the bytes are not such an object of that context, and nothing else.
    """
    if int.from_bytes(stream[_SIZE_FIELD], "little") != len(stream):
        raise InputError(f"stream must be one whole SEAL object; found {len(stream):,} bytes of something else")
    with _memory() as (file, path):
        remaining = memoryview(stream)
        while remaining:  # a file without a buffer may take a part, and says by the next one what is wrong
            remaining = remaining[file.write(remaining) :]
        try:
            item.load(context, path)
        except REFUSALS as error:
            raise InputError(f"stream must be a valid {type(item).__name__} of these parameters") from error
    return item


def _wrap_uncompressed(content: bytes) -> bytes:
    seal_header = _seal().Serialization.SEALHeader()
    version = (seal_header.version_major, seal_header.version_minor)
    return (
        _HEADER.pack(seal_header.magic, seal_header.header_size, *version, 0, 0, _HEADER.size + len(content)) + content
    )


@contextmanager
def _memory() -> Iterator[tuple[FileIO, str]]:
    """A file for SEAL, whose binding writes to no other thing, and its path; in memory where the system has these."""
    if FILES_IN_MEMORY:
        with FileIO(os.memfd_create("seal"), "r+") as file:
            yield file, f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.TemporaryDirectory() as folder:  # only its owner may enter
            path = str(Path(folder) / "seal")
            with FileIO(path, "x+") as file:
                yield file, path


FINGERPRINT_BYTES = 16
PREFIX = struct.Struct(f">{FINGERPRINT_BYTES}sI")
"""Before SEAL's bytes: fingerprint of the key and number of terms."""
PUBLIC, SECRET = b"fgl-secure ckks public key 1", b"fgl-secure ckks secret key 1"
"""What a public context and a key file start with."""
_LENGTH_BYTES = 4


def wire_bytes(parameters: Parameters) -> int:
    """The most bytes that one of our ciphertexts has: fingerprint, number of terms, SEAL's bytes."""
    return PREFIX.size + parameters.chain.ciphertext_bytes


class PublicKey:
    """What encrypting takes: parameters and the public key, and never a secret one. See `ReceiverKey.public`."""

    __slots__ = ("_encryptor", "_stream", "fingerprint", "parameters")

    def __init__(self, parameters: Parameters, stream: bytes) -> None:
        context = ring(parameters.chain).context
        self.parameters, self._stream = parameters, stream
        self._encryptor = _seal().Encryptor(context, load(_seal().PublicKey(), context, stream))
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
            InputError: the bytes contain a secret key, which no party but the receiver may hold; or they are something
                else, damaged, or have parameters that no party may choose.
        """
        if data.startswith(SECRET):
            raise InputError("a public context must not contain a secret key; found a secret key file")
        parameters, stream = _read_parameters(data, PUBLIC, "a public context")
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
        ctx, scale = ring(self.parameters.chain), self.parameters.scale
        packed = pack(checked_vector(vector, self.parameters.bound), self.parameters)
        nothing, prefix = np.zeros(ctx.chain.degree, dtype=np.uint64), PREFIX.pack(self.fingerprint, 1)
        ciphertexts = []
        for coefficients in packed:
            cipher = _seal().Ciphertext()
            self._encryptor.encrypt_zero(cipher)
            ctx.evaluator.transform_from_ntt_inplace(cipher)
            cipher.scale = float(scale)
            ctx.evaluator.add_inplace(cipher, ctx.trivial(ctx.residues(coefficients * scale), nothing, scale))
            ciphertexts.append(prefix + save(cipher))
        return ciphertexts


@dataclass(frozen=True, slots=True, eq=False)
class _CheckedCiphertext:
    """A ciphertext that passed all checks, and the number of terms that it says it has."""

    cipher: Any
    terms: int


def load_ciphertext(data: bytes, public: PublicKey) -> _CheckedCiphertext:
    """A ciphertext for a key.

    Raises:
        ProtocolError: it is for another key, or has too many terms, or is none; see `SealContext.ciphertext`.
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
    return _CheckedCiphertext(ring(public.parameters.chain).ciphertext(data[PREFIX.size :], public.parameters), terms)


def _read_parameters(data: bytes, magic: bytes, name: str) -> tuple[Parameters, bytes]:
    """Parameters after the right start, and what follows them."""
    if not data.startswith(magic):
        raise InputError(f"{name} must start with {magic!r}; found {len(data):,} bytes that don't")
    start = len(magic) + PARAMETER_BYTES
    return Parameters.from_bytes(data[len(magic) : start]), data[start:]


class RunningSums:
    """The sums of vectors of ciphertexts that come in one after the other: only the sums are kept.

    Args:
        public: the receiver's public key.
        count: ciphertexts of a vector.
    """

    __slots__ = ("_count", "_public", "_terms", "_totals")

    def __init__(self, public: PublicKey, count: int) -> None:
        self._public, self._count, self._terms = public, count, 0
        self._totals: list[Any] = []

    def add(self, ciphertexts: Sequence[bytes]) -> None:
        """Adds one term's ciphertexts, all of them or none.

        Raises:
            ProtocolError: there are more or fewer of them, or of terms, than there may be; one is of another key or
                another scale, a sum itself, or no ciphertext.
        """
        parameters = self._public.parameters
        if len(ciphertexts) != self._count or self._terms == parameters.terms:
            raise ProtocolError(
                f"a term must have {self._count} ciphertexts, and be one of {parameters.terms}; found "
                f"{len(ciphertexts)}, after {self._terms} terms"
            )
        result = [load_ciphertext(data, self._public) for data in ciphertexts]
        if any(one.terms != 1 for one in result):
            raise ProtocolError("a term must not be a sum; found ciphertexts that say that they are")
        fresh, evaluator = [one.cipher for one in result], ring(parameters.chain).evaluator
        if self._totals:
            fresh = [_both(evaluator, *pair) for pair in zip(self._totals, fresh, strict=True)]
        self._totals = fresh
        self._terms += 1

    @classmethod
    def restore(cls, public: PublicKey, count: int, totals: Sequence[bytes]) -> RunningSums:
        """Sums that go on from what `to_bytes` gave.

        Raises:
            ProtocolError: they are not as many as a term has, of different numbers of terms, or no sums under this key.
        """
        made = cls(public, count)
        result = [load_ciphertext(data, public) for data in totals]
        if result and (len(result) != count or len({one.terms for one in result}) > 1):
            raise ProtocolError(f"sums must be {count} of as many terms each; found {len(result)}")
        made._totals, made._terms = [one.cipher for one in result], result[0].terms if result else 0
        return made

    def to_bytes(self) -> list[bytes]:
        """The sums, each with its number of terms; empty while there is no term."""
        return [PREFIX.pack(self._public.fingerprint, self._terms) + save(total) for total in self._totals]


def _both(evaluator: Any, total: Any, cipher: Any) -> Any:
    """A new ciphertext, so that a term that is refused half way leaves the sums as they were."""
    ciphertext = _seal().Ciphertext()
    try:
        evaluator.add(total, cipher, ciphertext)
    except REFUSALS as error:  # SEAL refuses a sum that hides nothing
        raise ProtocolError("ciphertexts must add up to one that hides its plaintext; found two that cancel") from error
    return ciphertext


class ReceiverKey:
    """A key pair of the one who may know a sum. Its printed form shows nothing secret."""

    __slots__ = ("_decryptor", "_probe", "_secret", "public")

    def __init__(self, public: PublicKey, secret: bytes) -> None:
        ctx, scale = ring(public.parameters.chain), public.parameters.scale
        self.public, self._secret = public, secret
        self._decryptor = _seal().Decryptor(ctx.context, load(_seal().SecretKey(), ctx.context, secret))
        nothing = np.zeros(ctx.chain.degree, dtype=np.uint64)
        self._probe = ctx.trivial(nothing, nothing + np.uint64(1), scale)
        ctx.evaluator.transform_to_ntt_inplace(self._probe)

    def __repr__(self) -> str:
        return f"ReceiverKey(public={self.public}, secret=<secret>)"

    @classmethod
    def generate(cls, parameters: Parameters) -> ReceiverKey:
        """A fresh key pair."""
        generator, public = _seal().KeyGenerator(ring(parameters.chain).context), _seal().PublicKey()
        generator.create_public_key(public)
        return cls(PublicKey(parameters, save(public)), save(generator.secret_key()))

    @property
    def parameters(self) -> Parameters:
        """What both ends agree on."""
        return self.public.parameters

    def public_context(self) -> bytes:
        """What the others get: parameters and public key, no secret."""
        return self.public.to_bytes()

    def secret_file(self) -> bytes:
        """What the receiver alone may keep: all of it, in plaintext."""
        public = self.public.to_bytes()[len(PUBLIC) + PARAMETER_BYTES :]
        length = len(public).to_bytes(_LENGTH_BYTES, "big")
        return SECRET + self.parameters.to_bytes() + length + public + self._secret

    @classmethod
    def from_secret_file(cls, data: bytes) -> ReceiverKey:
        """Reads what `secret_file` wrote.

        Raises:
            InputError: there is no secret key in it, so that it can't decrypt; or it is damaged, or its two keys
                don't belong together.
        """
        if data.startswith(PUBLIC):
            raise InputError("a key file must hold a secret key to decrypt with; found a public context alone")
        parameters, rest = _read_parameters(data, SECRET, "a key file")
        end = _LENGTH_BYTES + int.from_bytes(rest[:_LENGTH_BYTES], "big")
        key = cls(PublicKey(parameters, rest[_LENGTH_BYTES:end]), rest[end:])
        try:
            key.decrypt(key.public.encrypt(np.zeros(1, dtype=np.int64)), 1)
        except ProtocolError as error:
            raise InputError("a key file must hold a public and a secret key that belong together") from error
        return key

    def decrypt(self, ciphertexts: Sequence[bytes], length: int) -> Integers:
        """The sum, exact.

        Args:
            ciphertexts: those of a vector, in order.
            length: entries of the vector.

        Returns:
            int64 [length].

        Raises:
            InputError: another number of ciphertexts than a vector of that length has.
            ProtocolError: one is of another key or other parameters, has too many terms, or is damaged so that its
                error is beyond the bound.
        """
        expected = self.parameters.ciphertexts(length)
        if length < 1 or len(ciphertexts) != expected:
            raise InputError(
                f"ciphertexts must be {expected} for a length of {length:,}, which must be at least 1; "
                f"found {len(ciphertexts)}"
            )
        coefficients = np.stack([self._coefficients(data) for data in ciphertexts])
        return unpack(coefficients, length, self.parameters)

    def _coefficients(self, data: bytes) -> Integers:
        """int64 [N], unscaled; the noise doesn't leave this function."""
        parameters, noisy = self.parameters, self._decrypt_noisy(load_ciphertext(data, self.public).cipher)
        rounded: Integers = (noisy + parameters.scale // 2) // parameters.scale
        near = np.abs(noisy - rounded * parameters.scale) <= parameters.noise
        if not (near & (np.abs(rounded) <= parameters.magnitude)).all():
            raise ProtocolError(
                f"a sum must lie within {parameters.error:.3g} of integers of magnitude up to "
                f"{parameters.magnitude:,}; found a ciphertext whose content doesn't"
            )
        return rounded

    def _decrypt_noisy(self, cipher: Any) -> Integers:
        """int64 [N]: scaled coefficients with their noise.

        SEAL hands plaintexts out as NTTs; added to a ciphertext of zero they can be transformed back.
        """
        ctx, plain, ciphertext = ring(self.parameters.chain), _seal().Plaintext(), _seal().Ciphertext()
        ctx.evaluator.transform_to_ntt_inplace(cipher)
        self._decryptor.decrypt(cipher, plain)
        ctx.evaluator.add_plain(self._probe, plain, ciphertext)
        ctx.evaluator.transform_from_ntt_inplace(ciphertext)
        return ctx.centered_coefficients(ciphertext)
