"""The plain words of a report, shared by the page and the terminal, so that both say the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from math import ceil, floor
from typing import TYPE_CHECKING

from fgl_secure.attacks.base import KnowledgeBaseline
from fgl_secure.auditing.records import is_number
from fgl_secure.auditing.verdict import MARGIN, Verdict

if TYPE_CHECKING:
    from fgl_secure.auditing.records import Record
    from fgl_secure.auditing.report import Report


class Score(StrEnum):
    """What tells how well a method does."""

    ACCURACY = "accuracy"
    """A share, and more is better."""
    ABSOLUTE_ERROR = "mean absolute error"
    """In the unit of the targets, and less is better."""


DASH = "-"
"""Stands for a figure that was not measured."""

SEVERITY = (Verdict.BROKEN, Verdict.LEAKS, Verdict.NOT_DETECTED, Verdict.CONTEXT)

MEANING = {
    Verdict.BROKEN: "The attack recovers at least half of the secrets exactly beyond what the baseline gets right, or "
    "its advantage surely exceeds the baseline's by more than 0.5.",
    Verdict.LEAKS: "The attack learns more than chance and baseline allow, by more than 0.05 even at the low end of "
    "the interval.",
    Verdict.NOT_DETECTED: "This attack, on this many samples, found nothing. A smaller leak, or a better attack, "
    "remains possible; and where it finds nothing unprotected either, that says nothing.",
    Verdict.CONTEXT: "The size of something, a property of graph and partition, or the share of claims that are right: "
    "no evidence of its own.",
}

TERMS = (
    ("exact recovery", "The share of secrets that the attack reproduced bit for bit."),
    (
        "advantage",
        "How often the attack says yes when the answer is yes, minus how often it says yes when the answer is no. "
        "0 is guessing, 1 is certainty.",
    ),
    ("random guess", "What a guess by coin toss scores."),
    (
        "baseline",
        "What the best guess scores that never saw a message, with what the attack knows beside its view. Only what "
        "exceeds it was learned from the run.",
    ),
    (
        "unprotected",
        "The same attack on the same subject where nothing is protected: the most that it finds there. If that is "
        "nothing, finding nothing under a protocol means nothing.",
    ),
    (
        "positive control",
        "The same attack on a drawn run that must be broken. If it fails there, finding nothing elsewhere means "
        "nothing.",
    ),
    (
        "null control",
        "The same attack shown a run of other coins and other inputs, and scored on this one. It must score no better "
        "than guessing, or something other than the messages gives the secret away.",
    ),
    (
        "95 % interval",
        "The range of true values that the samples are compatible with. Samples that depend on each other (one sender, "
        "shared endpoints) are resampled together.",
    ),
    (
        "minimum detectable effect",
        "The smallest true figure that the rule for verdicts would have called a leak 99 times in 100, on this many "
        "independent samples. Smaller leaks go unseen.",
    ),
)

SCALE = {
    Score.ACCURACY: "Share of nodes, or of graphs, that are classified correctly",
    Score.ABSOLUTE_ERROR: "In the unit of the targets; less is better",
}
"""How the numbers of a score are to be read, as a caption."""


def plural(count: int, noun: str) -> str:
    """The count and its noun, `1 finding` or `1,200 findings`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def figure(value: float) -> str:
    """A figure with three decimals and no negative zero."""
    return f"{value:.3f}".replace("-0.000", "0.000")


def with_interval(record: Record) -> str:
    """The figure and its interval, `0.843 [0.801, 0.872]`; the interval is rounded outward, to claim no more."""
    low, high = record.ci95.low, record.ci95.high
    if low == high:
        return f"{figure(record.value)} (exact)"
    return f"{figure(record.value)} [{figure(_outward(low, floor))}, {figure(_outward(high, ceil))}]"


def _outward(value: float, rounding: Callable[[float], int]) -> float:
    return rounding(round(value * 1000, 6)) / 1000


def count_text(value: object) -> str:
    """A count with thousands separators, or a dash for None."""
    return f"{value:,.0f}" if is_number(value) else DASH


def bytes_text(value: object) -> str:
    """Bytes in decimal units with three digits, `7.70 MB`, or a dash for None."""
    if not is_number(value):
        return DASH
    scaled = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if scaled < 999.5:
            return f"{scaled:.0f} {unit}" if unit == "B" else f"{scaled:.3g} {unit}"
        scaled /= 1000
    return f"{scaled:,.4g} TB"


def seconds_text(value: object) -> str:
    """A duration, `850 ms`, `12.1 s` or `3 min 20 s`, or a dash for None."""
    if not is_number(value):
        return DASH
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 100:
        return f"{value:.1f} s"
    return f"{round(value) // 60:,} min {round(value) % 60} s"


def percent_text(value: object) -> str:
    """A fraction in per cent with one decimal, or a dash for None."""
    return f"{100 * value:.1f} %" if is_number(value) else DASH


def score_text(score: Score, value: object) -> str:
    """Accuracy in per cent, an error with four digits, or a dash for None."""
    if score is Score.ACCURACY:
        return percent_text(value)
    return f"{value:.4g}" if is_number(value) else DASH


