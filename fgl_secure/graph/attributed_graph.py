"""A graph with node features and node labels, checked once and never changed afterwards."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgl_secure.errors import InputError

MOST_CLASSES = 2**16
"""A larger label is a number of another kind, and a model would get an output for every number below it."""

_MOST_FEATURE_BITS = 8
"""Features with more bits behind the binary point are taken for any real numbers."""

USUAL_FEATURE, USUAL_NODE = 4.0, 32.0
"""Magnitudes of a feature, and of all features of a node together, that leave sums within usual bounds."""

_LOOKED_AT = 2**20
"""Features that are looked at together."""

LARGE = 2**26
"""Bytes of features that are not laid out before they are needed."""

_Floats = NDArray[np.float32]
_ScalarT = TypeVar("_ScalarT", bound=np.generic)


class SparseRows:
    """Rows of features, float32 [n, d], of which all but a few are zero.

    Of a graph with gigabytes of features every silo lays out its own, and no party those of all silos: laid out
    together they stay in memory while a party holds the array, and no longer.

    Args:
        matrix: a `scipy.sparse.csr_array` [n, d] of float32 in canonical form, finite; not to be changed any more.

    Attributes:
        matrix: as given.
    """

    __slots__ = ("_laid_out", "matrix")

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix
        self._laid_out: weakref.ref[_Floats] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        n, d = self.matrix.shape
        return int(n), int(d)

    def rows(self, nodes: NDArray[np.int64]) -> _Floats:
        """Float32 [k, d], those of some nodes, laid out."""
        result: _Floats = self.matrix[nodes].toarray()
        return result

    def laid_out(self) -> _Floats:
        """Float32 [n, d], all of them, read-only; the same array while a party holds it."""
        known = None if self._laid_out is None else self._laid_out()
        if known is None:
            known = self.matrix.toarray()
            known.setflags(write=False)
            self._laid_out = weakref.ref(known)
        return known


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Graph:
    """A graph whose nodes are devices and whose edges are messages.

    Build one with `from_arrays`: the bare constructor trusts its arguments. All arrays are read-only.

    Attributes:
        name: What the graph is called in tables.
        stored: features float32 [n, d], finite; or their sparse rows.
        labels: int64 [n], 0 or more; -1 for a node of a user's own data without a label.
        edges: int64 [2, m], row 0 the source and row 1 the target: a message travels from source to target, and an
            undirected edge is two columns. Sorted by (target, source), without duplicates or self-loops.
        image_shape: (height, width) with height * width = d where a node's features are an image, else None.

    Examples:
        >>> Graph.from_arrays("pair", [[0.0], [1.0]], [0, 1], [[0, 1], [1, 0]]).num_nodes
        2
    """

    name: str
    stored: NDArray[np.float32] | SparseRows
    labels: NDArray[np.int64]
    edges: NDArray[np.int64]
    image_shape: tuple[int, int] | None = None

    @classmethod
    def from_arrays(
        cls,
        name: str,
        features: ArrayLike | Any,
        labels: ArrayLike,
        edges: ArrayLike,
        image_shape: tuple[int, int] | None = None,
    ) -> Graph:
        """Check the arrays, copy them, and bring the edges into canonical order.

        Duplicate edges are merged and self-loops are dropped: what a node tells itself is not a message. A layer that
        wants self-loops adds them locally.

        Args:
            name: What the graph is called in tables.
            features: Real numbers [n, d], n and d at least 1, finite as float32; an array, or one of `scipy.sparse`.
            labels: Integers [n], 0 or more.
            edges: Integers [2, m] in 0..n-1, row 0 the source and row 1 the target; m may be 0.
            image_shape: (height, width) with height * width = d, or None.

        Raises:
            InputError: An array breaks one of these rules; the message names the node or the edge.
        """
        checked = _checked_features(features)
        num_features = checked.shape[1]
        if image_shape is not None and (min(image_shape) < 1 or image_shape[0] * image_shape[1] != num_features):
            raise InputError(f"image_shape must hold {num_features} pixels, one a feature; found {image_shape}")
        return cls(
            name=name,
            stored=checked if isinstance(checked, SparseRows) else read_only(checked),
            labels=read_only(_checked_labels(labels, checked.shape[0])),
            edges=read_only(_canonical_edges(edges, checked.shape[0])),
            image_shape=image_shape,
        )

    @property
    def features(self) -> NDArray[np.float32]:
        """Float32 [n, d]: gigabytes, laid out while a party holds them, where they are stored sparse."""
        return self.stored.laid_out() if isinstance(self.stored, SparseRows) else self.stored

    def features_of(self, nodes: NDArray[np.int64]) -> NDArray[np.float32]:
        """A copy of the features of some nodes, float32 [k, d]."""
        return self.stored.rows(nodes) if isinstance(self.stored, SparseRows) else self.stored[nodes]

    def reorder_features(self, nodes: NDArray[np.int64]) -> NDArray[np.float32] | SparseRows:
        """The features of all nodes in another order, int64 [n], stored as they are here."""
        if isinstance(self.stored, SparseRows):
            return SparseRows(self.stored.matrix[nodes])
        return read_only(self.stored[nodes])

    @property
    def num_nodes(self) -> int:
        """The number of nodes n."""
        return int(self.stored.shape[0])

    @property
    def num_features(self) -> int:
        """The number of features d of a node."""
        return int(self.stored.shape[1])

    @property
    def feature_bits(self) -> int | None:
        """The fewest bits behind the binary point with which all features are exact; None where there are more than 8.

        0 of bags of words, 4 of pixels in sixteenths.
        """
        values = self.stored.matrix.data if isinstance(self.stored, SparseRows) else self.stored.reshape(-1)
        union = 0
        for start in range(0, len(values), _LOOKED_AT):
            with np.errstate(over="ignore"):
                shifted = values[start : start + _LOOKED_AT] * np.float32(2**_MOST_FEATURE_BITS)
            if float(np.abs(shifted).max()) >= 2**24:
                return None
            units = shifted.astype(np.int32)
            if (units != shifted).any():
                return None
            union |= int(np.bitwise_or.reduce(units, axis=None))
        return next(bits for bits in range(_MOST_FEATURE_BITS + 1) if union % 2 ** (_MOST_FEATURE_BITS - bits) == 0)

    @property
    def has_large_features(self) -> bool:
        """Whether a feature exceeds USUAL_FEATURE in magnitude, or those of one node add up to more than USUAL_NODE."""
        if isinstance(self.stored, SparseRows):
            sizes = abs(self.stored.matrix)
            return bool(sizes.max() > USUAL_FEATURE or sizes.sum(axis=1, dtype=np.float64).max() > USUAL_NODE)
        several = max(_LOOKED_AT // self.num_features, 1)
        parts = (np.abs(self.stored[start : start + several]) for start in range(0, self.num_nodes, several))
        return any(
            part.max() > USUAL_FEATURE or part.sum(axis=1, dtype=np.float64).max() > USUAL_NODE for part in parts
        )

    @property
    def num_classes(self) -> int:
        """One more than the largest label."""
        return int(self.labels.max()) + 1

    @property
    def in_degree(self) -> NDArray[np.int64]:
        """The number of messages that each node receives in one layer, int64 [n]."""
        return np.bincount(self.edges[1], minlength=self.num_nodes).astype(np.int64)

    @property
    def is_symmetric(self) -> bool:
        """Whether every edge is there in both directions."""
        source, target = self.edges
        return bool(np.array_equal(target * self.num_nodes + source, np.sort(source * self.num_nodes + target)))

    def __repr__(self) -> str:
        return (
            f"Graph({self.name!r}, nodes={self.num_nodes}, edges={self.edges.shape[1]}, "
            f"features={self.num_features}, classes={self.num_classes})"
        )


def read_only(array: NDArray[_ScalarT]) -> NDArray[_ScalarT]:
    """Mark an array that the caller owns as read-only, and return it."""
    array.setflags(write=False)
    return array


def as_array(argument: str, values: Any) -> NDArray[Any]:
    """Return numbers as a dense array, whether a list, numpy, scipy or torch holds them.

    Raises:
        InputError: They are no numbers, or of a type that numpy lacks; the message names `argument`.
    """
    try:
        if hasattr(values, "detach"):  # of torch, on any device, sparse or with a gradient
            values = values.detach().cpu().to_dense()
            values = (values.float() if str(values.dtype) == "torch.bfloat16" else values).numpy()  # exact
        array = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{argument} must be an array of numbers; found {type(values).__name__} ({error})") from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"{argument} must be an array of numbers; found {type(values).__name__} of {array.dtype}")
    return array


def integers(argument: str, values: ArrayLike) -> NDArray[np.int64]:
    """Copy integers of any width into int64.

    Raises:
        InputError: The values are not integers; the message names `argument`.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise InputError(f"{argument} must be integers; found dtype {array.dtype}")
    return array.astype(np.int64)


