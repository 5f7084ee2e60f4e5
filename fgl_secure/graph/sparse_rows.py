"""Features of which nearly all are zero, as rows of a sparse matrix until somebody needs them laid out."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgl_secure.errors import InputError

Floats = NDArray[np.float32]

LARGE = 2**26
"""Bytes of features that are not laid out before they are needed."""


class SparseRows:
    """Rows of features, float32 [n, d], of which all but a few are zero.

    Of a graph with gigabytes of features every silo lays out its own, and nobody those of all silos: laid out together
    they stay in memory while somebody holds the array, and no longer.

    Args:
        matrix: a `scipy.sparse.csr_array` [n, d] of float32 in canonical form, finite; not to be changed any more.

    Attributes:
        matrix: as given.
    """

    __slots__ = ("_laid_out", "matrix")

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix
        self._laid_out: weakref.ref[Floats] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        n, d = self.matrix.shape
        return int(n), int(d)

    def rows(self, nodes: NDArray[np.int64]) -> Floats:
        """Float32 [k, d], those of some nodes, laid out."""
        found: Floats = self.matrix[nodes].toarray()
        return found

    def laid_out(self) -> Floats:
        """Float32 [n, d], all of them, read-only; the same array while somebody holds it."""
        known = None if self._laid_out is None else self._laid_out()
        if known is None:
            known = self.matrix.toarray()
            known.setflags(write=False)
            self._laid_out = weakref.ref(known)
        return known


def checked_features(values: ArrayLike | Any) -> Floats | SparseRows:
    """Copies features; those of a sparse matrix, where they would take much memory, stay sparse.

    Args:
        values: real numbers [n, d], an array or a `scipy.sparse` one.

    Raises:
        InputError: they are something else, of another shape, or not finite as float32; the message names the node.
    """
    from scipy.sparse import csr_array, issparse  # noqa: PLC0415 (not needed to import the package)

    if not issparse(values):
        return _checked_array(values)
    _check_kind(values)
    _check_indices(values)
    with np.errstate(over="ignore"):
        matrix = csr_array(values, dtype=np.float32, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if 4 * matrix.shape[0] * matrix.shape[1] < LARGE or not np.isfinite(matrix.data).all():
        return _checked_array(matrix.toarray())
    return SparseRows(matrix)


def _check_indices(values: Any) -> None:
    """Check the indices of a sparse matrix: compiled code would read foreign memory at one outside of it.

    Raises:
        InputError: one is outside.
    """
    try:
        if hasattr(values, "check_format"):
            values.check_format(full_check=True)
        elif values.format == "coo":
            np.ravel_multi_index(values.coords, values.shape)
    except ValueError as error:
        raise InputError(f"features must have the indices of their entries inside the matrix; {error}") from error


def _check_kind(values: Any) -> None:
    if values.dtype.kind not in "fiub":
        raise InputError(f"features must be real numbers; found dtype {values.dtype}")
    if values.ndim != 2 or 0 in values.shape:
        raise InputError(f"features must have shape [nodes, features], both at least 1; found shape {values.shape}")


def _checked_array(values: ArrayLike) -> Floats:
    raw = np.asarray(values)
    _check_kind(raw)
    with np.errstate(over="ignore"):  # what overflows float32 becomes inf, and is refused below
        features = raw.astype(np.float32)
    if not np.isfinite(features.min()) or not np.isfinite(features.max()):  # NaN comes through both
        node, feature = np.argwhere(~np.isfinite(features))[0]
        raise InputError(f"features must be finite; node {node}, feature {feature} is {features[node, feature]}")
    return features
