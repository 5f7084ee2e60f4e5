"""The rows of the page's tables: accuracy or error, cost and who saw what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fgl_secure.auditing.schema import COST_KEYS, Exposure, Findings
from fgl_secure.auditing.wording import SCALE, bytes_text, count_text, score_text, seconds_text


@dataclass(frozen=True, slots=True)
class AccuracyTable:
    """Accuracies, or errors, of all protocols side by side.

    Attributes:
        title: what the figures are.
        scale: how they are to be read.
        protocols: one column each.
        rows: label and one text a protocol: test, validation, then each silo.
    """

    title: str
    scale: str
    protocols: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class CostRow:
    """Cost of one phase of a protocol, or of its whole run."""

    protocol: str
    phase: str
    messages: str
    bytes: str
    rounds: str
    seconds: str
    is_total: bool


def by_protocol(report: Findings, table: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    """The part of `accuracy` or `cost` of each protocol, in the report's order."""
    inner = table.get("protocols")
    parts = dict(inner) if isinstance(inner, Mapping) else {}
    parts.setdefault(report.audited, table)
    order = [name for name in report.protocols if name in parts]
    return {name: parts[name] for name in dict.fromkeys([*order, *parts])}


def accuracy_table(report: Findings) -> AccuracyTable:
    """Test, validation and per silo; silos that a protocol lacks show a dash."""
    parts = by_protocol(report, report.accuracy)
    silos = {name: _items(part["per_silo"]) for name, part in parts.items()}
    rows = [
        (label, tuple(score_text(report.score, part[key]) for part in parts.values()))
        for label, key in (("Test, all silos", "test"), ("Validation, all silos", "validation"))
    ]
    for index in range(max(len(values) for values in silos.values())):
        shown = [values[index] if index < len(values) else None for values in silos.values()]
        cells = tuple(score_text(report.score, value) for value in shown)
        rows.append((f"Test, silo {index + 1}", cells))
    return AccuracyTable(report.score.capitalize(), SCALE[report.score], tuple(parts), tuple(rows))


def cost_table(report: Findings) -> tuple[CostRow, ...]:
    """One row a phase, summed over roles from the exposures, then the protocol's whole run."""
    rows: list[CostRow] = []
    for name, part in by_protocol(report, report.cost).items():
        mine = [row for row in report.exposures if row.protocol == name]
        phases = dict.fromkeys(row.phase for row in mine)
        rows.extend(_phase_row(name, phase, [row for row in mine if row.phase == phase]) for phase in phases)
        rows.append(_total_row(name, part))
    return tuple(rows)


def overview(report: Findings) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """By protocol: test score, messages, size, rounds and seconds of the whole run."""
    scores, costs = by_protocol(report, report.accuracy), by_protocol(report, report.cost)
    rows = []
    for name in dict.fromkeys((*scores, *costs)):
        total = _total_row(name, costs[name] if name in costs else dict.fromkeys(COST_KEYS))
        score = score_text(report.score, scores[name]["test"] if name in scores else None)
        rows.append((name, (score, total.messages, total.bytes, total.rounds, total.seconds)))
    return tuple(rows)


def exposure_table(report: Findings, protocol: str) -> tuple[tuple[str, tuple[Exposure, ...]], ...]:
    """What each party of a protocol received, parties in order of first appearance."""
    mine = [row for row in report.exposures if row.protocol == protocol]
    parties = dict.fromkeys(row.receiver_role for row in mine)
    return tuple((party, tuple(row for row in mine if row.receiver_role == party)) for party in parties)


def _phase_row(protocol: str, phase: str, rows: list[Exposure]) -> CostRow:
    messages = count_text(sum(row.messages for row in rows))
    size = bytes_text(sum(row.bytes for row in rows))
    return CostRow(protocol, phase, messages, size, "", "", is_total=False)


def _total_row(protocol: str, part: Mapping[str, object]) -> CostRow:
    shown: dict[str, Callable[[object], str]] = {
        "messages": count_text,
        "bytes": bytes_text,
        "rounds": count_text,
        "seconds": seconds_text,
    }
    cells = {key: show(part[key]) for key, show in shown.items()}
    return CostRow(protocol, "whole run", **cells, is_total=True)


def _items(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []
