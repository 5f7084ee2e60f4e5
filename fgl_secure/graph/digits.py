"""Handwritten digits as a graph: a small data set with images for features that needs no download."""

from __future__ import annotations

from functools import cache

import numpy as np

from fgl_secure.graph.attributed_graph import Graph

NEIGHBOURS = 5
_BRIGHTEST = 16.0


@cache
def load_digits_graph() -> Graph:
    """Join each of scikit-learn's 1,797 images of digits to its 5 nearest neighbours.

    Distances are Euclidean between raw pixels, and two images are joined in both directions if either counts the other
    among its nearest. Pixels are scaled from 0..16 to [0, 1]. The result is the same every time, and
    is made once a process: nobody can write to its arrays.
    """
    # Imported here because they take two seconds that only this data set needs.
    from sklearn.datasets import load_digits  # noqa: PLC0415
    from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415

    pixels, labels = load_digits(return_X_y=True)
    # A k-d tree in one job breaks ties between equal distances in a fixed order, whatever the number of cores.
    search = NearestNeighbors(n_neighbors=NEIGHBOURS, algorithm="kd_tree", n_jobs=1).fit(pixels)
    nearest = search.kneighbors(return_distance=False)
    source, target = nearest.ravel(), np.repeat(np.arange(len(pixels)), NEIGHBOURS)
    both_ways = np.stack([np.concatenate([source, target]), np.concatenate([target, source])])
    return Graph.from_arrays("digits", pixels / _BRIGHTEST, labels, both_ways, image_shape=(8, 8))
