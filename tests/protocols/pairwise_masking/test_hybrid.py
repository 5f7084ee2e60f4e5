"""Recorded sums whose keys are broken later: with one of X25519 and ML-KEM alone nobody opens a vector."""

from typing import Any

import numpy as np
import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from fgl_secure.crypto.cryptography import KeyPurpose, Mask
from fgl_secure.crypto.keys import CIPHERTEXT_BYTES, KeyAgreement, Offer, wrap
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.pairwise_masking.drawing import MASK
from fgl_secure.protocols.secagg.clients import SEALING
from fgl_secure.protocols.secagg.terms import Stage
from fgl_secure.runtime import decode
from tests.error_codes import about
from tests.protocols.pairwise_masking.test_keys import listing, true_keys
from tests.protocols.pairwise_masking.wire import EVERYBODY, TARGET, Wire, plain, total_of
from tests.protocols.secagg.rounds import LEADER, SESSION, changed, topology_of

Bytes = NDArray[np.uint8]

HYBRID, ALONE = KeyAgreement.HYBRID, KeyAgreement.X25519
CURVE, LATTICE = "x25519", "ml-kem"
pytestmark = pytest.mark.skipif(KeyAgreement.best() is ALONE, reason="needs ML-KEM")


class Record:
    """All that passed in a sum, and the private keys that somebody finds out later.

    Args:
        keys: how clients agreed.
        broken: which of the two assumptions do not hold: private keys of those kinds are known.
    """

    def __init__(self, keys: KeyAgreement, broken: frozenset[str]) -> None:
        self.wire, self.broken = Wire(4, keys=keys), broken
        drawn = {u: self.wire.client(u)._secrets[0] for u in EVERYBODY}
        self.seeds = {(u, kind): drawn[u][kind].tobytes() for u in EVERYBODY for kind in (SEALING, MASK)}
        self.wire.until(Stage.AGREEMENT)

    def key(self, purpose: KeyPurpose, kind: int, ends: tuple[int, int], wrapped: bytes) -> bytes:
        """The key of a pair as far as what is known determines it, by the description of the protocol alone.

        Args:
            purpose: of the key.
            kind: of the key pairs.
            ends: who wrapped something, if there is anything, and for whom.
            wrapped: that.

        Raises:
            InvalidTag: it does not open.
        """
        (mine, other), wire = (Offer.of_seed(self.seeds[u, kind], wire_keys(self.wire)) for u in ends), self.wire
        curve = lattice = said = b""
        if CURVE in self.broken:
            curve = mine._pair._private.exchange(X25519PublicKey.from_public_bytes(other.public[:32]))
        names = sorted(u + 1 for u in ends)
        info = wire.context.info(purpose, *names) + b"".join(sorted((mine.public, other.public)))
        if LATTICE in self.broken and wrapped:
            lattice = MLKEM768PrivateKey.from_seed_bytes(other._seed).decapsulate(wrapped[:CIPHERTEXT_BYTES])
            opener = AESGCM(derived(curve + lattice, wire.context.session, info + b"wrap"))
            said = opener.decrypt(bytes(12), wrapped[CIPHERTEXT_BYTES:], None)
        return derived(curve + said, wire.context.session, info)

    def vector(self) -> list[int] | None:
        """The target's vector: its seed from shares that were sealed for its neighbours, and its pairs' masks."""
        wire, shares, masks = self.wire, {}, dict[int, Mask]()
        size, near = wire.crypto.wrapped_bytes, wire.circles.neighbours[TARGET].tolist()
        try:
            for j, v in enumerate(near):
                box = wire.said[Stage.SHARES][TARGET]["boxes"][j].tobytes()
                key = self.key(KeyPurpose.PAIR, SEALING, (TARGET, v), box[:size])
                opened = wire.crypto.unseal(key, wire.context, TARGET + 1, v + 1, box[size:], 2 * wire.plan.words)
                shares[v], masks[j] = opened[: wire.plan.words], self.mask(j, v)
        except (InvalidTag, ProtocolError):
            return None
        return wire.unmasked(TARGET, masks, wire.secret(shares))

    def mask(self, j: int, v: int) -> bytes:
        """The key of the mask with a neighbour."""
        circles, leads = self.wire.circles, self.wire.circles.initiates[TARGET, j]
        ends = (TARGET, v) if leads else (v, TARGET)
        wrapped = self.wire.wrapped(ends[0], j if leads else int(circles.reverse_index[TARGET, j]))
        return self.key(KeyPurpose.PAIR_MASK, MASK, ends, wrapped or b"")


def wire_keys(wire: Wire) -> KeyAgreement:
    """How its clients agree."""
    return wire.scheme.keys


