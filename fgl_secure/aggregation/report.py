"""One page on a round: what the server has of each client without the scheme and with it, and what that costs."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from fgl_secure.aggregation.arguments import check_kind, list_of
from fgl_secure.aggregation.layout import FLOATS, Tree
from fgl_secure.aggregation.record import RoundRecord
from fgl_secure.errors import InputError
from fgl_secure.runtime import Claim
from fgl_secure.typing import Floats, Integers

_SHOWN = 8
"""Entries that are shown of an update."""


@dataclass(frozen=True, slots=True)
class LabelTest:
    """What the bias of the last layer tells of a client's labels.

    Under soft-max and cross-entropy the gradient of the bias of class c is the mean probability that the model gives
    the class less the share of the client's labels that are c, so the bias that grew most is, for a young model, that
    of the most frequent label (Zhao, Mopuri, Bilen 2020, and Wainakh et al. 2022).

    Attributes:
        bias: name of that bias in the mappings, [classes].
        reference: the model that the clients started from.
        labels: of each client's training examples, by client.
    """

    bias: str
    reference: Tree
    labels: Sequence[Any]


@dataclass(frozen=True, slots=True, eq=False)
class _RulerReading:
    """What one ruler measures on what the server has of the included clients.

    Attributes:
        rows: float64 [k, entries], what the server has of each, in the updates' unit.
        matches: float64 [k, k], correlation of what it has of client i with the update of client j less the mean.
        recognised: share of the clients whose own update is the one that what the server has is most like.
        labels: share of the clients whose most frequent label is read; None where that was not asked for.
    """

    rows: Floats
    matches: Floats
    recognised: float
    labels: float | None


@dataclass(frozen=True, slots=True, eq=False)
class RoundComparison:
    """Before and after.

    Attributes:
        clients: who is compared.
        entries: how many entries of each vector.
        clear: what a server without a scheme has: the updates themselves.
        arrived: what the server had under the scheme.
        chance: `recognised` of a guess.
        label_chance: `labels` of the best guess that names one label for all; None where none were given.
    """

    clients: tuple[int, ...]
    entries: int
    clear: _RulerReading
    arrived: _RulerReading
    chance: float
    label_chance: float | None


def compare(record: RoundRecord, updates: Sequence[Any], labels: LabelTest | None = None) -> RoundComparison:
    """Measures a round.

    Args:
        record: what the server saw.
        updates: the mappings that were averaged, by client; known to no server, given for the comparison.
        labels: whether to read labels, and which are right.

    Raises:
        InputError: updates are not one for each client, or labels cannot be read from them.
    """
    updates = list_of(updates, "updates")
    if len(updates) != record.clients:
        raise InputError(f"updates must be one for each of {record.clients} clients; found {len(updates)}")
    if not record.layout.size:
        raise InputError("updates must have at least one entry to be compared; found none")
    if labels is not None:
        check_kind(labels, LabelTest, "labels")
    clients = record.included
    arrived = [_observed_update(record, client) for client in clients]
    entries = min(record.layout.size, *(len(row) for row in arrived))
    clear = np.stack([record.layout.flatten(updates[client])[:entries] for client in clients])
    if not np.isfinite(clear).all():
        raise InputError("updates must be finite, as the round's were; found NaN or infinity")
    apart = clear - clear.mean(axis=0)
    aims = None if labels is None else _Aims.of(record, labels, entries)
    rows = np.stack([row[:entries] for row in arrived])
    return RoundComparison(
        clients,
        entries,
        _reading(clear, _correlations(apart, apart), aims),
        _reading(rows, _correlations(rows - rows.mean(axis=1, keepdims=True), apart), aims),
        1 / len(clients),
        None if aims is None else aims.chance,
    )


def _observed_update(record: RoundRecord, client: int) -> Floats:
    """The numbers in what arrived of a client, in the updates' unit as far as the server can tell.

    Words are read as elements of the ring, those of the upper half as negative, and multiplied by their tensor's unit,
    as the server decodes a sum. In plaintext these are the client's numbers times its weight. At a precision the
    integers, which are in digits, are left at 0.
    """
    words = record.received_words(client)
    if record.ring is not None:
        words = np.where(words > record.ring.modulus // 2, words - record.ring.modulus, words)
    result, offset, rounded = np.zeros(record.layout.size), 0, record.ring is not None and record.ring.packed
    for entry, place in record.layout.places():
        if rounded and not entry.is_float:
            continue
        part = words[offset : offset + entry.size]
        result[place][: len(part)] = part * record.units.get(entry.name, 1.0)
        offset += entry.size
    return result if rounded else result[: len(words)]


@dataclass(frozen=True, slots=True, eq=False)
class _Aims:
    """Where the bias stands, what it was, and which class is the most frequent at each client."""

    place: slice
    before: Floats
    frequent: Integers
    chance: float

    @classmethod
    def of(cls, record: RoundRecord, test: LabelTest, entries: int) -> _Aims:
        result = next((place for entry, place in record.layout.places() if entry.name == test.bias), None)
        if result is None or result.stop > entries:
            raise InputError(
                f"bias must be a tensor among the first {entries:,} entries by name, which are kept of what arrives; "
                f"found {test.bias!r}"
            )
        labels, classes = list_of(test.labels, "labels"), result.stop - result.start
        if len(labels) != record.clients:
            raise InputError(f"labels must be given for each of {record.clients} clients; found {len(labels)}")
        counts = np.stack([_count_labels(labels[client], classes) for client in record.included])
        frequent = counts.argmax(axis=1)
        chance = float(np.bincount(frequent).max() / len(frequent))
        return cls(result, record.layout.flatten(test.reference)[result], frequent, chance)

    def read(self, rows: Floats) -> float:
        """Share of the clients whose most frequent label is that of the bias that grew most."""
        return float(((rows[:, self.place] - self.before).argmax(axis=1) == self.frequent).mean())


def _count_labels(labels: Any, classes: int) -> Integers:
    """Return how many of one client's labels are of each class: int64 [classes]."""
    result = np.asarray(labels)
    if result.ndim != 1 or not (result.dtype.kind in "iu" or not result.size):
        raise InputError(f"labels of a client must be integers [k]; found {result.dtype} {list(result.shape)}")
    if result.size and not 0 <= int(result.min()) <= int(result.max()) < classes:
        raise InputError(f"labels must lie in 0..{classes - 1}, the entries of the bias; at least one does not")
    return np.bincount(result.astype(np.int64), minlength=classes).astype(np.int64)


