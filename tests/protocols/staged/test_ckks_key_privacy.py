"""Who comes to hold the secret key of staged sums under CKKS: its clients, by 256 bits each, nobody else.

Any one of them and the server together open every vector: the claim says so, and test_ckks.py shows it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import pytest

from fgl_secure.coins import SimulationCoins, SystemCoins
from fgl_secure.crypto.ckks import ReceiverKey
from fgl_secure.crypto.keys import KeyPair
from fgl_secure.errors import FglSecureError, ProtocolError
from fgl_secure.protocols.staged.ciphertexts.plan import SCHEME, CkksPlan
from fgl_secure.protocols.staged.ciphertexts.secrets import (
    OwnSecrets,
    group_key_from,
    sealed_bytes,
    unwrapped,
    wrapped,
)
from fgl_secure.protocols.staged.ciphertexts.server import CkksServer, Offer
from fgl_secure.protocols.staged.ciphertexts.wire import ciphertexts_from, unpadded
from fgl_secure.protocols.staged.ckks import StagedCkks
from fgl_secure.protocols.staged.envelope import SERVER, Envelope
from fgl_secure.protocols.staged.interface import Stage
from tests.protocols.staged import ciphertext_key_mutations as mutation
from tests.protocols.staged.ciphertext_key_mutations import Patch
from tests.protocols.staged.masking_mutations import signatures_are_not_checked
from tests.protocols.staged.masking_parties import identities_of
from tests.protocols.staged.rounds import Sum, terms_of, vectors_of

SCHEME_OF_THREE = StagedCkks(2)
TERMS = terms_of(SCHEME_OF_THREE, 3)
PLAN, PLAIN = CkksPlan.of(TERMS), vectors_of(3)
SECRETS = [OwnSecrets.draw(SimulationCoins(1 + u)) for u in range(3)]
"""What the three clients draw in a sum of seed 0."""
MAKER = 0
FALSE = SimulationCoins(99).uniform(256, (32,)).astype("uint8").tobytes()
"""A private key of the server's own."""


def three() -> Sum:
    """Three clients, two of whom must be left."""
    return Sum.of(SCHEME_OF_THREE, TERMS, PLAIN)


def offered(run: Sum) -> Offer:
    """Goes on to where keys are handed out: what the server then has of the maker."""
    while run.server.stage is not Stage.VECTORS:
        for u, message in run.ask():
            run.server.receive(u, run.clients[u].reply(message))
        run.server.advance()
    assert isinstance(run.server, CkksServer)
    return run.server._offers[MAKER]


def guesses(offer: Offer) -> Iterator[bytes]:
    """Group keys that a server can try: what boxes show, and the first 2^10."""
    yield from (box[:32] for box in offer.boxes.values())
    yield from (at.to_bytes(32, "little") for at in range(2**10))


def key_found(offer: Offer) -> ReceiverKey | None:
    """The secret key, if the server can get it out of what the maker sent."""
    with contextlib.suppress(FglSecureError):
        return ReceiverKey.from_secret_file(unpadded(offer.sealed, sealed_bytes(PLAN), "key file"))
    for group in guesses(offer):
        with contextlib.suppress(ProtocolError):
            return unwrapped(PLAN, MAKER, group, offer.sealed)
    return None


def test_the_server_finds_no_key() -> None:
    """Neither box nor key file shows what it holds, and no group key among the first 2^10 opens the file."""
    assert key_found(offered(three())) is None


