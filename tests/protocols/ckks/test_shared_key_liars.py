"""A server that lies about a sum under a CKKS key that clients share: what it gets opened, and by whom.

It has no client with it: with any one of them it opens everything, as test_shared_key.py shows.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.ckks import PREFIX, PublicKey
from fgl_secure.errors import ProtocolError, TooFewClientsError
from fgl_secure.protocols.ckks import SharedKeyCkks
from fgl_secure.protocols.ckks.shared_machines import SharedKeyClients
from fgl_secure.protocols.ckks.wire import FIELD, RING, TAGS, ciphertext_fields, ciphertexts_of, digest_of_sum, tags_of
from fgl_secure.runtime import Messages, OwnDraws, Phase, Step, decode
from tests.crypto.adders import Adder
from tests.protocols.secagg.rounds import LEADER, NOW, SESSION, Sent, Sum, changed, topology_of, vectors_of

Array = NDArray[Any]

CLIENTS, LEAST = 5, 3
PLAIN = vectors_of(CLIENTS)
TOPOLOGY = topology_of(CLIENTS)
PARTIES = [int(party) for party in TOPOLOGY.senders]
PLAN = SharedKeyCkks(LEAST).machines(TOPOLOGY, SESSION, OwnDraws(SimulationCoins(0)))[0]._plan  # type: ignore[attr-defined]
EVERYBODY = tuple(range(CLIENTS))


class Lie:
    """What the server tells one client: whose vectors are in the sum, and the sum of whose it hands out as that.

    Attributes:
        roster: as told, by place.
        terms: whose ciphertexts are added up.
        tags: whose tags are added up.
        says: how many terms the sum says that it has.
    """

    def __init__(
        self, roster: Sequence[int], terms: Sequence[int], tags: Sequence[int] | None = None, says: int | None = None
    ) -> None:
        self.roster, self.terms, self.tags = roster, terms, terms if tags is None else tags
        self.says = len(roster) if says is None else says


class Liar:
    """The server's lies, by place of the client that is told them, and what the server has to make them of."""

    def __init__(self, lies: Mapping[int, Lie]) -> None:
        self._lies, self._heard = lies, dict[int, Messages]()
        self._public: PublicKey | None = None

    def hear(self, sent: Sent) -> None:
        """Keeps the public key and every client's ciphertexts."""
        found = decode(sent.data, SESSION)
        if sent.phase is Phase.SECRET_SHARES and sent.sender == PARTIES[0]:
            self._public = PublicKey.from_bytes(found["key"][0].tobytes()[: int(found["size"][0, 0])])
        if sent.phase is Phase.CIPHERTEXTS:
            self._heard[PARTIES.index(sent.sender)] = found

    def told(self, sent: Sent) -> bytes:
        """What a client is told in place of what an honest server says."""
        lie = self._lies.get(PARTIES.index(sent.receiver))
        if lie is None or sent.phase not in (Phase.ROSTERS, Phase.UNMASKING):
            return sent.data
        ciphertexts, tags = self._made(lie)
        if sent.phase is Phase.ROSTERS:
            digest = digest_of_sum(PLAN.context(NOW), ciphertexts, tags)
            roster = np.isin(np.arange(CLIENTS), lie.roster)
            return changed(sent, roster=roster[None], digest=np.frombuffer(digest, dtype=np.uint8)[None])
        fields = ciphertext_fields([ciphertexts], 1, PLAN.count, PLAN.parameters)
        return changed(sent, tag=RING.write(tags[None]), **fields)

    def _made(self, lie: Lie) -> tuple[list[bytes], Array]:
        """Ciphertexts and tags."""
        assert self._public is not None
        (added,) = [Adder(self._public).add(ciphertexts_of(self._heard[u], 0)[0] for u in lie.terms)]
        tags = np.zeros(TAGS, dtype=np.int64)
        for u in lie.tags:
            tags = FIELD.add(tags, self._heard[u]["tag"][0].astype(np.int64))
        return [PREFIX.pack(self._public.fingerprint, lie.says) + added[PREFIX.size :]], tags


def opened(lies: Mapping[int, Lie], clients: type[SharedKeyClients] = SharedKeyClients) -> dict[int, list[int]]:
    """What clients tell the server that the sum is, by place; nothing of those that refuse."""
    run, liar, found = Sum.of(SharedKeyCkks(LEAST, clients), TOPOLOGY, PLAIN), Liar(lies), dict[int, list[int]]()
    with suppress(TooFewClientsError):  # an honest machine's word, where the liar has gone on without
        for sent in (sent for out in run.turns() for sent in out):
            if sent.sender == LEADER:
                with suppress(ProtocolError):
                    run.machines[sent.receiver].receive(decode(liar.told(sent), SESSION))
                continue
            liar.hear(sent)
            if sent.phase is Phase.UNMASKING:
                found[PARTIES.index(sent.sender)] = decode(sent.data, SESSION)["sum"][0].tolist()
            else:
                run.hand(sent)
    return found


class WithoutTags(SharedKeyClients):
    """Open whatever ciphertext enough clients were told of."""

    def _check_tags(self, at: int, total: Array, tags: Array) -> None:
        """Checks nothing."""


class WithoutVotes(SharedKeyClients):
    """Open the sum of any roster that they are told."""

    def _check_votes(self, at: int, cast: Array, votes: Array, context: Any) -> None:
        """Checks nothing."""


class WithNeither(WithoutTags, WithoutVotes):
    """Clients as they were."""


