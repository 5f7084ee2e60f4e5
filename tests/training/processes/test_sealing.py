"""Behind a mailbox parties read what is for them, and nothing else; the mailbox reads what is for the server."""

from collections.abc import Mapping

import numpy as np
import pytest

from fgl_secure.coins import SystemCoins
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.errors import MalformedMessageError, ProtocolError
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.runtime import Phase, Step
from fgl_secure.runtime.packing import Arrays, named_from_bytes, named_to_bytes
from fgl_secure.training.processes.process import SERVER, Inbox, Outbox, Parcel, Process, SealedParty
from fgl_secure.typing import Array
from tests.error_codes import about

SESSION = bytes(16)
SECRET = np.frombuffer(b"nobody else is to read this line", dtype=np.uint8)


class Telling(Process):
    """Tells everybody a secret in every turn, and keeps what it is told."""

    def __init__(self, number: int, parties: int) -> None:
        self._others = [other for other in range(parties) if other != number]
        self.heard: list[Inbox] = []

    def step(self, inbox: Inbox) -> Outbox:
        self.heard.append(inbox)
        return {to: [Parcel(Phase.VALUES, Step(0), (SECRET,))] for to in (*self._others, SERVER)}

    @property
    def report(self) -> dict[str, Array] | None:
        return None

    def state(self) -> dict[str, Array]:
        return {}

    def restore(self, state: Arrays) -> None:
        assert not state


AGREEMENTS = sorted({KeyAgreement.X25519, KeyAgreement.best()})


def parties(count: int = 3, *, signed: bool = False, agreement: KeyAgreement | None = None) -> list[SealedParty]:
    who = [Identity.generate(SystemCoins()) for _ in range(count)]
    known = Identities({number: identity.public for number, identity in enumerate(who)})
    ends: list[tuple[Identity | None, Identities | None]]
    ends = [(identity, known) if signed else (None, None) for identity in who]
    coins, programs = SystemCoins(), [Telling(n, count) for n in range(count)]
    return [SealedParty(n, count, programs[n], SESSION, coins, *ends[n], agreement) for n in range(count)]


def sorted_posts(posts: Mapping[int, Mapping[int, bytes]]) -> dict[int, dict[int, bytes]]:
    return {to: {sender: post[to] for sender, post in posts.items() if to in post} for to in [*posts, SERVER]}


def after(turns: int, group: list[SealedParty]) -> dict[int, dict[int, bytes]]:
    """What lies in the mailbox after so many turns, by receiver and sender."""
    inboxes: dict[int, dict[int, bytes]] = {}
    for _ in range(turns):
        posts = {number: party.turn(inboxes.get(number, {})) for number, party in enumerate(group)}
        inboxes = sorted_posts(posts)
    return inboxes


@pytest.mark.parametrize("agreement", AGREEMENTS)
@pytest.mark.parametrize("signed", [False, True])
def test_what_is_sent_arrives(signed: bool, agreement: KeyAgreement) -> None:
    """From party to party and to the server, though parties are put down and taken up from bytes after every turn."""
    group, inboxes = parties(signed=signed, agreement=agreement), dict[int, dict[int, bytes]]()
    sizes = []
    for turn in range(5):
        posts: dict[int, dict[int, bytes]] = {}
        for number, party in enumerate(group):
            fresh = SealedParty(number, 3, program := Telling(number, 3), SESSION, SystemCoins(), agreement=agreement)
            fresh._identity, fresh._identities = party._identity, party._identities
            fresh.restore(named_from_bytes(named_to_bytes(party.state())))
            posts[number], group[number] = fresh.turn(inboxes.get(number, {})), fresh
            heard = program.heard[0] if turn > 1 else {}
            told = {sender: parcels[0].arrays[0].tobytes() for sender, parcels in heard.items()}
            assert told == dict.fromkeys([to for to in range(3) if to != number and turn > 1], SECRET.tobytes())
        inboxes = sorted_posts(posts)
        sizes.append(len(posts[0][1]))
    assert sizes[0] == agreement.public_bytes + 64 * signed
    assert sizes[1] - sizes[2] == agreement.wrapped_bytes
    assert sizes[2] == sizes[3]


