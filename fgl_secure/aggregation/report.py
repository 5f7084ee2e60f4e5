"""One page on a round: what the server has of each client without the scheme and with it, and what that costs."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.aggregation.arguments import check_kind, list_of
from fgl_secure.aggregation.layout import FLOATS, Tree
from fgl_secure.aggregation.record import RoundRecord
from fgl_secure.errors import InputError
from fgl_secure.runtime import Claim

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]

SHOWN = 8
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
class Reading:
    """What one ruler measures on what the server has of the included clients.

    Attributes:
        rows: float64 [k, entries], what the server has of each, in the updates' unit.
        matches: float64 [k, k], correlation of what it has of client i with the update of client j less the mean.
        recognised: share of the clients whose own update is the one that what the server has is most like.
        labels: share of the clients whose most frequent label is read; None where that was not asked for.
    """

    rows: Reals
    matches: Reals
    recognised: float
    labels: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
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
    clear: Reading
    arrived: Reading
    chance: float
    label_chance: float | None


def compare(record: RoundRecord, updates: Sequence[Any], labels: LabelTest | None = None) -> Comparison:
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
    arrived = [seen(record, client) for client in clients]
    entries = min(record.layout.size, *(len(row) for row in arrived))
    clear = np.stack([record.layout.flatten(updates[client])[:entries] for client in clients])
    if not np.isfinite(clear).all():
        raise InputError("updates must be finite, as the round's were; found NaN or infinity")
    apart = clear - clear.mean(axis=0)
    aims = None if labels is None else _Aims.of(record, labels, entries)
    rows = np.stack([row[:entries] for row in arrived])
    return Comparison(
        clients,
        entries,
        _reading(clear, _correlations(apart, apart), aims),
        _reading(rows, _correlations(rows - rows.mean(axis=1, keepdims=True), apart), aims),
        1 / len(clients),
        None if aims is None else aims.chance,
    )


def seen(record: RoundRecord, client: int) -> Reals:
    """The numbers in what arrived of a client, in the updates' unit as far as the server can tell.

    Words are read as elements of the ring, those of the upper half as negative, and multiplied by their tensor's unit,
    as the server decodes a sum. In the clear these are the client's numbers times its weight. At a precision the
    integers, which are in digits, are left at 0.
    """
    words = record.arrived(client)
    if record.ring is not None:
        words = np.where(words > record.ring.modulus // 2, words - record.ring.modulus, words)
    found, at, rounded = np.zeros(record.layout.size), 0, record.ring is not None and record.ring.packed
    for entry, place in record.layout.places():
        if rounded and not entry.is_float:
            continue
        own = words[at : at + entry.size]
        found[place][: len(own)] = own * record.units.get(entry.name, 1.0)
        at += entry.size
    return found if rounded else found[: len(words)]


@dataclass(frozen=True, slots=True, eq=False)
class _Aims:
    """Where the bias stands, what it was, and which class is the most frequent at each client."""

    place: slice
    before: Reals
    frequent: Integers
    chance: float

    @classmethod
    def of(cls, record: RoundRecord, test: LabelTest, entries: int) -> _Aims:
        found = next((place for entry, place in record.layout.places() if entry.name == test.bias), None)
        if found is None or found.stop > entries:
            raise InputError(
                f"bias must be a tensor among the first {entries:,} entries by name, which are kept of what arrives; "
                f"found {test.bias!r}"
            )
        labels, classes = list_of(test.labels, "labels"), found.stop - found.start
        if len(labels) != record.clients:
            raise InputError(f"labels must be given for each of {record.clients} clients; found {len(labels)}")
        counts = np.stack([_counted(labels[client], classes) for client in record.included])
        frequent = counts.argmax(axis=1)
        chance = float(np.bincount(frequent).max() / len(frequent))
        return cls(found, record.layout.flatten(test.reference)[found], frequent, chance)

    def read(self, rows: Reals) -> float:
        """Share of the clients whose most frequent label is that of the bias that grew most."""
        return float(((rows[:, self.place] - self.before).argmax(axis=1) == self.frequent).mean())


def _counted(labels: Any, classes: int) -> Integers:
    """Return how many of one client's labels are of each class: int64 [classes]."""
    found = np.asarray(labels)
    if found.ndim != 1 or not (found.dtype.kind in "iu" or not found.size):
        raise InputError(f"labels of a client must be integers [k]; found {found.dtype} {list(found.shape)}")
    if found.size and not 0 <= int(found.min()) <= int(found.max()) < classes:
        raise InputError(f"labels must lie in 0..{classes - 1}, the entries of the bias; at least one does not")
    return np.bincount(found.astype(np.int64), minlength=classes).astype(np.int64)


