"""Shares that are not laid out together: the same messages, the same sums, a few rows at a time."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.errors import StaleMessageError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.relay_coded import Profile, RelayCoded, code
from fgl_secure.protocols.relay_coded.devices import Devices
from fgl_secure.protocols.relay_coded.relays import Relays
from fgl_secure.protocols.relay_coded.silos import Silos
from fgl_secure.runtime import (
    Channel,
    Direction,
    LazyArray,
    Messages,
    Phase,
    Recording,
    RecordingLevel,
    Step,
    Transcript,
)
from fgl_secure.runtime.channel import Loss, Tamper
from fgl_secure.runtime.messages import take_rows
from tests.error_codes import about
from tests.protocols.conformance import opened
from tests.protocols.relay_coded import twins
from tests.protocols.relay_coded.test_faults import STEP, VALUES, meshed
from tests.protocols.relay_coded.test_labels import ROWS, WHOLE
from tests.protocols.relay_coded.test_labels import opened as labelled

SHOWN = RelayCoded(k_min=1, profile=Profile.SHOWN, keys=KeyAgreement.X25519)
HIDDEN = RelayCoded(k_min=1, profile=Profile.HIDDEN, keys=KeyAgreement.X25519)
SCHEMES = (SHOWN, replace(SHOWN, T=2, R=5), replace(HIDDEN, T=2, R=4))
"""With one relay that expands and more, and without a name."""
CARRYING = (Phase.SHARE_HEADERS, Phase.SHARE_SEEDS, Phase.SHARES)
STEPS = (Step(0, 0), Step(0, 0, Direction.BACKWARD), STEP)


@pytest.fixture(params=[4, 2**20], ids=lambda numbers: f"{numbers} numbers at once")
def read_later(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is laid out together, and so many numbers are at one time."""
    monkeypatch.setattr(code, "LAID_OUT_UP_TO", 0)
    monkeypatch.setattr(code, "AT_ONCE", request.param)


def summed(
    scheme: RelayCoded, level: RecordingLevel, loss: Loss | None = None, tamper: Tamper | None = None
) -> tuple[list[NDArray[Any]], Transcript]:
    """The sums of some steps, and what was recorded; the same coins each time."""
    case = meshed(scheme.R)
    channel = Channel(case.directory, SimulationCoins(3), Recording(level), loss, tamper)
    session = opened(scheme, channel, case.grouping, 2)
    return [session.sum(VALUES / (1 + step.round), step) for step in STEPS], channel.transcript


def assert_alike(found: Transcript, expected: Transcript) -> None:
    """Equal messages of equal fields, one by one."""
    assert len(found.messages) == len(expected.messages)
    for one, other in zip(found.messages, expected.messages, strict=True):
        assert (one.phase, one.step, one.item_bytes) == (other.phase, other.step, other.item_bytes)
        np.testing.assert_array_equal(one.senders, other.senders)
        np.testing.assert_array_equal(one.receivers, other.receivers)
        assert (one.fields or {}).keys() == (other.fields or {}).keys()
        for name, value in (one.fields or {}).items():
            np.testing.assert_array_equal(value, other[name])


@pytest.fixture
def laid_out(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[NDArray[Any]], Transcript]]:
    """Runs with everything laid out, which is what small runs do, whatever else is set."""

    def run(*given: Any, **known: Any) -> tuple[list[NDArray[Any]], Transcript]:
        with monkeypatch.context() as usual:
            usual.setattr(code, "LAID_OUT_UP_TO", 2**25)
            return summed(*given, **known)

    return run


@pytest.mark.usefixtures("read_later")
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_views_and_sums_are_those_of_shares_that_are_laid_out(scheme: RelayCoded, laid_out: Any) -> None:
    """Every party sees the same, to the bit, and sums are the same where nothing but sizes is kept."""
    expected, recorded = laid_out(scheme, RecordingLevel.EVERYTHING)
    sums, views = summed(scheme, RecordingLevel.EVERYTHING)
    quiet, sizes = summed(scheme, RecordingLevel.SIZES)
    assert_alike(views, recorded)
    np.testing.assert_array_equal(sums, expected)
    np.testing.assert_array_equal(quiet, expected)
    assert sizes.byte_count == recorded.byte_count
    assert all(batch.fields is None for batch in sizes.messages)