def _reading(rows: Floats, matches: Floats, aims: _Aims | None) -> _RulerReading:
    recognised = float((matches.argmax(axis=1) == np.arange(len(matches))).mean())
    return _RulerReading(rows, matches, recognised, None if aims is None else aims.read(rows))


def _correlations(rows: Floats, updates: Floats) -> Floats:
    """Cosines of all pairs; 0 for rows of zeros."""
    return _of_length_one(rows) @ _of_length_one(updates).T


def _of_length_one(rows: Floats) -> Floats:
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    scaled = rows / np.where(largest > 0, largest, 1.0)
    lengths = np.sqrt((scaled**2).sum(axis=1, keepdims=True))
    return scaled / np.where(lengths > 0, lengths, math.inf)


_MOST_SHOWN = 16
"""Clients in the pictures."""
_MOST_TENSORS = 40
"""Tensors in the table of errors."""


def write_report(
    path: str | Path,
    record: RoundRecord,
    updates: Sequence[Any],
    claim: Claim,
    labels: LabelTest | None = None,
    spent: str = "",
) -> RoundComparison:
    """Writes the page: one file, no script, nothing from elsewhere.

    Args:
        path: of the file; its folder is made when missing.
        record: what the server saw.
        updates: the mappings that were averaged, by client, to compare with.
        claim: what the scheme promises.
        labels: whether to read labels, and which are right.
        spent: what the means cost so far, in words.

    Returns:
        The figures on the page.

    Raises:
        InputError: see `view.compare`; or the file cannot be written.
    """
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415  # not needed to import the package

    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path must be text or a pathlib.Path; found {type(path).__name__}")
    result = compare(record, updates, labels)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(number=_number, percent=_percent, bytes=_bytes)
    template = (files(__package__) / "report.html.j2").read_text(encoding="utf-8")
    page = environment.from_string(template).render(
        record=record,
        found=result,
        claim=claim,
        spent=spent,
        pictures=[("In the clear", _cells(result.clear)), (f"Under {record.scheme}", _cells(result.arrived))],
        shown=min(_MOST_SHOWN, len(result.clients)),
        first=[_first(result.clear), _first(result.arrived)],
        example=result.clients[0],
        tensors=_tensors(record)[:_MOST_TENSORS],
        more=max(0, len(record.layout.entries) - _MOST_TENSORS),
        withheld=sum(int(closed.sum()) for closed in record.withheld.values()),
    )
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"path must be of a file that can be written to; found {path} ({error})") from error
    return result


def _first(reading: _RulerReading) -> dict[str, Any]:
    row = reading.rows[0]
    return {"entries": row[:_SHOWN].tolist(), "mean": float(row.mean()), "deviation": float(row.std())}


def _cells(reading: _RulerReading) -> list[tuple[int, int, float, str]]:
    cells = reading.matches[:_MOST_SHOWN, :_MOST_SHOWN]
    return [
        (column, row, float(value), f"hsl(215, 75%, {96 - 62 * min(1.0, abs(float(value))):.0f}%)")
        for row, values in enumerate(cells)
        for column, value in enumerate(values)
    ]


def _tensors(record: RoundRecord) -> list[tuple[str, str, str, str, str]]:
    return [
        (
            entry.name,
            f"{entry.dtype} {list(entry.shape)}",
            _number(record.bounds[entry.name]) if entry.name in record.bounds else "",
            f"{-math.log2(record.units[entry.name]):.4g}" if entry.dtype in FLOATS else "",
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
