"""A graph of the user's own, as arrays in the forms in which people have them.

What is dropped, not used or missing is said in a `DataWarning`, a line each.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import DataWarning, InputError
from fgl_secure.graph.attributed_graph import Graph, as_array, read_only
from fgl_secure.graph.split import Mask, SplitMasks, check_disjoint, random_split, read_mask

REQUIRED = ("x", "y", "edge_index")
MASKS = ("train_mask", "val_mask", "test_mask")
UNLABELLED = -1
"""The label of a node without one, which is in no mask."""

_PART, _KIND = "(train|val|valid|validation|test)", "(mask|idx|index|ids|nodes)"
_OTHER_SPLITS = re.compile(f"{_PART}(_?{_KIND})?|{_KIND}_?{_PART}")
_LISTED = 8
"""Names in a message, at most."""


_WARNING: ContextVar[bool] = ContextVar("warning of data", default=True)


@contextmanager
def warned(*, verbose: bool) -> Iterator[None]:
    """Within it there is no `DataWarning` unless `verbose`, in this thread alone."""
    token = _WARNING.set(verbose and _WARNING.get())
    try:
        yield
    finally:
        _WARNING.reset(token)


def own_graph(
    name: str,
    arrays: Mapping[str, Any],
    seed: int,
    *,
    unused: Collection[str] = (),
    split: int | None = None,
) -> tuple[Graph, SplitMasks]:
    """Check the arrays of a graph, and warn of what is not taken as it is.

    Args:
        name: What the graph is called in tables.
        arrays: x, real numbers [n, d]; y, integers [n] or [n, 1], -1 for a node without a label, which is then in no
            mask; edge_index, integers [2, m]; and any of the masks, in the forms of `read_mask`. Without a mask the
            nodes are split 60/20/20 at random.
        seed: Repeats the random split.
        unused: Names of other arrays that came with these.
        split: The column of masks [n, k].

    Raises:
        InputError: An array breaks a rule; the message names it.
    """
    x = arrays["x"] if hasattr(arrays["x"], "toarray") else as_array("x", arrays["x"])
    edges = as_array("edge_index", arrays["edge_index"])
    if x.ndim != 2:
        raise InputError(f"x must have shape [nodes, features]; found shape {x.shape}")
    if edges.ndim == 2 and len(edges) != 2 and edges.shape[1] == 2:
        raise InputError(f"edge_index must have shape [2, edges]; found shape {edges.shape}: take edge_index.T")
    labels = _labels(arrays["y"], x.shape[0])
    labelled = labels != UNLABELLED
    graph = Graph.from_arrays(name, x, np.where(labelled, labels, 0), edges)
    graph = graph if labelled.all() else replace(graph, labels=read_only(labels))
    given = {key: arrays[key] for key in MASKS if key in arrays}
    masks = _masks(given, labelled, seed, split, unused)
    if _WARNING.get():
        for note in (*_edge_notes(edges, graph), *_label_notes(labels), *_other_notes(given, unused)):
            warnings.warn(f"{name}: {note}", DataWarning, stacklevel=3)
    return graph, masks


def _labels(values: Any, number: int) -> NDArray[np.int64]:
    labels = as_array("y", values)
    if labels.shape not in ((number,), (number, 1)):
        raise InputError(
            f"y must have shape ({number},) or ({number}, 1), one class a node; found shape {labels.shape} (rows with "
            "a single 1 become classes by y.argmax(axis=1))"
        )
    if labels.dtype.kind == "f":
        nan = " with NaN" if np.isnan(labels).any() else ""
        remedy = ": take y.long() of a tensor, y.astype(int) of an array" if (labels % 1 == 0).all() else ""
        raise InputError(
            f"y must be integers, the class of each node, and -1 for a node without a label; found {labels.dtype}{nan}"
            f"{remedy}"
        )
    return labels.reshape(number).astype(np.int64)


def _masks(
    given: Mapping[str, Any], labelled: Mask, seed: int, split: int | None, unused: Collection[str]
) -> SplitMasks:
    """The split that is given, or a random one, without nodes that have no label."""
    others = [name for name in unused if _OTHER_SPLITS.fullmatch(name)]
    if others:
        raise InputError(f"a split must be named {', '.join(MASKS)}; found {listed(others)}: rename or remove them")
    if not labelled.any():
        raise InputError("y must label at least one node; found none but -1")
    if split is not None and not any(as_array(name, mask).ndim > 1 for name, mask in given.items()):
        raise InputError(f"split must go with masks of several columns; found {split} and {listed(given) or 'no mask'}")
    if not given:
        drawn = random_split(int(labelled.sum()), seed)
        masks = [np.zeros(len(labelled), dtype=np.bool_) for _ in MASKS]
        for mask, part in zip(masks, (drawn.train, drawn.validation, drawn.test), strict=True):
            mask[labelled] = part
        return SplitMasks(*masks)
    if "train_mask" not in given:
        raise InputError(f"train_mask must be there beside {listed(given)}, or no mask, for a random split; it is not")
    none = np.zeros(len(labelled), dtype=np.bool_)
    read = {name: read_mask(name, given.get(name, none), len(labelled), split=split) for name in MASKS}
    check_disjoint(read, "node")
    if not (read["train_mask"] & labelled).any():
        found = as_array("train_mask", given["train_mask"])
        raise InputError(
            f"train_mask must mark at least one node that has a label; found {found.dtype} of shape {found.shape} "
            "without any"
        )
    return SplitMasks(*(mask & labelled for mask in read.values()))


def _edge_notes(edges: NDArray[Any], graph: Graph) -> Iterator[str]:
    loops = int((edges[0] == edges[1]).sum())
    repeated = edges.shape[1] - loops - graph.edges.shape[1]
    dropped = [f"{count:,} {what}" for count, what in ((loops, "self-loops"), (repeated, "repeated edges")) if count]
    if dropped:
        yield f"{' and '.join(dropped)} are dropped"


def _label_notes(labels: NDArray[np.int64]) -> Iterator[str]:
    used = np.unique(labels[labels != UNLABELLED])
    without, classes = int((labels == UNLABELLED).sum()), int(used[-1]) + 1
    if without:
        yield f"{without:,} nodes have label -1 and are in no mask; attacks on labels leave them out"
    if len(used) < classes:
        remedy = "" if without else "; numpy.unique(y, return_inverse=True)[1] numbers them without gaps"
        yield f"labels {listed(used.tolist())} make {classes:,} classes, {classes - len(used):,} without a node{remedy}"


def _other_notes(given: Mapping[str, Any], unused: Collection[str]) -> Iterator[str]:
    if given and "val_mask" not in given:
        yield "val_mask is missing: there are no validation nodes, and the last round is reported"
    if given and "test_mask" not in given:
        yield "test_mask is missing: there are no test nodes"
    if unused:
        yield f"not used: {listed(sorted(unused))}"


def listed(names: Collection[object]) -> str:
    """Some names for a message, the first of many."""
    shown = [str(name) for name in names]
    more = f" and {len(shown) - _LISTED} more" if len(shown) > _LISTED else ""
    return ", ".join(shown[:_LISTED]) + more
