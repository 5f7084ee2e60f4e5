"""Agreed keys: the curve of RFC 7748, the derivation of RFC 5869, and what is refused."""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto import keys as keys_module
from fgl_secure.crypto.cryptography import Context, Cryptography, KeyPurpose
from fgl_secure.crypto.keys import HAS_ML_KEM, LOW_ORDER, WRAPPED_BYTES, KeyAgreement, KeyPair, Offer, is_usable, wrap
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.runtime import OwnDraws
from tests.error_codes import about

SCALAR = bytes.fromhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
POINT = bytes.fromhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")
PRODUCT = bytes.fromhex("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552")
"""RFC 7748, section 5.2: scalar times u-coordinate."""
NINE = bytes([9, *bytes(31)])
NINE_TIMES_NINE = bytes.fromhex("422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079")
"""The same section: one iteration, the scalar 9 times the base point 9."""

keys = st.binary(min_size=32, max_size=32)


def derived(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """RFC 5869 for one block of output, written from its sections 2.2 and 2.3."""
    extracted = hmac.new(salt or bytes(32), secret, hashlib.sha256).digest()
    return hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()


def test_the_curve_answers_as_published() -> None:
    """Public key and agreed secret are those of RFC 7748's test vectors."""
    assert KeyPair(NINE).public == NINE_TIMES_NINE
    assert KeyPair(SCALAR).agree(POINT, session=b"salt", context=b"info") == derived(PRODUCT, b"salt", b"info")


@given(keys, keys, st.binary(max_size=40), st.binary(max_size=80))
def test_both_sides_agree_and_nobody_else_does(one: bytes, other: bytes, session: bytes, context: bytes) -> None:
    """Two parties derive one key of 32 bytes; another session or context gives another."""
    a, b = KeyPair(one), KeyPair(other)
    key = a.agree(b.public, session=session, context=context)
    assert key == b.agree(a.public, session=session, context=context)
    assert len(key) == 32
    assert key != a.agree(b.public, session=session + b"x", context=context)
    assert key != a.agree(b.public, session=session, context=context + b"x")


@pytest.mark.parametrize("last", [0, 128])
@pytest.mark.parametrize("point", sorted(LOW_ORDER))
def test_points_of_low_order_are_refused(point: bytes, last: int) -> None:
    """With 0, 1, p - 1, p, p + 1 or a point of order 8 everybody would share the key of zero, whatever the last bit."""
    point = bytes([*point[:-1], point[-1] | last])
    with pytest.raises(ProtocolError, check=about("other")):
        KeyPair(SCALAR).agree(point, session=b"", context=b"")
    assert not is_usable(point)
    assert is_usable(KeyPair(SCALAR).public)


def test_a_pair_shows_its_public_key_alone() -> None:
    """The printed pair has the public key and not the private one."""
    shown = repr(KeyPair(SCALAR))
    assert KeyPair(SCALAR).public.hex() in shown
    assert SCALAR.hex() not in shown


HYBRID, ALONE = KeyAgreement.HYBRID, KeyAgreement.X25519
has_ml_kem = pytest.mark.skipif(not HAS_ML_KEM, reason="cryptography 48 or later has ML-KEM")
seeds = st.binary(min_size=96, max_size=96)


@has_ml_kem
@given(seeds, keys, keys, st.binary(max_size=40), st.binary(max_size=80))
def test_an_offer_and_its_answer_give_one_key(
    private: bytes, other: bytes, secret: bytes, session: bytes, context: bytes
) -> None:
    """Both ends derive one key from both secrets, and without the wrapped one it is another."""
    offer, answering = Offer(private, HYBRID), KeyPair(other)
    wrapped = wrap(offer.public, secret)
    key = offer.agree(answering.public, wrapped, session=session, context=context)
    first = offer.public[:32]
    assert (len(offer.public), len(wrapped)) == (HYBRID.public_bytes, HYBRID.wrapped_bytes)
    assert key == answering.agree(first, session=session, context=context, secret=secret)
    assert key != answering.agree(first, session=session, context=context)
    assert key != answering.agree(first, session=session, context=context, secret=bytes(b ^ 1 for b in secret))


@has_ml_kem
def test_the_encapsulation_key_is_that_of_the_published_seed() -> None:
    """FIPS 203: keys, ciphertexts and secrets have the published sizes, and a key is what its seed makes."""
    one, same = (Offer(bytes(range(96)), HYBRID).public for _ in range(2))
    assert one == same
    assert len(one) - 32 == 1184
    assert len(wrap(one, bytes(32))) == 1088 + 32 + 16 == WRAPPED_BYTES
    assert wrap(one, bytes(32)) != wrap(one, bytes(32))
    assert Offer(bytes(range(32)), ALONE).public == one[:32]
    assert wrap(one[:32], b"") == b""


@has_ml_kem
@pytest.mark.parametrize("at", [0, 1087, 1088, WRAPPED_BYTES - 1])
def test_a_changed_secret_is_noticed(at: int) -> None:
    """ML-KEM answers a changed ciphertext with another key, under which nothing opens."""
    offer, answering = Offer(bytes(range(96)), HYBRID), KeyPair(SCALAR)
    wrapped = bytearray(wrap(offer.public, bytes(32)))
    wrapped[at] ^= 1
    for bad in (bytes(wrapped), b"", bytes(wrapped[:-1])):
        with pytest.raises(ProtocolError, check=about("wrapped")):
            offer.agree(answering.public, bad, session=b"", context=b"")


@has_ml_kem
@pytest.mark.parametrize("bad", [bytes(33), bytes(32) + b"\xff" * 1184, bytes(32 + 1183)])
def test_offers_without_a_key_are_refused(bad: bytes) -> None:
    """Of another length, or with coefficients that are none."""
    with pytest.raises(ProtocolError, check=about("offer")):
        wrap(bad, bytes(32))


@pytest.mark.parametrize("agreement", [ALONE, pytest.param(HYBRID, marks=has_ml_kem)])
def test_offers_need_all_their_secret_bytes(agreement: KeyAgreement) -> None:
    """One byte less is refused, and an offer shows none of them."""
    with pytest.raises(InputError, check=about("private")):
        Offer(bytes(31), agreement)
    assert bytes(range(8)).hex() not in repr(Offer(bytes(range(agreement.private_bytes)), agreement))


def test_the_hybrid_is_refused_where_the_library_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best agreement is the one that there is, and asking for another says why not."""
    monkeypatch.setattr(keys_module, "HAS_ML_KEM", False)
    assert KeyAgreement.best() is ALONE
    ALONE.check_available()
    with pytest.raises(InputError, check=about("key agreement")):
        HYBRID.check_available()


def test_a_key_takes_both_secrets_of_a_hybrid() -> None:
    """Whoever knows one of the two secrets alone, the agreed one or the wrapped one, can't tell the key."""
    mine, first, second = (KeyPair(bytes([number]) * 32) for number in (1, 2, 3))
    known = {"session": bytes(16), "context": b"test"}
    keys = {
        mine.agree(other.public, secret=secret, **known)
        for other in (first, second)
        for secret in (b"", bytes(32), b"x" * 32)
    }
    assert len(keys) == 6


CONTEXT = Context(b"test", bytes(16), bytes(16))


def test_keys_of_two_purposes_sums_sessions_or_pairs_differ() -> None:
    """Of one key pair, and of one secret: nothing that a key is for can be left out of it."""
    crypto = Cryptography(OwnDraws(SimulationCoins(0)), 2**61 - 1)
    mine, yours = (row.tobytes() for row in crypto.fresh(np.array([1, 2]), 1, None)[:, 0])
    public = crypto.public(yours)
    contexts = [CONTEXT, replace(CONTEXT, when=bytes([1] * 16)), replace(CONTEXT, session=bytes([1] * 16))]
    contexts.append(replace(CONTEXT, label=b"rest"))
    cases = list(product(contexts, KeyPurpose))
    shared = [crypto.agree(mine, context, purpose, 1, {2: public})[2] for context, purpose in cases]
    own = [crypto.derive_key(mine, context, purpose, party) for context, purpose in cases for party in (1, 2)]
    assert len({*shared, *own}) == 3 * len(cases)
    assert crypto.agree(mine, CONTEXT, KeyPurpose.PAIR, 1, {3: public})[3] not in shared


def bits_that_matter(made: Callable[[bytes], bytes]) -> int:
    """How many of a seed's 256 bits change what is made of it when they are flipped."""
    seed = bytes(range(32))
    flips = (seed[:i] + bytes([seed[i] ^ 1 << bit]) + seed[i + 1 :] for i in range(32) for bit in range(8))
    return sum(made(flipped) != made(seed) for flipped in flips)


def test_seeds_enter_whole() -> None:
    """Each of a seed's 256 bits changes the mask, of X25519's all but five change the key; the judge finds 32 of 32."""
    crypto = Cryptography(OwnDraws(SimulationCoins(0)), 2**61 - 1)

    def mask(seed: bytes) -> bytes:
        return crypto.elements(crypto.derive_key(seed, CONTEXT, KeyPurpose.SELF_MASK, 1), 4).tobytes()

    assert bits_that_matter(mask) == 256
    assert bits_that_matter(lambda seed: KeyPair(seed).public) == 251
    assert bits_that_matter(lambda seed: mask(seed[:4] * 8)) == 32
