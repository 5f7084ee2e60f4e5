"""A comparison as one self-contained page, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor, log10
from pathlib import Path

from fgl_secure.auditing.html import LANE, Axis, Lane, axis_down_to, environment, score_ticks, share
from fgl_secure.auditing.report import write_files
from fgl_secure.auditing.wording import DASH, bytes_text, figure, score_text, seconds_text
from fgl_secure.methods.comparison.lines import Compared, Line, Reading, Side

SHAPES = ("ring", "circle")
"""Marks of the run in the clear and of the secured one."""

COLUMNS = ("method", "scheme", "{score}", "sent", "time", "worst finding", "by attack", "prior", "not attacked")


@dataclass(frozen=True, slots=True)
class Dot:
    """One run in the plot of scores against bytes.

    Attributes:
        x: per cent of the width, from the left.
        y: per cent of the height, from the top.
        shape: of its mark.
        tone: contradicted, found, or quiet if no attack recovered anything.
        label: the method's name, at one of its dots.
        text: its figures in words.
    """

    x: float
    y: float
    shape: str
    tone: str
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Plot:
    """Scores against bytes on a logarithmic axis.

    Attributes:
        dots: of all runs.
        links: from a method's run in the clear to its secured one: x and y of both, in per cent.
        across: labels of the lower axis and their positions in per cent.
        up: labels of the left axis and their positions in per cent, from the top.
    """

    dots: tuple[Dot, ...]
    links: tuple[tuple[float, float, float, float], ...]
    across: tuple[tuple[str, float], ...]
    up: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Compared):
    """Methods on one data set, which can be written down; see `Compared` for its attributes."""

    def write(self, folder: Path | str) -> tuple[Path, ...]:
        """Writes compare.html, compare.json and compare.md into a folder, all or none; gives their paths.

        Raises:
            InputError: the folder can't be made or written to.
        """
        text = json.dumps(self.as_json(), ensure_ascii=False, indent=2) + "\n"
        texts = {"compare.html": render_html(self), "compare.json": text, "compare.md": render_markdown(self)}
        return write_files(Path(folder), texts)

    def _repr_html_(self) -> str:
        """The table, as notebooks show it."""
        return render_table(self)


def render_html(comparison: Compared) -> str:
    """The whole page as text; it loads nothing from outside itself."""
    return environment().get_template("compare.html.j2").render(
        table=rows(comparison),
        columns=columns(comparison),
        title=title(comparison),
        summary=summary(comparison),
        subject=_subject(comparison),
        plot=plot(comparison),
        groups=tuple(_groups(comparison)),
        ticks=_axis(comparison).ticks(),
        lane=LANE,
        left_out=comparison.left_out,
        command=comparison.run["command"],
        lines=comparison.lines,
    )  # fmt: skip


def render_table(comparison: Compared) -> str:
    """The table alone, as a piece of a page such as a notebook's."""
    return environment().get_template("compare_table.html.j2").render(
        table=rows(comparison), columns=columns(comparison), title=title(comparison), left_out=comparison.left_out
    )  # fmt: skip


def render_markdown(comparison: Compared) -> str:
    """The table, what was left out, and how to repeat it, for a pull request."""
    said = [columns(comparison), ["---"] * len(COLUMNS), *(cells for _, cells in rows(comparison))]
    table = ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |" for cells in said]
    left = [f"- {each.title} is left out: {each.reason}." for each in comparison.left_out]
    command = comparison.run["command"]
    repeat = ["", f"Repeat it: `{command}`"] if command else []
    return (
        "\n".join([f"# {title(comparison)}", "", summary(comparison), "", *table, "", *left, *repeat]).rstrip() + "\n"
    )


def title(comparison: Compared) -> str:
    """The page's title."""
    return f"Methods on {comparison.run['dataset']}, in the clear and secured"


def summary(comparison: Compared) -> str:
    """How many methods fit, what contradicts claims, and what was not attacked, in two sentences."""
    count, chosen = len(comparison.lines), [line.sides[-1] for line in comparison.lines]
    fell, read = len(comparison.contradictions), sum(side.worst is not None for side in chosen)
    open_ = sum(bool(side.not_attacked) for side in chosen)
    promises = f"{fell} findings contradict" if fell > 1 else f"{'One' if fell else 'No'} finding contradicts"
    return (
        f"{count} of {count + len(comparison.left_out)} methods fit. {promises} a claim of a secured run; "
        f"attacks recovered something from {read} of {len(chosen)} secured runs; in {open_} of them parties of some "
        "role received messages and were not attacked."
    )


def columns(comparison: Compared) -> list[str]:
    """Headings of the table."""
    scores = {str(line.score) for line in comparison.lines}
    return [each.format(score=" or ".join(sorted(scores)) or "score") for each in COLUMNS]


