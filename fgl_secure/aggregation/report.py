"""One page on a round: what the server has of each client without the scheme and with it, and what that costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from fgl_secure.aggregation.arrays import FLOATS
from fgl_secure.aggregation.record import RoundRecord
from fgl_secure.aggregation.report_page import PAGE
from fgl_secure.aggregation.view import SHOWN, Comparison, LabelTest, Reading, compare
from fgl_secure.runtime import Claim

MOST_SHOWN = 16
"""Clients in the pictures."""
MOST_TENSORS = 40
"""Tensors in the table of errors."""


def write_report(
    path: str | Path,
    record: RoundRecord,
    updates: Sequence[Any],
    claim: Claim,
    labels: LabelTest | None = None,
    spent: str = "",
) -> Comparison:
    """Writes the page: one file, no script, nothing from elsewhere.

    Args:
        path: of the file.
        record: what the server saw.
        updates: the mappings that were averaged, by client, to compare with.
        claim: what the scheme promises.
        labels: whether to read labels, and which are right.
        spent: what the means cost so far, in words.

    Returns:
        The figures on the page.

    Raises:
        InputError: see `view.compare`.
    """
    found = compare(record, updates, labels)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(number=_number, percent=_percent, bytes=_bytes)
    Path(path).write_text(
        environment.from_string(PAGE).render(
            record=record,
            found=found,
            claim=claim,
            spent=spent,
            pictures=[("In the clear", _cells(found.clear)), (f"Under {record.scheme}", _cells(found.arrived))],
            shown=min(MOST_SHOWN, len(found.clients)),
            first=[_first(found.clear), _first(found.arrived)],
            example=found.clients[0],
            tensors=_tensors(record)[:MOST_TENSORS],
            more=max(0, len(record.layout.entries) - MOST_TENSORS),
        ),
        encoding="utf-8",
    )
    return found


def _first(reading: Reading) -> dict[str, Any]:
    row = reading.rows[0]
    return {"entries": row[:SHOWN].tolist(), "mean": float(row.mean()), "deviation": float(row.std())}


def _cells(reading: Reading) -> list[tuple[int, int, float, str]]:
    shown = reading.matches[:MOST_SHOWN, :MOST_SHOWN]
    return [
        (column, row, float(value), f"hsl(215, 75%, {96 - 62 * min(1.0, abs(float(value))):.0f}%)")
        for row, values in enumerate(shown)
        for column, value in enumerate(values)
    ]


def _tensors(record: RoundRecord) -> list[tuple[str, str, str, str, str]]:
    return [
        (
            entry.name,
            f"{entry.dtype} {list(entry.shape)}",
            _number(record.bounds[entry.name]) if entry.name in record.bounds else "",
            str(record.fraction_bits[entry.name]) if entry.dtype in FLOATS else "",
            _number(record.error_bound[entry.name]) if math.isfinite(record.error_bound[entry.name]) else "noise",
        )
        for entry in record.layout.entries
    ]


def _number(value: float) -> str:
    return f"{value:.4g}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _bytes(count: int) -> str:
    if count < 10_000:
        return f"{count:,} B"
    return f"{count / 1e3:,.1f} kB" if count < 10_000_000 else f"{count / 1e6:,.1f} MB"
