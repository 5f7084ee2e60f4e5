"""Ceilings on what finished models reveal, as a privacy test."""

from __future__ import annotations

from collections.abc import Mapping

from fgl_secure.ceilings import HasFigures, ceiling_lines, read_ceilings
from fgl_secure.errors import InputError
from fgl_secure.testing.evidence import CURRENT, PrivacyAssertionError


def assert_below_ceilings(result: HasFigures, ceilings: Mapping[str, float] | None = None) -> None:
    """Fail if an attack on a finished model is certainly above a ceiling.

    Args:
        result: of `audit_model`, `model_leakage`, or a report of `audit(..., attacks="outputs")`.
        ceilings: by metric, as {"membership.auc": 0.55}; those of `--privacy-ceiling` are added, and win.

    Raises:
        PrivacyAssertionError: the lower end of a 95 % interval is above.
        InputError: there is no ceiling, or none of its metric was measured.

    Examples:
        assert_below_ceilings(audit_model(predict, data, data.train_mask), {"membership.auc": 0.55})
    """
    __tracebackhide__ = True
    given = read_ceilings(f"{metric}={value}" for metric, value in (ceilings or {}).items())
    allowed = given | read_ceilings(CURRENT.get().ceilings)
    if not allowed:
        raise InputError("ceilings must be given here or by --privacy-ceiling; found none")
    above = ceiling_lines(result, allowed)
    texts = ", ".join(f"{metric} {value:g}" for metric, value in allowed.items())
    CURRENT.get().report(f"ceilings {texts}: {'; '.join(above) or 'no attack is certainly above'}")
    if above:
        raise PrivacyAssertionError("\n".join(above))
