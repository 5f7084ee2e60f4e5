"""Findings as a picture: what attacks reached under each scheme, beside the best guess without messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fgl_secure.auditing.records import Record
from fgl_secure.errors import InputError

_INCHES_PER_ATTACK = 0.32
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's, which colour-blind readers tell apart."""


def plot_findings(records: Sequence[Record]) -> Any:  # matplotlib is optional
    """Return a figure with a line per attack and metric, and a point with its 95 % interval per scheme.

    A grey bar is the best guess without messages. Figures that are no measurement of an attack are left out.

    Args:
        records: findings of a report.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        InputError: matplotlib is not installed, or no record is a measured finding.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  # optional
    except ImportError as error:
        raise InputError("matplotlib must be installed for plot: pip install matplotlib; found none") from error
    measured = [record for record in records if record.verdict.is_measured]
    if not measured:
        raise InputError("records must have a finding that was measured; found none")
    lines = list(dict.fromkeys((record.attack, record.metric) for record in measured))[::-1]
    schemes = list(dict.fromkeys(record.protocol for record in measured))
    figure = Figure(figsize=(8, 1.2 + _INCHES_PER_ATTACK * len(lines)), layout="constrained")
    axes = figure.subplots()
    for number, scheme in enumerate(schemes):
        scheme_records = [record for record in measured if record.protocol == scheme]
        height = 0.3 - 0.6 * (number + 0.5) / len(schemes)
        index = [lines.index((record.attack, record.metric)) + height for record in scheme_records]
        axes.barh(index, [record.prior for record in scheme_records], height=0.5 / len(schemes), color="0.85")
        ends = [
            (record.ci95.low, record.ci95.high) if record.ci95 else (record.value, record.value)
            for record in scheme_records
        ]
        axes.hlines(index, *zip(*ends, strict=True), color=_COLOURS[number % len(_COLOURS)], linewidth=1.2)
        axes.plot(
            [record.value for record in scheme_records],
            index,
            "o",
            markersize=4,
            color=_COLOURS[number % len(_COLOURS)],
            label=scheme,
        )
    axes.set_yticks(range(len(lines)), [f"{attack}: {metric}" for attack, metric in lines], fontsize=7)
    axes.set_xlabel("what the attack reached; grey: best guess without messages")
    axes.set_ylim(-0.5, len(lines) - 0.5)
    figure.legend(loc="outside upper center", ncols=min(len(schemes), 5), fontsize=7)
    return figure
