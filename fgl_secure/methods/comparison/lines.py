"""What a comparison found: a line a method, with a side in the clear and one that is secured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from fgl_secure.auditing.wording import Score

TONES = ("contradicted", "found", "quiet")
"""The outcome of an attack, the worst first: it contradicts a claim, it recovered something, it recovered nothing."""

NOT_ATTACKED, NOTHING_FOUND = "not attacked", "nothing found"
"""No attack read the run; or attacks did, and none recovered more than its prior."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one attack recovered under one scheme, in the seed and circumstance in which it did worst damage.

    Attributes:
        attack: its name.
        scheme: of the run, with what was special about it in brackets behind.
        metric: what is measured.
        value: the figure; 0 is nothing and 1 everything.
        low: lower end of its 95 % interval.
        high: upper end.
        prior: the figure of the best guess without having seen anything.
        n: units behind the figure, such as rows that were claimed.
        verdict: what the figure says.
        tone: one of `TONES`.
        seed: of the run.
    """

    attack: str
    scheme: str
    metric: str
    value: float
    low: float
    high: float
    prior: float
    n: int
    verdict: str
    tone: str
    seed: int

    @property
    def rank(self) -> tuple[int, float]:
        """The order of readings: contradicted claims first, then the largest excess over the prior."""
        return TONES.index(self.tone), self.prior - self.value


@dataclass(frozen=True, slots=True)
class Side:
    """A method under one scheme.

    Attributes:
        scheme: what it ran under.
        scores: on test data at the selected round, one a seed: fractions of right answers, or mean absolute errors.
        bytes: everything that was sent in a run, mean over seeds.
        seconds: of training, mean over seeds.
        readings: one for each attack that could read the run, the worst first.
        not_attacked: roles of parties that received messages, and from whose view no attack read the run.
    """

    scheme: str
    scores: tuple[float, ...]
    bytes: float
    seconds: float
    readings: tuple[Reading, ...]
    not_attacked: tuple[str, ...]

    @property
    def score(self) -> float:
        """The mean over seeds."""
        return fmean(self.scores)

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation over seeds; None of one."""
        return stdev(self.scores) if len(self.scores) > 1 else None

    @property
    def worst(self) -> Reading | None:
        """The first reading that recovered something; None if there is none."""
        return next((each for each in self.readings if each.tone != "quiet"), None)

    @property
    def without_findings(self) -> str:
        """What it means that there is no worst reading: `NOTHING_FOUND`, or `NOT_ATTACKED`."""
        return NOTHING_FOUND if self.readings else NOT_ATTACKED

    @property
    def recovered(self) -> float:
        """How far the worst reading exceeds its prior, 0 if there is none."""
        return 0.0 if self.worst is None else max(self.worst.value - self.worst.prior, 0.0)


@dataclass(frozen=True, slots=True)
class Line:
    """One method.

    Attributes:
        name: of the method.
        title: as its paper calls it.
        score: what its scores are.
        clear: in the clear, as published.
        secured: under a scheme; None where that was the plain sum itself.
    """

    name: str
    title: str
    score: Score
    clear: Side
    secured: Side | None

    @property
    def sides(self) -> tuple[Side, ...]:
        """Both, the one in the clear first."""
        return (self.clear,) if self.secured is None else (self.clear, self.secured)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A method that doesn't fit.

    Attributes:
        name: of the method.
        title: as its paper calls it.
        reason: why, a sentence.
    """

    name: str
    title: str
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class Compared:
    """Methods on one data set.

    Attributes:
        run: the data set, its partition, seeds, version, and how to repeat it: JSON values.
        lines: one a method that fits.
        left_out: the others.
    """

    run: Mapping[str, Any]
    lines: tuple[Line, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def contradictions(self) -> tuple[Reading, ...]:
        """The readings that contradict what a chosen scheme claims; runs in the clear are for comparison alone."""
        return tuple(r for line in self.lines for r in line.sides[-1].readings if r.tone == "contradicted")

    def as_json(self) -> dict[str, Any]:
        """The comparison as JSON values: scores are fractions or errors, times seconds."""
        return {
            "run": dict(self.run),
            "methods": [asdict(line) for line in self.lines],
            "left_out": [asdict(each) for each in self.left_out],
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(line.title for line in self.lines)} on {self.run['dataset']})"


def side_of(founds: Sequence[Mapping[str, Any]], index: int) -> Side | None:
    """One side over all seeds.

    Args:
        founds: of each seed what its run came to.
        index: 0 in the clear, 1 secured.
    """
    if any(len(found["sides"]) <= index for found in founds):
        return None
    sides = [found["sides"][index] for found in founds]
    readings: dict[str, Reading] = {}
    for reading in (Reading(**each) for side in sides for each in side["readings"]):
        known = readings.setdefault(reading.attack, reading)
        if reading.rank < known.rank:
            readings[reading.attack] = reading
    return Side(
        sides[0]["scheme"],
        tuple(side["score"] for side in sides),
        fmean(side["bytes"] for side in sides),
        fmean(side["seconds"] for side in sides),
        tuple(sorted(readings.values(), key=lambda each: each.rank)),
        tuple(sorted({role for side in sides for role in side["not_attacked"]})),
    )
