"""Sparse matrices as arrays of a state."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from fgl_secure.runtime.packing import Array, Arrays


def arrays_of(matrix: sparse.csr_array) -> dict[str, Array]:
    """Entries, columns, starts of rows, and shape."""
    return {
        "data": matrix.data,
        "columns": matrix.indices.astype(np.int64),
        "starts": matrix.indptr.astype(np.int64),
        "shape": np.array(matrix.shape, dtype=np.int64),
    }


def matrix_of(arrays: Arrays) -> sparse.csr_array:
    """The matrix of such arrays."""
    parts = (arrays["data"].copy(), arrays["columns"].copy(), arrays["starts"].copy())
    return sparse.csr_array(parts, shape=tuple(arrays["shape"].tolist()))
