"""Standing circuits: what relays see of routes, groups and silences, exactly and over many steps."""

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_reproduction.known_flaws.ideal_relays import IdealCryptography
from fgl_secure.algebra.kernels import MERSENNE_31
from fgl_secure.coins import Coins, SimulationCoins, SystemCoins
from fgl_secure.crypto.keys import KeyAgreement, Unsealing
from fgl_secure.errors import MalformedMessageError
from fgl_secure.protocols.relay_coded import RelayCoded, wire
from fgl_secure.protocols.relay_coded.cryptography import Cryptography
from fgl_secure.protocols.relay_coded.relays import Relays
from fgl_secure.protocols.relay_coded.rows import hide_rows, reveal_rows, width_of
from fgl_secure.protocols.relay_coded.silos import Silos
from fgl_secure.runtime import Channel, Draws, Messages, Phase, Recording, Role, Step, Transcript
from fgl_secure.runtime.channel import Loss
from tests.error_codes import about
from tests.protocols.conformance import ideal, opened
from tests.protocols.relay_coded.test_faults import VALUES, is_of_some, meshed, off_from
from tests.protocols.relay_coded.test_privacy import between
from tests.protocols.relay_coded.twins import Twin

Ids = NDArray[np.int64]


# Rows


@pytest.mark.parametrize(("kind", "modulus"), [(np.int8, 5), (np.int32, MERSENNE_31), (np.int64, 2**61 - 1)])
@pytest.mark.parametrize("count", [1, 63, 64, 130])
def test_rows_come_back_and_changed_ones_are_found(kind: Any, modulus: int, count: int) -> None:
    """Whatever the field and number of rows; each word of a row is authenticated, and so are key and nonce."""
    rng = np.random.default_rng(count)
    keys = rng.integers(0, 256, (count, 32), dtype=np.uint8)
    rows = rng.integers(0, modulus, (count, 5)).astype(kind)
    hidden = hide_rows(keys, bytes(16), rows)
    assert hidden.shape == (count, width_of(5, np.dtype(kind)))
    found, good = reveal_rows(keys, bytes(16), hidden, np.dtype(kind))
    assert good.all()
    assert np.array_equal(found, rows)
    assert not reveal_rows(keys, bytes([1] * 16), hidden, np.dtype(kind))[1].any()
    for word, bit in itertools.product(range(hidden.shape[1]), (0, 30, 31)):
        changed = hidden.copy()
        changed[0, word] ^= np.uint32(1 << bit)
        assert not reveal_rows(keys, bytes(16), changed, np.dtype(kind))[1][0]


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        (np.zeros((2, 3), dtype=np.uint32), np.int32),  # narrower than a tag
        (np.zeros((2, 4), dtype=np.uint32), np.int32),  # no element where there must be one
        (np.zeros((2, 7), dtype=np.uint32), np.int64),  # one element and a half
        (np.zeros((2, 6, 1), dtype=np.uint32), np.int32),
        (np.zeros((2, 6)), np.int32),
    ],
)
def test_masked_rows_of_another_shape_are_refused(rows: Any, kind: Any) -> None:
    """Before a kernel reads them."""
    ends = np.array([0, 1]), np.array([2, 2])
    messages = Messages(Phase.SHARE_SUMS, Step(1), *ends, {wire.SUM: rows})
    with pytest.raises(MalformedMessageError, check=about("sum of share sums")):
        wire.Wire(()).read_masked(messages, wire.SUM, np.dtype(kind), 1)


def test_tags_are_values_of_the_polynomial_of_a_row() -> None:
    """10,000 tags are those of Python's integers."""
    rng = np.random.default_rng(0)
    keys, rows = rng.integers(0, 256, (2500, 32), dtype=np.uint8), rng.integers(0, MERSENNE_31, (2500, 3))
    from fgl_secure.crypto.streams import KeyedStreams

    stream = KeyedStreams(keys).uniform(2**32, np.full(2500, 11), bytes(16)).reshape(2500, 11).tolist()
    for tags, words, row in zip(hide_rows(keys, bytes(16), rows.astype(np.int32))[:, :4], stream, rows, strict=True):
        for tag, point, pad in zip(tags.tolist(), words[:4], words[4:8], strict=True):
            value = 0
            for word in [*row.tolist(), 0]:
                value = (value * (point & MERSENNE_31) + word) % MERSENNE_31
            assert tag == value ^ pad


# Routes: enumeration on the machines


class Routed(IdealCryptography):
    """Ideal, with routes and orders that are given."""

    given: Iterator[Ids]

    def routes(self, draws: Draws, step: Step, silos: Ids) -> Ids:  # noqa: ARG002  # not drawn
        return np.array([next(self.given) for _ in silos], dtype=np.int64).reshape(-1, 2)


class OwnSiloAlone(Routed):
    """Circuits go via their own silo alone."""

    def routes(self, draws: Draws, step: Step, silos: Ids) -> Ids:
        found = super().routes(draws, step, silos)
        found[:, 0] = silos - 1
        return found


