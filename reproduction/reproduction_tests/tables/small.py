"""Tables on a graph of no size, so that every line of them is run in a test."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from fgl_reproduction.tables.reproduce import Reproduction, reproduce
from fgl_reproduction.tables.table import Choices, PaperTable, TableCase
from fgl_secure.graph import Graph

NODES, CLASSES = 240, 3


@cache
def small_graph(name: str = "small") -> Graph:
    """A ring of three communities, with the class in the features."""
    draws, labels = np.random.default_rng(0), np.arange(NODES) * CLASSES // NODES
    features = draws.random((NODES, 6)) + np.eye(6)[labels]
    ring = np.stack([np.arange(NODES), (np.arange(NODES) + 1) % NODES])
    chords = draws.integers(0, NODES, (2, 3 * NODES))
    chords = chords[:, (labels[chords[0]] == labels[chords[1]]) & (chords[0] != chords[1])]
    edges = np.concatenate([ring, chords], axis=1)
    both = np.unique(np.concatenate([edges, edges[::-1]], axis=1), axis=1)
    return Graph.from_arrays(name, features, labels, both)


def _load(name: str, _data_root: Path | None) -> Graph:
    return small_graph(name)


def run_small(table: PaperTable, wanted: Callable[[TableCase], bool], choices: Choices | None = None) -> Reproduction:
    """Runs some lines of a table once, for one round.

    Args:
        table: which.
        wanted: which lines.
        choices: one seed and one epoch unless given.
    """
    cases = tuple(case for case in table.cases if wanted(case))
    return reproduce(
        replace(table, cases=cases, load=_load), choices or Choices(seeds=1, epochs=1), (table.datasets[0],)
    )