def by_severity(records: Sequence[Record]) -> list[Record]:
    """Worst verdict first; among equals violations first, then the larger figure."""
    return sorted(records, key=lambda r: (SEVERITY.index(r.verdict), not r.violates_guarantee, -r.value, r.attack))


def limits(record: Record) -> str:
    """What *not detected* leaves open; empty for the other verdicts."""
    if record.verdict is not Verdict.NOT_DETECTED:
        return ""
    if not record.has_power and record.in_the_clear is not None:
        return f"Says nothing: unprotected, too, it finds nothing on this subject ({figure(record.in_the_clear)})."
    if record.detectable_advantage > 1:
        return f"{plural(record.n, 'independent sample')} are too few: even a full break could have been missed."
    caught = f"Would have caught a true figure of {_above(record.detectable_advantage)} or more 99 times in 100."
    if record.ci95.high - max(record.prior, record.random) <= MARGIN:
        return caught
    return f"{caught} The interval still allows up to {figure(record.ci95.high)}."


def in_the_clear(record: Record) -> str:
    """What the same attack finds where nothing is protected, `0.843 (broken)`; empty for what no attack measured."""
    if not record.verdict.is_measured:
        return ""
    if record.in_the_clear is None:
        return "nothing compares with what it reads"
    return f"{figure(record.in_the_clear)} ({record.in_the_clear_verdict})"


def knowledge(record: Record) -> str:
    """A warning where a prior leaves out what the attack knows beside its view; empty for all others."""
    if record.knowledge is not KnowledgeBaseline.NOT_LOOKED_AT:
        return ""
    return "The baseline leaves out what the attack knows beside its view: it offers no guess from that alone."


def _above(value: float) -> str:
    """Rounded up, to claim no more."""
    return figure(_outward(value, ceil))


def control_failures(record: Record) -> str:
    """Which control failed and how; empty when both hold."""
    parts = []
    if not record.positive_holds and record.positive_control is not None:
        parts.append(
            f"the positive control reached {figure(record.positive_control)} and had to reach "
            f"{figure(record.positive_minimum)}"
        )
    if not record.null_holds and record.null_control is not None:
        parts.append(f"the null control scored {figure(record.null_control)}, above chance")
    return f"No evidence: {' and '.join(parts)}." if parts else ""


def claim_sentences(report: Report, protocol: str, key: str) -> list[str]:
    """The sentences that a protocol states under one key of its claim."""
    claim = report.claims.get(protocol)
    statements = claim.get(key, []) if isinstance(claim, dict) else []
    return [statements] if isinstance(statements, str) else [str(item) for item in statements]


def _tested_note(report: Report, protocol: str) -> str:
    """How many claims a finding could have violated, behind a comma; empty where the report doesn't say."""
    claim = report.claims.get(protocol)
    if not isinstance(claim, dict) or "tested" not in claim:
        return ""
    tested, all_of_them = (
        len(claim_sentences(report, protocol, "tested")),
        len(claim_sentences(report, protocol, "protects")),
    )
    if tested == all_of_them:
        return ", each of which an attack or a game has tested"
    return f", of which attacks and games have tested {tested or 'none'}"


def protocol_summary(report: Report, protocol: str) -> str:
    """One sentence: how many of the protocol's claims the findings violate, or that none was tested."""
    records = [record for record in report.records if record.protocol == protocol]
    against = [record for record in report.violations if record.protocol == protocol]
    claims = list(
        dict.fromkeys([*claim_sentences(report, protocol, "protects"), *(record.claim for record in against)])
    )
    if against:
        broken = len({record.claim for record in against})
        verb = "is" if broken == 1 else "are"
        return (
            f"{broken} of {plural(len(claims), 'guarantee')} of {protocol} {verb} violated by "
            f"{plural(len(against), 'finding')}."
        )
    if claims and not any(record.verdict.is_measured for record in records):
        return f"Nothing was measured under {protocol}, which says nothing of its {plural(len(claims), 'guarantee')}."
    if claims:
        return (
            f"No finding violates the {plural(len(claims), 'guarantee')} of {protocol}{_tested_note(report, protocol)}."
        )
    exposed = sum(record.verdict.is_exposure and record.controls_hold for record in records)
    exposure_text = (
        "no finding shows" if exposed == 0 else f"{plural(exposed, 'finding')} show{'s' if exposed == 1 else ''}"
    )
    return f"No protection is guaranteed by {protocol}; {exposure_text} what it exposes."


def controls_summary(report: Report) -> str:
    """One sentence: whether the controls of the measured findings hold."""
    measured = [record for record in report.records if record.verdict.is_measured]
    failed = sum(not record.controls_hold for record in measured)
    if not measured:
        return "No attack was measured."
    if failed:
        rest = "that one is" if failed == 1 else "those are"
        return f"The controls of {failed} of {plural(len(measured), 'measured finding')} failed: {rest} no evidence."
    if len(measured) == 1:
        return "The controls of the one measured finding hold."
    return f"The controls of all {plural(len(measured), 'measured finding')} hold."


def summary(report: Report) -> str:
    """The report in one paragraph, the audited protocol first."""
    others = [name for name in report.protocols if name != report.audited_protocol]
    judged = [name for name in (report.audited_protocol, *others) if name in report.protocols]
    return " ".join([*(protocol_summary(report, name) for name in judged), controls_summary(report)])
