"""The rules that a record must keep, each with its message."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from fgl_secure.auditing.plain import is_number
from fgl_secure.auditing.verdict import Verdict
from fgl_secure.errors import InputError
from fgl_secure.statistics.intervals import Interval

if TYPE_CHECKING:
    from fgl_secure.auditing.records import Record


def check_record(record: Record) -> None:
    """Raise an `InputError` that names the first field that breaks its rule."""
    _check_texts(record)
    _check_figures(record)
    _check_counts(record)
    _check_verdict(record)
    _check_null(record)


def _check_texts(record: Record) -> None:
    for name in ("attack", "view", "coalition", "protocol", "dataset", "partition", "metric", "finding", "claim"):
        value = getattr(record, name)
        if not isinstance(value, str):
            raise InputError(f"{name} must be text; found {value!r}")
        if not value.strip() and name != "claim":
            raise InputError(f"{name} must not be empty; found {value!r}")


def _check_figures(record: Record) -> None:
    for name in ("value", "random", "prior", "positive_minimum"):
        _check_unit_range(name, getattr(record, name))
    if record.positive_control is not None:
        _check_unit_range("positive_control", record.positive_control)
    delta = record.detectable_advantage
    if not (is_number(delta) and isfinite(delta) and delta >= 0):
        raise InputError(f"detectable_advantage must be finite and >= 0; found {delta!r}")
    if not isinstance(record.ci95, Interval) or not record.ci95.contains(record.value, 1e-9):
        raise InputError(f"ci95 must be an interval that contains value = {record.value}; found {record.ci95!r}")


def _check_counts(record: Record) -> None:
    for name in ("n", "seed"):
        value = getattr(record, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise InputError(f"{name} must be a whole number >= 0; found {value!r}")


def _check_null(record: Record) -> None:
    control, interval = record.null_control, record.null_interval
    if (control is None) != (interval is None):
        raise InputError(f"null_control and null_interval must come together; found {control!r} and {interval!r}")
    if control is None and record.verdict.is_measured:
        raise InputError(f"null_control must be given for the verdict {str(record.verdict)!r}; found None")
    if control is not None:
        _check_unit_range("null_control", control)
        if not isinstance(interval, Interval) or not interval.contains(control, 1e-9):
            raise InputError(f"null_interval must contain null_control = {control}; found {interval!r}")


def _check_verdict(record: Record) -> None:
    if not isinstance(record.verdict, Verdict) or not isinstance(record.contradicts_claim, bool):
        raise InputError(
            f"verdict must be a Verdict and contradicts_claim a bool; found {record.verdict!r} and "
            f"{record.contradicts_claim!r}"
        )
    if record.contradicts_claim and not (record.verdict.is_exposure and record.claim.strip()):
        raise InputError(
            f"contradicts_claim needs the verdict broken or leaks, and the claim's sentence; found "
            f"{str(record.verdict)!r} and {record.claim!r}"
        )


def _check_unit_range(name: str, value: object) -> None:
    if not (is_number(value) and isfinite(value) and -1 <= value <= 1):
        raise InputError(f"{name} must be finite and in [-1, 1]; found {value!r}")
