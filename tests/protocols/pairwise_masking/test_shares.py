"""Shares that go astray, are wrong, or are of another sum; masks that are made once and forgotten in time."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgl_secure.algebra import PrimeField
from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.cryptography import Cryptography, Elements, Mask, seed_of, words_of
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.crypto.streams import ModularRing
from fgl_secure.errors import ProtocolError, TooFewClientsError, TooManyErrors
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.pairwise_masking.clients import MaskingClients
from fgl_secure.protocols.pairwise_masking.drawing import MASK, SELF, SHARES
from fgl_secure.protocols.pairwise_masking.plan import SecretSharing
from fgl_secure.protocols.secagg.clients import SEALING
from fgl_secure.protocols.secagg.terms import USUAL, Stage
from fgl_secure.runtime import OwnDraws, Phase, Step, decode, simulate
from tests.error_codes import about
from tests.protocols.pairwise_masking import flaws
from tests.protocols.pairwise_masking.wire import EVERYBODY, LENGTH, TARGET, Wire, asking, plain, total_of
from tests.protocols.secagg.rounds import LEADER, NOW, SESSION, Sent, Sum, changed, topology_of, vectors_of
from tests.protocols.secagg.sums import channel_of


def test_shares_for_somebody_else_do_not_open() -> None:
    """A client that is sent what was sealed for others, or by others, refuses; with the right ones it goes on."""
    wire = Wire(4)
    wire.until(Stage.VECTORS)
    boxes = decode(wire.requests[0].data, SESSION)["boxes"][0]
    others = decode(wire.requests[1].data, SESSION)["boxes"][0]
    for wrong in (others, boxes[::-1]):
        with pytest.raises(ProtocolError, check=about("at least 4 clients")):
            wire.ask(0, boxes=wrong)
    assert wire.rest() == total_of(EVERYBODY)


@pytest.mark.parametrize(
    ("keys", "at"), [(KeyAgreement.X25519, 0), (KeyAgreement.best(), -1), (KeyAgreement.best(), 0)]
)
def test_a_share_that_does_not_open_is_not_handed_in(keys: KeyAgreement, at: int) -> None:
    """One bad box of four leaves enough: the client goes on, opens the shares it has, and says whose is bad.

    Where what was wrapped in front of it is bad, the client knows no key by which to tell that one's vote either.
    """
    wire = Wire(4, keys=keys)
    wire.until(Stage.VECTORS)
    boxes = decode(wire.requests[0].data, SESSION)["boxes"].copy()
    boxes[0, 0, at] ^= 1
    sent = wire.requests[0]
    wire.requests[0] = Sent(sent.sender, sent.receiver, sent.phase, changed(sent, boxes=boxes))
    assert wire.rest() == total_of(EVERYBODY)
    assert wire.said[Stage.OPENING][0]["given"].tolist() == [True, False, True, True, True]
    hears = at == -1 or keys is KeyAgreement.X25519
    assert [remark.party for remark in wire.client(0).remarks] == [2] * (1 if hears else 2)


def with_wrong_share(run: Sum) -> Sum:
    """Plays a sum in which the fourth client hands in a share that is not what it was given."""
    for out in run.turns():
        for sent in out:
            if sent.phase is Phase.UNMASKING and sent.sender == 4:  # that client
                shares = decode(sent.data, SESSION)["shares"].copy()
                shares[0, 0] ^= 1
                run.machines[LEADER].receive(decode(changed(sent, shares=shares), SESSION))
            else:
                run.hand(sent)
    return run


def test_wrong_shares_are_corrected_or_noticed() -> None:
    """With three needed of five one wrong answer changes nothing; with four needed it stops the sum."""
    assert with_wrong_share(Wire(3).run).result == total_of(EVERYBODY)
    with pytest.raises(TooManyErrors):
        with_wrong_share(Wire(4).run)


def test_shares_that_nobody_asked_for_are_refused() -> None:
    """A client hands in shares of its circle alone, and of those that are asked about."""
    wire = Wire(3)
    run = wire.run
    for out in run.turns():
        for sent in out:
            if sent.phase is Phase.SECRET_SHARES and sent.sender == 5:  # the last never shares
                continue
            if sent.phase is Phase.UNMASKING and sent.receiver == LEADER:
                with pytest.raises(ProtocolError, check=about("owners of shares")):
                    run.server.receive(decode(changed(sent, given=np.ones((1, 5), dtype=np.bool_)), SESSION))
            run.hand(sent)
    assert run.result == total_of(range(4))


def difference_of(first: Wire, second: Wire) -> list[int]:
    """Of the target's masked vectors in two sums."""
    p = first.scheme.modulus
    values = ((first.vector(TARGET) - second.vector(TARGET)) % p).tolist()
    return [value - p if value > p // 2 else value for value in values]


def two_sums(first: Step, second: Step, seeds: tuple[int, int]) -> tuple[Wire, Wire]:
    """Two sums with other vectors of the target."""
    found = []
    for step, entry, seed in ((first, 5, seeds[0]), (second, 12, seeds[1])):
        rows = plain()
        rows[TARGET] = entry
        found.append(Wire(4, step=step, seed=seed, rows=rows))
        found[-1].until(Stage.AGREEMENT)
    return found[0], found[1]


def test_two_sums_have_two_masks() -> None:
    """The difference of a client's masked vectors in two sums is not that of its vectors."""
    assert difference_of(*two_sums(NOW, Step(9), (0, 100))) != [-7] * LENGTH
    assert difference_of(*two_sums(NOW, Step(9), (0, 0))) != [-7] * LENGTH


def test_the_same_coins_in_a_sum_of_the_same_name_give_it_away() -> None:
    """The broken twin: keys drawn alike for two sums of one step make the same mask, and the difference is open."""
    assert difference_of(*two_sums(NOW, NOW, (0, 0))) == [-7] * LENGTH


def test_replays_from_another_sum_are_worth_nothing_under_a_new_head() -> None:
    """Votes and sealed shares of one sum with the head of another are refused: they are not of its keys and step."""
    first, second = Wire(4), Wire(4, step=Step(9))
    for wire in (first, second):
        wire.until(Stage.VECTORS)
    old = decode(first.requests[0].data, SESSION)["boxes"][0]
    with pytest.raises(ProtocolError, check=about("shares of at least 4 clients")):
        second.ask(0, boxes=old)
    for wire in (first, second):
        for sent in wire.requests.values():
            wire.run.hand(sent)
        wire.until(Stage.OPENING)
    with pytest.raises(ProtocolError, check=about("a roster")):
        second.ask(0, votes=decode(first.requests[0].data, SESSION)["votes"][0])
    assert second.rest() == total_of(EVERYBODY)


def parting(wire: Wire, stage: Stage) -> tuple[int, int, int]:
    """Two clients without whom a third between them has no neighbour, and that one.

    The ring is drawn from the keys that are published: without those of the two, if they say nothing at all.
    """
    for pair in itertools.combinations(range(9), 2):
        order = wire.order(*(pair if stage is Stage.KEYS else ()))
        for place in range(9):
            if {order[place - 1], order[(place + 1) % 9]} == set(pair):
                return *pair, order[place]
    raise AssertionError


def ring_sum(threshold: int, stage: Stage) -> tuple[Sum, tuple[int, int, int]]:
    """Nine clients with two neighbours each, two of them silent from a stage on; and they, and who is between them."""
    wire = Wire(threshold, 9, degree=2)
    found = parting(wire, stage)
    return wire.run.play(dict.fromkeys(found[:2], stage)), found


def test_too_few_shares_of_one_secret_are_named() -> None:
    """On a ring a client whose neighbours are gone cannot be unmasked, though there are clients enough: it is named."""
    with pytest.raises(TooFewClientsError):
        ring_sum(5, Stage.OPENING)


@pytest.mark.parametrize("stage", [Stage.KEYS, Stage.SHARES])
def test_a_client_without_neighbours_is_left_out(stage: Stage) -> None:
    """On a ring whoever is between two that fell silent takes no part; if then too few are left, the sum stops."""
    with pytest.raises(TooFewClientsError, check=about("at least threshold = 7 of 9 clients")):
        ring_sum(7, stage)
    run, out = ring_sum(6, stage)
    kept = sorted(set(range(9)) - set(out))
    assert run.included == kept
    assert run.result == total_of(kept, 9)


def test_a_sum_of_what_cannot_be_is_noticed() -> None:
    """A vector whose masks do not cancel leaves a sum beyond all bounds, which raises in place of being returned."""
    for flaw in (flaws.WrongSign, flaws.MaskAddedTwice):
        with pytest.raises(ProtocolError, check=about("sum of 5 vectors")):
            Wire(4, clients=flaw).run.play()


def late_vector(clients: type[MaskingClients]) -> list[int]:
    """What a server makes of a vector that came too late for the sum: the mask key of its sender is opened to it."""
    wire = Wire(4, clients=clients)
    wire.until(Stage.AGREEMENT)
    rosters = dict.fromkeys(EVERYBODY, asking(5, [TARGET]))
    assert set(wire.told(rosters)) == {TARGET}
    wire.opened(rosters)
    return wire.unmasked(TARGET, wire.keys_of(TARGET, wire.secret(wire.shares(TARGET))), None)


def test_a_vector_that_is_late_stays_hidden() -> None:
    """All its pairwise masks are taken away, and it is still under its own; without that one it is open."""
    assert late_vector(MaskingClients) != plain()[TARGET].tolist()
    assert late_vector(flaws.NoOwnMask) == plain()[TARGET].tolist()


def test_secrets_are_in_the_state_alone_and_as_long_as_they_are_of_use() -> None:
    """No secret is in a repr or a message; the state holds each as long as a later stage needs it."""
    wire, hybrid = Wire(4), KeyAgreement.best() is KeyAgreement.HYBRID
    client = wire.client(1)
    secrets = [row.tobytes() for row in client.state()["secrets"][0]]
    vector = (plain()[1] % wire.scheme.modulus).tobytes(), plain()[1].tobytes()
    kept = {}
    for stage in USUAL[1:]:
        wire.until(stage)
        state = b"".join(value.tobytes() for value in client.state().values())
        kept[stage] = [secret in state for secret in secrets], any(entry in state for entry in vector)
        assert not any(secret.hex() in repr(client) for secret in secrets)
        for sent in wire.requests.values() if stage < Stage.OPENING else ():
            wire.run.hand(sent)
    wire.rest()
    assert kept[Stage.SHARES] == ([True] * 4, True)
    needed = (SEALING, MASK, SELF) if hybrid else (SELF,)  # until what others wrapped is heard
    assert kept[Stage.VECTORS] == ([kind in needed for kind in (SEALING, MASK, SELF, SHARES)], True)
    assert kept[Stage.AGREEMENT] == ([False] * 4, False)
    assert not any(secret in sent.data for sent in wire.run.log for secret in secrets)


def test_keys_of_pairs_are_forgotten_once_they_have_served() -> None:
    """Those of masks when the vector is sent, those of shares and votes, and all shares, at the end."""
    wire = Wire(4)
    wire.until(Stage.VECTORS)
    state, leads = wire.client(1).state(), wire.circles.initiates[1]
    assert state["says"].any(axis=2).all()
    assert state["mask"][0, leads].any(axis=1).all()
    assert state["mask"][0].any(axis=1).all() == (wire.scheme.keys is KeyAgreement.X25519)
    for sent in wire.requests.values():
        wire.run.hand(sent)
    wire.until(Stage.AGREEMENT)
    state = wire.client(1).state()
    assert state["says"].any(axis=2).all()
    assert state["hears"].any(axis=2).all()
    assert state["holds"].all()
    assert not state["mask"].any()
    wire.rest()
    state = wire.client(1).state()
    assert not any(state[name].any() for name in ("says", "hears", "mask", "held", "holds", "secrets", "receiver"))


@pytest.mark.parametrize("keys", list(dict.fromkeys([KeyAgreement.X25519, KeyAgreement.best()])))
def test_key_pairs_are_forgotten_with_the_secrets_that_they_follow_from(keys: KeyAgreement) -> None:
    """Those of a client are kept until its vector is sent, and none when the next sum begins, or it has handed in."""
    crypto = Cryptography(OwnDraws(SimulationCoins(3)), PairwiseMasking().modulus, keys)
    wire = Wire(4, keys=keys)
    client = wire.client(1)
    client._crypto = crypto
    client.begin(Step(1), plain()[[1]])
    assert client.step()
    assert crypto.cached_keys == 2
    client.begin(Step(2), plain()[[1]])
    assert crypto.cached_keys == 0
    assert client.step()
    client._forget(np.array([0]), MASK)
    assert crypto.cached_keys == 1
    client._forget(np.array([0]))
    assert crypto.cached_keys == 0


class Counting(Cryptography):
    """Counts how often each mask is made."""

    uses: Counter[Mask]

    def add_masks(self, total: Elements, masks: Sequence[Mask], signs: Sequence[int]) -> Elements:
        """Counts."""
        self.uses.update(masks)
        return super().add_masks(total, masks, signs)


class CountingKept(Counting, flaws.SeedsKeptOverSteps):
    """Counts where seeds last for several sums, whose keys do not name the step."""


def most_uses(cryptography: type[Counting]) -> int:
    """How often the busiest of all mask keys is expanded in sums of several rounds, layers and parts."""
    uses: Counter[Mask] = Counter()

    def make(draws: Any, modulus: int, keys: KeyAgreement, ring: ModularRing) -> Counting:
        made = cryptography(draws, modulus, keys, ring)
        made.uses = uses
        return made

    topology, channel = topology_of(3, split=True), channel_of(3)
    machines = PairwiseMasking(cryptography=make).machines(topology, SESSION, channel)
    for step in [Step(r, layer, part=part) for r in (1, 2) for layer in (0, 1) for part in (0, 1)]:
        for machine in machines:
            machine.begin(step, vectors_of(3) if len(machine.parties) == 3 else None)
        simulate(machines, channel)
    return max(uses.values())


def test_no_key_serves_twice() -> None:
    """A key is expanded by those who share it, or by one of them and who takes the mask away; twins use them more."""
    assert most_uses(Counting) == 2
    assert most_uses(CountingKept) > 2


@given(st.binary(min_size=32, max_size=32), st.sampled_from([3, 11, 101, 2**31 - 1, 2**61 - 1]))
def test_seeds_survive_the_field(seed: bytes, modulus: int) -> None:
    """All 256 bits of a seed come back from the elements that hold it."""
    crypto = Cryptography(OwnDraws(SimulationCoins(0)), modulus)
    words = words_of(seed, modulus, crypto.words(1, 1))
    assert seed_of(words, modulus) == seed
    assert int(words.max()) < modulus


def value_of(points: list[int], values: list[int], p: int) -> int:
    """The polynomial through some points at 1, by Lagrange's formula on python integers."""
    total = 0
    for j, (x, y) in enumerate(zip(points, values, strict=True)):
        others = [z for k, z in enumerate(points) if k != j]
        weight = math.prod(1 - z for z in others) * pow(math.prod(x - z for z in others), -1, p)
        total += y * weight
    return total % p


@pytest.mark.parametrize("modulus", [61, 2**61 - 1])
@given(st.data(), st.integers(0, 2**32))
@settings(max_examples=6)
def test_secrets_are_opened_together_as_one_by_one(modulus: int, data: st.DataObject, seed: int) -> None:
    """With holders missing and some that lie, each secret is what Lagrange's formula says of the honest shares."""
    n, k, needed = 20, 11, data.draw(st.integers(2, 6))
    sharing, coins, rng = (
        SecretSharing(PrimeField(modulus), n, needed),
        SimulationCoins(seed),
        np.random.default_rng(seed),
    )
    circles = np.stack([np.sort(rng.choice(n, k, replace=False)) for _ in range(n)])
    secrets = coins.uniform(modulus, (n, 2))
    noise = coins.uniform(modulus, (n, needed - 1, 2))
    shares = np.stack([sharing.share(secrets[u], noise[u], circles[u]) for u in range(n)])
    liars = np.isin(circles, rng.choice(n, data.draw(st.integers(0, 3)), replace=False))
    there = rng.random((n, k)) < 0.9
    room = (there.sum(axis=1) - needed) // 2
    told = np.flatnonzero((there.sum(axis=1) >= needed) & ((liars & there).sum(axis=1) <= room))
    false = np.where(liars[..., None], (shares + 1 + rng.integers(0, modulus - 1, shares.shape)) % modulus, shares)
    opened = sharing.open_each(false, there, circles, told, coins)
    assert sorted(opened) == told.tolist()
    for u in told.tolist():
        honest = np.flatnonzero(there[u] & ~liars[u])[:needed]
        points = [int(sharing.code.alphas[v]) for v in circles[u, honest]]
        assert opened[u].tolist() == [value_of(points, shares[u, honest, w].tolist(), modulus) for w in (0, 1)]
        assert opened[u].tolist() == secrets[u].tolist()


def test_shares_that_contradict_each_other_open_nothing() -> None:
    """Beyond what can be corrected, or where nothing is, one wrong share is enough to be refused."""
    sharing, coins = SecretSharing(PrimeField(), 7, 4), SimulationCoins(0)
    circles, there = np.arange(7)[None], np.ones((1, 7), dtype=np.bool_)
    noise = coins.uniform(PrimeField().modulus, (3, 2))
    shares = sharing.share(np.array([5, 6]), noise, circles[0])[None]
    assert sharing.open_each(shares, there, circles, np.array([0]), coins)[0].tolist() == [5, 6]
    for wrong in ([0], [6], [0, 6]):
        false = shares.copy()
        false[0, wrong, 1] += 1
        for source in (None, coins):
            if source is coins and len(wrong) == 1:
                assert sharing.open_each(false, there, circles, np.array([0]), source)[0].tolist() == [5, 6]
                continue
            with pytest.raises(TooManyErrors):
                sharing.open_each(false, there, circles, np.array([0]), source)