def rows(comparison: Compared) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The lines of the table, two a method, each with its tone."""
    return tuple(
        (
            _tone(side),
            (
                line.title if not i else "",
                side.scheme,
                _score(line, side),
                *_costs(side),
                *_worst(side),
                ", ".join(side.not_attacked),
            ),
        )
        for line in comparison.lines
        for i, side in enumerate(line.sides)
    )


def plot(comparison: Compared) -> Plot | None:
    """Scores against bytes; None where lines have no score or no bytes in common."""
    lines = [line for line in comparison.lines if line.score is comparison.lines[0].score]
    sides = [(line, side) for line in lines for side in line.sides if side.bytes > 0]
    if not sides:
        return None
    low, high = (rounding(log10(end(side.bytes for _, side in sides))) for rounding, end in ((floor, min), (ceil, max)))
    across = [float(exponent) for exponent in range(low, max(high, low + 1) + 1)]
    up = score_ticks(lines[0].score, [side.score for _, side in sides])
    dots = tuple(_dot(line, side, across, up) for line, side in sides)
    pairs = zip(sides, sides[1:], dots, dots[1:], strict=False)
    return Plot(
        dots,
        tuple((a.x, a.y, b.x, b.y) for (one, _), (other, _), a, b in pairs if one is other),
        tuple((bytes_text(10**x), share(x, across)) for x in across),
        tuple((score_text(lines[0].score, y), round(100 - share(y, up), 2)) for y in up),
    )


def _dot(line: Line, side: Side, across: list[float], up: list[float]) -> Dot:
    first = side is line.clear
    text = f"{line.title}, {side.scheme}: {_score(line, side)}, {bytes_text(side.bytes)}, {_found(side)}"
    return Dot(
        share(log10(side.bytes), across),
        round(100 - share(side.score, up), 2),
        SHAPES[not first],
        _tone(side),
        line.title if first else "",
        text,
    )


def _groups(comparison: Compared) -> Iterator[tuple[Line, tuple[tuple[str, tuple[Lane, ...]], ...], tuple[str, ...]]]:
    """By method: attacks that recovered something with their lanes, and names of those that did not."""
    axis = _axis(comparison)
    for line in comparison.lines:
        readings = [(i, reading) for i, side in enumerate(line.sides) for reading in side.readings]
        told = dict.fromkeys(r.attack for _, r in sorted(readings, key=lambda each: each[1].rank) if r.tone != "quiet")
        drawn = tuple(
            (name, tuple(_lanes([each for each in readings if each[1].attack == name], axis))) for name in told
        )
        yield line, drawn, tuple(dict.fromkeys(r.attack for _, r in readings if r.attack not in told))


def _lanes(readings: list[tuple[int, Reading]], axis: Axis) -> Iterator[Lane]:
    for index, (side, each) in enumerate(readings):
        yield Lane(
            scheme=each.scheme,
            shape=SHAPES[side],
            tone=each.tone,
            text=f"{each.scheme}: {_read(each)}, {each.verdict}",
            y=LANE * index + LANE // 2 + 2,
            at=axis.place(each.value),
            low=axis.place(each.low),
            high=axis.place(each.high),
            prior=axis.place(each.prior),
        )


def _axis(comparison: Compared) -> Axis:
    readings = (r for line in comparison.lines for side in line.sides for r in side.readings)
    return axis_down_to(min((min(each.value, each.low, each.prior) for each in readings), default=0.0))


def _tone(side: Side) -> str:
    return "quiet" if side.worst is None else side.worst.tone


def _score(line: Line, side: Side) -> str:
    more = "" if side.deviation is None else f" ± {score_text(line.score, side.deviation)}"
    return score_text(line.score, side.score) + more


def _costs(side: Side) -> tuple[str, str]:
    return bytes_text(side.bytes or None), seconds_text(side.seconds)


def _worst(side: Side) -> tuple[str, str, str]:
    return (side.without_findings, "", "") if side.worst is None else _cells(side.worst)


def _cells(reading: Reading) -> tuple[str, str, str]:
    broken = ", contradicts the claim" if reading.tone == "contradicted" else ""
    return f"{figure(reading.value)} {reading.metric}{broken}", reading.attack, figure(reading.prior)


def _found(side: Side) -> str:
    return side.without_findings if side.worst is None else _read(side.worst)


def _read(reading: Reading) -> str:
    what, attack, prior = _cells(reading)
    return f"{attack} {what}, prior {prior}"


def _subject(comparison: Compared) -> list[tuple[str, str]]:
    run = comparison.run
    found = [(key, run.get(key)) for key in ("dataset", "partition", "silos", "epochs", "version")]
    seeds = ", ".join(map(str, run["seeds"]))
    return [*((key, str(value)) for key, value in found if value not in (None, "")), ("seeds", seeds or DASH)]
