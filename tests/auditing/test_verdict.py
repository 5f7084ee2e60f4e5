import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.auditing.verdict import Verdict, judge
from fgl_secure.statistics.metrics import Interval

rates = st.floats(0, 1)


@pytest.mark.parametrize(
    ("value", "low", "high", "prior", "expected"),
    [
        (0.5, 0.4, 0.6, 0.0, Verdict.BROKEN),
        (1.0, 0.025, 1.0, 0.0, Verdict.BROKEN),  # a single secret, recovered
        (0.499, 0.45, 0.55, 0.0, Verdict.LEAKS),
        (0.1, 0.051, 0.2, 0.0, Verdict.LEAKS),
        (0.1, 0.05, 0.2, 0.0, Verdict.NOT_DETECTED),
        (0.4, 0.36, 0.44, 0.3, Verdict.LEAKS),
        (0.4, 0.34, 0.46, 0.3, Verdict.NOT_DETECTED),
        (0.62, 0.58, 0.66, 0.6, Verdict.NOT_DETECTED),  # guessing does as well
        (0.64, 0.62, 0.66, 0.6, Verdict.NOT_DETECTED),
        (0.7, 0.58, 0.8, 0.6, Verdict.NOT_DETECTED),
        (0.7, 0.61, 0.8, 0.6, Verdict.LEAKS),
        (0.7, 0.66, 0.8, 0.6, Verdict.LEAKS),
        (1.0, 0.997, 1.0, 0.894, Verdict.LEAKS),  # a high value, most of which the prior has
        (1.0, 0.997, 1.0, 0.5, Verdict.BROKEN),
        (0.7, 0.65, 0.75, 0.3, Verdict.LEAKS),
        (0.0, 0.0, 0.001, 0.0, Verdict.NOT_DETECTED),
    ],
)
def test_rates_are_judged_against_their_prior(
    value: float, low: float, high: float, prior: float, expected: Verdict
) -> None:
    """An exact-recovery rate is judged by its value, by its interval, and by what the prior reaches."""
    assert judge(value, Interval(low, high), prior, exact=True) is expected


@pytest.mark.parametrize(
    ("low", "prior", "expected"),
    [
        (0.501, 0.0, Verdict.BROKEN),
        (0.5, 0.0, Verdict.LEAKS),
        (0.051, 0.0, Verdict.LEAKS),
        (0.05, 0.0, Verdict.NOT_DETECTED),
        (-0.9, 0.0, Verdict.NOT_DETECTED),
        (0.3, 0.35, Verdict.NOT_DETECTED),  # who never saw a message does as well
        (0.3, 0.2, Verdict.LEAKS),
        (0.6, 0.58, Verdict.NOT_DETECTED),
        (0.6, 0.5, Verdict.LEAKS),  # the prior has most of it
        (0.71, 0.2, Verdict.BROKEN),
        (0.45, -0.2, Verdict.LEAKS),  # a prior below chance is worth as much as chance
    ],
)
def test_advantages_are_judged_by_the_lower_end(low: float, prior: float, expected: Verdict) -> None:
    assert judge(0.9, Interval(low, 0.95), prior, exact=False) is expected


@given(rates, rates, rates, rates, st.booleans())
def test_a_sharper_lower_end_never_softens_the_verdict(
    value: float, first: float, second: float, prior: float, exact: bool
) -> None:
    """Raising the lower end of the interval never moves a verdict from broken or leaks towards not detected."""
    order = [Verdict.NOT_DETECTED, Verdict.LEAKS, Verdict.BROKEN]
    low, high = sorted((first, second))
    weaker = judge(value, Interval(low, 1.0), prior, exact=exact)
    stronger = judge(value, Interval(high, 1.0), prior, exact=exact)
    assert order.index(weaker) <= order.index(stronger)


def test_no_verdict_promises_security() -> None:
    """The vocabulary holds four words, none of them secure or proved: an audit shows neither."""
    assert [str(verdict) for verdict in Verdict] == ["broken", "leaks", "not detected", "context"]
