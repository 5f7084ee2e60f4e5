"""Seals are opened by their receiver, unchanged, in their session, and by no other."""

import pytest

from fgl_secure.crypto.keys import KeyAgreement, Sealing, Unsealing
from fgl_secure.errors import ProtocolError

SALT, CONTENT = bytes(16), b"a pseudonym and a key"
AGREEMENTS = [each for each in KeyAgreement if each is KeyAgreement.X25519 or KeyAgreement.best() is each]


def receiver(agreement: KeyAgreement, start: int) -> Unsealing:
    """A receiver with a private key of its own."""
    return Unsealing(bytes((start + at) % 256 for at in range(agreement.private_bytes)), agreement)


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("agreement", AGREEMENTS)
def test_a_seal_is_opened_by_its_receiver_alone(agreement: KeyAgreement, *, counted: bool) -> None:
    """Each of two receivers opens its own part; no part opens elsewhere, in another session, changed or cut."""
    receivers = [receiver(agreement, 1), receiver(agreement, 101)]
    sealing = Sealing([each.public for each in receivers], SALT, counted=counted)
    sealed = sealing.seal(bytes(range(32)), [CONTENT, CONTENT[::-1]])
    size = len(CONTENT) + agreement.seal_bytes
    assert len(sealed) == 2 * size
    parts = sealed[:size], sealed[size:]
    found = [one.unseal(part, SALT, counted=counted) for one, part in zip(receivers, parts, strict=True)]
    assert found == [CONTENT, CONTENT[::-1]]
    assert CONTENT not in sealed
    for place in (0, size // 2, size - 1):
        changed = bytes(byte ^ (at == place) for at, byte in enumerate(parts[0]))
        assert receivers[0].unseal(changed, SALT, counted=counted) is None
    for wrong, salt in ((parts[1], SALT), (parts[0][:-1], SALT), (b"", SALT), (parts[0], bytes([1] * 16))):
        assert receivers[0].unseal(wrong, salt, counted=counted) is None
    assert receivers[0].unseal(parts[0], SALT, counted=not counted) is None


@pytest.mark.parametrize("agreement", AGREEMENTS)
def test_keys_that_are_none_are_refused(agreement: KeyAgreement) -> None:
    """A key that is cut, lengthened or of no encoding, and a point of small order, which agrees on nothing secret."""
    public = receiver(agreement, 1).public
    for wrong in (b"", public[:20], public[:-1], public + b"\0", public[:32] + b"\xff" * (len(public) - 32) + b"\xff"):
        with pytest.raises(ProtocolError):
            Sealing([public, wrong], SALT)
    with pytest.raises(ProtocolError):
        Sealing([bytes(32) + public[32:]], SALT).seal(bytes(range(32)), [CONTENT])
