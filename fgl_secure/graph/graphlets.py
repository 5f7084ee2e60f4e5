"""The connected graphs with up to five nodes, and the places that a node can have in them.

A place is called an orbit: two nodes of a graph have the same one if an automorphism takes one to the other. Orbits are
numbered as in Przulj (Bioinformatics 2007).
"""

from __future__ import annotations

from collections.abc import Collection

ORBITS = 73
FIRST_OF_FIVE = 15
"""Orbits from this one on are those of graphs with five nodes."""

GRAPHLETS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("01", (0, 0)),
    ("01 12", (1, 2, 1)),
    ("01 02 12", (3, 3, 3)),
    ("01 12 23", (4, 5, 5, 4)),
    ("01 02 03", (7, 6, 6, 6)),
    ("01 12 23 03", (8, 8, 8, 8)),
    ("01 12 13 23", (9, 11, 10, 10)),
    ("01 02 12 13 23", (12, 13, 13, 12)),
    ("01 02 03 12 13 23", (14, 14, 14, 14)),
    ("01 12 23 34", (15, 16, 17, 16, 15)),
    ("01 12 23 24", (18, 20, 21, 19, 19)),
    ("01 02 03 04", (23, 22, 22, 22, 22)),
    ("01 12 13 23 24", (24, 26, 26, 25, 24)),
    ("01 12 23 24 34", (27, 28, 30, 29, 29)),
    ("02 12 23 24 34", (31, 31, 33, 32, 32)),
    ("01 12 23 34 04", (34, 34, 34, 34, 34)),
    ("01 12 23 34 14", (35, 38, 37, 36, 37)),
    ("01 12 13 14 23 34", (39, 42, 40, 41, 40)),
    ("01 02 12 23 24 34", (43, 43, 44, 43, 43)),
    ("01 12 13 23 24 34", (45, 47, 48, 48, 46)),
    ("02 03 04 12 13 14", (50, 50, 49, 49, 49)),
    ("01 02 12 13 24 34", (52, 53, 53, 51, 51)),
    ("01 02 03 04 12 13 14", (55, 55, 54, 54, 54)),
    ("01 12 13 14 23 24 34", (56, 58, 57, 57, 57)),
    ("01 02 03 04 12 23 34", (61, 59, 60, 60, 59)),
    ("01 02 13 14 23 24 34", (62, 63, 63, 64, 64)),
    ("01 02 12 13 14 23 24 34", (65, 67, 67, 66, 66)),
    ("01 02 03 04 12 23 34 14", (69, 68, 68, 68, 68)),
    ("02 03 04 12 13 14 23 24 34", (70, 70, 71, 71, 71)),
    ("01 02 03 04 12 13 14 23 24 34", (72, 72, 72, 72, 72)),
)
"""Edges as pairs of digits, and the orbit of each node."""

Adjacency = frozenset[frozenset[int]]
"""The edges of a small graph."""


def edges_of(text: str) -> Adjacency:
    """The edges that pairs of digits stand for."""
    return frozenset(frozenset(int(node) for node in pair) for pair in text.split())


def neighbours_of(edges: Adjacency, node: int) -> frozenset[int]:
    """The nodes that a node is joined to."""
    return frozenset(other for edge in edges if node in edge for other in edge if other != node)


def without(edges: Adjacency, node: int) -> Adjacency:
    """The edges that are left when a node is taken away."""
    return frozenset(edge for edge in edges if node not in edge)


def connected(edges: Adjacency, nodes: Collection[int]) -> bool:
    """Whether every one of the nodes can be reached from every other."""
    reached = {next(iter(nodes))}
    for _ in nodes:
        reached |= {other for node in reached for other in neighbours_of(edges, node)}
    return reached == set(nodes)
