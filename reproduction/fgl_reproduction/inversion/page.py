"""The result of an inversion as one self-contained page and a file of figures."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

import numpy as np
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import NDArray

from fgl_reproduction.inversion.attacked_round import InversionResult, Rows
from fgl_reproduction.inversion.report import as_json, heading, structure_means
from fgl_secure.auditing.report import write_files
from fgl_secure.dp import Relation, Unit

LEVELS = 32
"""Steps between white and black."""


def picture_svg(row: NDArray[np.floating], shape: tuple[int, int], label: str, size: int = 64) -> str:
    """Return one picture: 0 is white, 1 is black, and values outside are drawn as the nearer of the two.

    Args:
        row: [height * width].
        shape: (height, width).
        label: text alternative.
        size: height on the page, in pixels.
    """
    height, width = shape
    level = np.rint(np.clip(np.nan_to_num(row), 0, 1) * LEVELS).astype(np.int64).reshape(shape)
    paths = "".join(_path(level == item, item) for item in np.unique(level) if item)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size * width // height}" height="{size}" role="img" '
        f'viewBox="0 0 {width} {height}" shape-rendering="crispEdges"><title>{escape(label)}</title>'
        f'<rect width="{width}" height="{height}" fill="#fff"/>{paths}</svg>'
    )


def _path(here: NDArray[np.bool_], level: np.int64) -> str:
    """Return unit squares of one level of grey."""
    grey = 255 - round(255 * int(level) / LEVELS)
    squares = "".join(f"M{x} {y}h1v1h-1z" for y, x in np.argwhere(here))
    return f'<path fill="#{grey:02x}{grey:02x}{grey:02x}" d="{squares}"/>'


MOST_PICTURES = 24
COLUMNS = ("value", "95 % interval", "random", "prior", "permuted truth", "n")
NAMES = {"this run": "Found", "prior": "Mean of the node's class (baseline)", "random": "Some other node (random)"}


def write_inversion(result: InversionResult, folder: Path, command: str) -> tuple[Path, Path]:
    """Write inversion.html and inversion.json into a folder, which is made if necessary."""
    figures = json.dumps({**as_json(result), "command": command}, indent=2) + "\n"
    page, numbers = write_files(
        folder, {"inversion.html": render_inversion(result, command), "inversion.json": figures}
    )
    return page, numbers


def render_inversion(result: InversionResult, command: str) -> str:
    """Return the page, which refers to nothing outside itself."""
    environment = Environment(
        autoescape=True,
        loader=ChoiceLoader(
            [PackageLoader("fgl_reproduction.inversion"), PackageLoader("fgl_secure.auditing")]  # with report.css
        ),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.get_template("inversion.html.j2").render(
        title=f"Gradient inversion on {result.options.dataset}",
        summary=heading(result),
        subject=_subject(result),
        columns=COLUMNS,
        figures=_figures(result),
        rows=_rows(result),
        pictures=_pictures(result.rows, result.image_shape),
        command=command,
    )


def _subject(result: InversionResult) -> list[tuple[str, str]]:
    options = result.options
    pairs = [(name.capitalize(), str(getattr(options, name)))
             for name in ("dataset", "backbone", "silos", "batch", "scheme", "attack", "seed")]  # fmt: skip
    if result.epsilon is not None:
        cost = f"epsilon {result.epsilon:.3g} at delta {options.delta:g} of {Relation(Unit.CLIENT)}"
        pairs.append(("Noise", f"z = {options.noise:g}, {cost}"))
    return pairs


def _figures(result: InversionResult) -> list[tuple[str, list[str]]]:
    table = [
        (figure.found.metric, [
            f"{figure.found.value:.3f}", f"{figure.found.interval.low:.2f} to {figure.found.interval.high:.2f}",
            f"{figure.found.random:.3f}", f"{figure.found.prior:.3f}", f"{figure.null.value:.3f}", str(figure.found.n),
        ])
        for figure in result.figures
    ]  # fmt: skip
    means = {} if result.structure is None else structure_means(result.structure)
    return table + [(name, [f"{value:.3f}", "", "", "", "", ""]) for name, value in means.items()]


def _rows(result: InversionResult) -> list[tuple[str, list[str]]]:
    if result.rows is None:
        return []
    return [
        (NAMES[name], [f"{score.rmse:.3f}", f"{score.cosine:.3f}", f"{score.exact:.2f}"])
        for name, score in result.rows.scores.items()
    ]


def _pictures(rows: Rows | None, shape: tuple[int, int] | None) -> list[tuple[int, int, list[Markup]]]:
    """Return node, label, and pictures of original, reconstruction and baseline."""
    if rows is None or shape is None:
        return []
    kinds = (("original", rows.original), ("found", rows.found), ("baseline", rows.prior))
    return [
        (int(rows.devices[index]), int(rows.labels[index]), [
            Markup(picture_svg(values[index], shape, f"{kind} of node {rows.devices[index]}"))  # noqa: S704  # digits and names
            for kind, values in kinds
        ])
        for index in range(min(len(rows.devices), MOST_PICTURES))
    ]  # fmt: skip
