"""Pictures and tables of findings, for papers and notebooks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


STYLE = MappingProxyType({"figure.dpi": 80, "font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
"""Settings of matplotlib that notebooks share: `plt.rcParams.update(STYLE)`."""


class MarkdownTable:
    """A table that a notebook shows.

    Args:
        header: titles of the columns.
        rows: cells, which may hold Markdown.
    """

    def __init__(self, header: Iterable[object], rows: Iterable[Iterable[object]]) -> None:
        titles = [str(title) for title in header]
        lines = [titles, ["---"] * len(titles), *([str(cell) for cell in row] for row in rows)]
        self._text = "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def __repr__(self) -> str:
        return self._text

    def _repr_markdown_(self) -> str:
        return self._text


def draw_edges(
    axes: Any,  # a matplotlib.axes.Axes
    positions: NDArray[np.floating[Any]],
    true: Collection[tuple[int, int]],
    claimed: Collection[tuple[int, int]],
    known: Collection[tuple[int, int]] = (),
) -> None:
    """Draw a graph, and which of its edges an observer recovers.

    Edges that the observer knows are blue. Of the others, edges that it recovers are green and thick, wrong claims are
    orange, and what it does not recover is grey. The title has their numbers.

    Args:
        axes: where to draw.
        positions: [n, 2], the place of each node.
        true: edges that the observer does not know, each once, lower node first.
        claimed: edges that the observer claims, in the same form.
        known: edges that it knows without messages.
    """
    recovered, hidden, false = set(true) & set(claimed), set(true) - set(claimed), set(claimed) - set(true)
    layers = ((hidden, "0.8", 0.8), (known, _COLOURS[0], 0.5), (recovered, _COLOURS[2], 1.8), (false, _COLOURS[1], 1.8))
    for edges, colour, width in layers:
        ends = np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)
        across, up = (np.ravel(np.pad(positions[ends, k], ((0, 0), (0, 1)), constant_values=np.nan)) for k in (0, 1))
        axes.plot(across, up, color=colour, linewidth=width, zorder=1)
    axes.scatter(*positions.T, s=9, color="0.4", zorder=2)
    axes.set_title(f"{len(recovered)} recovered, {len(false)} wrong, {len(hidden)} hidden", fontsize=9)
    axes.axis("off")
