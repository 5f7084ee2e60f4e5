"""Relay-coded message passing with one flaw at a time: other cryptography, or another machine, given to the scheme."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fgl_secure.algebra import Elements, PrimeField, lagrange_matrix
from fgl_secure.protocols.relay_coded import RelayCoded, Roles, wire
from fgl_secure.protocols.relay_coded.code import source_shares
from fgl_secure.protocols.relay_coded.cryptography import Cryptography, RealCryptography, mask_nonce
from fgl_secure.protocols.relay_coded.devices import Devices
from fgl_secure.protocols.relay_coded.ideal_cryptography import IdealCryptography
from fgl_secure.protocols.relay_coded.relays import Relays
from fgl_secure.protocols.relay_coded.silos import Silos
from fgl_secure.protocols.relay_coded.tags import Tags
from fgl_secure.runtime import Draws, Messages, Phase, Step
from fgl_secure.typing import Ids

Array = Any
Twin = Callable[[RelayCoded], RelayCoded]
"""A flaw, as what it makes of a scheme."""


def under(cryptography: type[Cryptography]) -> Twin:
    """The scheme under another cryptography."""
    return lambda scheme: replace(scheme, cryptography=cryptography)


def with_devices(devices: type[Devices]) -> Twin:
    """The scheme with other owners of rows and sums."""
    return lambda scheme: replace(scheme, roles=replace(scheme.roles, devices=devices))


def with_relays(relays: type[Relays]) -> Twin:
    """The scheme with other relays."""
    return lambda scheme: replace(scheme, roles=replace(scheme.roles, relays=relays))


def kept_by(key: Callable[[Step], Hashable]) -> type[IdealCryptography]:
    """Masks that are the same for all steps of one key."""

    class Kept(IdealCryptography):
        _kept: dict[Hashable, list[Elements]]

        def drawn_masks(self, draws: Draws, step: Step, senders: Ids, width: int) -> list[Elements]:
            self.__dict__.setdefault("_kept", {})
            if key(step) not in self._kept:
                self._kept[key(step)] = super().drawn_masks(draws, step, senders, width)
            return self._kept[key(step)]

    return Kept


class OneForAllSenders(IdealCryptography):
    """One mask for all messages of a step."""

    def drawn_masks(self, draws: Draws, step: Step, senders: Ids, width: int) -> list[Elements]:
        first = super().drawn_masks(draws, step, senders[:1], width)
        return [np.repeat(mask, len(senders), axis=-2) for mask in first]


class OneForAllTargets(IdealCryptography):
    """One mask for all messages of a sender in a step."""

    def drawn_masks(self, draws: Draws, step: Step, senders: Ids, width: int) -> list[Elements]:
        each, which = np.unique(senders, return_inverse=True)
        return [np.take(mask, which, axis=-2) for mask in super().drawn_masks(draws, step, each, width)]


class ShortRange(IdealCryptography):
    """Masks on 0 .. p - 2."""

    def drawn_masks(self, draws: Draws, step: Step, senders: Ids, width: int) -> list[Elements]:
        modulus, dtype = self._field.modulus - 1, self._field.dtype
        return [draws.draw("masks", senders, modulus, (width,), step).astype(dtype) for _ in range(self._T)]


def remainder_of(bits: int) -> type[IdealCryptography]:
    """Words of some bits modulo p."""

    class Remainder(IdealCryptography):
        def drawn_masks(self, draws: Draws, step: Step, senders: Ids, width: int) -> list[Elements]:
            words = [draws.draw("masks", senders, 2**bits, (width,), step) for _ in range(self._T)]
            return [(word % self._field.modulus).astype(self._field.dtype) for word in words]

    return Remainder


class SecretPoint(Devices):
    """The last relay's point is 0, where the secret lies."""

    def shares(self, masks: list[Elements], places: Ids | None = None) -> list[Elements]:
        scheme, rows = self._scheme, self._plan.out.rows
        rows = rows if places is None else rows[places]
        points = (*range(scheme.T + 1, scheme.R), 0)
        return list(source_shares(scheme.field, scheme.T, points, self._q, rows, masks))


class LowerDegree(Devices):
    """Polynomials of degree T - 1: the last mask is the value of a polynomial through the secret and the others."""

    def masks(self, places: Ids | None = None) -> list[Elements]:
        drawn, field, T = super().masks(places), self._scheme.field, self._scheme.T
        (weights,) = lagrange_matrix(field, tuple(range(T)), (T,))
        rows = self._plan.out.rows if places is None else self._plan.out.rows[places]
        known = [np.broadcast_to(self._q[rows], drawn[0].shape), *drawn[:-1]]
        last = sum(int(w) * part.astype(np.int64) for w, part in zip(weights, known, strict=True)) % field.modulus
        return [*drawn[:-1], np.asarray(last, dtype=field.dtype)]