def _reading(rows: Reals, matches: Reals, aims: _Aims | None) -> Reading:
    recognised = float((matches.argmax(axis=1) == np.arange(len(matches))).mean())
    return Reading(rows, matches, recognised, None if aims is None else aims.read(rows))


def _correlations(rows: Reals, updates: Reals) -> Reals:
    """Cosines of all pairs; 0 for rows of zeros."""
    return _of_length_one(rows) @ _of_length_one(updates).T


def _of_length_one(rows: Reals) -> Reals:
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    scaled = rows / np.where(largest > 0, largest, 1.0)
    lengths = np.sqrt((scaled**2).sum(axis=1, keepdims=True))
    return scaled / np.where(lengths > 0, lengths, math.inf)


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>What the server saw: {{ record.scheme }}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1b; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid #ddd; vertical-align: top; }
td.n, th.n { text-align: right; } .wide { overflow-x: auto; }
.pictures { display: flex; flex-wrap: wrap; gap: 2.5rem; } figure { margin: 0; } figcaption { font-weight: 600; }
svg text { font: 9px system-ui, sans-serif; fill: #555; } .note { color: #555; }
</style>
</head>
<body>
<h1>What the server saw of round {{ record.number }}</h1>
<p>{{ record.included | length }} of {{ record.clients }} clients are in the mean, at least {{ record.threshold }} must
be; scheme <strong>{{ record.scheme }}</strong>.
{% if record.dropped %}Not in it: {{ record.dropped | join(", ") }}.{% endif %}
{% if spent %}{{ spent }}.{% endif %}</p>

<h2>One client's update, before and after</h2>
<p>Client {{ example }}. Without a scheme its update is what the server gets. Under the scheme these are the bytes that
arrived, read as the server reads a sum.</p>
<div class="wide"><table>
<tr><th></th><th>in the clear</th><th>as it arrived</th></tr>
<tr><td>first entries</td>
{% for side in first %}<td>{% for value in side.entries %}{{ value | number }}<br>{% endfor %}</td>{% endfor %}</tr>
<tr><td>mean</td>{% for side in first %}<td>{{ side.mean | number }}</td>{% endfor %}</tr>
<tr><td>standard deviation</td>{% for side in first %}<td>{{ side.deviation | number }}</td>{% endfor %}</tr>
<tr><td>correlation with the update</td><td>{{ found.clear.matches[0, 0] | number }}</td>
<td>{{ found.arrived.matches[0, 0] | number }}</td></tr>
</table></div>

<h2>Whose update is it?</h2>
<p>For each client that is in the mean: which client's update is what the server has of it most like? Measured on
{{ "{:,}".format(found.entries) }} entries, by correlation with the updates less their mean.</p>
<table>
<tr><th></th><th class="n">in the clear</th><th class="n">as it arrived</th><th class="n">a guess</th></tr>
<tr><td>clients recognised</td><td class="n">{{ found.clear.recognised | percent }}</td>
<td class="n">{{ found.arrived.recognised | percent }}</td><td class="n">{{ found.chance | percent }}</td></tr>
{% if found.label_chance is not none %}
<tr><td>most frequent label read from the last bias</td><td class="n">{{ found.clear.labels | percent }}</td>
<td class="n">{{ found.arrived.labels | percent }}</td><td class="n">{{ found.label_chance | percent }}</td></tr>
{% endif %}
</table>
<div class="pictures">
{% for title, cells in pictures %}
<figure><figcaption>{{ title }}</figcaption>
<svg width="{{ 18 * shown + 30 }}" height="{{ 18 * shown + 30 }}" role="img"
aria-label="{{ title }}: correlations of what the server has of each client with each client's update">
{% for column, row, value, color in cells %}
<rect x="{{ 26 + 18 * column }}" y="{{ 2 + 18 * row }}" width="17" height="17" fill="{{ color }}">
<title>{{ value | number }}</title></rect>
{% endfor %}
{% for client in found.clients[:shown] %}
<text x="4" y="{{ 14 + 18 * loop.index0 }}">{{ client }}</text>
<text x="{{ 30 + 18 * loop.index0 }}" y="{{ 18 * shown + 14 }}">{{ client }}</text>
{% endfor %}
</svg></figure>
{% endfor %}
</div>
<p class="note">Rows: what the server has of a client. Columns: the updates. Dark is a correlation of 1 or -1.
That nothing is found here says that these tests found nothing.</p>

<h2>What the server does learn</h2>
<ul>
<li>the mean, and the sum of the weights, {{ record.total_weight | number }}: with few clients a mean tells much of
each of them</li>
<li>who is in it, and when each client answered</li>
{% if record.bounds %}<li>a bound for each tensor, in the table below: given, or found as the maximum over all
clients, to within a factor of four</li>{% endif %}
{% if record.withheld %}<li>how many clients contribute to each entry: {{ "{:,}".format(withheld) }} of
{{ "{:,}".format(record.layout.size) }} entries have too few for k_min = {{ record.k_min }}, were opened by nobody, and
are 0 in the mean</li>{% endif %}
</ul>
{% if claim.guarantees %}<p>What the scheme promises:</p>
<ul>{% for each in claim.guarantees %}<li>{{ each.statement }} ({{ each.strength }}; {{ each.source }})</li>{% endfor %}
</ul>{% else %}<p>The scheme promises nothing.</p>{% endif %}
{% if claim.leaks_by_design %}<p>What it gives away by design:</p>
<ul>{% for each in claim.leaks_by_design %}<li>{{ each.statement }}</li>{% endfor %}</ul>{% endif %}
{% if claim.assumptions %}<p>What that rests on:</p>
<ul>{% for each in claim.assumptions %}<li>{{ each }}</li>{% endfor %}</ul>{% endif %}

<h2>What it costs</h2>
<div class="wide"><table>
<tr><th>what</th><th>from</th><th>to</th><th class="n">messages</th><th class="n">bytes</th></tr>
{% for each in record.traffic %}
<tr><td>{{ each.phase.label }}</td><td>{{ "server" if each.sender_role == "server" else "clients" }}</td>
<td>{{ "server" if each.receiver_role == "server" else "clients" }}</td>
<td class="n">{{ "{:,}".format(each.messages) }}</td><td class="n">{{ each.bytes | bytes }}</td></tr>
{% endfor %}
<tr><th>all</th><th></th><th></th><th class="n">{{ "{:,}".format(record.transcript.message_count) }}</th>
<th class="n">{{ record.byte_count | bytes }}</th></tr>
</table></div>
<p class="note">{{ "%.3f" | format(record.seconds) }} seconds.</p>

<h2>How exact the mean is</h2>
<div class="wide"><table>
<tr><th>tensor</th><th>type</th><th class="n">bound</th><th class="n">bits</th><th class="n">error at most</th></tr>
{% for name, kind, bound, bits, error in tensors %}
<tr><td>{{ name }}</td><td>{{ kind }}</td><td class="n">{{ bound }}</td><td class="n">{{ bits }}</td>
<td class="n">{{ error }}</td></tr>
{% endfor %}
</table></div>
{% if more %}<p class="note">And {{ more }} more.</p>{% endif %}
<p class="note">Bits: behind the binary point. The error is that of fixed point and of rounding to the tensor's type;
the sum itself is exact.</p>
</body>
</html>
"""


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
    found = compare(record, updates, labels)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(number=_number, percent=_percent, bytes=_bytes)
    page = environment.from_string(PAGE).render(
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
        withheld=sum(int(closed.sum()) for closed in record.withheld.values()),
    )
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"path must be of a file that can be written to; found {path} ({error})") from error
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
