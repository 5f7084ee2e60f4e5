from dataclasses import replace

import pytest

from fgl_secure.auditing import wording
from fgl_secure.auditing.verdict import Verdict
from fgl_secure.auditing.wording import Score
from fgl_secure.statistics.metrics import Interval
from tests.auditing.samples import QUIET, RECORD, REPORT


def test_the_summary_counts_claims_and_findings() -> None:
    """The summary says how many claims fall to how many findings, the audited protocol first."""
    assert wording.summary(REPORT) == (
        "1 of 2 guarantees of secmp is violated by 1 finding. No protection is guaranteed by plaintext; 1 finding "
        "shows what it exposes. The controls of all 3 measured findings hold."
    )


def test_the_summary_tells_of_failed_controls() -> None:
    """A finding whose control failed is announced as no evidence, and isn't counted as an exposure."""
    weak = replace(RECORD, protocol="plaintext", positive_control=0.1, violates_guarantee=False, claim="")
    kept = replace(RECORD, violates_guarantee=False, claim="")
    text = wording.summary(replace(REPORT, records=(weak, kept)))
    assert "No finding violates the 2 guarantees of secmp." in text
    assert "No protection is guaranteed by plaintext; no finding shows what it exposes." in text
    assert "The controls of 1 of 2 measured findings failed: that one is no evidence." in text
    assert "reached 0.100 and had to reach 0.900" in wording.control_failures(weak)
    high = replace(RECORD, null_control=0.5, null_interval=Interval(0.4, 0.6))
    assert "the null control scored 0.500, above chance" in wording.control_failures(high)


def test_claims_that_nothing_measured_are_untested() -> None:
    """Where no attack measured anything, the summary doesn't say that nothing violates the guarantees."""
    text = wording.summary(replace(REPORT, records=()))
    assert "Nothing was measured under secmp, which says nothing of its 2 guarantees." in text
    assert "No finding violates" not in text


@pytest.mark.parametrize(
    ("tested", "text"),
    [
        ([], "No finding violates the 2 guarantees of secmp, of which attacks and games have tested none."),
        (["One."], "No finding violates the 2 guarantees of secmp, of which attacks and games have tested 1."),
        (
            ["One.", "Two."],
            "No finding violates the 2 guarantees of secmp, each of which an attack or a game has tested.",
        ),
    ],
)
def test_the_summary_says_how_many_claims_were_tested(tested: list[str], text: str) -> None:
    """Claims that no attack bears on are not counted as kept."""
    kept = replace(RECORD, violates_guarantee=False, claim="")
    claims = {"secmp": {"protects": ["One.", "Two."], "tested": tested}}
    assert text in wording.summary(replace(REPORT, records=(kept,), claims=claims))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (999_999, "1 MB"),
        (7.7e6, "7.7 MB"),
        (2.35e9, "2.35 GB"),
        (None, "-"),
    ],
)
def test_bytes_are_readable(value: float | None, text: str) -> None:
    """Bytes are shown in the unit that leaves at most three digits before the point."""
    assert wording.bytes_text(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.85, "850 ms"), (12.5, "12.5 s"), (204.8, "3 min 25 s"), (None, "-")])
def test_seconds_are_readable(value: float | None, text: str) -> None:
    """Durations are shown in milliseconds, seconds, or minutes and seconds."""
    assert wording.seconds_text(value) == text


@pytest.mark.parametrize(
    ("score", "value", "text"),
    [
        (Score.ACCURACY, 0.811, "81.1 %"),
        (Score.ACCURACY, None, "-"),
        (Score.ABSOLUTE_ERROR, 0.81149, "0.8115"),
        (Score.ABSOLUTE_ERROR, None, "-"),
    ],
)
def test_an_error_is_no_share(score: Score, value: float | None, text: str) -> None:
    """Accuracies are in per cent, errors in their own unit."""
    assert wording.score_text(score, value) == text


def test_intervals_are_rounded_outward() -> None:
    """The printed interval is never narrower than the computed one, and a point is called exact."""
    assert wording.with_interval(replace(RECORD, value=1.0, ci95=Interval(0.9996, 1.0))) == "1.000 [0.999, 1.000]"
    assert wording.with_interval(replace(QUIET, value=0.0, ci95=Interval(-0.0001, 0.0001))) == "0.000 [-0.001, 0.001]"
    assert wording.with_interval(replace(QUIET, value=0.0, ci95=Interval(0.0, 0.0))) == "0.000 (exact)"
    assert wording.with_interval(replace(RECORD, value=0.29, ci95=Interval(0.29, 0.3))) == "0.290 [0.290, 0.300]"


def test_not_detected_always_says_what_it_could_miss() -> None:
    """Not detected comes with its power, what the interval still allows, and a warning when n is too small."""
    assert wording.limits(QUIET) == "Would have caught a true figure of 0.037 or more 99 times in 100."
    wide = replace(QUIET, ci95=Interval(-0.2, 0.3))
    assert wording.limits(wide).endswith("The interval still allows up to 0.300.")
    assert "are too few" in wording.limits(replace(QUIET, detectable_advantage=1.7))
    assert wording.limits(RECORD) == ""


def test_worst_findings_come_first() -> None:
    """Findings are ordered by verdict, then violations before the rest, then by size."""
    leak = replace(RECORD, verdict=Verdict.LEAKS)
    plain = replace(RECORD, value=1.0, violates_guarantee=False)
    assert wording.by_severity([QUIET, leak, plain, RECORD]) == [RECORD, plain, leak, QUIET]


def test_every_verdict_is_explained_without_promising_security() -> None:
    """Each verdict has its plain words, and no text calls anything secure or safe."""
    assert set(wording.MEANING) == set(Verdict) == set(wording.SEVERITY)
    said = " ".join([*wording.MEANING.values(), *(meaning for _, meaning in wording.TERMS)]).lower()
    assert "secure" not in said
    assert "safe" not in said
