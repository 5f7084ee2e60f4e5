"""The one examination of all cases: traces, exact comparison or samples, lower bounds on epsilon.

Its input is the subject alone, and it treats all subjects alike. Exact comparison has no false alarms. Samples and
bounds have levels whose false alarms add up to less than one in a million over all cases.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from fgl_reproduction.known_flaws.bounds import lower_bound
from fgl_reproduction.known_flaws.case import FlawCase, HidingProtocol, ReleasingMechanism, Subject
from fgl_reproduction.known_flaws.negative_controls import add_message, reveal_input
from fgl_reproduction.known_flaws.questions import Coalition, Pair, questions_of
from fgl_secure.coins import Coins, SimulationCoins, SystemCoins
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
"""Beyond that a run on all random tapes takes seconds, and row spaces or samples are compared instead."""

FALSE_ALARM = 1e-8
"""Per question that samples answer and per mechanism; sound cases of the catalogue have neither."""

EXACTLY, ROW_SPACES, SAMPLES = "exact enumeration", "exact, by row spaces", "samples"
_TAPES_A_COALITION = 2**20
_WAIVED = {"coalition": "a guarantee names its coalitions, and the largest of them are tested"}
_ADVANTAGE = 0.1


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of the examination of one case.

    Attributes:
        case: the case that was examined.
        violated: whether a violation of the guarantee was found.
        observer: the smallest coalition that shows the violation; without one, the coalitions that were tested.
        check: which check decided.
        statistic: the figure that decided.
        questions: number of pairs of inputs that were compared.
        seconds: wall time.
    """

    case: FlawCase
    violated: bool
    observer: str
    check: str
    statistic: str
    questions: int
    seconds: float

    @property
    def is_expected(self) -> bool:
        """Whether a violation was found in a flawed case, or none in a sound one."""
        return self.violated is not self.case.sound


def examine(case: FlawCase, seed: int | None = None) -> Finding:
    """Examine one case.

    Args:
        case: the case; only its subject is used.
        seed: repeats samples and bounds; None draws secret randomness.
    """
    start = time.perf_counter()
    subject: Subject = case.subject()
    result = (
        _examine_release(subject, seed) if isinstance(subject, ReleasingMechanism) else _examine_hiding(subject, seed)
    )
    return Finding(case, *result, time.perf_counter() - start)


_Result = tuple[bool, str, str, str, int]


def _examine_release(subject: ReleasingMechanism, seed: int | None) -> _Result:
    """Move each row from 0 to the unit, until a bound exceeds the guaranteed epsilon."""
    bounds = []
    for row in range(subject.rows):
        coins: Coins = SystemCoins() if seed is None else SimulationCoins(seed + row)
        bounds.append(lower_bound(subject, subject.neighbours(row), coins, FALSE_ALARM / subject.rows))
        if bounds[-1].epsilon > subject.epsilon:
            break
    best = max(bounds, key=lambda bound: bound.epsilon)
    violated = best.epsilon > subject.epsilon
    statistic = (
        f"epsilon is at least {best.epsilon:.3g} at delta {subject.delta:g} by {best.statistic}; "
        f"{subject.epsilon:g} is guaranteed; confidence 1 - {FALSE_ALARM:g}"
    )
    return violated, "receiver of the output", "lower bound on epsilon", statistic, len(bounds)


def _examine_hiding(subject: HidingProtocol, seed: int | None) -> _Result:
    """Test every coalition of the guarantees on inputs that it must not distinguish, until it distinguishes two."""
    views = _Views(subject, seed)
    questions = [(item, views.some(pairs)) for item, pairs in questions_of(subject) if views.received_by(item)]
    questions = sorted((item for item in questions if item[1]), key=lambda item: -views.received_by(item[0]))
    asked, statistic = 0, "no question applies"
    for coalition, pairs in questions:
        if not asked:
            try:
                assert_same_trace(subject.protocol, *pairs[0], broken_twin=views.chatty_control(pairs[0]))
            except PrivacyAssertionError as error:
                return True, "network observer", "traces", _statistic(error), 1
        for pair in pairs:
            asked += 1
            try:
                statistic = views.compare(pair, coalition).statistic
            except PrivacyAssertionError as error:
                return True, *views.smallest(pair, coalition, error), asked
    return False, f"{len(questions)} coalitions", f"traces; {views.kind}", statistic, asked


