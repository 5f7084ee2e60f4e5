"""Packing groups into silos: everybody is placed, nothing too large stays whole, and room is used in order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.graph.partition import pack_groups


@st.composite
def _groups(draw: st.DrawFn) -> tuple[list[list[int]], int]:
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=12))
    nodes = draw(st.permutations(range(sum(sizes))))
    ends = np.cumsum(sizes).tolist()
    groups = [nodes[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    return groups, draw(st.integers(1, len(nodes)))


@given(_groups())
def test_everybody_is_placed_and_no_silo_is_empty(example: tuple[list[list[int]], int]) -> None:
    """Every node has a silo, every silo has a node, and no silo is twice as large as it has room for."""
    groups, silos = example
    silo_of = pack_groups(groups, silos)
    sizes = np.bincount(silo_of, minlength=silos)
    assert sizes.sum() == sum(len(group) for group in groups)
    assert sizes.min() >= 1
    assert sizes.max() < 2 * (len(silo_of) // silos) + 1


def test_further_pieces_go_to_the_first_silo_with_room() -> None:
    """With room for 5, groups of 4, 3, 2 and 1 nodes go to silos 0, 1, 1 and 0."""
    silo_of = pack_groups([range(4), range(4, 7), range(7, 9), [9]], 2)
    assert silo_of.tolist() == [0] * 4 + [1] * 3 + [1] * 2 + [0]


def test_leftovers_go_to_the_smallest_silo() -> None:
    """With room for 4, three groups of 3 nodes fill two silos and the third, which fits nowhere, the first of them."""
    assert pack_groups([range(3), range(3, 6), range(6, 9)], 2).tolist() == [0] * 3 + [1] * 3 + [0] * 3


def test_empty_groups_are_nothing() -> None:
    """A group without nodes changes nothing."""
    assert pack_groups([[], [0, 1], []], 2).tolist() == [0, 1]
