"""Who comes to hold the secret key that clients share: its clients, by 256 bits each, nobody else.

Any one of them and the server together open every vector: the claim says so, and test_shared_key.py shows it.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest

from fgl_secure.coins import Coins, SimulationCoins, SystemCoins
from fgl_secure.crypto.ckks import PublicKey, ReceiverKey
from fgl_secure.crypto.cryptography import Cryptography, KeyPurpose
from fgl_secure.crypto.keys import KeyPair
from fgl_secure.crypto.streams import KEY_BYTES
from fgl_secure.errors import FglSecureError, ProtocolError
from fgl_secure.protocols.ckks import SharedKeyCkks
from fgl_secure.protocols.ckks.scheme import BYTES
from fgl_secure.protocols.ckks.shared_machines import SharedKeyClients
from fgl_secure.protocols.ckks.wire import ciphertexts_of, unwrap_key
from fgl_secure.runtime import Messages, OwnDraws, Phase, decode
from tests.error_codes import about
from tests.protocols.ckks import flaws
from tests.protocols.secagg.rounds import LEADER, NOW, SESSION, Sent, Sum, changed, topology_of, vectors_of

TOPOLOGY, PLAIN = topology_of(3), vectors_of(3)
PARTIES = [int(party) for party in TOPOLOGY.senders]
MAKER = PARTIES[0]
PLAN = SharedKeyCkks(2).machines(TOPOLOGY, SESSION, OwnDraws(SimulationCoins(0)))[1]._plan  # type: ignore[attr-defined]
CONTEXT = PLAN.context(NOW)
CRYPTO = Cryptography(OwnDraws(SimulationCoins(0)), BYTES)
FALSE = bytes(range(7, 39))
"""A private key of the server's own."""


def three(clients: type[SharedKeyClients] = SharedKeyClients, *, known: bool = False) -> Sum:
    """Three clients, two of whom must be left."""
    return Sum.of(SharedKeyCkks(2, clients), TOPOLOGY, PLAIN, known=known)


def secrets_of(run: Sum) -> dict[int, tuple[bytes, bytes]]:
    """Private key and group key that each client drew."""
    drawn = {party: run.machines[party].state()["secrets"][0] for party in PARTIES}
    return {party: (rows[0].tobytes(), rows[1].tobytes()) for party, rows in drawn.items()}


def offer_of(run: Sum) -> Messages:
    """What the maker of the key sends: played until then."""
    for out in run.turns():
        for sent in out:
            if sent.phase is Phase.SECRET_SHARES and sent.sender == MAKER:
                return decode(sent.data, SESSION)
            run.hand(sent)
    raise AssertionError


def guesses(offer: Messages) -> Iterator[bytes]:
    """Group keys that a server can try: what boxes show, and the first 2^10."""
    yield from (box[:KEY_BYTES].tobytes() for box in offer["boxes"][0])
    yield from (at.to_bytes(KEY_BYTES, "little") for at in range(2**10))


def key_found(offer: Messages) -> ReceiverKey | None:
    """The secret key, if the server can get it out of what the maker sent."""
    sealed = offer["file"][0].tobytes()
    with contextlib.suppress(FglSecureError):
        return ReceiverKey.from_secret_file(sealed[4:][: int.from_bytes(sealed[:4])])
    for group in guesses(offer):
        with contextlib.suppress(ProtocolError):
            return unwrap_key(PLAN, CONTEXT, MAKER, group, sealed)
    return None


def public_of(offer: Messages) -> PublicKey:
    """The key to encrypt with."""
    return PublicKey.from_bytes(offer["key"][0].tobytes()[: int(offer["size"][0, 0])])


def test_the_server_finds_no_key() -> None:
    """Neither box nor key file shows what it holds, and no group key among the first 2^10 opens the file."""
    assert key_found(offer_of(three())) is None


def of_few_bits() -> Sum:
    """Clients whose secrets are of ten bits."""
    run = three()
    for party in PARTIES:
        draws = OwnDraws(flaws.FewBits(SimulationCoins(1 + party), 10))
        (run.machines[party],) = SharedKeyCkks(2).machines(TOPOLOGY, SESSION, draws, np.array([party]))
    run.begin(PLAIN)
    return run


@pytest.mark.parametrize(
    "make",
    [of_few_bits, lambda: three(flaws.BoxesInTheClear), lambda: three(flaws.FileInTheClear)],
    ids=["secrets of 10 bits", "group keys in the clear", "key files in the clear"],
)
def test_a_key_that_can_be_guessed_or_read_is_found(make: Callable[[], Sum]) -> None:
    """The broken twins: the server has the secret key, and opens with it what clients encrypt."""
    offer = offer_of(make())
    key = key_found(offer)
    assert key is not None
    assert key.decrypt(public_of(offer).encrypt(PLAIN[1]), 2).tolist() == PLAIN[1].tolist()


