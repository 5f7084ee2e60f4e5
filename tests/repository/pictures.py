"""Pictures of the pages, made of what the code and the pages' own tables say: `python -m tests.repository.pictures`.

A protocol's diagram is drawn from the transcript of one small sum, as are the tables on its page. Charts are drawn from
the results file and from tables that stand on pages, so that no figure is written down twice.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any, cast

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fgl_secure import schemes
from fgl_secure.methods import method
from tests.repository import figures, page_tables
from tests.repository.page_tables import DOCS, REPRODUCTION

IMAGES = DOCS / "images"
BLUE, RED, GREEN = "#0072b2", "#d55e00", "#009e73"
"""Okabe and Ito's, which colour-blind readers tell apart."""
WRITTEN: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "fgl-secure",
    "font.family": "sans-serif",
    "font.size": 9,
}
"""Text stays text, and equal figures make equal files."""
ORDER = ("device", "silo", "relay", "server")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def protocol(name: str) -> Figure:
    """Return the messages of one sum of a scheme, each kind once, from the role that sends to the one that receives."""
    where = page_tables.summed_by(name)[0]
    steps = page_tables.traffic(schemes.kinds()[name](), where)
    roles = [role for role in ORDER if any(role in step[:2] for step in steps)]
    texts = [fill(f"{number}. {content}", 90 // len(roles)) for number, (*_, content) in enumerate(steps, 1)]
    heights = [0.55 + 0.16 * text.count("\n") for text in texts]
    figure = Figure(figsize=(7.2, 0.6 + sum(heights)), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(-0.5, len(roles) - 0.2), ylim=(-sum(heights) - 0.1, 0.35))
    axes.axis("off")
    for column, role in enumerate(roles):
        axes.plot([column, column], [0.05, -sum(heights)], color="0.6", linewidth=1)
        axes.text(column, 0.1, f"{role}s" if role != "server" else role, ha="center", va="bottom", weight="bold")
    top = 0.0
    for (sender, receiver, _), text, height in zip(steps, texts, heights, strict=True):
        _draw_arrow(axes, roles.index(sender), roles.index(receiver), top - height + 0.1, text)
        top -= height
    return figure


def _draw_arrow(axes: Axes, start: int, end: int, height: float, text: str) -> None:
    """Draw a message; one between two parties of a role leaves its line and comes back."""
    style = {"arrowstyle": "-|>", "color": BLUE, "linewidth": 1.2}
    if start == end:
        axes.annotate("", (end + 0.01, height), (start + 0.01, height + 0.2), arrowprops=_bent(style))
        axes.text(start + 0.16, height + 0.1, text, ha="left", va="center", fontsize=8)
        return
    axes.annotate("", (end, height), (start, height), arrowprops=style)
    over = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    axes.text((start + end) / 2, height + 0.05, text, ha="center", va="bottom", fontsize=8, bbox=over)


def _bent(style: Mapping[str, object]) -> dict[str, object]:
    return {**style, "connectionstyle": "arc3,rad=-0.9"}


def overhead() -> Figure:
    """Return bars: an epoch of HiFGL under each scheme, as a multiple of plain PyTorch Geometric's time."""
    header, *rows = table(DOCS / "results" / "costs.md", "plain PyG")
    rows = [row for row in rows if row[0].startswith("`")]
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    axes = figure.subplots()
    for number, (data, colour) in enumerate(zip(header[1:], (BLUE, RED, GREEN), strict=False)):
        ratios = [float(NUMBER.findall(row[1 + number])[-1]) for row in rows]
        bars = axes.barh([place + 0.26 * (1 - number) for place in range(len(rows))], ratios, 0.24, color=colour)
        axes.bar_label(bars, fmt="%.3g", padding=2, fontsize=7)
        bars.set_label(data)
    axes.set_yticks(range(len(rows)), [row[0].replace("`", "") for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("wall time of an epoch, plain PyTorch Geometric = 1")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return figure


def reproduction() -> Figure:
    """Return a scatter: accuracies of this implementation against those that the papers print, in percent."""
    figure = Figure(figsize=(5.2, 5), layout="constrained")
    axes = figure.subplots()
    axes.plot([30, 100], [30, 100], color="0.6", linewidth=1)
    for name, marker, colour in zip(("fedstruct", "hifgl", "fedvn"), "os^", (BLUE, RED, GREEN), strict=True):
        pairs = sorted(set(_pairs(REPRODUCTION / f"{name}.md")))
        printed, ours = zip(*pairs, strict=True)
        title = method(name).title
        axes.plot(printed, ours, marker, color=colour, markersize=4, alpha=0.7, label=f"{title} ({len(pairs)})")
    axes.set(xlabel="printed in the paper, %", ylabel="ours, %", xlim=(30, 100), ylim=(30, 100), aspect="equal")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left")
    return figure


def _pairs(page: Path) -> Iterator[tuple[float, float]]:
    """Yield printed and own accuracies, in percent, of all tables of a page whose columns are headed so."""
    for header, *rows in tables(page):
        for column, title in enumerate(header):
            there = next((k for k in (column + 1, column - 1) if 0 < k < len(header) and "printed" in header[k]), None)
            if there is None or not title.endswith(("ours", "means", "best / last")):
                continue
            for row in rows:
                own, printed = NUMBER.search(row[column]), NUMBER.search(row[there])
                if own and printed:
                    yield _percent(printed[0]), _percent(own[0])


def _percent(text: str) -> float:
    value = float(text)
    return 100 * value if value < 1 else value


def accuracy_by_epsilon() -> Figure:
    """Return lines: GAP's accuracy against epsilon, with deviations over seeds, and its baselines as dashes."""
    header, *rows = figures.entries()["noise-once"]["rows"]
    axes = _axes(6, 3.2)
    for column, colour in zip((1, 3), (BLUE, RED), strict=True):
        cells = {row[0]: [float(number) for number in NUMBER.findall(row[column])] for row in rows}
        points = [(float(name), *found) for name, found in cells.items() if name.isdecimal()]
        epsilons, means, deviations = zip(*points, strict=True)
        axes.errorbar(epsilons, means, deviations, marker="o", markersize=4, color=colour, label=header[column])
        for name, style in (("without noise", "--"), ("without edges", ":")):
            axes.axhline(cells[name][0], color=colour, linestyle=style, linewidth=1, label=f"{header[column]} {name}")
    axes.set(xscale="log", xlabel="epsilon of an edge, both hops", ylabel="test accuracy, %")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=7, ncols=2)
    return cast("Figure", axes.figure)


def calibration() -> Figure:
    """Return points: lower bounds on epsilon that canaries measure, against the epsilon that the noise guarantees."""
    header, *rows = figures.entries()["noise-once"]["rows"]
    axes = _axes(4.2, 3.6)
    axes.plot([0, 8.5], [0, 8.5], color="0.6", linewidth=1)
    for column, colour in zip((2, 4), (BLUE, RED), strict=True):
        points = [(float(row[0]), *map(float, NUMBER.findall(row[column]))) for row in rows if row[0].isdecimal()]
        epsilons, gaussian, anyone = zip(*points, strict=True)
        axes.plot(epsilons, gaussian, "o", color=colour, label=f"{header[column - 1]}, Gaussian mechanisms")
        axes.plot(epsilons, anyone, "^", color=colour, label=f"{header[column - 1]}, any mechanism")
    axes.set(xlabel="guaranteed epsilon", ylabel="measured lower bound", xlim=(0, 8.5), ylim=(0, 8.5))
    axes.legend(frameon=False, fontsize=7)
    return cast("Figure", axes.figure)


def membership_by_clients() -> Figure:
    """Return a line: how well a sum shows whether a node is in any batch, against the number of clients in it."""
    _, *rows = figures.entries()["sum-membership"]["rows"]
    clients, areas = zip(*((int(row[0]), float(row[1])) for row in rows), strict=True)
    axes = _axes(5, 2.8)
    axes.plot(clients, areas, "o-", color=BLUE, label="nodes of any client's batch, from the sum")
    axes.axhline(0.5, color="0.5", linestyle=":", label="a guess")
    for place, area in zip(clients, areas, strict=True):
        axes.plot([place, place], [0.5, area], color=BLUE, alpha=0.25, linewidth=4)
    axes.set(xlabel="clients in the sum, four nodes each", ylabel="AUC", ylim=(0.45, 1.03), xticks=clients)
    axes.legend(frameon=False, fontsize=8)
    return cast("Figure", axes.figure)


def cost_of_a_round() -> Figure:
    """Return stacked bars: which part of a round's CPU time goes where, with many clients."""
    header, *rows = figures.entries()["sums-many-clients"]["rows"]
    total, parts = header.index("CPU time"), [header.index("keys and shares"), header.index("server")]
    axes, begins = _axes(6.4, 1.9), [0.0] * len(rows)
    seconds = [[float(NUMBER.findall(row[column])[0]) for row in rows] for column in (total, *parts)]
    rest = [whole - sum(each) for whole, *each in zip(*seconds, strict=True)]
    names = [*(header[column] for column in parts), "masks and vectors"]
    for name, values, colour in zip(names, (*seconds[1:], rest), (BLUE, RED, GREEN), strict=True):
        shares = [100 * value / whole for value, whole in zip(values, seconds[0], strict=True)]
        axes.barh(range(len(rows)), shares, 0.6, left=begins, color=colour, label=name)
        begins = [begin + share for begin, share in zip(begins, shares, strict=True)]
    axes.set_yticks(range(len(rows)), [row[0].replace(" of ", " clients,\n") + " numbers each" for row in rows])
    axes.invert_yaxis()
    axes.set(xlabel="% of the CPU time of all parties", xlim=(0, 100))
    axes.legend(frameon=False, fontsize=7, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))
    return cast("Figure", axes.figure)


def _axes(width: float, height: float) -> Any:  # a matplotlib.axes.Axes whose figure is no sub-figure
    axes = Figure(figsize=(width, height), layout="constrained").subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def small_sums() -> Figure:
    """Return accuracy of FedStruct, and labels recovered from it, against the least number of rows in a sum."""
    header, *rows = table(REPRODUCTION / "fedstruct.md", "`--k-min 1`")
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    axes = figure.subplots()
    at = [int(NUMBER.findall(title)[-1]) for title in header[1:]]
    for row, colour in zip(rows, ("0.6", "0.3", "#56b4e9", BLUE, GREEN, RED), strict=True):
        values = [(k, float(found[0])) for k, cell in zip(at, row[1:], strict=True) if (found := NUMBER.search(cell))]
        recovered = "recovers" in row[0]
        label = "Cora, 10 silos: labels recovered" if recovered else f"{row[0].replace('`', '')}: accuracy"
        axes.plot(*zip(*values, strict=True), "--s" if recovered else "-o", color=colour, label=label, markersize=4)
    axes.set_xticks(at)
    axes.set(xlabel="k_min: least number of rows in an answered sum", ylabel="%", ylim=(0, 100))
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right center", frameon=False, fontsize=7)
    return figure


def tables(page: Path) -> Iterator[list[list[str]]]:
    """Yield the tables of a page, each as its cells; the first row is the header."""
    found: list[list[str]] = []
    for line in [*page.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not set("".join(cells)) <= set("-: "):
                found.append(cells)
            continue
        if found:
            yield found
        found = []


def table(page: Path, text: str) -> list[list[str]]:
    """Return the first table of a page in which a cell has the text."""
    return next(rows for rows in tables(page) if any(text in cell for row in rows for cell in row))


def pictures() -> dict[str, Callable[[], Figure]]:
    """Return what is drawn, by file name."""
    made: dict[str, Callable[[], Figure]] = {
        f"protocol-{name}.svg": partial(protocol, name) for name in schemes.names() if name != "plaintext"
    }
    return made | {
        "calibration.svg": calibration,
        "cost-of-a-round.svg": cost_of_a_round,
        "epsilon.svg": accuracy_by_epsilon,
        "membership.svg": membership_by_clients,
        "overhead.svg": overhead,
        "reproduction.svg": reproduction,
        "small-sums.svg": small_sums,
    }


def main(names: Sequence[str] = ()) -> None:
    """Draw all pictures anew, or those that are named."""
    with mpl.rc_context(WRITTEN):
        for name, draw in pictures().items():
            if not names or name in names:
                draw().savefig(IMAGES / name, metadata={"Date": None})


if __name__ == "__main__":
    main()
