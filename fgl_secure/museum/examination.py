"""The one examination that every exhibit gets: traces, exact comparison or samples, lower bounds on epsilon.

It sees the subject alone, and treats all subjects alike. What is exact has no false alarms. Samples and bounds have
levels of their own, whose false alarms add up to less than one in a million over all exhibits.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from fgl_secure.coins import Coins, SimulationCoins, SystemCoins
from fgl_secure.museum.bounds import lower_bound
from fgl_secure.museum.exhibit import Exhibit, Hiding, Releasing, Subject
from fgl_secure.museum.questions import Coalition, Pair, questions_of
from fgl_secure.museum.twins import louder, saying
from fgl_secure.runtime import Recording, Transcript
from fgl_secure.testing import (
    PrivacyAssertionError,
    Protocol,
    assert_affinely_private,
    assert_exactly_private,
    assert_same_trace,
    assert_statistically_private,
)
from fgl_secure.testing.affine import Judges, NotAffineError
from fgl_secure.testing.arms import Arm, Views, views_of
from fgl_secure.testing.coins import BatchCoins, tape_count
from fgl_secure.testing.evidence import Evidence
from fgl_secure.testing.protocol import Inputs, words

MOST_TAPES = 2**19
"""Beyond that a run on all tapes takes seconds, and row spaces or samples answer instead."""

FALSE_ALARM = 1e-8
"""Of each question that samples answer and of each mechanism, sound ones in the catalogue having none of either."""

EXACTLY, ROW_SPACES, SAMPLES = "exact enumeration", "exact, by row spaces", "samples"
_TAPES_A_COALITION = 2**20
_WAIVED = {"coalition": "a promise names its coalitions, and the largest of them are asked"}
_ADVANTAGE = 0.1


@dataclass(frozen=True, slots=True)
class Finding:
    """What the examination of one exhibit found.

    Attributes:
        exhibit: what was examined.
        found: whether it was told that the promise is not kept.
        observer: the smallest coalition that told so; of a promise that was kept, who was asked.
        check: which check decided.
        statistic: the figure that decided.
        questions: how many pairs of inputs were asked about.
        seconds: how long that took.
    """

    exhibit: Exhibit
    found: bool
    observer: str
    check: str
    statistic: str
    questions: int
    seconds: float

    @property
    def expected(self) -> bool:
        """Whether a flaw was found where there is one, and only there."""
        return self.found is not self.exhibit.sound


def examine(exhibit: Exhibit, seed: int | None = None) -> Finding:
    """Examines one exhibit.

    Args:
        exhibit: what is examined.
        seed: repeats samples and bounds; None draws secret coins.
    """
    start = time.perf_counter()
    subject: Subject = exhibit.subject()
    result = _released(subject, seed) if isinstance(subject, Releasing) else _hidden(subject, seed)
    return Finding(exhibit, *result, time.perf_counter() - start)


_Result = tuple[bool, str, str, str, int]


def _released(subject: Releasing, seed: int | None) -> _Result:
    """Each row moved from 0 to the unit, until a bound exceeds what is promised."""
    bounds = []
    for row in range(subject.rows):
        coins: Coins = SystemCoins() if seed is None else SimulationCoins(seed + row)
        bounds.append(lower_bound(subject, subject.neighbours(row), coins, FALSE_ALARM / subject.rows))
        if bounds[-1].epsilon > subject.epsilon:
            break
    best = max(bounds, key=lambda bound: bound.epsilon)
    found = best.epsilon > subject.epsilon
    statistic = (
        f"epsilon is at least {best.epsilon:.3g} at delta {subject.delta:g} by {best.statistic}, where "
        f"{subject.epsilon:g} is promised; confidence 1 - {FALSE_ALARM:g}"
    )
    return found, "whoever sees the output", "lower bound on epsilon", statistic, len(bounds)


def _hidden(subject: Hiding, seed: int | None) -> _Result:
    """Every coalition that the promises name, about inputs that it may not tell apart, until it tells two apart."""
    views = _Views(subject, seed)
    questions = [(each, views.some(pairs)) for each, pairs in questions_of(subject) if views.received_by(each)]
    questions = sorted((each for each in questions if each[1]), key=lambda each: -views.received_by(each[0]))
    asked, statistic = 0, "nothing was asked"
    for coalition, pairs in questions:
        if not asked:
            try:
                assert_same_trace(subject.protocol, *pairs[0], broken_twin=views.louder(pairs[0]))
            except PrivacyAssertionError as error:
                return True, "an observer of the network", "traces", _statistic(error), 1
        for pair in pairs:
            asked += 1
            try:
                statistic = views.compare(pair, coalition).statistic
            except PrivacyAssertionError as error:
                return True, *views.smallest(pair, coalition, error), asked
    return False, f"{len(questions)} coalitions", f"traces; {views.kind}", statistic, asked


class _Views:
    """How views of one protocol are compared: over all tapes, by row spaces, or by samples.

    Args:
        subject: whose.
        seed: of samples; None draws secret coins.
    """

    def __init__(self, subject: Hiding, seed: int | None) -> None:
        self._protocol, self._zero, self._seed = subject.protocol, subject.zero, seed
        self._judges, self._twins, self._runs = Judges(), dict[int, Protocol](), dict[bytes, Views]()
        self._everybody = tuple(map(self._protocol.parties.party_of, range(len(self._protocol.parties))))
        self._tapes = tape_count(Arm(self._protocol, self._zero, ()).draws())
        self.kind = EXACTLY if self._tapes <= MOST_TAPES else ROW_SPACES if self._is_affine() else SAMPLES
        self._seen = self._run(self._zero)

    def received_by(self, coalition: Coalition) -> int:
        """How many numbers a coalition is sent."""
        return int(views_of(self._seen, coalition, ()).values.shape[1])

    def some(self, pairs: list[Pair]) -> list[Pair]:
        """As many questions as there is time for, from all over the list, of those that any message depends on."""
        most = {EXACTLY: max(_TAPES_A_COALITION // self._tapes, 3), ROW_SPACES: 4, SAMPLES: 2}[self.kind]
        read = [pair for pair in pairs if self._depends(pair)]
        return [read[at] for at in np.unique(np.linspace(0, len(read) - 1, min(most, len(read))).astype(int))]

    def compare(self, pair: Pair, coalition: Coalition) -> Evidence:
        """Asks one question; the twin says the entry in which the two inputs differ."""
        entry = _differing(pair)
        twin = self._twins.setdefault(entry, saying(self._protocol, entry))
        if self.kind == EXACTLY:
            return assert_exactly_private(self._protocol, *pair, coalition, broken_twin=twin, waived=_WAIVED)
        if self.kind == ROW_SPACES:
            return assert_affinely_private(
                self._protocol, *pair, coalition, broken_twin=twin, judges=self._judges, waived=_WAIVED
            )
        return assert_statistically_private(
            self._protocol, *pair, coalition, broken_twin=twin, advantage=_ADVANTAGE, alpha=FALSE_ALARM**0.5,
            seed=self._seed, waived=_WAIVED,
        )  # fmt: skip

    def smallest(self, pair: Pair, coalition: Coalition, error: Exception) -> tuple[str, str, str]:
        """The smallest coalition inside one that still tells two inputs apart, the check, and its statistic."""
        for member in coalition:
            smaller = tuple(each for each in coalition if each != member)
            if not smaller or not self.received_by(smaller):
                continue
            try:
                self.compare(pair, smaller)
            except PrivacyAssertionError as again:
                return self.smallest(pair, smaller, again)
        return words(coalition), self.kind, _statistic(error)

    def louder(self, pair: Pair) -> Protocol:
        """A twin whose trace differs between two inputs."""
        entry = _differing(pair)
        return louder(self._protocol, entry, int(pair[0].reshape(-1)[entry]))

    def _is_affine(self) -> bool:
        try:
            self._judges.of(self._protocol).view(self._zero, self._everybody)
        except NotAffineError:
            return False
        return True

    def _depends(self, pair: Pair) -> bool:
        """Whether any message differs on the same coins; where none does nobody can tell anything."""
        for values in pair:
            if values.tobytes() not in self._runs:
                self._runs[values.tobytes()] = views_of(self._run(values), self._everybody, ())
        a, b = (self._runs[values.tobytes()] for values in pair)
        return a.layout != b.layout or not np.array_equal(a.values, b.values)

    def _run(self, inputs: Inputs) -> Transcript:
        coins: Coins = SimulationCoins(0)
        coins = BatchCoins(coins, 1) if self._protocol.batched else coins
        return self._protocol.transcript(inputs, coins, Recording.everything())


def _differing(pair: Pair) -> int:
    """Position of the first entry in which two inputs differ."""
    return int(np.flatnonzero((pair[0] != pair[1]).reshape(-1))[0])


def _statistic(error: Exception) -> str:
    """What the kit's error says that it decided by."""
    lines = (line.strip() for line in str(error).splitlines())
    return next(line.removeprefix("statistic: ") for line in lines if line.startswith("statistic: "))
