"""Agreed keys: the curve of RFC 7748, the derivation of RFC 5869, and what is refused."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.crypto.keys import KeyPair
from fgl_secure.errors import InputError, ProtocolError

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


def test_the_derivation_is_that_of_the_standard() -> None:
    """The independent path gives the output of RFC 5869's first test case, up to 32 bytes."""
    found = derived(bytes([11] * 22), bytes(range(13)), bytes(range(0xF0, 0xFA)))
    assert found.hex() == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"


@given(keys, keys, st.binary(max_size=40), st.binary(max_size=80))
def test_both_sides_agree_and_nobody_else_does(one: bytes, other: bytes, session: bytes, context: bytes) -> None:
    """Two parties derive one key of 32 bytes; another session or context gives another."""
    a, b = KeyPair(one), KeyPair(other)
    key = a.agree(b.public, session=session, context=context)
    assert key == b.agree(a.public, session=session, context=context)
    assert len(key) == 32
    assert key != a.agree(b.public, session=session + b"x", context=context)
    assert key != a.agree(b.public, session=session, context=context + b"x")


LOW_ORDER = (
    bytes(32),
    bytes([1, *bytes(31)]),
    bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    bytes.fromhex("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
)


@pytest.mark.parametrize("point", LOW_ORDER)
def test_points_of_low_order_are_refused(point: bytes) -> None:
    """With 0, 1, p - 1 or p everybody would share the key of zero."""
    with pytest.raises(ProtocolError, match="other must not be a public key of low order"):
        KeyPair(SCALAR).agree(point, session=b"", context=b"")


@pytest.mark.parametrize("size", [0, 31, 33])
def test_keys_of_another_length_are_refused(size: int) -> None:
    """Private and public keys have 32 bytes; the message says how many were found and nothing of the key."""
    with pytest.raises(InputError, match=f"private must have 32 bytes; found {size}"):
        KeyPair(bytes(size))
    with pytest.raises(InputError, match=f"other must have 32 bytes; found {size}"):
        KeyPair(SCALAR).agree(bytes(size), session=b"", context=b"")


def test_a_pair_shows_its_public_key_alone() -> None:
    """The printed pair has the public key and not the private one."""
    shown = repr(KeyPair(SCALAR))
    assert KeyPair(SCALAR).public.hex() in shown
    assert SCALAR.hex() not in shown
