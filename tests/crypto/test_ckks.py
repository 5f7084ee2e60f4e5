"""Sums under CKKS: exact, with the noise that is stated, for the key's owner alone; everything else is refused."""

import pickle
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgl_secure.crypto import ckks
from fgl_secure.crypto.ckks import PREFIX, PublicKey, ReceiverKey, ring
from fgl_secure.crypto.ckks_parameters import CHAINS, PARAMETER_BYTES, Chain, Parameters, limit
from fgl_secure.errors import FglSecureError, InputError, ProtocolError
from fgl_secure.typing import Integers
from tests.crypto.adders import Adder
from tests.error_codes import about

SMALL = Parameters(CHAINS[1], 3, 1000, 1)


@cache
def key_of(parameters: Parameters) -> ReceiverKey:
    """One key pair of each set of parameters for all tests."""
    return ReceiverKey.generate(parameters)


def total_of(key: ReceiverKey, rows: Integers) -> list[bytes]:
    """The ciphertexts of the sum of rows, made by senders and an adder that only have the public context."""
    context = key.public_context()
    terms = [PublicKey.from_bytes(context).encrypt(row) for row in rows]
    adder = Adder.from_bytes(context)
    return [adder.add(column) for column in zip(*terms, strict=True)]


@settings(max_examples=15)
@given(st.integers(1, 5), st.sampled_from([1, 1000, 2**21, 0]), st.sampled_from([1, 700, 5000]), st.integers(0, 2**32))
def test_sums_are_exact(terms: int, bound: int, length: int, seed: int) -> None:
    """The decrypted sum is the sum of integers, from a bound of 1 up to the largest one (0 here)."""
    bound = bound or limit(terms) // terms
    rows = np.random.default_rng(seed).integers(-bound, bound + 1, (terms, length))
    rows[:, 0], rows[:, -1] = bound, -bound
    key = key_of(Parameters.for_sums(terms, bound, length=length))
    found = key.decrypt(total_of(key, rows), length)
    assert found.dtype == np.int64
    assert (found == rows.sum(axis=0)).all()


def noise_of(key: ReceiverKey, ciphertexts: list[bytes], expected: Integers) -> Integers:
    """What is left of scaled coefficients without the expected ones, int64 [ciphertexts, N]."""
    parameters = key.parameters
    opened = [ring(parameters.chain).ciphertext(data[PREFIX.size :], parameters) for data in ciphertexts]
    return np.stack([key._decrypt_noisy(cipher) for cipher in opened]) - expected * parameters.scale


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("terms", [1, 9])
def test_noise_has_the_stated_size(chain: Chain, terms: int) -> None:
    """Its deviation is the predicted one to a few percent, and all of it lies within the bound."""
    key = key_of(Parameters(chain, terms, 1000))
    rows = np.random.default_rng(0).integers(-1000, 1001, (terms, 4 * chain.degree))
    noise = noise_of(key, total_of(key, rows), rows.sum(axis=0).reshape(-1, chain.degree))
    assert noise.std() == pytest.approx(chain.deviation(terms), rel=0.07)
    assert np.abs(noise).max() <= key.parameters.noise
    assert np.abs(noise).max() > key.parameters.noise / 4  # the bound isn't idle


