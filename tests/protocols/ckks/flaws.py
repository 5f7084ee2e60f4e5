"""Sums under CKKS with one flaw at a time in how clients encrypt, or in how keys pass between them."""

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import Coins
from fgl_secure.crypto import ckks
from fgl_secure.crypto.ckks import PREFIX, PublicKey, ReceiverKey, ring
from fgl_secure.crypto.ckks_parameters import pack
from fgl_secure.crypto.cryptography import Context
from fgl_secure.protocols.ckks.shared_machines import GROUP, SharedKeyClients
from fgl_secure.protocols.ckks.wire import encrypt, sealed_bytes
from fgl_secure.runtime import Messages
from tests.protocols.ckks.ciphertext_views import from_transforms, key_transforms, transformed

Array = NDArray[Any]
Ints = NDArray[np.int64]
Zero = Callable[[PublicKey, Any], None]
"""Fills a ciphertext with an encryption of zero, as NTTs, under a key."""
Encrypt = Callable[[PublicKey, Ints], Iterator[bytes]]
"""Makes the ciphertexts of a vector."""


def clients_with(encrypt: Encrypt) -> type[SharedKeyClients]:
    """Clients that encrypt in another way."""

    class Flawed(SharedKeyClients):
        def _encrypt_row(self, key: PublicKey, row: Ints) -> Iterable[bytes]:
            return encrypt(key, row)

    return Flawed


class Encryptor:
    """Encrypts zeros in another way than SEAL's."""

    def __init__(self, key: PublicKey, zero: Zero) -> None:
        self._key, self._zero = key, zero

    def encrypt_zero(self, cipher: Any) -> None:
        self._zero(self._key, cipher)


def encrypting(zero: Zero) -> Encrypt:
    """Takes such encryptions of zero to hide vectors; all else is as it is."""

    def sending(key: PublicKey, vector: Ints) -> Iterator[bytes]:
        flawed = copy(key)
        flawed._encryptor = Encryptor(key, zero)
        return encrypt(flawed, vector)

    return sending


def reusing(count: int) -> Zero:
    """Under a key each encryption of zero is the one so many before it."""
    kept: dict[bytes, list[bytes]] = {}

    def zero(key: PublicKey, cipher: Any) -> None:
        made = kept.setdefault(key.fingerprint, [])
        if len(made) < count:
            key._encryptor.encrypt_zero(cipher)
        else:
            ckks.load(cipher, ring(key.parameters.chain).context, made[-count])
        made.append(ckks.save(cipher))

    return zero


def one_randomness_for_every(count: int) -> Encrypt:
    """Under a key each encryption takes the randomness of the one so many before it."""
    return encrypting(reusing(count))


def one_u_for_every(count: int) -> Encrypt:
    """The same of u alone: errors are fresh, and cover differences of plaintexts by less than half a unit."""
    reused, errors = reusing(count), small_errors()

    def zero(key: PublicKey, cipher: Any) -> None:
        reused(key, cipher)
        ring(key.parameters.chain).evaluator.add_inplace(cipher, errors(key))

    return encrypting(zero)


def small_errors() -> Callable[[PublicKey], Any]:
    """Makes e0 and e1 as SEAL draws them, as NTTs."""
    draw = np.random.default_rng()

    def made(key: PublicKey) -> Any:
        here = ring(key.parameters.chain)
        e0, e1 = draw.binomial(42, 0.5, (2, here.chain.degree)) - 21
        cipher = here.trivial(here.residues(e0), here.residues(e1), 1)
        here.evaluator.transform_to_ntt_inplace(cipher)
        return cipher

    return made


def randomness_of(degree: int, seed: int = 0) -> Ints:
    """u ternary, e0 and e1 small: int64 [3, N]."""
    draw = np.random.default_rng(seed)
    errors = draw.binomial(42, 0.5, (2, degree)) - 21
    return np.concatenate([draw.integers(-1, 2, (1, degree)), errors])


def one_randomness_for_all_keys() -> Encrypt:
    """u, e0 and e1 are the same in every encryption, under whatever key."""

    def zero(key: PublicKey, cipher: Any) -> None:
        here = ring(key.parameters.chain)
        u, e0, e1 = randomness_of(here.chain.degree)
        hiding = transformed(here, np.stack([u, u]))
        from_transforms(here, key_transforms(key) * hiding + transformed(here, np.stack([e0, e1])), cipher)

    return encrypting(zero)


def no_mask() -> Encrypt:
    """u is 0: ciphertexts open as they should, are not transparent to SEAL, and show their plaintext."""
    errors = small_errors()

    def zero(key: PublicKey, cipher: Any) -> None:
        ckks.load(cipher, ring(key.parameters.chain).context, ckks.save(errors(key)))

    return encrypting(zero)


def no_second_polynomial(key: PublicKey, vector: Ints) -> Iterator[bytes]:
    """The randomness cancels: c0 is the plaintext and c1 is 0. SEAL itself would refuse to make such a ciphertext."""
    here, scale = ring(key.parameters.chain), key.parameters.scale
    for coefficients in pack(vector, key.parameters):
        plain = here.residues(coefficients * scale)
        yield PREFIX.pack(key.fingerprint, 1) + ckks.save(here.trivial(plain, 0 * plain, scale))


class FramesCutShort(SharedKeyClients):
    """Ciphertexts go out as long as they are."""

    def _send_vectors(self, todo: Any, step: Any) -> Iterator[Messages]:
        for messages in super()._send_vectors(todo, step):
            most = int(messages["sizes"].max())
            fields = {**messages.fields, "ciphertexts": messages["ciphertexts"][..., :most]}
            yield Messages(messages.phase, messages.step, messages.senders, messages.receivers, fields)


class BoxesInTheClear(SharedKeyClients):
    """Group keys are not sealed."""

    def _seal_group_key(self, at: int, v: int, context: Context) -> bytes:
        group: bytes = self._secrets[at, GROUP].tobytes()
        return group.ljust(len(super()._seal_group_key(at, v, context)), b"\0")


class FileInTheClear(SharedKeyClients):
    """Key files are not sealed."""

    def _wrap_key_file(self, me: int, group: bytes, pair: ReceiverKey, context: Context) -> bytes:  # noqa: ARG002  # not used
        file = pair.secret_file()
        return (len(file).to_bytes(4) + file).ljust(sealed_bytes(self._plan), b"\0")


class BoxesToTheNext(SharedKeyClients):
    """Boxes are sealed under the keys of others than those they are for."""

    def _seal_group_key(self, at: int, v: int, context: Context) -> bytes:
        others = np.flatnonzero(self._pairs.has[at]).tolist()
        return super()._seal_group_key(at, others[(others.index(v) + 1) % len(others)], context)


class FewBits(Coins):
    """Coins whose draws of 32 bytes are numbers of some bits."""

    def __init__(self, inner: Coins, bits: int) -> None:
        self._inner, self._bits = inner, bits

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """That of the others."""
        return self._inner.batch_shape

    def uniform(self, modulus: int, shape: tuple[int, ...]) -> Ints:
        """Keeps the first bits of each row."""
        drawn = self._inner.uniform(modulus, shape)
        if shape[-1] == 32:
            drawn[..., -(-self._bits // 8) :] = 0
            if self._bits % 8:
                drawn[..., self._bits // 8] %= 1 << self._bits % 8
        return drawn