JOINED, APART = [(0, 1), (1, 0)], [(0, 0), (1, 1)]
"""Two devices that are partners, and two that have rows for themselves alone."""


def seen_by_relay(cryptography: type[Routed], edges: list[tuple[int, int]]) -> Counter[Any]:
    """What the first relay sees of groups, over all routes of four circuits and two rounds of two steps each.

    Groups are named in the order in which the relay meets them: pseudonyms are random.
    """
    case, found = between(2, edges, 2), Counter[Any]()
    scheme = RelayCoded(k_min=1, bound=1.0, max_degree=2, cryptography=cryptography)
    relay = int(case.directory.ids(Role.RELAY)[0])
    for silos in itertools.product(range(2), repeat=4):
        for orders in itertools.permutations(range(4)):
            coins = [(silo, place) for silo, place in zip(silos, range(4), strict=True)]
            answers, second = [(0, 0), (0, 1)], [(0, place) for place in orders]
            cryptography.given = iter([np.array(each) for each in [*coins, *answers, *second, *answers]])
            channel = Channel(case.directory, SimulationCoins(0), Recording.everything())
            session = opened(scheme, channel, case.grouping, 1)
            for step in (Step(0), Step(1)):
                session.sum(np.zeros((2, 1)), step)
            found[_pattern(channel.transcript, relay)] += 1
    return found


def _pattern(transcript: Transcript, relay: int) -> Any:
    names: dict[int, int] = {}
    circuits = [
        (*row[:2], names.setdefault(row[2], len(names)))
        for rows in transcript.views(Role.RELAY).own("circuits")
        for row in rows.values[0 if rows.values.ndim == 3 else slice(None)][rows.owners == relay].tolist()
    ]
    steps = [
        (batch.step.round, sorted(zip(batch.senders.tolist(), np.asarray(batch["slot"]).ravel().tolist(), strict=True)))
        for batch in transcript.messages
        if batch.phase is Phase.SHARES and (batch.receivers == relay).any()
    ]
    return str((circuits, steps))


def test_a_relay_sees_the_same_of_two_graphs() -> None:
    """Set-up and two steps, over all routes and orders: with an edge and without, a relay sees the same."""
    assert seen_by_relay(Routed, JOINED) == seen_by_relay(Routed, APART)


def test_routes_that_keep_to_the_own_silo_show_the_graph() -> None:
    """The broken twin: a circuit that comes from another silo than the rest of its group is a partner's."""
    assert seen_by_relay(OwnSiloAlone, JOINED) != seen_by_relay(OwnSiloAlone, APART)


# Silences: one relay, twenty steps


def watched(twin: Twin, seed: int) -> tuple[list[tuple[int, set[int]]], Transcript]:
    """Twenty steps in each of which one device may be silent; which, and what the relays saw."""
    case, rng = meshed(2, silos=3), np.random.default_rng(seed)
    devices = case.directory.ids(Role.DEVICE)
    silent = {number: int(rng.integers(6)) for number in range(1, 20) if rng.random() < 0.5}

    def loss(phase: Phase, step: Step, senders: Ids, receivers: Ids) -> NDArray[np.bool_]:
        if step.round not in silent or phase is Phase.KEYS:
            return np.ones(len(senders), dtype=np.bool_)
        off = devices[silent[step.round]]
        return np.asarray((senders != off) & (receivers != off))

    channel = Channel(case.directory, SimulationCoins(seed), Recording.everything(), loss)
    session = opened(twin(RelayCoded(k_min=1, max_degree=6, bound=16.0)), channel, case.grouping, 2)
    for number in range(20):
        session.sum(VALUES, Step(number, 0))
    return [(number, {device}) for number, device in silent.items()], channel.transcript


def missing_rows(transcript: Transcript, relay: int) -> dict[int, int]:
    """By round, how many rows of circuits that are open are missing at one relay."""
    opened_at: dict[int, set[int]] = {}
    known: set[int] = set()
    found: dict[int, int] = {}
    learnt = [rows for rows in transcript.views(Role.RELAY).own("circuits") if (rows.owners == relay).any()]
    for number in range(20):
        new = [rows for rows in learnt if rows.step.round == number]
        if new:
            values = new[-1].values[new[-1].owners == relay]
            known = set((values[:, 0] << 32 | values[:, 1]).tolist())
        opened_at[number] = known
        there = {
            int(sender) << 32 | int(slot)
            for batch in transcript.messages
            if batch.phase is Phase.SHARES and batch.step.round == number and (batch.receivers == relay).any()
            for sender, slot in zip(batch.senders, np.asarray(batch["slot"]), strict=True)
        }
        found[number] = len(known - there)
    return found


class Hasty(Silos):
    """Silos hand on what there is."""

    def _is_complete(self) -> Any:
        whole = np.ones(len(self.parties), dtype=np.bool_)
        return whole if self._responsive.any() else ~whole

    def _release(self) -> Any:
        self._confirmed[:] = 1
        return super()._release()