@pytest.mark.usefixtures("read_later")
@pytest.mark.parametrize("level", RecordingLevel)
def test_labels_find_shares_that_are_read_later(level: RecordingLevel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody tells tags, sums under labels are those of shares that are laid out."""
    found = []
    for most in (0, 2**25):
        monkeypatch.setattr(code, "LAID_OUT_UP_TO", most)
        collective, channel = labelled(WHOLE)
        channel.recording = Recording(level)
        found.append([collective.sum(ROWS, step) for step in STEPS])
    np.testing.assert_array_equal(found[0], found[1])
    assert np.abs(found[0]).sum()


@pytest.mark.usefixtures("read_later")
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_what_is_lost_or_changed_on_the_way_is_as_before(scheme: RelayCoded, laid_out: Any) -> None:
    """Messages that are lost are sent again, and a network that changes some is noticed, in the same words."""

    def lossy() -> Loss:
        once: list[int] = []

        def arrives(phase: Phase, step: Step, senders: Any, _: Any) -> NDArray[np.bool_]:
            there = np.ones(len(senders), dtype=np.bool_)
            if step == STEP and phase is Phase.SHARES and not once:
                there[::2] = False
                once.append(1)
            return there

        return arrives

    def untouched(messages: Messages) -> None:
        assert not any(isinstance(value, LazyArray) for value in messages.fields.values())

    for faults in (lambda: {"loss": lossy()}, lambda: {"tamper": untouched}):
        expected, recorded = laid_out(scheme, RecordingLevel.SIZES, **faults())
        sums, views = summed(scheme, RecordingLevel.SIZES, **faults())
        np.testing.assert_array_equal(sums, expected)
        assert [each.what for each in views.incidents] == [each.what for each in recorded.incidents]


class FirstMasks(Devices):
    """Masks of as many messages, but of the first ones."""

    def masks(self, places: Any = None) -> Any:
        return super().masks(None if places is None else np.arange(len(places)))


def test_masks_of_other_messages_are_found(laid_out: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same comparison rejects devices that read the masks of the first messages, whichever are asked for."""
    monkeypatch.setattr(code, "LAID_OUT_UP_TO", 0)
    monkeypatch.setattr(code, "AT_ONCE", 4)
    expected, _ = laid_out(SHOWN, RecordingLevel.SIZES)
    found, _ = summed(twins.with_devices(FirstMasks)(SHOWN), RecordingLevel.SIZES)
    assert not np.array_equal(found, expected)


@pytest.mark.usefixtures("read_later")
def test_shares_cannot_be_read_after_their_step() -> None:
    """Rows and keys of another step would make other shares of them."""
    kept: list[Any] = []

    class Keeping(Devices):
        def _packet(self, *given: Any) -> Iterator[Messages]:
            for messages in super()._packet(*given):
                if "share" in messages.fields:
                    kept.append(messages["share"])
                    assert np.asarray(kept[-1]).shape == (len(case.grouping.source), 2)
                yield messages

    case = meshed(2)
    session = opened(twins.with_devices(Keeping)(SHOWN), Channel(case.directory, SimulationCoins(3)), case.grouping, 2)
    for step in STEPS[:2]:
        session.sum(VALUES, step)
        with pytest.raises(StaleMessageError, check=about("shares")):
            np.asarray(kept[0])


def states(session: Collective) -> list[dict[str, NDArray[Any]]]:
    """Of all machines."""
    return [dict(machine.state()) for machine in session._machines]


@pytest.mark.usefixtures("read_later")
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_states_after_a_step_are_whole(scheme: RelayCoded, monkeypatch: pytest.MonkeyPatch) -> None:
    """What silos and relays still hold when the sums are there is in their states, also without tags that are told."""
    for role in (Devices, Silos, Relays):  # before they hear that the step is over for everybody
        monkeypatch.setattr(role, "reset", lambda _: None)
    case = meshed(scheme.R)
    sessions = [opened(scheme, Channel(case.directory, SimulationCoins(3)), case.grouping, 2)]
    sessions[0].sum(VALUES, STEPS[0])
    if scheme.profile is Profile.HIDDEN:
        sessions.append(labelled(WHOLE)[0])
        sessions[1].sum(ROWS, STEPS[0])
    for session in sessions:
        before = states(session)
        for machine, state in zip(session._machines, before, strict=True):
            machine.restore(state)
        for state, again in zip(before, states(session), strict=True):
            assert state.keys() == again.keys()
            assert all(np.array_equal(state[name], again[name]) for name in state)


class AsksLate(Relays):
    """The last relay asks for a message again in the turn in which it answers."""

    def _next(self, relay: Any) -> Iterator[Messages]:
        if relay.party == int(self._everybody[-1]) and len(relay.answered) and not hasattr(self, "asked"):
            self.asked = True
            yield from self._ask_again(relay, relay.held.names[:1])
        yield from super()._next(relay)


@pytest.mark.usefixtures("read_later")
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_a_message_that_is_asked_for_too_late_is_refused(scheme: RelayCoded, laid_out: Any) -> None:
    """Sums and incidents are those of shares that are laid out."""
    late = twins.with_relays(AsksLate)(scheme)
    expected, recorded = laid_out(late, RecordingLevel.EVERYTHING)
    sums, views = summed(late, RecordingLevel.EVERYTHING)
    np.testing.assert_array_equal(sums, expected)
    assert_alike(views, recorded)
    assert [each.what for each in views.incidents] == [each.what for each in recorded.incidents]


def test_rows_are_made_when_they_are_read() -> None:
    """Some of some rows are the right ones, and no more are made than are read."""
    rows, made = np.arange(12, dtype=np.int32).reshape(6, 2), list[int]()

    def make(places: NDArray[np.int64]) -> NDArray[np.int32]:
        made.extend(places.tolist())
        return rows[places]

    field = LazyArray(make, (6, 2), rows.dtype)
    part = field.take(np.array([5, 3, 1])).take(np.array([2, 0]))
    assert (part.shape, part.ndim, len(part), part.itemsize, made) == ((2, 2), 2, 2, 4, [])
    np.testing.assert_array_equal(part.rows(np.array([1])), rows[[5]])
    assert made == [5]
    np.testing.assert_array_equal(np.asarray(part), rows[[1, 5]])
    np.testing.assert_array_equal(take_rows(rows, np.array([1, 5])), np.asarray(part))
    nothing = np.asarray(part.take(np.empty(0, dtype=np.int64)))
    assert (nothing.shape, nothing.dtype, made) == ((0, 2), rows.dtype, [5, 1, 5, 1, 5])
    with pytest.raises(ValueError, match="copy must not be False"):
        np.asarray(part, copy=False)