def test_too_small_a_scale_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: with room for noise given to values sums come out wrong, and decryption says so."""
    monkeypatch.setattr(Chain, "limit", lambda *_: 2**58)
    careless = Parameters(CHAINS[0], 2, 2**50)
    assert careless.error > 0.5
    key, rows = ReceiverKey.generate(careless), np.full((2, 10), 2**50)
    total = total_of(key, rows)
    wrong = noise_of(key, total, np.zeros((1, 4096), dtype=np.int64))[0, :10]
    assert ((wrong + careless.scale // 2) // careless.scale != rows.sum(axis=0)).any()
    monkeypatch.setattr(Parameters, "noise", property(lambda self: self.scale // 4))
    with pytest.raises(ProtocolError, check=about("a sum")):
        key.decrypt(total, 10)


@pytest.mark.parametrize("entry", [np.nan, np.inf, 0.5, 1001])
def test_bad_vectors_are_refused_before_anything_is_made(entry: float) -> None:
    """NaN, infinity, a fraction or a value beyond the bound raises, wherever it stands."""
    vector = np.zeros(5000)
    vector[-1] = entry
    with pytest.raises(InputError, check=about("vector")):
        key_of(SMALL).public.encrypt(vector)


def altered(data: bytes, position: int = 3000) -> bytes:
    """The same bytes but for one."""
    return data[:position] + bytes([data[position] ^ 255]) + data[position + 1 :]


OTHER_SCALE = Parameters(CHAINS[1], 3, 1_000_000, 1)


def refused() -> dict[str, bytes]:
    """What is no ciphertext for the key of SMALL."""
    key, here = key_of(SMALL), ring(SMALL.chain)
    prefix = key.public.fingerprint + bytes([0, 0, 0, 1])
    good, nothing = key.public.encrypt(np.ones(3))[0], np.zeros(2048, dtype=np.uint64)
    return {
        "another key": ReceiverKey.generate(SMALL).public.encrypt(np.ones(3))[0],
        "other parameters": key_of(Parameters.for_sums(3, 1000)).public.encrypt(np.ones(3))[0],
        "another ring": prefix + key_of(Parameters.for_sums(3, 1000)).public.encrypt(np.ones(3))[0][20:],
        "another scale": prefix + key_of(OTHER_SCALE).public.encrypt(np.ones(3))[0][20:],
        "nothing hidden": prefix + ckks.save(here.trivial(nothing + np.uint64(5), nothing, SMALL.scale)),
        "a secret key": prefix + key._secret,
        "a public key": prefix + key.public._stream,
        "truncated": good[:-1],
        "continued": good + b"\0",
        "garbage": prefix + np.random.default_rng(0).bytes(30000),
        "empty": b"",
        "a fingerprint alone": prefix,
        "too long": prefix + bytes(10**6),
        "no term": good[:16] + bytes(4) + good[20:],
        "too many terms": good[:16] + bytes([0, 0, 0, 4]) + good[20:],
    }


def test_what_is_no_ciphertext_of_this_key_is_refused() -> None:
    """Neither the adder nor the receiver takes it, alone or beside a good one; the good one is taken."""
    key = key_of(SMALL)
    adder, good = Adder(key.public), key.public.encrypt(np.ones(3))[0]
    assert (key.decrypt([adder.add([good])], 3) == 1).all()
    for bad in refused().values():
        for parts in ([bad], [good, bad], [bad, good]):
            with pytest.raises(ProtocolError, check=about("ciphertext")):
                adder.add(parts)
        with pytest.raises(ProtocolError, check=about("ciphertext")):
            key.decrypt([bad], 3)


@given(st.integers(0, 33000), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_changes_entries(position: int, change: int) -> None:
    """It is refused, or entries come out wrong within their range (ciphertexts are malleable): nothing else happens."""
    key = key_of(SMALL)
    good = key.public.encrypt(np.full(2048, 7))[0]
    position %= len(good)
    bad = good[:position] + bytes([good[position] ^ change]) + good[position + 1 :]
    try:
        found = key.decrypt([bad], 2048)
    except ProtocolError:
        return
    assert np.abs(found).max() <= SMALL.magnitude


def test_sums_of_sums_count_their_terms() -> None:
    """Sums may be added further, up to the number of terms that parameters were made for."""
    key = key_of(SMALL)
    adder, one = Adder(key.public), key.public.encrypt(np.array([1000]))[0]
    three = adder.add([adder.add([one, one]), one])
    assert key.decrypt([three], 1).tolist() == [3000]
    with pytest.raises(ProtocolError, check=about("a sum")):
        adder.add([three, one])
    with pytest.raises(InputError, check=about("ciphertexts")):
        adder.add([])


def test_the_number_of_ciphertexts_must_fit_the_length() -> None:
    """Decrypting needs all ciphertexts of a vector and no more."""
    key = key_of(SMALL)
    made = key.public.encrypt(np.zeros(3000))
    for count, length in ((1, 3000), (2, 2048), (2, 0)):
        with pytest.raises(InputError, check=about("ciphertexts")):
            key.decrypt(made[:count], length)


def test_a_public_context_has_no_secret() -> None:
    """The secret key's bytes are in the key file and nowhere in the public context or in what is printed."""
    key = key_of(SMALL)
    assert key._secret in key.secret_file()
    assert key._secret[100:140] not in key.public_context()
    assert "<secret>" in repr(key)
    assert key._secret[100:110].hex() not in repr(key)
    assert repr(key.public) == f"PublicKey({key.public.fingerprint.hex()}, {SMALL})"
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(key)


def test_a_key_file_gives_the_key_back() -> None:
    """What was encrypted for the public context decrypts after a round trip through the file."""
    key = key_of(SMALL)
    again = ReceiverKey.from_secret_file(key.secret_file())
    assert again.public.fingerprint == key.public.fingerprint
    assert again.decrypt(key.public.encrypt(np.array([-7, 5])), 2).tolist() == [-7, 5]


def damaged_files() -> dict[str, bytes]:
    """Key files that must not be read."""
    key, other = key_of(SMALL), ReceiverKey.generate(SMALL)
    good, start = key.secret_file(), len(key.secret_file()) - len(key._secret)
    return {
        "another secret": good[:start] + other._secret,
        "no secret": good[:start],
        "public for secret": good[:start] + key.public._stream,
        "truncated": good[:-1],
        "continued": good + b"x",
        "head alone": good[:40],
        "garbage": b"garbage",
        "empty": b"",
    }


def test_damaged_key_files_are_refused() -> None:
    """A file that was cut, mixed up or made up raises, and nothing of it is told."""
    for data in damaged_files().values():
        with pytest.raises(InputError):
            ReceiverKey.from_secret_file(data)


def damaged_contexts() -> dict[str, bytes]:
    """Public contexts that must not be read."""
    key, other = key_of(SMALL), key_of(Parameters.for_sums(3, 1000))
    good = key.public_context()
    start = len(good) - len(key.public._stream)
    return {
        "a secret inside": good[:start] + key._secret,
        "a secret behind": good + key._secret,
        "another ring": good[:start] + other.public._stream,
        "a ciphertext": good[:start] + key.public.encrypt(np.ones(1))[0][PREFIX.size :],
        "other parameters": good[: start - PARAMETER_BYTES] + other.parameters.to_bytes() + good[start:],
        "truncated": good[:-9],
        "head alone": good[:start],
        "garbage": altered(good, 0),
        "empty": b"",
    }


def test_damaged_contexts_are_refused() -> None:
    """Bytes that are not exactly one public key of its parameters raise."""
    for data in damaged_contexts().values():
        with pytest.raises(FglSecureError):
            PublicKey.from_bytes(data)


def test_without_files_in_memory_a_private_folder_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has no such files keys and ciphertexts take the other way, to the same result."""
    monkeypatch.setattr(ckks, "FILES_IN_MEMORY", False)
    monkeypatch.delattr("os.memfd_create", raising=False)
    key = ReceiverKey.generate(SMALL)
    assert key.decrypt(key.public.encrypt(np.array([3])), 1).tolist() == [3]