def _checked_labels(values: ArrayLike, num_nodes: int) -> NDArray[np.int64]:
    labels = integers("labels", values)
    if labels.shape != (num_nodes,):
        raise InputError(f"labels must have shape ({num_nodes},), one a node; found shape {labels.shape}")
    if labels.min() < 0:
        node = int(np.argmax(labels < 0))
        raise InputError(f"labels must be 0 or more; node {node} has label {labels[node]}")
    if labels.max() >= MOST_CLASSES:
        node = int(np.argmax(labels >= MOST_CLASSES))
        raise InputError(f"labels must stay below {MOST_CLASSES}; node {node} has label {labels[node]}")
    return labels


def _canonical_edges(values: ArrayLike, num_nodes: int) -> NDArray[np.int64]:
    edges = integers("edges", values)
    if edges.ndim != 2 or len(edges) != 2:
        raise InputError(f"edges must have shape [2, edges], sources above targets; found shape {edges.shape}")
    outside = ((edges < 0) | (edges >= num_nodes)).any(axis=0)
    if outside.any():
        edge = int(np.argmax(outside))
        source, target = edges[:, edge]
        raise InputError(f"edges must join nodes 0..{num_nodes - 1}; edge {edge} ({source} -> {target}) does not")
    source, target = edges[:, edges[0] != edges[1]]
    # One integer an edge, so that a single sort both orders the edges and brings duplicates together. Of some million
    # edges that takes a fifth of the time of np.unique, which hashes.
    key = np.sort(target * num_nodes + source)
    key = key[np.diff(key, prepend=-1) != 0]
    return np.stack([key % num_nodes, key // num_nodes])


def _checked_features(values: Any) -> _Floats | SparseRows:
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
    # Check the indices of a sparse matrix: compiled code would read foreign memory at one outside of it.
    try:
        if hasattr(values, "check_format"):
            values.check_format(full_check=True)
        elif values.format == "coo":
            np.ravel_multi_index(values.coords, values.shape)
    except ValueError as error:
        raise InputError(f"features must have the indices of their entries inside the matrix; {error}") from error
    with np.errstate(over="ignore"):
        matrix = csr_array(values, dtype=np.float32, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if 4 * matrix.shape[0] * matrix.shape[1] < LARGE or not np.isfinite(matrix.data).all():
        return _checked_array(matrix.toarray())
    return SparseRows(matrix)


def _check_kind(values: Any) -> None:
    if values.dtype.kind not in "fiub":
        raise InputError(f"features must be real numbers; found dtype {values.dtype}")
    if values.ndim != 2 or 0 in values.shape:
        raise InputError(f"features must have shape [nodes, features], both at least 1; found shape {values.shape}")


def _checked_array(values: ArrayLike) -> _Floats:
    raw = np.asarray(values)
    _check_kind(raw)
    with np.errstate(over="ignore"):  # what overflows float32 becomes inf, and is refused below
        features = raw.astype(np.float32)
    if not np.isfinite(features.min()) or not np.isfinite(features.max()):  # NaN comes through both
        node, feature = np.argwhere(~np.isfinite(features))[0]
        raise InputError(f"features must be finite; node {node}, feature {feature} is {features[node, feature]}")
    return features