class ExtraShare(Devices):
    """The first relay gets the last relay's shares as well, as an answer that it ignores."""

    def _packet(self, j: int, sent: Ids, slots: Any, share: Any) -> Iterator[Messages]:
        yield from super()._packet(j, sent, slots, share)
        if j == len(self._relays) - 1:
            ends = self._plan.out.senders[sent], np.full(len(sent), self._relays[0])
            yield self._wire.say(Phase.VALUES, self.now, ends, 0, {"share": share})


class AnsweredTwice(Relays):
    """Relays answer every tag a second time, for one message less."""

    def _answer(self, relay: Any) -> Iterator[Messages]:
        fetches, held = list(relay.fetches), relay.held
        relay.held = held.some(np.arange(1, len(held)))
        yield from super()._answer(relay)
        relay.fetches, relay.held, relay.sums, relay.table = fetches, held, None, None
        relay.answered = relay.answered[:0]
        yield from super()._answer(relay)


class SmallCountsAnswered(Relays):
    """Relays answer whatever the count is."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._least = dict.fromkeys(self._least, 1)


class StepsSummedAgain(Devices):
    """A step may be summed twice: a retry with a new payload."""

    def begin(self, step: Step, rows: Array | None = None) -> None:
        self._done.discard(step)
        super().begin(step, rows)


class ForgetfulRelays(Relays):
    """Relays that take a step for a new one although they had it."""

    def begin(self, step: Step, rows: Array | None = None) -> None:
        self._done.discard(step)
        super().begin(step, rows)


class ForgetfulSilos(Silos):
    """Silos that do."""

    def begin(self, step: Step, rows: Array | None = None) -> None:
        self._done.discard(step)
        super().begin(step, rows)


FORGETFUL = Roles(devices=StepsSummedAgain, silos=ForgetfulSilos, relays=ForgetfulRelays)
"""Machines that begin a step again, whatever they have done."""


def steps_summed_again(scheme: RelayCoded) -> RelayCoded:
    """A step may be summed twice, under masks of the step."""
    return replace(scheme, cryptography=kept_by(lambda step: step), roles=FORGETFUL)


class StaticTags(RealCryptography):
    """Targets keep the tag of their first sum."""

    def openings(self, draws: Draws, step: Step, owners: Ids) -> Ids:
        kept = self.__dict__.get("kept")
        self.__dict__["kept"] = super().openings(draws, step, owners) if kept is None else kept
        return np.asarray(self.__dict__["kept"])


class SameEverywhere(Tags):
    """What opens a tag at one relay opens it at all of them."""

    def derived(self, openings: Ids, place: int) -> Ids:  # noqa: ARG002  # whatever it is
        return super().derived(openings, 0)


class OneOpeningForAll(RealCryptography):
    """Real, but for such tags."""

    def __init__(self, field: PrimeField, T: int, **known: Any) -> None:
        super().__init__(field, T, **known)
        self.tags = SameEverywhere()


class Prying(Relays):
    """The first relay fetches every sum from all others with what it was shown, put in their place."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.told: list[Messages] = []

    def receive(self, messages: Messages) -> None:
        if messages.phase in (Phase.COUNTS, Phase.SHARE_SUMS):
            self.told.append(messages)
            return
        super().receive(messages)

    def _answer(self, relay: Any) -> Iterator[Messages]:
        shown = [messages[wire.OPENING] for messages in relay.fetches]
        yield from super()._answer(relay)
        for place, other in enumerate(self._everybody.tolist() if relay.party == self._everybody[0] else []):
            for openings in shown if other != relay.party else []:
                ends, swapped = (np.full(len(openings), relay.party), np.full(len(openings), other)), openings.copy()
                swapped[:, [0, place]] = openings[:, [place, 0]]
                for tried in (openings, swapped):
                    yield self._wire.say(Phase.FETCH, self.now, ends, 0, {wire.OPENING: tried})


class SendsWithoutKeys(Devices):
    """Senders that did not agree on keys with every relay send all the same."""

    def _leave_out(self) -> None:
        """Nobody."""


class Unpadded(Devices):
    """Everybody sends as many messages as it has."""

    def _padding(self, way: Any) -> int | None:  # noqa: ARG002  # whatever it is
        return None


class OneKeyForAll(RealCryptography):
    """Every sender shares the same key with a relay."""

    def sender_keys(self, offers: Any, senders: Ids, *_: Any, **__: Any) -> Any:  # noqa: ARG002
        return np.zeros((len(senders), 32), dtype=np.uint8)

    def relay_keys(self, private: Any, relay: int, publics: Any, *_: Any, **__: Any) -> Any:  # noqa: ARG002
        return np.zeros((len(publics), 32), dtype=np.uint8)


def nonce_without(**gone: Any) -> type[RealCryptography]:
    """The counter block of masks does not name some part of the step."""

    class Forgetting(RealCryptography):
        def nonce(self, step: Step) -> bytes:
            return mask_nonce(replace(step, **gone))

    return Forgetting
