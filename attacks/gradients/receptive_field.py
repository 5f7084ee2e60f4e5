"""The small graph that a batch's gradient depends on, without its features and without names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ReceptiveField:
    """The nodes whose rows reach the logits of a batch, in an order of their own: the batch first.

    Attributes:
        nodes: m, how many there are.
        batch: b, how many of them have labels that train; they are rows 0 .. b - 1.
        edges: int64 [2, e], both directions of edges between them, sources above targets, in 0 .. m - 1; no loops.
        outside: int64 [m], how many neighbours each has beyond the field; they count in its degree and nowhere else.
    """

    nodes: int
    batch: int
    edges: Ids
    outside: Ids

    def __post_init__(self) -> None:
        if not 1 <= self.batch <= self.nodes:
            raise InputError(f"batch must lie in 1..nodes = {self.nodes}; found {self.batch}")
        if self.edges.ndim != 2 or len(self.edges) != 2 or self.edges.dtype != np.int64:
            raise InputError(f"edges must be int64 [2, e]; found {self.edges.dtype} {list(self.edges.shape)}")
        if self.edges.size and (self.edges.min() < 0 or self.edges.max() >= self.nodes):
            raise InputError(f"edges must join nodes 0..{self.nodes - 1}; found one that does not")
        if self.outside.shape != (self.nodes,) or self.outside.min() < 0:
            raise InputError(f"outside must be counts [{self.nodes}]; found shape {list(self.outside.shape)}")

    @property
    def pairs(self) -> int:
        """How many undirected edges there are."""
        return len(np.unique(np.sort(self.edges, axis=0), axis=1).T)

    @property
    def counted(self) -> Ids:
        """int64 [2, e + o]: the edges, and a loop for every neighbour outside, which brings degrees to what they are.

        Only outermost nodes have neighbours outside, and what an outermost node averages never reaches the logits.
        """
        stubs = np.repeat(np.arange(self.nodes), self.outside)
        return np.concatenate([self.edges, np.stack([stubs, stubs])], axis=1)

    @property
    def adjacency(self) -> NDArray[np.float64]:
        """The edges as a matrix of zeros and ones, [m, m], entry [target, source]."""
        matrix = np.zeros((self.nodes, self.nodes))
        matrix[self.edges[1], self.edges[0]] = 1
        return matrix

    def averaged(self, reach: int) -> NDArray[np.bool_]:
        """Bool [m, m], symmetric: pairs with an end whose average reaches the logits of the batch.

        Args:
            reach: from how many hops away rows reach them; averages do from one hop less.
        """
        near = np.arange(self.nodes) < self.batch
        for _ in range(reach - 1):
            near = near | (self.adjacency @ near > 0)
        return np.asarray(near[:, None] | near[None, :])


def receptive_field(edges: Ids, batch: Ids, reach: int) -> tuple[ReceptiveField, Ids]:
    """The field of a batch, and who is in it.

    Args:
        edges: int64 [2, m], sources above targets, of the graph that is aggregated over.
        batch: int64 [b], the nodes with a loss, all different.
        reach: from how many hops away rows reach the logits.

    Returns:
        The field, and int64 [m] the node behind each of its rows.
    """
    if len(np.unique(batch)) != len(batch):
        raise InputError("batch must name different nodes; found one twice")
    members = batch.astype(np.int64)
    for _ in range(reach):
        sources = np.unique(edges[0, np.isin(edges[1], members)])
        members = np.concatenate([members, np.setdiff1d(sources, members)])
    order = np.argsort(members)
    inside = edges[:, np.isin(edges, members).all(axis=0)]
    local = order[np.searchsorted(members[order], inside)].astype(np.int64)
    degrees = np.bincount(edges[1, np.isin(edges[1], members)], minlength=int(members.max()) + 1)[members]
    outside = degrees - np.bincount(local[1], minlength=len(members))
    return ReceptiveField(len(members), len(batch), local, outside), members


def side_by_side(fields: Sequence[ReceptiveField]) -> tuple[ReceptiveField, Ids]:
    """Several fields as one that no edge joins, all batches first.

    Returns:
        The union, and int64 [sum of m] which of its rows each row of the fields, one after the other, has become.
    """
    if not fields:
        raise InputError("fields must be at least one; found none")
    inner = np.concatenate([np.arange(field.nodes) < field.batch for field in fields])
    place = np.empty(len(inner), dtype=np.int64)
    place[np.argsort(~inner, kind="stable")] = np.arange(len(inner))
    starts = np.concatenate([[0], np.cumsum([field.nodes for field in fields])])
    edges = np.concatenate([field.edges + start for field, start in zip(fields, starts, strict=False)], axis=1)
    outside = np.concatenate([field.outside for field in fields])[np.argsort(place)]
    return ReceptiveField(len(inner), int(inner.sum()), place[edges], outside), place
