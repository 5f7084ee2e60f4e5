"""Tables of figures: how they are kept in files, and how two of them are compared."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeGuard

FOLDER = Path(__file__).parent / "files"

EXACT = 1e-6
"""Relative difference of shares that count something, of which processors differ in the last digits at most."""

TINY = 1e-9
"""Absolute difference that is none: zeros of one processor are not those of another."""

Row = Mapping[str, Any]
Figures = Mapping[str, Sequence[Row]]
"""Name of a table to its rows."""

KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "training": ("case",),
    "scores": ("scheme",),
    "findings": ("scheme", "attack", "metric", "observer"),
    "traffic": ("scheme", "phase", "sender", "receiver"),
    "claims": ("scheme", "kind", "sentence"),
})  # fmt: skip
"""The columns that a row of a table is found by."""


def key_of(table: str, row: Row) -> tuple[str, ...]:
    """What a row is found by."""
    return tuple(str(row[column]) for column in KEYS[table])


def read(file: str) -> Figures:
    """The tables of a golden file."""
    figures: Figures = json.loads((FOLDER / f"{file}.json").read_text(encoding="utf-8"))
    return figures


def as_text(figures: Figures) -> str:
    """JSON with a line for each row, in the order of the keys, so that a change of one figure is one changed line."""
    tables = []
    for table in sorted(figures):
        rows = sorted(figures[table], key=lambda row, table=table: key_of(table, row))  # type: ignore[misc]
        lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
        tables.append(f'"{table}": [\n{lines}\n]')
    return "{\n" + ",\n".join(tables) + "\n}\n"


@dataclass(frozen=True, slots=True)
class Loose:
    """Figures that need not come out the same everywhere.

    Attributes:
        rows: how the names of the rows begin, "table: key | key".
        columns: the columns.
        tolerance: largest difference that is none: absolute up to 1, relative beyond.
        why: what makes them differ.
    """

    rows: str
    columns: tuple[str, ...]
    tolerance: float
    why: str

    def covers(self, name: str, column: str) -> bool:
        """Whether it speaks of a column of a row."""
        return name.startswith(self.rows) and column in self.columns


def differences(golden: Figures, found: Figures, loose: Sequence[Loose] = ()) -> list[str]:
    """What differs between two sets of tables, a sentence each; none when they agree.

    Shares agree up to `EXACT`; whole numbers and words must be equal.

    Args:
        golden: as they should be.
        found: as they are.
        loose: exceptions.
    """
    return [said for table in sorted({*golden, *found}) for said in _differing_rows(table, golden, found, loose)]


def _differing_rows(table: str, golden: Figures, found: Figures, loose: Sequence[Loose]) -> Iterator[str]:
    before, now = (_by_key(table, figures.get(table, ())) for figures in (golden, found))
    for key in sorted({*before, *now}):
        name = f"{table}: {' | '.join(key)}"
        if key not in now:
            yield f"{name}: is gone"
        elif key not in before:
            yield f"{name}: is new"
        else:
            yield from (f"{name}: {said}" for said in _differing_columns(name, before[key], now[key], loose))


def _differing_columns(name: str, before: Row, now: Row, loose: Sequence[Loose]) -> Iterator[str]:
    for column in sorted({*before, *now}):
        slack = max((each.tolerance for each in loose if each.covers(name, column)), default=0.0)
        if not _agree(before.get(column), now.get(column), slack):
            yield f"{column} was {before.get(column)}, is {now.get(column)}"


def _by_key(table: str, rows: Sequence[Row]) -> dict[tuple[str, ...], Row]:
    keys = [key_of(table, row) for row in rows]
    twice = [key for key, count in Counter(keys).items() if count > 1]
    if twice:
        raise ValueError(f"rows of {table} must differ in {', '.join(KEYS[table])}; found twice: {twice}")
    return dict(zip(keys, rows, strict=True))


def _agree(before: object, now: object, slack: float) -> bool:
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return all(_agree(*pair, slack) for pair in zip(before, now, strict=True))
    if isinstance(before, dict) and isinstance(now, dict) and before.keys() == now.keys():
        return all(_agree(before[name], now[name], slack) for name in before)
    if not (_is_number(before) and _is_number(now)):
        return before == now
    if isinstance(before, int) and isinstance(now, int) and not slack:
        return before == now
    return math.isclose(before, now, rel_tol=max(EXACT, slack), abs_tol=max(TINY, slack))


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
