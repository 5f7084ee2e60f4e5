"""Hypothesis strategies and small examples for the tests of graph sets."""

import itertools

import numpy as np
from hypothesis import strategies as st

from fgl_secure.graph import SplitMasks
from fgl_secure.graph.graph_sets import GraphSet


@st.composite
def graph_sets(draw: st.DrawFn) -> GraphSet:
    """One to six graphs with random edges at one to three clients, labels or values as targets."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    starts = np.cumsum([0, *sizes])
    pairs = [random.integers(start, end, size=(2, random.integers(0, 8))) for start, end in itertools.pairwise(starts)]
    edges = np.concatenate(pairs, axis=1)
    clients = draw(st.integers(1, len(sizes)))
    client_of = random.permutation(np.arange(len(sizes)) % clients)
    train = np.zeros(len(sizes), dtype=bool)
    train[np.unique(client_of, return_index=True)[1]] = True
    targets = random.integers(3, size=len(sizes)) if draw(st.booleans()) else random.normal(size=len(sizes))
    return GraphSet.from_arrays(
        "drawn",
        random.normal(size=(starts[-1], 2)),
        np.concatenate([edges, edges[::-1]], axis=1),
        np.repeat(np.arange(len(sizes)), sizes),
        targets,
        client_of,
        SplitMasks(train, np.zeros_like(train), ~train),
        "nothing",
    )