@pytest.mark.skipif(len(AGREEMENTS) == 1, reason="needs ML-KEM")
def test_parties_that_agree_on_keys_in_two_ways_are_refused() -> None:
    """Each refuses the other's key, and says which it asks for."""
    group = [*parties(agreement=KeyAgreement.X25519)[:1], *parties()[1:]]
    inboxes = after(1, group)
    for number in (0, 1):
        with pytest.raises(MalformedMessageError):
            group[number].turn(inboxes[number])


def test_a_first_message_without_its_secret_is_refused() -> None:
    """A wrapped secret that is changed on the way opens nothing, and what follows is not read under another key."""
    group = parties(agreement=KeyAgreement.best())
    inbox = after(2, group)[0]
    for bad in (bytes([inbox[1][0] ^ 1]) + inbox[1][1:], inbox[1][1136:] if len(AGREEMENTS) > 1 else b""):
        with pytest.raises(ProtocolError, check=about("message of party 1")):
            group[0].turn({**inbox, 1: bad})
    group[0].turn(inbox)


def test_the_mailbox_reads_what_is_for_the_server_alone() -> None:
    """The secret is in no message between parties; that the test can find it shows what goes to the server."""
    inboxes = after(2, parties())
    found = {to: any(SECRET.tobytes() in data for data in inbox.values()) for to, inbox in inboxes.items()}
    assert found == {0: False, 1: False, 2: False, SERVER: True}


def test_messages_are_good_for_one_sender_receiver_and_turn() -> None:
    """Changed, swapped, misdirected or of an earlier turn: the receiver refuses all of them, and names the sender."""
    group = parties()
    first = after(2, group)
    second = sorted_posts({n: party.turn(first[n]) for n, party in enumerate(group)})
    good = second[0]
    flipped = good[1][:-1] + bytes([good[1][-1] ^ 1])
    for bad in (flipped, good[2], second[2][1], first[0][1], b""):
        with pytest.raises(ProtocolError, check=about("message of party 1")):
            group[0].turn({**good, 1: bad})
    with pytest.raises(ProtocolError, check=about("sender")):
        group[0].turn({7: b"x"})
    group[0].turn(good)


def test_a_server_that_exchanges_keys_is_refused_where_there_are_identities() -> None:
    """It hands party 0 a key of its own for party 1's; without identities, the twin, party 0 cannot know."""
    for signed in (False, True):
        group, intruder = parties(signed=signed), parties()[1]
        inboxes = after(1, group)
        forged = {**inboxes[0], 1: intruder.turn({})[0]}
        if signed:
            with pytest.raises(ProtocolError):
                group[0].turn(forged)
        else:
            group[0].turn(forged)


@pytest.mark.parametrize("post", [{1: b"short", 2: bytes(32)}, {1: bytes(31), 2: bytes(32)}, {1: bytes(33), 2: b""}])
def test_keys_that_are_none_are_refused(post: dict[int, bytes]) -> None:
    """Too short to be a key."""
    group = parties()
    after(1, group)
    with pytest.raises(MalformedMessageError, check=about("key of party 1")):
        group[0].turn(post)


def test_keys_that_agree_with_everybody_are_refused() -> None:
    """A point of low order would share one key with all."""
    group = parties()
    inboxes = after(1, group)
    with pytest.raises(ProtocolError, check=about("other")):
        group[0].turn({**inboxes[0], 1: bytes(32) + inboxes[0][1][32:]})


def test_everybody_must_publish_a_key() -> None:
    """A party without a key could not be written to."""
    group = parties()
    inboxes = after(1, group)
    with pytest.raises(ProtocolError, check=about("all of 2 other parties")):
        group[0].turn({1: inboxes[0][1]})


def test_keys_are_not_shown() -> None:
    """A party's repr has no secret in it."""
    assert repr(parties()[0]) == "SealedParty(0, turns=0, keys=<secret>)"