def hasty(scheme: RelayCoded) -> RelayCoded:
    """Circuits are not opened anew after a loss."""
    return replace(scheme, roles=replace(scheme.roles, silos=Hasty))


def test_a_relay_never_sees_which_circuits_fall_silent_together() -> None:
    """Over twenty steps with drop-outs each step that a relay sees is whole; where silos don't wait, none is."""
    for seed in range(4):
        silent, transcript = watched(lambda scheme: scheme, seed)
        relay = int(transcript.parties.ids(Role.RELAY)[1])
        assert silent
        assert set(missing_rows(transcript, relay).values()) == {0}
        _, transcript = watched(hasty, seed)
        missing = missing_rows(transcript, relay)
        assert {missing[number] for number, _ in silent} == {6}


def test_circuits_share_no_name_between_openings() -> None:
    """Neither pseudonyms nor keys of one opening are those of another."""
    _, transcript = watched(lambda scheme: scheme, 1)
    relay = int(transcript.parties.ids(Role.RELAY)[0])
    groups = [
        set(rows.values[rows.owners == relay][:, 2].tolist()) for rows in transcript.views(Role.RELAY).own("circuits")
    ]
    several = [each for each in groups if each]
    assert len(several) > 2
    assert all(not one & other for one, other in itertools.combinations(several, 2))


class AcceptsFewer(Relays):
    """Groups are accepted however many circuits they have."""

    def _is_answered(self, relay: Any, counts: Ids) -> Any:  # noqa: ARG002
        return counts > 0


def losing_circuits(party: int) -> Loss:
    """One circuit is lost on its way to the relays."""

    def arrives(phase: Phase, step: Step, senders: Ids, receivers: Ids) -> NDArray[np.bool_]:  # noqa: ARG001
        there = np.ones(len(senders), dtype=np.bool_)
        if phase is Phase.CIRCUITS and receivers[0] >= party and len(senders) > 6:
            there[0] = False
        return there

    return arrives


@pytest.mark.parametrize(
    ("coins", "session", "executed"),
    [(SystemCoins(), None, True), (SimulationCoins(0), bytes(16), True), (SimulationCoins(0), None, False)],
    ids=["secret coins", "a process of its own", "a simulation"],
)
def test_seals_are_executed_unless_nothing_is_secret(coins: Coins, session: bytes | None, *, executed: bool) -> None:
    """A secret is agreed on for each seal but in one process whose coins can be repeated."""
    crypto = Cryptography(RelayCoded().field, 1, session=session, agreement=KeyAgreement.X25519)
    directory = meshed(2).directory
    draws = Channel(directory, coins, Recording())
    (private,) = crypto.sealing_keys(draws, directory.ids(Role.RELAY)[:1])
    content = np.arange(48, dtype=np.uint8)[None]
    (sealed,) = crypto.seal(draws, directory.ids(Role.DEVICE)[:1], [crypto.public_key(private)], [content])
    assert np.array_equal(crypto.unseal(draws, private, sealed[None])[0], content)
    own, salt = Unsealing(private.tobytes(), KeyAgreement.X25519), crypto.session(draws)
    found = [own.unseal(sealed.tobytes(), salt, counted=counted) for counted in (False, True)]
    assert found[not executed] == content.tobytes()
    assert found[executed] is None


def test_a_group_with_a_circuit_less_has_no_sum() -> None:
    """Relays accept groups of exactly D circuits; the twin answers for fewer."""
    case = meshed(2, silos=3)
    first = int(case.directory.ids(Role.RELAY)[0])
    for roles, refused in ((None, 1), (AcceptsFewer, 0)):
        scheme = RelayCoded(k_min=1, max_degree=4, bound=16.0)
        scheme = scheme if roles is None else replace(scheme, roles=replace(scheme.roles, relays=roles))
        channel = Channel(case.directory, SimulationCoins(3), Recording.everything(), losing_circuits(first))
        sums = opened(scheme, channel, case.grouping, 2).sum(VALUES, Step(0, 0))
        assert (np.abs(sums).max(axis=1) == 0).sum() == refused


@pytest.mark.parametrize("every", [1, 2])
def test_circuits_are_opened_anew_every_few_steps(every: int) -> None:
    """Sums stay whole, and a device that was silent joins at the next opening."""
    case = meshed(2, silos=3)
    device = int(case.directory.ids(Role.DEVICE)[1])
    lost = off_from(device, Phase.SEALED, (Step(1, 0),))
    channel = Channel(case.directory, SimulationCoins(3), Recording.everything(), lost)
    session = opened(RelayCoded(k_min=1, bound=16.0, reopen_every=every), channel, case.grouping, 2)
    whole = ideal(case.grouping, VALUES)
    sums = [session.sum(VALUES, Step(number, 0)) for number in range(2 + 2 * every)]
    assert np.allclose(sums[0], whole, atol=1e-4)
    assert not np.allclose(sums[1], whole, atol=1e-4)
    assert is_of_some(sums[1])
    assert np.allclose(sums[-1], whole, atol=1e-4)
