"""Rows of features as small pictures, drawn in SVG: nothing is loaded, and no other library is needed."""

from __future__ import annotations

from html import escape

import numpy as np
from numpy.typing import NDArray

LEVELS = 32
"""Steps between white and black."""


def picture_svg(row: NDArray[np.floating], shape: tuple[int, int], label: str, size: int = 64) -> str:
    """One picture: 0 is white, 1 is black, and what lies outside is drawn as the nearer of the two.

    Args:
        row: [height * width].
        shape: (height, width).
        label: what it shows, for those who can't see it.
        size: height on the page, in pixels.
    """
    height, width = shape
    level = np.rint(np.clip(np.nan_to_num(row), 0, 1) * LEVELS).astype(np.int64).reshape(shape)
    paths = "".join(_path(level == each, each) for each in np.unique(level) if each)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size * width // height}" height="{size}" role="img" '
        f'viewBox="0 0 {width} {height}" shape-rendering="crispEdges"><title>{escape(label)}</title>'
        f'<rect width="{width}" height="{height}" fill="#fff"/>{paths}</svg>'
    )


def _path(here: NDArray[np.bool_], level: np.int64) -> str:
    """Unit squares of one level of grey."""
    grey = 255 - round(255 * int(level) / LEVELS)
    squares = "".join(f"M{x} {y}h1v1h-1z" for y, x in np.argwhere(here))
    return f'<path fill="#{grey:02x}{grey:02x}{grey:02x}" d="{squares}"/>'