@pytest.mark.parametrize(
    "patch",
    [mutation.secrets_of(10), mutation.boxes_in_the_clear, mutation.file_in_the_clear],
    ids=["secrets of 10 bits", "group keys in the clear", "key files in the clear"],
)
def test_a_key_that_can_be_guessed_or_read_is_found(patch: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twins: the server has the secret key, and opens with it what clients encrypt."""
    patch(monkeypatch)
    offer = offered(three())
    key = key_found(offer)
    assert key is not None
    assert key.decrypt(offer.public.encrypt(PLAIN[1]), 2).tolist() == PLAIN[1].tolist()


def openings(offer: Offer) -> set[tuple[int, int]]:
    """(reader, addressee) of each box that somebody opens: a client, or a stranger (3), under whichever name."""
    readers = [*SECRETS, OwnSecrets(FALSE, bytes(32))]
    found = set()
    for reader, secrets in enumerate(readers):
        for addressee, box in offer.boxes.items():
            for name in {reader, addressee}:
                with contextlib.suppress(ProtocolError):
                    group_key_from(PLAN, name, secrets, MAKER, SECRETS[MAKER].public, box)
                    found.add((reader, addressee))
    return found


def test_boxes_open_for_those_whom_they_are_for() -> None:
    """Each client opens its own box and no other's, and a stranger none."""
    assert openings(offered(three())) == {(1, 1), (2, 2)}


def test_a_box_for_the_wrong_client_is_found_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: boxes that open for another client are seen, and whoever is given one refuses."""
    mutation.boxes_to_the_next(monkeypatch)
    run = three()
    assert openings(offered(run)) == {(2, 1), (1, 2)}
    requests = run.server.requests()
    for u in (1, 2):
        with pytest.raises(ProtocolError, match=f"of sender {MAKER} must be sealed for {u}"):
            run.clients[u].reply(requests[u])


def sum_with(known: bool) -> Sum:
    """The same with identities (known) or without."""
    own, everybody = identities_of(3)
    run = three()
    for u in range(3):
        identity = (own[u], everybody) if known else (None, None)
        run.clients[u] = SCHEME_OF_THREE.client(TERMS, u, SimulationCoins(1 + u), *identity)
        run.clients[u].provide(PLAIN[u])
    return run


def read_with_a_false_key(run: Sum) -> list[int]:
    """A server puts its own key in the place of client 2's; the vector of client 1, as it then decrypts it."""
    for u, message in run.ask():
        run.server.receive(u, run.clients[u].reply(message))
    run.server.advance()
    ends = Envelope(SCHEME, TERMS, Stage.SHARES, SERVER, MAKER)
    who, keys, signed = ends.opened(run.server.requests()[MAKER], 3)
    lie = ends.sealed([who, keys[:64] + KeyPair(FALSE).public, signed])
    for u, message in run.ask():
        run.server.receive(u, run.clients[u].reply(lie if u == MAKER else message))
    run.server.advance()
    offer = offered(run)
    group = group_key_from(PLAN, 2, OwnSecrets(FALSE, bytes(32)), MAKER, keys[:32], offer.boxes[2])
    reply = run.clients[1].reply(run.server.requests()[1])
    (field,) = Envelope(SCHEME, TERMS, Stage.VECTORS, 1, SERVER).opened(reply, 1)
    found = unwrapped(PLAN, MAKER, group, offer.sealed).decrypt(ciphertexts_from(PLAN, field), 2)
    return [int(entry) for entry in found]


def test_a_key_in_another_s_place_is_refused_with_identities() -> None:
    """The maker seals nothing for a key that client 2 has not signed."""
    with pytest.raises(ProtocolError, match="keys of client 2 must be signed by its identity"):
        read_with_a_false_key(sum_with(known=True))


@pytest.mark.parametrize("known", [False, True], ids=["no identities", "signatures not checked"])
def test_without_signatures_the_key_goes_to_the_server(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: the group key is sealed for the server, which then opens every vector."""
    signatures_are_not_checked(monkeypatch)
    assert read_with_a_false_key(sum_with(known)) == PLAIN[1].tolist()


def bits_that_matter(made: Callable[[bytes], bytes]) -> int:
    """How many of a seed's 256 bits change what is made of it when they are flipped."""
    seed = bytes(range(32))
    flips = (
        bytes(b ^ (1 << bit) if at == i else b for at, b in enumerate(seed)) for i in range(32) for bit in range(8)
    )
    return sum(made(flipped) != made(seed) for flipped in flips)


def test_seeds_enter_whole() -> None:
    """Each of a group key's 256 bits matters, of X25519's all but the five that it fixes; the judge finds 32 of 32."""
    key = ReceiverKey.generate(PLAN.parameters)
    assert bits_that_matter(lambda group: wrapped(PLAN, MAKER, group, key)[:16]) == 256
    assert bits_that_matter(lambda sealing: KeyPair(sealing).public) == 251
    assert bits_that_matter(lambda group: wrapped(PLAN, MAKER, group[:4] * 8, key)[:16]) == 32


def independent_bits(seeds: Iterable[bytes]) -> int:
    """The dimension of the space over two elements that seeds span from the first of them."""
    first, *others = (int.from_bytes(seed) for seed in seeds)
    basis: list[int] = []
    for other in others:
        left = other ^ first
        for vector in basis:
            left = min(left, left ^ vector)
        basis.extend([left] if left else [])
    return len(basis)


def drawn_bits() -> tuple[int, int]:
    """The same of 320 draws: of private keys and of group keys."""
    coins = SystemCoins()
    drawn = [OwnSecrets.draw(coins) for _ in range(320)]
    return independent_bits(one.sealing for one in drawn), independent_bits(one.group for one in drawn)


def test_seeds_are_drawn_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws span all 256 bits of both secrets; cut to 32 bits, the judge finds 32."""
    assert drawn_bits() == (256, 256)
    mutation.secrets_of(32)(monkeypatch)
    assert drawn_bits() == (32, 32)