def openings(run: Sum) -> set[tuple[int, int]]:
    """(reader, addressee) of each box that somebody opens: a client, or a stranger (-1), under whichever name."""
    secrets = {**{party: sealing for party, (sealing, _) in secrets_of(run).items()}, -1: FALSE}
    maker, offer, found = CRYPTO.public(secrets[MAKER]), offer_of(run), set()
    for reader, sealing in secrets.items():
        for addressee, box in zip(PARTIES, offer["boxes"][0], strict=True):
            for name in {reader, addressee} - {-1}:
                key = CRYPTO.agree(sealing, CONTEXT, KeyPurpose.PAIR, name, {MAKER: maker})[MAKER]
                with contextlib.suppress(ProtocolError):
                    CRYPTO.unseal(key, CONTEXT, MAKER, name, box.tobytes(), KEY_BYTES)
                    found.add((reader, addressee))
    return found


def test_boxes_open_for_those_whom_they_are_for() -> None:
    """Each client opens its own box and no other's, and a stranger none."""
    assert openings(three()) == {(PARTIES[1], PARTIES[1]), (PARTIES[2], PARTIES[2])}


def test_a_box_for_the_wrong_client_is_found_and_refused() -> None:
    """The broken twin: boxes that open for another client are seen, and whoever is given one refuses."""
    assert openings(three(flaws.BoxesToTheNext)) == {(PARTIES[2], PARTIES[1]), (PARTIES[1], PARTIES[2])}
    with pytest.raises(ProtocolError, check=about(f"a box of party {MAKER}")):
        three(flaws.BoxesToTheNext).play()


def read_with_a_false_key(run: Sum) -> list[int]:
    """A server puts its own key in the place of the last client's; the second's vector, as it then decrypts it."""
    last, seen = PARTIES[2], dict[str, Messages]()

    def lie(sent: Sent) -> bytes:
        found = decode(sent.data, SESSION)
        keys = found["sealing"].copy()
        keys[0, 2] = np.frombuffer(KeyPair(FALSE).public, dtype=np.uint8)
        return changed(sent, sealing=keys)

    for out in run.turns():
        for sent in out:
            told = sent.phase is Phase.KEYS and sent.sender == LEADER
            data = lie(sent) if told and sent.receiver == MAKER else sent.data
            if sent.sender == MAKER and sent.phase is Phase.SECRET_SHARES:
                seen["offer"] = decode(sent.data, SESSION)
            if sent.sender == MAKER and sent.phase is Phase.KEYS:
                seen["key"] = decode(sent.data, SESSION)
            if sent.sender == PARTIES[1] and sent.phase is Phase.CIPHERTEXTS:
                public = seen["key"]["sealing"][0].tobytes()
                pair = CRYPTO.agree(FALSE, CONTEXT, KeyPurpose.PAIR, last, {MAKER: public})[MAKER]
                box = seen["offer"]["boxes"][0, 2].tobytes()
                group = CRYPTO.unseal(pair, CONTEXT, MAKER, last, box, KEY_BYTES).astype(np.uint8).tobytes()
                key = unwrap_key(PLAN, CONTEXT, MAKER, group, seen["offer"]["file"][0].tobytes())
                return [int(x) for x in key.decrypt(ciphertexts_of(decode(sent.data, SESSION), 0), 2)]
            if sent.receiver == last and sent.phase is Phase.SECRET_SHARES:
                continue  # it would find that the box is not for it
            run.machines[sent.receiver].receive(decode(data, SESSION))
    raise AssertionError


def test_a_key_in_another_s_place_is_refused_with_identities() -> None:
    """The maker seals nothing for a key that the last client has not signed."""
    with pytest.raises(ProtocolError, check=about("keys of client 2")):
        read_with_a_false_key(three(known=True))


def test_without_signatures_the_key_goes_to_the_server() -> None:
    """The broken twin: the group key is sealed for the server, which then opens every vector."""
    assert read_with_a_false_key(three()) == PLAIN[1].tolist()


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


def drawn_bits(coins: Coins) -> tuple[int, ...]:
    """The same of 320 draws: of private keys and of group keys."""
    fresh = Cryptography(OwnDraws(coins), BYTES).fresh(np.arange(320), 2, NOW)
    return tuple(independent_bits(row.tobytes() for row in fresh[:, kind]) for kind in range(2))


def test_seeds_are_drawn_whole() -> None:
    """Draws span all 256 bits of both secrets; cut to 32 bits, the judge finds 32."""
    assert drawn_bits(SystemCoins()) == (256, 256)
    assert drawn_bits(flaws.FewBits(SystemCoins(), 32)) == (32, 32)
