from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import MalformedMessageError
from fgl_secure.protocols.relay_coded import wire
from fgl_secure.protocols.relay_coded.mixing import Mixing
from fgl_secure.protocols.relay_coded.wire import Wire
from fgl_secure.runtime import Messages, Phase, Step
from tests.error_codes import about

Ids = NDArray[np.int64]

STEP = Step(0, 0)
SILOS = np.array([1, 2, 3, 4])
DEVICES = np.arange(10, 34)
OWN = SILOS[(DEVICES - 10) // 6]
"""Six devices a silo."""
RELAYS = (50, 51)
CERTAIN = 1e-9


Ways = Callable[[Step, Ids, int], Ids]


def uniform(seed: int) -> Ways:
    """Coins as they are drawn in a run."""
    coins = SimulationCoins(seed)
    return lambda _, silos, __: coins.uniform(2**63, (len(silos), 2))


def by_own_silo(seed: int) -> Ways:
    """The broken twin: every silo hands on what its own devices send."""
    drawn = uniform(seed)

    def ways(step: Step, silos: Ids, before: int) -> Ids:
        coins = drawn(step, silos, before)
        coins[:, 0] = np.searchsorted(SILOS, silos)
        return coins

    return ways


def unshuffled(seed: int) -> Ways:
    """The broken twin: messages leave in the order in which they came."""
    drawn = uniform(seed)

    def ways(step: Step, silos: Ids, before: int) -> Ids:
        coins = drawn(step, silos, before)
        coins[:, 1] = np.arange(len(silos))
        return coins

    return ways


def mixing(coins: Ways) -> Mixing:
    return Mixing(Wire((), 48), SILOS, coins)


def shares(relay: int, each: int = 4) -> Messages:
    """So many messages of every device, sealed for a relay; their numbers tell who sent which."""
    senders, slots = np.repeat(DEVICES, each), np.tile(np.arange(each), len(DEVICES))
    m = len(senders)
    fields: dict[str, NDArray[Any]] = {
        wire.TAG: np.stack([senders, slots], axis=1),
        wire.ATTEMPT: np.zeros(m, dtype=np.uint8),
        wire.NUMBER: senders * 100 + slots,
        wire.PLACE: slots.astype(np.uint32),
        wire.RELAY: np.full(m, relay, dtype=np.uint32),
        wire.SHARE: np.full((m, 1), relay, dtype=np.int32),
    }
    return Messages(Phase.SEALED, STEP, senders, np.repeat(OWN, each), fields, sealed=True)


def fetches(relay: int) -> Messages:
    """A fetch of every device."""
    n = len(DEVICES)
    opening = np.zeros((n, len(RELAYS), 2), dtype=np.int64)
    opening[:, :, 0] = DEVICES[:, None]
    fields: dict[str, NDArray[Any]] = {wire.OPENING: opening, wire.RELAY: np.full(n, relay, dtype=np.uint32)}
    return Messages(Phase.SEALED, STEP, DEVICES, OWN, fields, sealed=True)


def handed_on(
    mix: Mixing, batches: Iterable[Messages], arrives: Callable[[Messages], Messages] = lambda messages: messages
) -> list[Messages]:
    """What silos say to others than silos, once all batches have passed; `arrives` says what reaches other silos."""
    for each in batches:
        mix.take(each)
    out: list[Messages] = []
    for _ in range(4):
        for each in mix.leave(STEP):
            if each.phase is Phase.MIXED:
                mix.take(arrives(each))
            else:
                out.append(each)
    return out


def of_phase(phase: Phase, said: Iterable[Messages], relay: int = RELAYS[0]) -> Messages:
    (found,) = [each for each in said if each.phase is phase and (each.receivers == relay).all()]
    return found


def patterns(coins: Callable[[int], Ways], seeds: int = 60) -> Ids:
    """int64 [4, 4], how many messages of each silo's devices reached a relay from each silo."""
    counts = np.zeros((4, 4), dtype=np.int64)
    for seed in range(seeds):
        headers = of_phase(Phase.SHARE_HEADERS, handed_on(mixing(coins(seed)), [shares(RELAYS[0])]))
        own = OWN[headers[wire.NUMBER] // 100 - 10]
        np.add.at(counts, (own - 1, headers.senders - 1), 1)
    return counts


def test_relays_see_messages_come_from_any_silo() -> None:
    """Of the devices of each silo, as many messages from one silo as from another; the twin is told apart."""
    for row in patterns(uniform):
        assert chisquare(row).pvalue > CERTAIN
    assert np.array_equal(patterns(by_own_silo, 1), 24 * np.eye(4))


def orders(coins: Callable[[int], Ways]) -> set[tuple[int, ...]]:
    """In which orders the first three messages of silo 1's devices that silo 1 hands on itself come to a relay."""
    found = set()
    for seed in range(60):
        headers = of_phase(Phase.SHARE_HEADERS, handed_on(mixing(coins(seed)), [shares(RELAYS[0], 12)]))
        own = OWN[headers[wire.NUMBER] // 100 - 10]
        here = (headers.senders == 1) & (own == 1)
        numbers = headers[wire.NUMBER][here][np.argsort(headers[wire.SLOT][here])][:3]
        found.add(tuple(np.argsort(numbers).tolist()))
    return found


def test_places_follow_no_order_of_senders() -> None:
    """All orders of three occur; where silos shuffle nothing, one does."""
    assert len(orders(uniform)) == 6
    assert len(orders(unshuffled)) == 1


def test_copies_for_all_relays_have_one_name() -> None:
    """Relays compare what they hold by silo and place: all copies of a message have the same, and no two share it."""
    said = handed_on(mixing(uniform(0)), [shares(relay) for relay in RELAYS])
    names = []
    for relay in RELAYS:
        headers, bodies = of_phase(Phase.SHARE_HEADERS, said, relay), of_phase(Phase.SHARES, said, relay)
        assert np.array_equal(headers[wire.SLOT], bodies[wire.SLOT])
        assert (bodies[wire.SHARE] == relay).all()
        rows = zip(headers.senders.tolist(), headers[wire.SLOT].tolist(), strict=True)
        names.append(dict(zip(headers[wire.NUMBER].tolist(), rows, strict=True)))
    assert names[0] == names[1]
    assert len(set(names[0].values())) == len(names[0]) == 4 * len(DEVICES)


def test_a_copy_that_comes_late_keeps_its_name() -> None:
    """What one relay's copies lost comes again under the places that the other relay knows."""
    mix, lost = mixing(uniform(0)), shares(RELAYS[1])
    first = handed_on(mix, [shares(RELAYS[0]), lost.rows(np.arange(5, len(lost)))])
    late = handed_on(mix, [lost.rows(np.arange(5))])
    headers = of_phase(Phase.SHARE_HEADERS, first)
    known = dict(zip(headers[wire.NUMBER].tolist(), zip(headers.senders, headers[wire.SLOT], strict=True), strict=True))
    again = of_phase(Phase.SHARE_HEADERS, late, RELAYS[1])
    assert len(again) == 5
    for number, silo, place in zip(again[wire.NUMBER].tolist(), again.senders, again[wire.SLOT], strict=True):
        assert known[number] == (silo, place)


def answers(fetched: Messages) -> Messages:
    """A relay's answers: to each the number of the device that it came from."""
    devices = np.asarray(fetched[wire.OPENING])[:, 0, 0]
    fields = {
        wire.TAG: np.stack([devices, devices], axis=1),
        wire.COUNT: np.full(len(devices), 3, dtype=np.uint32),
        wire.SUM: devices[:, None].astype(np.int32),
        wire.PLACE: fetched[wire.PLACE],
    }
    return Messages(Phase.SEALED, STEP, fetched.receivers, fetched.senders, fields, sealed=True)


def test_answers_come_back_to_those_who_fetched() -> None:
    """By way of the silo that handed the fetch over, from both relays."""
    mix = mixing(uniform(0))
    said = handed_on(mix, [fetches(relay) for relay in RELAYS])
    assert len(np.unique(of_phase(Phase.FETCH, said).senders)) == 4
    back = handed_on(mix, [answers(of_phase(Phase.FETCH, said, relay)) for relay in RELAYS])
    for phase, name in ((Phase.COUNTS, wire.TAG), (Phase.SHARE_SUMS, wire.SUM)):
        found = [each for each in back if each.phase is phase]
        assert sum(len(each) for each in found) == 2 * len(DEVICES)
        for each in found:
            assert np.array_equal(np.asarray(each[name])[:, 0], each.receivers)


def test_answers_that_nobody_asked_for_are_refused() -> None:
    """At the silo that would hand them over, and at the one that would give them to a device."""
    mix = mixing(uniform(0))
    said = of_phase(Phase.FETCH, handed_on(mix, [fetches(RELAYS[0])]))
    whole = answers(said)
    with pytest.raises(MalformedMessageError, check=about("answers")):
        mix.take(replace(whole, senders=np.full(len(whole), RELAYS[1])))
    mix.take(whole)
    (back,) = mix.leave(STEP)
    other = np.where(back.senders == 1, 2, 1)
    with pytest.raises(MalformedMessageError, check=about("answers")):
        mix.take(replace(back, senders=other))
    with pytest.raises(MalformedMessageError, check=about("messages to be handed on")):
        mix.take(replace(back, senders=np.full(len(back), DEVICES[0])))


def test_a_silo_that_hands_nothing_on_is_left_out_in_later_steps_until_it_is_heard_of() -> None:
    """Silo 4 is off in the first step; others go round it in the second, and use it in the one after it spoke."""
    mix = mixing(uniform(0))

    def without(messages: Messages) -> Messages:
        return messages.rows((messages.senders != 4) & (messages.receivers != 4))

    def step(arrives: Callable[[Messages], Messages]) -> set[int]:
        mix.clear()
        said = handed_on(mix, [fetches(relay) for relay in RELAYS], arrives)
        through = {int(silo) for each in said for silo in each.senders}
        handed_on(mix, [answers(of_phase(Phase.FETCH, said, relay)) for relay in RELAYS], arrives)
        return through

    assert step(without) == {1, 2, 3}
    lost = []
    assert step(lambda messages: lost.append((messages.receivers == 4).any()) or messages) >= {1, 2, 3}  # type: ignore[func-returns-value]
    assert step(lambda messages: messages) == {1, 2, 3, 4}