def total(*who: int) -> list[int]:
    """The sum of some vectors."""
    found: list[int] = PLAIN[list(who)].sum(axis=0).tolist()
    return found


def test_clients_open_the_sum_of_an_honest_server() -> None:
    """Without a lie everybody opens the sum of all; a roster of three is no lie where the three are told it."""
    assert opened({}) == dict.fromkeys(EVERYBODY, total(*EVERYBODY))
    three = Lie((0, 1, 2), (0, 1, 2))
    assert opened(dict.fromkeys(range(3), three)) == dict.fromkeys(range(3), total(0, 1, 2))


ONE = {
    "the sum's tags": Lie(EVERYBODY, (1,), EVERYBODY),
    "its own tags": Lie(EVERYBODY, (1,)),
    "three of them": Lie((0, 1, 2), (1,), (0, 1, 2)),
}


@pytest.mark.parametrize("name", ONE)
def test_a_single_client_s_ciphertext_is_opened_by_nobody(name: str) -> None:
    """All are given one client's ciphertext alike, which says that it has all terms: they vote for it and refuse it."""
    assert opened(dict.fromkeys(ONE[name].roster, ONE[name])) == {}


@pytest.mark.parametrize("name", ONE)
def test_without_tags_a_single_client_s_ciphertext_is_opened(name: str) -> None:
    """The broken twin: the server reads the second client's vector."""
    lies = dict.fromkeys(ONE[name].roster, ONE[name])
    assert opened(lies, WithoutTags) == dict.fromkeys(ONE[name].roster, total(1))


def test_each_client_given_another_ciphertext_opens_none() -> None:
    """A server that hands each client another one's ciphertext: no two vote alike. As clients were it reads all."""
    lies = {u: Lie(EVERYBODY, ((u + 1) % CLIENTS,), EVERYBODY) for u in EVERYBODY}
    assert opened(lies) == {}
    assert opened(lies, WithoutVotes) == {}
    assert opened(lies, WithNeither) == {u: total((u + 1) % CLIENTS) for u in EVERYBODY}


def test_two_rosters_are_not_both_opened() -> None:
    """Three clients are told that they are all, a fourth that it is in too: only the three open, and no difference."""
    lies: dict[int, Lie] = {u: Lie((0, 1, 2), (0, 1, 2)) for u in range(3)}
    lies |= {u: Lie((0, 1, 2, 3), (0, 1, 2, 3)) for u in (3,)} | {4: Lie(EVERYBODY, EVERYBODY)}
    assert opened(lies) == dict.fromkeys(range(3), total(0, 1, 2))
    found = opened(lies, WithoutVotes)
    assert (np.array(found[3]) - found[0]).tolist() == total(3)  # the broken twin


@pytest.mark.parametrize(
    "lie",
    [Lie((0, 1), (0, 1)), Lie((1, 2, 3), (1, 2, 3)), Lie(EVERYBODY, (0, 1, 2, 3)), Lie(EVERYBODY, (1, 1, 1, 1, 1))],
    ids=["too few", "without the client", "a term left out", "one term five times"],
)
def test_rosters_and_sums_that_are_none_are_refused(lie: Lie) -> None:
    """A client opens no sum of fewer than the threshold, none without itself, and none of other terms than are told."""
    assert 0 not in opened(dict.fromkeys(EVERYBODY, lie))


@pytest.mark.parametrize("says", [1, CLIENTS - 1, CLIENTS + 1])
def test_a_sum_that_says_another_number_of_terms_is_refused(says: int) -> None:
    """The right sum under the right tags: noise and range are checked for as many terms as clients agreed on."""
    assert opened(dict.fromkeys(EVERYBODY, Lie(EVERYBODY, EVERYBODY, says=says))) == {}


def test_tags_are_of_their_vectors() -> None:
    """Tags of vectors add up to that of their sum, and change with every entry, client, key, maker and sum."""
    context, group = PLAN.context(NOW), bytes(range(32))
    draw = np.random.default_rng().integers(-(2**45), 2**45, (3, 2**17 + 5))
    each = [tags_of(context, 1, group, [u], row) for u, row in enumerate(draw)]
    together = tags_of(context, 1, group, [0, 1, 2], draw.sum(axis=0))
    assert FIELD.add(FIELD.add(each[0], each[1]), each[2]).tolist() == together.tolist()
    other = draw[0].copy()
    other[-1] += 1
    changed_ones = [
        tags_of(context, 1, group, [0], other), tags_of(context, 1, group, [1], draw[0]),
        tags_of(context, 1, bytes(32), [0], draw[0]), tags_of(context, 2, group, [0], draw[0]),
        tags_of(PLAN.context(Step(9)), 1, group, [0], draw[0]),
    ]  # fmt: skip
    assert all((one != each[0]).all() for one in changed_ones)
    assert len(set(each[0].tolist())) == TAGS


def test_a_tag_is_the_product_that_its_definition_says() -> None:
    """Against integers of any size: the difference of two tags is <k, x - y>, linear in x - y."""
    context, group, own = PLAN.context(NOW), bytes(range(32)), [0]
    unit = np.eye(3, dtype=np.int64)
    zero = tags_of(context, 1, group, own, np.zeros(3, dtype=np.int64)).astype(object)
    k = [tags_of(context, 1, group, own, unit[j]).astype(object) - zero for j in range(3)]
    x = np.array([-(2**50), 3, 2**50 + 1])
    expected = (sum(int(x[j]) * k[j] for j in range(3)) + zero) % FIELD.modulus
    assert tags_of(context, 1, group, own, x).tolist() == expected.tolist()