class _Views:
    """Comparison of views of one protocol: over all random tapes, by row spaces, or by samples.

    Args:
        subject: the protocol with its guarantees.
        seed: of samples; None draws secret randomness.
    """

    def __init__(self, subject: HidingProtocol, seed: int | None) -> None:
        self._protocol, self._zero, self._seed = subject.protocol, subject.zero, seed
        self._judges, self._controls, self._runs = Judges(), dict[int, Protocol](), dict[bytes, Views]()
        self._all_parties = tuple(map(self._protocol.parties.party_of, range(len(self._protocol.parties))))
        self._tapes = tape_count(Arm(self._protocol, self._zero, ()).draws())
        self.kind = EXACTLY if self._tapes <= MOST_TAPES else ROW_SPACES if self._is_affine() else SAMPLES
        self._zero_run = self._run(self._zero)

    def received_by(self, coalition: Coalition) -> int:
        """Return how many numbers a coalition receives."""
        return int(views_of(self._zero_run, coalition, ()).values.shape[1])

    def some(self, pairs: list[Pair]) -> list[Pair]:
        """Return an evenly spaced selection of the questions that messages depend on, bounded by run time."""
        most = {EXACTLY: max(_TAPES_A_COALITION // self._tapes, 3), ROW_SPACES: 2, SAMPLES: 2}[self.kind]
        relevant = [pair for pair in pairs if self._depends(pair)]
        chosen = np.unique(np.linspace(0, len(relevant) - 1, min(most, len(relevant))).astype(int))
        return [relevant[index] for index in chosen]

    def compare(self, pair: Pair, coalition: Coalition) -> Evidence:
        """Compare one pair of inputs; the negative control reveals the entry in which they differ."""
        entry = _differing(pair)
        control = self._controls.setdefault(entry, reveal_input(self._protocol, entry))
        if self.kind == EXACTLY:
            return assert_exactly_private(self._protocol, *pair, coalition, broken_twin=control, waived=_WAIVED)
        if self.kind == ROW_SPACES:
            return assert_affinely_private(
                self._protocol, *pair, coalition, broken_twin=control, judges=self._judges, waived=_WAIVED
            )
        return assert_statistically_private(
            self._protocol, *pair, coalition, broken_twin=control, advantage=_ADVANTAGE, alpha=FALSE_ALARM**0.5,
            seed=self._seed, waived=_WAIVED,
        )  # fmt: skip

    def smallest(self, pair: Pair, coalition: Coalition, error: Exception) -> tuple[str, str, str]:
        """Return the smallest part of a coalition that still distinguishes two inputs, the check and its statistic."""
        for member in coalition:
            smaller = tuple(item for item in coalition if item != member)
            if not smaller or not self.received_by(smaller):
                continue
            try:
                self.compare(pair, smaller)
            except PrivacyAssertionError as again:
                return self.smallest(pair, smaller, again)
        return words(coalition), self.kind, _statistic(error)

    def chatty_control(self, pair: Pair) -> Protocol:
        """Return a negative control whose trace differs between two inputs."""
        entry = _differing(pair)
        return add_message(self._protocol, entry, int(pair[0].reshape(-1)[entry]))

    def _is_affine(self) -> bool:
        try:
            self._judges.of(self._protocol).view(self._zero, self._all_parties)
        except NotAffineError:
            return False
        return True

    def _depends(self, pair: Pair) -> bool:
        """Return whether any message differs on equal randomness; if none does, no coalition distinguishes the pair."""
        for values in pair:
            if values.tobytes() not in self._runs:
                self._runs[values.tobytes()] = views_of(self._run(values), self._all_parties, ())
        a, b = (self._runs[values.tobytes()] for values in pair)
        return a.layout != b.layout or not np.array_equal(a.values, b.values)

    def _run(self, inputs: Inputs) -> Transcript:
        coins: Coins = SimulationCoins(0)
        coins = BatchCoins(coins, 1) if self._protocol.batched else coins
        return self._protocol.transcript(inputs, coins, Recording.everything())


def _differing(pair: Pair) -> int:
    """Return the position of the first entry in which two inputs differ."""
    return int(np.flatnonzero((pair[0] != pair[1]).reshape(-1))[0])


def _statistic(error: Exception) -> str:
    """Return the statistic in the text of the kit's error."""
    lines = (line.strip() for line in str(error).splitlines())
    return next(line.removeprefix("statistic: ") for line in lines if line.startswith("statistic: "))
