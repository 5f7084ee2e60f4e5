"""What the command line of pytest says to the checks, and where the checks report to. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass


def _nobody(_: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults of one test run.

    Attributes:
        samples: sample size of each arm of a statistical check; None takes the smallest that is large enough.
        seed: makes statistical checks repeatable; None draws secret coins.
        report: gets one line a finished check, for the summary.
    """

    samples: int | None = None
    seed: int | None = None
    report: Callable[[str], None] = _nobody


# pytest offers a plain function no other way to the options it was started with. Set around one test, then reset.
CURRENT: ContextVar[Settings] = ContextVar("fgl_secure.testing.settings", default=Settings())  # noqa: B039  # frozen
