"""Reading a PyTorch Geometric `Data` object.

It is read by its attributes alone: importing PyTorch Geometric takes seconds, and importing this package should not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.split import SplitMasks, random_split

if TYPE_CHECKING:
    from torch_geometric.data import Data

_REQUIRED = ("x", "y", "edge_index")
_MASKS = ("train_mask", "val_mask", "test_mask")


def graph_from_pyg(data: Data, name: str) -> Graph:
    """Build a graph from x [n, d], y [n] and edge_index [2, m].

    Raises:
        InputError: One of them is missing or not a tensor, or breaks a rule of `Graph.from_arrays`.
    """
    missing = [key for key in _REQUIRED if getattr(data, key, None) is None]
    if missing:
        raise InputError(f"data must have {', '.join(_REQUIRED)}; missing: {', '.join(missing)}")
    features, labels, edges = (_as_array(data, key) for key in _REQUIRED)
    return Graph.from_arrays(name, features, labels, edges)


def masks_from_pyg(data: Data, num_nodes: int, seed: int) -> SplitMasks:
    """Take the three masks where all are there and 1-D, else split 60/20/20 at random.

    A 2-D mask holds several splits, and choosing one of them is the caller's decision.

    Raises:
        InputError: A mask is not a tensor, or `seed` is negative.
    """
    if any(getattr(data, key, None) is None for key in _MASKS):
        return random_split(num_nodes, seed)
    masks = [_as_array(data, key) for key in _MASKS]
    if any(mask.ndim != 1 for mask in masks):
        return random_split(num_nodes, seed)
    return SplitMasks(*masks)


def _as_array(data: Data, key: str) -> NDArray[Any]:
    value = getattr(data, key)
    try:
        return np.asarray(value.detach().cpu().to_dense().numpy())
    except (AttributeError, TypeError) as error:
        raise InputError(
            f"data.{key} must be a tensor of a dtype that numpy has; found {type(value).__name__}"
        ) from error
