"""What a check found, how a privacy test ends that does not pass, and the options of pytest's command line."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from fgl_secure.errors import FglSecureError


class PrivacyAssertionError(FglSecureError, AssertionError):
    """The protocol under test does not have the property; the message says who sees what, and how surely."""


class NotPrivateError(PrivacyAssertionError):
    """A coalition can tell two inputs apart that it is not entitled to tell apart."""


class NotSimulatableError(PrivacyAssertionError):
    """A coalition's view holds more than a simulator can make up from the allowed leakage."""


class TraceDiffersError(PrivacyAssertionError):
    """Counts, sizes or endpoints of messages depend on the inputs."""


class VacuousTestError(FglSecureError):
    """The test would pass whatever the protocol does; one whose broken twin passes is such a test."""


class PrivacyTestWarning(UserWarning):
    """A test compared less than it may seem to."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The outcome of one check of one protocol.

    Attributes:
        check: what was checked.
        protocol: name of the protocol.
        observer: the coalition, or another observer.
        rejected: whether the check found a difference.
        statistic: the figure that decides, with its name.
        detectable: what the check would have detected.
        advantage: the smallest distinguishing advantage behind `detectable`; 0 where every difference is seen.
        notes: further lines.
    """

    check: str
    protocol: str
    observer: str
    rejected: bool
    statistic: str
    detectable: str
    advantage: float
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """One line."""
        verdict = "rejected" if self.rejected else "no difference found"
        return (
            f"{self.check}, {self.protocol}, {self.observer}: {verdict} ({self.statistic}); "
            f"detectable advantage: {self.detectable}"
        )

    def message(self, headline: str) -> str:
        """Several lines, for an error."""
        lines = (
            headline,
            f"  coalition: {self.observer}",
            f"  statistic: {self.statistic}",
            f"  detectable advantage: {self.detectable}",
            *(f"  {note}" for note in self.notes),
        )
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults of one test run.

    Attributes:
        samples: sample size of each arm of a statistical check; None takes the smallest that is large enough.
        seed: makes statistical checks repeatable; None draws secret coins.
        report: gets one line a finished check, for the summary.
        ceilings: METRIC=VALUE, on what finished models reveal.
    """

    samples: int | None = None
    seed: int | None = None
    report: Callable[[str], None] = lambda _line: None
    ceilings: tuple[str, ...] = ()


# pytest offers a plain function no other way to the options it was started with. Set around one test, then reset.
CURRENT: ContextVar[Settings] = ContextVar("fgl_secure.testing.CURRENT", default=Settings())  # noqa: B039  # frozen
