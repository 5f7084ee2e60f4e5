"""Decode the relays' answers to sums."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from fgl_secure.algebra import Elements
from fgl_secure.errors import ProtocolError, TooManyErrors
from fgl_secure.protocols.relay_coded.code import AT_ONCE, target_decode
from fgl_secure.protocols.relay_coded.plan import Parameters
from fgl_secure.runtime import Draws, Step
from fgl_secure.typing import Array, Flags, Ids

Remark = Callable[[Step, int, str], None]


class Answers:
    """One relay's answers, by sum, in the order of the requests.

    Args:
        relay: party identifier.
        groups: number of sums.

    Attributes:
        relay: as given.
        counts: int64 [h], messages in each sum; 0 if the relay refuses, or before its answer.
        sums: elements [*batch, h, d]; None before the first.
        available: bool [h], which of them are there.
        answered: bool [h], for which of them an answer has arrived, good or not.
    """

    def __init__(self, relay: int, groups: int) -> None:
        self.relay = relay
        self.counts: Ids = np.zeros(groups, dtype=np.int64)
        self.sums: Elements | None = None
        self.available: Flags = np.zeros(groups, dtype=np.bool_)
        self.answered: Flags = np.zeros(groups, dtype=np.bool_)

    @property
    def complete(self) -> bool:
        """Whether an answer has arrived for each of them, good or not."""
        return bool(self.answered.all())

    def add(self, counts: Ids, sums: Elements, place: Ids) -> None:
        """Takes counts, and shares [*batch, k, d], of the sums at some places; what is there stands."""
        new = ~self.available[place]
        if not new.all():
            counts, sums, place = counts[new], np.compress(new, sums, axis=-2), place[new]
        self.counts[place], self.available[place], self.answered[place] = counts, True, True
        if self.sums is None and len(place) == len(self.available) and (place[1:] > place[:-1]).all():
            self.sums = sums
            return
        if self.sums is None:
            self.sums = np.zeros((*sums.shape[:-2], len(self.available), sums.shape[-1]), dtype=sums.dtype)
        self.sums[..., place, :] = sums

    def state(self) -> dict[str, Array]:
        """All of it."""
        arrays = {"counts": self.counts, "there": self.available, "heard": self.answered}
        return arrays if self.sums is None else {**arrays, "sums": self.sums}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken."""
        self.counts, self.available, self.sums = state["counts"].copy(), state["there"].copy(), state.get("sums")
        self.answered = state["heard"].copy()