def derived(secret: bytes, session: bytes, info: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869)."""
    return HKDF(algorithm=SHA256(), length=32, salt=session, info=info).derive(secret)


@pytest.mark.parametrize("broken", [{CURVE}, {LATTICE}, set()], ids=["x25519", "ml-kem", "neither"])
def test_a_recorded_sum_stays_closed_to_who_breaks_one_of_the_two(broken: set[str]) -> None:
    """Neither shares nor the keys of pair masks are found with the private keys of one kind alone."""
    record = Record(HYBRID, frozenset(broken))
    assert record.vector() is None
    for j, v in enumerate(record.wire.circles.neighbours[TARGET].tolist()):
        try:
            found = record.mask(j, v)
        except InvalidTag:
            continue
        assert found != Record(HYBRID, frozenset({CURVE, LATTICE})).mask(j, v)


@pytest.mark.parametrize(("keys", "broken"), [(HYBRID, {CURVE, LATTICE}), (ALONE, {CURVE})], ids=["hybrid", "alone"])
def test_a_recorded_sum_opens_to_who_breaks_all_that_it_rests_on(keys: KeyAgreement, broken: set[str]) -> None:
    """The broken twin, X25519 alone, and the control: the same attack opens the vector."""
    assert Record(keys, frozenset(broken)).vector() == plain()[TARGET].tolist()


def test_what_is_wrapped_follows_from_the_seed_that_is_shared() -> None:
    """So the server that opens the seed knows it: the same whenever it is asked for, and another for all else."""
    wire = Wire(4)
    crypto, context = wire.crypto, wire.plan.context(wire.run.step)
    made = {
        crypto._wrapped_secret(bytes([seed]) * 32, context, purpose, own, other)
        for _ in range(2)
        for seed in (1, 2)
        for purpose in (KeyPurpose.PAIR, KeyPurpose.PAIR_MASK)
        for own, other in ((1, 2), (2, 1), (1, 3))
    }
    assert len(made) == 12


def test_every_pair_has_one_that_leads() -> None:
    """On rings and on complete graphs, and nobody leads or follows more than half of its neighbours, rounded up."""
    for n, degree in ((2, None), (3, None), (4, None), (7, None), (8, None), (9, 4), (10, 6), (10, 8)):
        plan = PairwiseMasking(n // 2 + 1, degree=degree).plan_for(topology_of(n), SESSION)
        circles = plan.circles(Wire(4).run.step, bytes(32))
        for u in range(n):
            assert max(circles.initiates[u].sum(), (~circles.initiates[u]).sum()) <= plan.max_initiated
            assert (circles.initiates[u] != circles.initiates[circles.neighbours[u], circles.reverse_index[u]]).all()


def put_in_its_place(wire: Wire, u: int) -> dict[str, Bytes]:
    """What a client hears, where the server wraps a secret of its own in the place of each leader's."""
    public = true_keys(wire, u)[1]
    made = np.frombuffer(wrap(public, bytes(32)), dtype=np.uint8)
    return {"wrapped": np.stack([made] * wire.plan.max_initiated)}


def test_nobody_can_wrap_in_another_s_name() -> None:
    """A server that puts its own secret, or a changed one, in the place of a leader's is refused; the true one is not.

    It could else wait for X25519 to be broken, knowing all that was wrapped.
    """
    wire = Wire(4)
    wire.until(Stage.VECTORS)
    leads = {u: wire.circles.neighbours[u][~wire.circles.initiates[u]].tolist() for u in EVERYBODY}
    for lies in (put_in_its_place, swapped, cut_short):
        refused = wire.refused(lambda u, lies=lies: lies(wire, u))  # type: ignore[misc]
        assert set(refused) == set(EVERYBODY)
        for u, why in refused.items():
            assert any(f"what party {v + 1} sends must agree with party {u + 1}" in why for v in leads[u])
    assert wire.rest() == total_of(EVERYBODY)


def swapped(wire: Wire, u: int) -> dict[str, Any]:
    """What one leader wrapped in the place of another's."""
    return {"wrapped": decode(wire.requests[u].data, SESSION)["wrapped"][0][::-1]}


def cut_short(wire: Wire, u: int) -> dict[str, Any]:
    """What was wrapped with one bit changed in its ciphertext."""
    wrapped = decode(wire.requests[u].data, SESSION)["wrapped"][0].copy()
    wrapped[:, 7] ^= 1
    return {"wrapped": wrapped}


def test_a_vote_without_a_key_does_not_count() -> None:
    """Where nothing opened of what a client wrapped for another, a server that votes in its name is not believed."""
    wire = Wire(4)
    wire.until(Stage.VECTORS)
    boxes = decode(wire.requests[0].data, SESSION)["boxes"][0].copy()
    boxes[0, 0] ^= 1  # of client 1
    wire.ask(0, boxes=boxes)
    client, voter = wire.client(0), (2, 1)
    digest, nothing = bytes(32), bytes(32)
    forged = wire.crypto.vote(nothing, wire.context, *voter, digest)
    assert not client._pairs.is_vote(0, 0, wire.context, voter, digest, forged)
    assert client.state()["hears"][0, 1:].any(axis=1).all()


@pytest.mark.parametrize("at", [0, 1], ids=["sealing", "mask"])
def test_what_is_no_key_of_ml_kem_is_refused_on_both_sides(at: int) -> None:
    """Coefficients beyond the modulus of FIPS 203: a client that hears them and the server refuse."""
    wire = Wire(4)
    wire.until(Stage.SHARES)
    for v in (1, 2, 3, 4):
        false = list(true_keys(wire, v))
        false[at] = false[at][:32] + b"\xff" * (len(false[at]) - 32)
        with pytest.raises(ProtocolError):
            wire.ask(0, **listing(wire, 0, **{f"c{v}": tuple(false)}))
    fresh = Wire(4)
    (sent,) = [one for one in next(fresh.run.turns()) if one.sender == 2]  # client 1
    name = ("sealing", "mask")[at]
    bad = decode(sent.data, SESSION)[name].copy()
    bad[:, 32:] = 255
    with pytest.raises(ProtocolError, check=about("keys")):
        fresh.run.machines[LEADER].receive(decode(changed(sent, **{name: bad}), SESSION))
    assert wire.rest() == total_of(EVERYBODY)
