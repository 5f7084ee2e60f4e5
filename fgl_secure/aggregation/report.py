"""One page on a round: what the server has of each client without the scheme and with it, and what that costs."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fgl_secure.aggregation.arrays import FLOATS
from fgl_secure.aggregation.record import RoundRecord
from fgl_secure.aggregation.view import SHOWN, Comparison, LabelTest, Reading, compare
from fgl_secure.errors import InputError
from fgl_secure.runtime import Claim

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