class Decoder:
    """Decodes the sums of one step.

    Args:
        scheme: its parameters.
        draws: coins, to locate errors, and names of parties.
        remark: where to note what was mended.
        step: when.
        owners: int64 [h], of the sums.
        answers: of all R relays.
    """

    def __init__(
        self, scheme: Parameters, draws: Draws, remark: Remark, step: Step, owners: Ids, answers: Sequence[Answers]
    ) -> None:
        self._scheme, self._draws, self._remark, self._step = scheme, draws, remark, step
        self._owners, self._answers = owners, answers

    def sums(self, entitled: Flags, expected: Ids, width: int | None) -> Elements:
        """Return the sums, in the order of the requests: elements [*batch, h, d].

        Args:
            entitled: bool [h], which sums are wanted at all.
            expected: int64 [h], messages of each group.
            width: coordinates of each; None takes that of the answers.

        Raises:
            ProtocolError: fewer than T + 1 relays answered any owner, or they disagree in more places than can be
                corrected.
        """
        axis = len(self._draws.batch_shape)
        self._note_silent(entitled)
        usable = self._select_equal_counts(entitled)
        self._require_enough(usable & entitled, entitled)
        enough = entitled & (usable.sum(axis=0) > self._scheme.T)
        self._note_unanswered(usable, entitled & ~enough)
        widths = [answer.sums.shape[-1] for answer in self._answers if answer.sums is not None]
        wide = widths[0] if width is None and widths else width or 0
        shape = (*self._draws.batch_shape, len(self._owners), wide)
        out = np.zeros(shape, dtype=self._scheme.field.dtype)
        for pattern in _patterns(usable[:, enough]):
            relays, places = np.flatnonzero(pattern), np.flatnonzero(enough & (usable == pattern[:, None]).all(axis=0))
            relay_sums = [np.asarray(self._answers[int(j)].sums) for j in relays]
            # where no wrong sum could be named every sum is decoded by itself, and so some of them at a time
            chunk_size = max(AT_ONCE * len(usable.T) // max(out.size, 1), 1)
            step = max(len(places), 1) if self._correctable(len(relays)) else chunk_size
            for start in range(0, len(places), step):
                chunk = places[start : start + step]
                out[..., chunk, :] = self._decode([np.take(sums, chunk, axis=axis) for sums in relay_sums], relays)
        self._note_missing(usable, enough, expected)
        return out

    def _select_equal_counts(self, entitled: Flags) -> Flags:
        """Which answers are used, bool [relays, h]: who counts otherwise than the rest has summed otherwise."""
        usable, counts = (np.array([getattr(a, name) for a in self._answers]) for name in ("available", "counts"))
        usual = np.take_along_axis(counts, usable.argmax(axis=0)[None], axis=0)
        for group in np.flatnonzero((usable & (counts != usual)).any(axis=0) & entitled):
            values, votes = np.unique(counts[usable[:, group], group], return_counts=True)
            deviating = usable[:, group] & (counts[:, group] != values[votes.argmax()])
            if int(deviating.sum()) > self._correctable(int(usable[:, group].sum())):
                listing = ", ".join(
                    f"{self._name(a.relay)} {count}" for a, count in zip(self._answers, counts[:, group], strict=True)
                )
                raise ProtocolError(
                    f"relays must count the same messages in the sum for {self._name(int(self._owners[group]))} in "
                    f"round {self._step.round}; found {listing}"
                )
            usable[deviating, group] = False
            for j in np.flatnonzero(deviating).tolist():
                reason = "the relay counts otherwise: its sum is not used"
                self._remark(self._step, self._answers[j].relay, reason)
        return usable

    def _require_enough(self, usable: Flags, entitled: Flags) -> None:
        """Raise if too few relays answer any owner; a relay that answers some owners only is noted below."""
        responsive = usable.any(axis=1)
        if entitled.any() and responsive.sum() <= self._scheme.T:
            silent = ", ".join(self._name(self._answers[j].relay) for j in np.flatnonzero(~responsive).tolist())
            raise ProtocolError(
                f"T + 1 = {self._scheme.T + 1} relays must answer; found {int(responsive.sum())} in round "
                f"{self._step.round}, without {silent}"
            )

    def _note_silent(self, entitled: Flags) -> None:
        """Of a relay are missing the answers to sums that others answered; where no relay answered anything, all."""
        available = np.array([relay_answers.available for relay_answers in self._answers]) & entitled
        expected = available.any(axis=0) if available.any() else entitled
        for answer in self._answers:
            missing = int((expected & ~answer.available).sum())
            if missing:
                self._remark(self._step, answer.relay, f"{missing} answers of the relay did not arrive")

    def _note_unanswered(self, usable: Flags, lost: Flags) -> None:
        """A sum that too few relays answered, while they answered others, is missing to its owner alone."""
        for group in np.flatnonzero(lost).tolist():
            count = int(usable[:, group].sum())
            reason = f"{count} of T + 1 = {self._scheme.T + 1} relays answered it: its sum stays zero"
            self._remark(self._step, int(self._owners[group]), reason)

    def _note_missing(self, usable: Flags, entitled: Flags, expected: Ids) -> None:
        counts = np.where(usable, np.array([answer.counts for answer in self._answers]), 0).max(axis=0)
        for group in np.flatnonzero(entitled & (counts == 0)).tolist():
            reason = "too few messages are left for its sum, which is not computed"
            self._remark(self._step, int(self._owners[group]), reason)
        for group in np.flatnonzero(entitled & (counts > 0) & (counts < expected)).tolist():
            reason = f"its sum lacks {int(expected[group] - counts[group])} of {int(expected[group])} messages"
            self._remark(self._step, int(self._owners[group]), reason)

    def _decode(self, sums: Sequence[Elements], relays: Ids) -> Elements:
        points = [int(j) + 1 for j in relays]
        try:
            scheme, coins = self._scheme, self._draws.coins
            decoded, errors = target_decode(scheme.field, scheme.T, points, np.stack(sums), coins)
        except TooManyErrors as error:
            names = ", ".join(self._name(self._answers[int(j)].relay) for j in relays)
            raise ProtocolError(
                f"the sums of {names} in round {self._step.round} must lie on one polynomial of degree "
                f"{self._scheme.T}; more than {self._correctable(len(points))} of them are wrong, and {len(points)} "
                "relays locate no more"
            ) from error
        for position in errors:
            reason = "the relay answered with wrong sums, which are corrected"
            self._remark(self._step, self._answers[int(relays[position])].relay, reason)
        return decoded

    def _correctable(self, relays: int) -> int:
        return max((relays - self._scheme.T - 1) // 2, 0)

    def _name(self, party: int) -> str:
        return self._draws.name_of(party)


def _patterns(flags: Flags) -> Iterable[Flags]:
    """The different columns of flags [relays, k]."""
    if flags.all():  # as nearly always; columns are slow to sort
        return [flags[:, 0]] if flags.size else []
    return np.unique(flags, axis=1).T
