"""Staged sums under CKKS with one flaw at a time in how clients encrypt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.crypto import ckks_seal
from fgl_secure.crypto.ckks import Adder, ReceiverKey
from fgl_secure.crypto.ckks_packing import pack
from fgl_secure.crypto.ckks_public import PREFIX, PublicKey
from fgl_secure.crypto.ckks_seal import ring
from fgl_secure.protocols.ckks.wire import encrypted as sender_ciphertexts
from fgl_secure.protocols.staged.ciphertexts import client as ckks_client
from fgl_secure.protocols.staged.ciphertexts import server as ckks_server
from tests.protocols.staged.ciphertext_views import from_transforms, key_transforms, transformed, words_of

Ints = NDArray[np.int64]
Patch = Callable[[pytest.MonkeyPatch], None]
Zero = Callable[[PublicKey, Any], None]
"""Fills a ciphertext with an encryption of zero, as NTTs, under a key."""


class Encryptor:
    """Encrypts zeros in another way than SEAL's."""

    def __init__(self, key: PublicKey, zero: Zero) -> None:
        self._key, self._zero = key, zero

    def encrypt_zero(self, cipher: Any) -> None:
        self._zero(self._key, cipher)


def encrypting(zero: Zero) -> Patch:
    """Clients take such encryptions of zero to hide their vectors; all else is as it is."""

    def sending(key: PublicKey, vector: Ints) -> Iterator[bytes]:
        flawed = copy(key)
        flawed._encryptor = Encryptor(key, zero)
        return sender_ciphertexts(flawed, vector)

    return lambda monkeypatch: monkeypatch.setattr(ckks_client, "sender_ciphertexts", sending)


def reusing(count: int) -> Zero:
    """Under a key each encryption of zero is the one so many before it."""
    kept: dict[bytes, list[bytes]] = {}

    def zero(key: PublicKey, cipher: Any) -> None:
        made = kept.setdefault(key.fingerprint, [])
        if len(made) < count:
            key._encryptor.encrypt_zero(cipher)
        else:
            ckks_seal.load(cipher, ring(key.parameters.chain).context, made[-count])
        made.append(ckks_seal.save(cipher))

    return zero


def one_randomness_for_every(count: int) -> Patch:
    """Under a key each encryption takes the randomness of the one so many before it."""
    return lambda monkeypatch: encrypting(reusing(count))(monkeypatch)  # noqa: PLW0108  # nothing kept from run to run


def one_u_for_every(count: int) -> Patch:
    """The same of u alone: errors are fresh, and cover differences of plaintexts by less than half a unit."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        reused, errors = reusing(count), small_errors()

        def zero(key: PublicKey, cipher: Any) -> None:
            reused(key, cipher)
            ring(key.parameters.chain).evaluator.add_inplace(cipher, errors(key))

        encrypting(zero)(monkeypatch)

    return patch


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


def one_randomness_for_all_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """u, e0 and e1 are the same in every encryption, under whatever key."""

    def zero(key: PublicKey, cipher: Any) -> None:
        here = ring(key.parameters.chain)
        u, e0, e1 = randomness_of(here.chain.degree)
        hiding = transformed(here, np.stack([u, u]))
        from_transforms(here, key_transforms(key) * hiding + transformed(here, np.stack([e0, e1])), cipher)

    encrypting(zero)(monkeypatch)


def no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """u is 0: ciphertexts open as they should, are not transparent to SEAL, and show their plaintext."""
    errors = small_errors()

    def zero(key: PublicKey, cipher: Any) -> None:
        ckks_seal.load(cipher, ring(key.parameters.chain).context, ckks_seal.save(errors(key)))

    encrypting(zero)(monkeypatch)


def no_second_polynomial(monkeypatch: pytest.MonkeyPatch) -> None:
    """The randomness cancels: c0 is the plaintext and c1 is 0. SEAL itself would refuse to make such a ciphertext."""

    def sending(key: PublicKey, vector: Ints) -> Iterator[bytes]:
        here, scale = ring(key.parameters.chain), key.parameters.scale
        for coefficients in pack(vector, key.parameters):
            plain = here.residues(coefficients * scale)
            yield PREFIX.pack(key.fingerprint, 1) + ckks_seal.save(here.trivial(plain, 0 * plain, scale))

    monkeypatch.setattr(ckks_client, "sender_ciphertexts", sending)


def mask_added_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """c0 has p0 u + e0 twice, c1 has p1 u + e1 once."""

    def zero(key: PublicKey, cipher: Any) -> None:
        here = ring(key.parameters.chain)
        key._encryptor.encrypt_zero(cipher)
        words = words_of(cipher, here.chain.degree).astype(object)
        from_transforms(here, np.stack([2 * words[0], words[1]]), cipher)

    encrypting(zero)(monkeypatch)


def vector_added_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients add their ciphertexts to themselves, and say that there is one term."""

    def sending(key: PublicKey, vector: Ints) -> Iterator[bytes]:
        for data in sender_ciphertexts(key, vector):
            yield PREFIX.pack(key.fingerprint, 1) + Adder(key).add([data, data])[PREFIX.size :]

    monkeypatch.setattr(ckks_client, "sender_ciphertexts", sending)


def one_key_for_all_sums(key: ReceiverKey) -> Patch:
    """Nobody makes another key pair."""
    return lambda monkeypatch: monkeypatch.setattr(ReceiverKey, "generate", staticmethod(lambda _: key))


def frames_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ciphertexts go out as long as they are, and the server takes them."""
    monkeypatch.setattr(ckks_client, "ciphertext_field", lambda _, sent: b"".join(sent))
    monkeypatch.setattr(ckks_server, "ciphertexts_from", lambda _, field: [field])
