"""The partition of FedSage+ and Fed2GNN: cut and packed communities, and the figures that Fed2GNN prints."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.graph import load, partition
from fgl_secure.graph.partition import pack_in_turn

Groups = list[list[int]]

needs_public_data = pytest.mark.skipif(
    not os.environ.get("FGL_SECURE_DATA"), reason="FGL_SECURE_DATA doesn't name a folder with the raw public data"
)


@st.composite
def _packings(draw: st.DrawFn) -> tuple[Groups, int, int]:
    sizes = draw(st.lists(st.integers(1, 30), min_size=1, max_size=12))
    ends = np.cumsum(sizes).tolist()
    groups = [list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]
    silos = draw(st.integers(1, ends[-1]))
    return groups, silos, draw(st.integers(0, ends[-1] // silos - 1))


@given(_packings())
def test_everybody_is_placed_and_no_silo_is_empty(example: tuple[Groups, int, int]) -> None:
    """Every node has a silo, every silo a node, and no silo is twice as large as its share and delta."""
    groups, silos, delta = example
    silo_of = pack_in_turn(groups, silos, delta)
    sizes = np.bincount(silo_of, minlength=silos)
    share = len(silo_of) // silos
    assert sizes.sum() == sum(len(group) for group in groups)
    assert sizes.min() >= 1
    assert sizes.max() <= 2 * share + delta


def test_a_silo_is_filled_before_the_next() -> None:
    """Shares of 10 and delta 3: pieces of 7, 4, 3, 3 and 3 nodes fill silo 0 with 7 + 4, and silo 1 with the rest."""
    ends = np.cumsum([7, 4, 3, 3, 3]).tolist()
    groups = [range(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    assert pack_in_turn(groups, 2, 3).tolist() == [0] * 11 + [1] * 9


def test_what_is_too_large_is_cut() -> None:
    """With shares of 6 and delta 2 a group of 9 nodes becomes pieces of 4, 4 and 1, and a group of 3 stays whole."""
    assert pack_in_turn([range(9), range(9, 12)], 2, 2).tolist() == [0] * 4 + [1] * 4 + [0] + [1] * 3


def test_silos_that_would_stay_empty_get_the_last_pieces() -> None:
    """Ten single nodes, three silos and delta 2: greed alone would fill two silos and half of a third."""
    assert sorted(np.bincount(pack_in_turn([[node] for node in range(10)], 3, 2)).tolist()) == [3, 3, 4]


@needs_public_data
def test_cora_has_about_as_many_cross_edges_as_printed() -> None:
    """1,002 in Fed2GNN's table of subgraphs for 10 silos, of 5,429 edges where Cora has 5,278 without repeated ones."""
    graph = load("Cora")
    silo_of = partition("louvain-delta", graph, 10, 0)
    crossing = int((silo_of[graph.edges[0]] != silo_of[graph.edges[1]]).sum()) // 2
    assert crossing * 5429 / 5278 == pytest.approx(1002, rel=0.15)
