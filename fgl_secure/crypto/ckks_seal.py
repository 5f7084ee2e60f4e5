"""SEAL as TenSEAL binds it: rings of our parameters, coefficients in and out, serialisation in memory.

TenSEAL's own contexts make relinearisation keys whatever one does and need a special prime for them, its vectors have
N / 2 real slots in floating point, and `make_context_public` keeps a decryptor. `tenseal.sealapi` has none of that.
Ciphertexts stay in coefficient form, where integers are added exactly. Its polynomials can be read, not set, and its
encoder rounds floats: so `Ring.trivial` writes SEAL's uncompressed form itself. All else is SEAL's own save and load.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.ckks_parameters import Chain, Parameters
from fgl_secure.errors import InputError, ProtocolError

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
def seal() -> Any:
    """SEAL's own interface, by way of TenSEAL; loaded when the first key is made."""
    from tenseal import sealapi  # noqa: PLC0415  # nobody else needs it

    return sealapi


class Ring:
    """SEAL's objects that hold no key.

    Args:
        chain: degree and modulus.
    """

    def __init__(self, chain: Chain) -> None:
        settings = seal().EncryptionParameters(seal().SCHEME_TYPE.CKKS)
        settings.set_poly_modulus_degree(chain.degree)
        moduli = seal().CoeffModulus.Create(chain.degree, [chain.bits])
        settings.set_coeff_modulus(moduli)
        self.context = seal().SEALContext(settings, True, seal().SEC_LEVEL_TYPE.TC128)
        if not self.context.parameters_set():
            raise InputError(f"chain must be one that SEAL takes at 128 bits of security; found {chain}")
        self.chain, self.modulus = chain, int(moduli[0].value())
        self.evaluator = seal().Evaluator(self.context)
        self.level = self.context.first_parms_id()

    def trivial(self, first: Residues, second: Residues, scale: int) -> Any:
        """The ciphertext of two given polynomials, uint64 [N] below q each, in coefficient form."""
        data = np.concatenate([first, second]).tobytes()
        words = struct.pack("<Q", 2 * self.chain.degree) + data
        metadata = _METADATA.pack(*self.level, 0, 2, self.chain.degree, 1, float(scale), 1)
        return load(seal().Ciphertext(), self.context, _uncompressed(metadata + _uncompressed(words)))

    def residues(self, integers: NDArray[np.int64]) -> Residues:
        """uint64 like `integers`, which must lie within q / 2."""
        return np.where(integers < 0, integers + self.modulus, integers).astype(np.uint64)

    def centred(self, cipher: Any) -> NDArray[np.int64]:
        """int64 [N]: the first polynomial of a ciphertext in coefficient form, within q / 2."""
        words = cipher.dyn_array()  # which gives a word in half the time that the ciphertext takes
        found = np.array(list(map(words.__getitem__, range(self.chain.degree))), dtype=np.int64)
        return np.where(found > self.modulus // 2, found - self.modulus, found)

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
            found = load(seal().Ciphertext(), self.context, stream)
        except InputError as error:
            raise ProtocolError(f"ciphertext must be valid at N = {self.chain.degree} and this modulus") from error
        if found.size() != 2 or found.is_ntt_form():
            raise ProtocolError(f"ciphertext must have two polynomials as coefficients; found {found.size()}, or NTTs")
        if found.scale != float(parameters.scale):
            raise ProtocolError(f"ciphertext must have scale {parameters.scale:,}; found {found.scale:,.17g}")
        if found.is_transparent():
            raise ProtocolError("ciphertext must hide its plaintext; found one that anybody can read")
        return found


@cache
def ring(chain: Chain) -> Ring:
    """The ring of a chain, built once."""
    return Ring(chain)


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
        unwritten = memoryview(stream)
        while unwritten:  # a file without a buffer may take a part, and says by the next one what is wrong
            unwritten = unwritten[file.write(unwritten) :]
        try:
            item.load(context, path)
        except REFUSALS as error:
            raise InputError(f"stream must be a valid {type(item).__name__} of these parameters") from error
    return item


def _uncompressed(content: bytes) -> bytes:
    made = seal().Serialization.SEALHeader()
    version = (made.version_major, made.version_minor)
    return _HEADER.pack(made.magic, made.header_size, *version, 0, 0, _HEADER.size + len(content)) + content


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
