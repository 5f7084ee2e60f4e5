"""Real numbers in means at few bits, and the ring that is as small as their sum allows."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from fgl_secure.errors import InputError
from fgl_secure.runtime import Circumstance, Claim, Leak, Role, Secret

PRECISIONS = (8, 16, 32)
"""Bits of a number, its sign among them."""


class Rounding(StrEnum):
    """What becomes of the error that a number is rounded by."""

    FRESH = "fresh"
    """Nothing: every round rounds anew."""
    ERROR_FEEDBACK = "error-feedback"
    """Its client keeps it and adds it to the number of the next round (Seide et al. 2014, Karimireddy et al. 2019)."""


def check_precision(precision: int | None, rounding: Rounding) -> None:
    """Raises unless numbers can be written so.

    Raises:
        InputError: there are no such bits, or errors of no rounding are to be kept.
    """
    if precision is not None and precision not in PRECISIONS:
        raise InputError(f"precision must be one of {', '.join(map(str, PRECISIONS))} bits; found {precision}")
    if precision is None and rounding is not Rounding.FRESH:
        raise InputError("precision must be given where rounding errors are fed back; found None")


def with_feedback(claim: Claim, rounding: Rounding) -> Claim:
    """A claim, with what a sum tells of the rounds before where errors are fed back."""
    if rounding is not Rounding.ERROR_FEEDBACK:
        return claim
    kept = (
        "what clients' numbers were rounded by, less than a unit each, is in the sum of the round after: a client's "
        "numbers are so in the sums of later rounds, too, whatever it hands in there"
    )
    roles = (Role.SERVER, Role.SILO)
    leaks = (Leak(Secret.SUMMAND, role, Circumstance.REPEATED_SUM, kept) for role in roles)
    return replace(claim, leaks_by_design=(*claim.leaks_by_design, *leaks))


def words_of(precision: int | None, rounding: Rounding) -> tuple[str, ...]:
    """How a scheme's name says it, in brackets."""
    if precision is None:
        return ()
    return f"precision={precision}", str(rounding) if rounding is not Rounding.FRESH else ""
