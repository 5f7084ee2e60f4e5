"""Relay-coded message passing with one flaw at a time: other cryptography, or another machine, given to the scheme."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fgl_reproduction.known_flaws.ideal_relays import IdealCryptography
from fgl_secure.algebra import Elements, PrimeField, lagrange_matrix
from fgl_secure.protocols.relay_coded import RelayCoded, Roles, wire
from fgl_secure.protocols.relay_coded.code import source_shares
from fgl_secure.protocols.relay_coded.cryptography import Cryptography, mask_nonce
from fgl_secure.protocols.relay_coded.devices import Devices
from fgl_secure.protocols.relay_coded.pseudonyms import Pseudonyms
from fgl_secure.protocols.relay_coded.relays import Relays
from fgl_secure.protocols.relay_coded.silos import Silos
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

    def shares(self, masks: list[Elements], places: Ids | slice) -> list[Elements]:
        scheme = self._scheme
        points = (*range(scheme.T + 1, scheme.R), 0)
        return list(source_shares(scheme.field, scheme.T, points, self._q, self.rows(places), masks))


class LowerDegree(Devices):
    """Polynomials of degree T - 1: the last mask is the value of a polynomial through the secret and the others."""

    def masks(self, places: Ids | slice | None = None) -> list[Elements]:
        drawn, field, T = super().masks(places), self._scheme.field, self._scheme.T
        (weights,) = lagrange_matrix(field, tuple(range(T)), (T,))
        rows = self.rows(np.arange(len(self._plan)) if places is None else places)
        known = [np.broadcast_to(self._q[rows] * (rows >= 0)[:, None], drawn[0].shape), *drawn[:-1]]
        last = sum(int(w) * part.astype(np.int64) for w, part in zip(weights, known, strict=True)) % field.modulus
        return [*drawn[:-1], np.asarray(last, dtype=field.dtype)]


def answers_now(relays: Relays, relay: Any) -> bool:
    """Whether a relay has circuits that it has not answered in the step."""
    fetches = relays._table(relay).fetches
    return any(len(each) > len(relay.done.get(sealed, ())) for sealed, each in fetches.items())


class ExtraShare(Devices):
    """The first relay gets the last relay's shares as well, as a message that it ignores."""

    def _masked_rows(self) -> Iterator[Messages]:
        for messages in super()._masked_rows():
            yield messages
            ends, last = (messages.senders, np.full(len(messages), self._relays[0])), messages["share"][..., -1:]
            yield self._wire.make(Phase.VALUES, self.now, ends, 0, {"share": last})

    def _plain_rows(self) -> Iterator[Messages]:
        for messages in super()._plain_rows():
            yield messages
            if messages.phase is Phase.SHARES and messages.receivers[0] == self._relays[-1]:
                ends = messages.senders, np.full(len(messages), self._relays[0])
                yield self._wire.make(Phase.VALUES, self.now, ends, 0, {"share": messages["share"]})


class AnsweredTwice(Relays):
    """Relays answer every group a second time, for one message less."""

    def _answer(self, relay: Any) -> Iterator[Messages]:
        if not answers_now(self, relay):
            return
        rows, present = list(relay.rows), relay.present
        relay.present = present & (np.cumsum(present) > 1)
        yield from super()._answer(relay)
        relay.rows, relay.present, relay.sums, relay.done = rows, present, None, {}
        yield from super()._answer(relay)


class SmallCountsAnswered(Relays):
    """Relays answer whatever the count is."""

    def _is_answered(self, relay: Any, counts: Ids) -> Any:  # noqa: ARG002  # whatever it is
        return counts > 0


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


class SameEverywhere(Pseudonyms):
    """What opens a pseudonym at one relay opens it at all of them."""

    def derived(self, openings: Ids, place: int) -> Ids:  # noqa: ARG002  # whatever it is
        return super().derived(openings, 0)


class OneOpeningForAll(Cryptography):
    """Real, but for such pseudonyms."""

    def __init__(self, field: PrimeField, T: int, **known: Any) -> None:
        super().__init__(field, T, **known)
        self.pseudonyms = SameEverywhere()


class Prying(Relays):
    """The first relay fetches every sum from all others with what it was shown, put in their place."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.told: list[Messages] = []
        self.shown: list[Array] = []

    def receive(self, messages: Messages) -> None:
        if messages.phase is Phase.SHARE_SUMS:
            self.told.append(messages)
            return
        if messages.phase is Phase.CIRCUITS and "payload" in messages.fields and messages["payload"].ndim == 3:
            own = np.isin(messages.receivers, self._all_relays[:1]) & np.isin(
                messages.senders, self._all_relays, invert=True
            )
            self.shown += [messages["payload"][own]] if own.any() else []
        super().receive(messages)

    def step(self) -> Any:
        yield from super().step()
        shown, self.shown = self.shown, []
        for place, other in enumerate(self._all_relays.tolist()):
            for openings in shown if place else []:
                ends, swapped = (
                    (np.full(len(openings), self._all_relays[0]), np.full(len(openings), other)),
                    openings.copy(),
                )
                swapped[:, [0, place]] = openings[:, [place, 0]]
                for n, tried in enumerate((openings, swapped)):
                    fields = {"payload": tried, wire.PLACE: np.arange(len(tried), dtype=np.uint32) + n * len(tried)}
                    yield self._wire.make(Phase.CIRCUITS, self.now, ends, 0, fields)


class SendsWithoutKeys(Devices):
    """Senders that did not agree on keys with every relay send all the same."""

    def _find_sending(self) -> Ids:
        return np.flatnonzero(self._current["told"])


class OneKeyForAll(Cryptography):
    """Every sender shares the same key with a relay."""

    def sender_keys(self, offers: Any, senders: Ids, *_: Any, **__: Any) -> Any:  # noqa: ARG002
        return np.zeros((len(senders), 32), dtype=np.uint8)

    def relay_keys(self, private: Any, relay: int, publics: Any, *_: Any, **__: Any) -> Any:  # noqa: ARG002
        return np.zeros((len(publics), 32), dtype=np.uint8)


def nonce_without(**gone: Any) -> type[Cryptography]:
    """The counter block of masks does not name some part of the step."""

    class Forgetting(Cryptography):
        def nonce(self, step: Step, attempt: int = 0) -> bytes:
            return mask_nonce(replace(step, **gone), attempt)

    return Forgetting
