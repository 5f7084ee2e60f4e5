"""What attacks find in the runs of an audit, beside what they find where there is nothing or everything to be found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fgl_secure.attacks.base import Attack, Measurement
from fgl_secure.auditing.plan import Subject
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.auditing.verdict import Verdict, judge
from fgl_secure.memory import collect_if_large
from fgl_secure.statistics.metrics import Interval
from fgl_secure.training.loop import Progress

_Chosen = tuple[Attack[Any, Any], ...]


@dataclass(frozen=True, slots=True)
class _Null:
    """What an attack that was shown an independent run gets right of this one: 0 where it makes no claim."""

    value: float = 0.0
    interval: Interval = Interval(0.0, 0.0)  # noqa: RUF009  # frozen


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """One attack on one recorded run.

    Attributes:
        attack: whose.
        protocol: the scheme of the run.
        what: was exchanged, in words.
        scenario: the kind of run.
        found: the figures, with the priors that the attack's knowledge has by itself; none if it found nothing to read.
        nulls: of each metric; those that are missing are `_Null()`.
    """

    attack: Attack[Any, Any]
    protocol: str
    what: str
    scenario: str
    found: tuple[Measurement, ...]
    nulls: Mapping[str, _Null]

    def null(self, metric: str) -> _Null:
        """The null control of a figure."""
        return self.nulls.get(metric, _Null())


def verdict_on(found: Measurement) -> Verdict:
    """What a figure says by itself."""
    return Verdict.CONTEXT if found.context else judge(found.value, found.interval, found.prior, exact=found.exact)


def attempts(
    chosen: _Chosen, subject: Subject, runs: Iterable[RecordedRun], seed: int, told: Progress | None = None
) -> Iterator[Attempt]:
    """Every attack on every run that it is for, each beside an independent run of the same shape.

    One that finds nothing to read gives an attempt without figures. Of a run and the independent one, what was said in
    the first is forgotten before the second is there.

    Args:
        chosen: the attacks.
        subject: what was run.
        runs: of the subject, as attacks read them.
        seed: of the independent runs.
        told: called when an attack begins, with how many began and how many there are; some read no run of these.
    """
    begun, others = set[str](), None
    for run in runs:
        reading = [each for each in chosen if run.is_for(each)]
        found: list[tuple[Measurement, ...] | None] = []
        for each in reading:
            begun.add(each.card.name)
            if told is not None:
                told(len(begun), len(chosen))
            guess = run.guess(each)
            found.append(None if guess is None else run.measure(each, guess))
            del guess
        run = run.unheard()  # noqa: PLW2901  # what was said in it takes gigabytes, and so does the other one
        collect_if_large()
        others = subject.independent(seed).recorded(seed) if others is None else others
        other = next(others, None)
        if other is None or run.scenario != other.scenario:
            raise _other_runs(subject)
        for each, figures in zip(reading, found, strict=True):
            nulls = {} if figures is None else _nulls(each, run, other)
            yield Attempt(each, run.protocol, run.what, run.scenario, figures or (), nulls)
        del run, other
        collect_if_large()
    if others is not None and next(others, None) is not None:
        raise _other_runs(subject)


def _other_runs(subject: Subject) -> AssertionError:
    return AssertionError(f"independent of {subject.name} must give the same kinds of runs in the same order")


def _nulls(each: Attack[Any, Any], run: RecordedRun, other: RecordedRun) -> dict[str, _Null]:
    guess = run.guess_elsewhere(each, other)
    return {} if guess is None else {f.metric: _Null(f.value, f.interval) for f in run.score(each, guess)}
