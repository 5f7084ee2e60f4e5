"""Clients know each other by Ed25519 keys, and a key shows its private half to nobody."""

import json
from dataclasses import FrozenInstanceError

import pytest

from fgl_secure.coins import SimulationCoins, TapeCoins
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.identity import Identities, Identity, Names
from tests.error_codes import about

RFC_8032_TEST_2 = json.loads("""{
    "private": "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
    "public": "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
    "message": "72",
    "signature": "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
}""")  # noqa: E501  # RFC 8032, section 7.1, test 2


def test_signatures_are_those_of_rfc_8032() -> None:
    """A known key makes the known public key and the known signature."""
    case = {name: bytes.fromhex(value) for name, value in RFC_8032_TEST_2.items()}
    identity = Identity(case["private"])
    assert identity.public == case["public"]
    assert identity.sign(case["message"]) == case["signature"]
    Identities({3: case["public"]}).check(3, case["message"], case["signature"])


def test_only_its_owner_signs_for_a_client() -> None:
    """Another message, another signer, a changed or cut signature, or a client that is not known: refused."""
    own, other = (Identity.generate(SimulationCoins(seed)) for seed in (0, 1))
    known = Identities({0: own.public, 1: other.public})
    good = own.sign(b"keys")
    known.check(0, b"keys", good)
    wrong = [
        (0, b"key", good),
        (0, b"keys", other.sign(b"keys")),
        (1, b"keys", good),
        (0, b"keys", bytes([good[0] ^ 1]) + good[1:]),
        (0, b"keys", good[:-1]),
        (0, b"keys", b""),
        (0, b"keys", bytes(64)),
    ]
    for client, message, signature in wrong:
        with pytest.raises(ProtocolError, check=about(f"keys of client {client}")):
            known.check(client, message, signature)
    with pytest.raises(ProtocolError, check=about("client")):
        known.check(2, b"keys", good)


def test_identities_are_drawn_from_coins() -> None:
    """Equal coins make equal identities, other coins other ones; several tapes at once make none."""
    first, again, other = (Identity.generate(SimulationCoins(seed)).public for seed in (0, 0, 1))
    assert first == again != other
    with pytest.raises(InputError, check=about("coins")):
        Identity.generate(TapeCoins(256, 1))


def test_an_identity_comes_back_from_its_bytes() -> None:
    """The private bytes make the same identity; any other number of bytes raises."""
    identity = Identity.generate(SimulationCoins(4))
    assert Identity(identity.private_bytes()).public == identity.public
    for size in (0, 31, 33):
        with pytest.raises(InputError, check=about("private")):
            Identity(bytes(size))


def test_what_is_printed_is_public() -> None:
    """The repr has the public key and not the private one."""
    identity = Identity.generate(SimulationCoins(4))
    assert identity.public.hex() in repr(identity)
    assert identity.private_bytes().hex() not in repr(identity)
    assert repr(identity.private_bytes())[2:-1] not in repr(identity)


def test_known_identities_have_32_bytes() -> None:
    """Others raise when they are listed; a list stays as it is."""
    for public in ({0: bytes(31)}, {0: bytes(32), 1: b""}, {-1: bytes(32)}):
        with pytest.raises(InputError, check=about("identities")):
            Identities(public)
    with pytest.raises(FrozenInstanceError):
        Identities({}).public = {}  # type: ignore[misc]


def test_a_client_signs_with_the_identity_that_others_know() -> None:
    """Another one, or one that nobody knows, raises."""
    own, other = (Identity.generate(SimulationCoins(seed)) for seed in (0, 1))
    for place, identity in ((0, other), (7, own)):
        with pytest.raises(InputError):
            Names({place: identity}, Identities({0: own.public, 1: other.public}))
