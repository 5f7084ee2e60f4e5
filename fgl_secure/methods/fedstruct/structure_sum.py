"""Structure embeddings z_v = sum over u of A-bar_vu g(s_u) (FedStruct, ICLR 2025, Eq. 9), whoever holds A-bar.

FedStruct (ICLR 2025) has clients exchange powers of the adjacency once and for all, and with them most of the edges.
The same embeddings come from L rounds of neighbour sums of c-dimensional rows: client i adds up its own nodes' rows
itself, and gets the sum over a node's neighbours at other clients from a scheme for grouped sums.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.adjacency_powers import looped_adjacency
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import NEIGHBOURS, Grouping, Topology
from fgl_secure.runtime import Channel, Role, Step
from fgl_secure.training.grouped_sum import GroupedSum
from fgl_secure.training.sparse_products import multiply, to_torch


class StructureSum(ABC):
    """Z = A-bar G as a differentiable operation; how it comes about is what exchanges differ in."""

    @abstractmethod
    def __call__(self, embeddings: torch.Tensor, step: Step) -> torch.Tensor:
        """Combines the embeddings of all nodes.

        Args:
            embeddings: float [n, c] on any device, g(s_u) of every node u.
            step: round, and whether it is an evaluation.

        Returns:
            float [n, c] of the same dtype and device: z_v of every node v, as the client of v comes to know it.
        """


class HeldRows(StructureSum):
    """Every client holds the rows of A-bar of its own nodes, and the embeddings of all nodes (Algorithms 1 and 2).

    Args:
        rows: CSR [n, n], the rows of all clients in the order of the nodes.
        device: where model compute runs.
    """

    def __init__(self, rows: sparse.csr_array, device: torch.device | None = None) -> None:
        self._rows = to_torch(rows, device)
        self._columns = to_torch(sparse.csr_array(rows.T), device)

    def __call__(self, embeddings: torch.Tensor, step: Step) -> torch.Tensor:  # noqa: ARG002  # nothing is said
        """Every client multiplies its rows by the embeddings that it holds; no message."""
        return multiply(self._rows, self._columns, embeddings)


HOP_SUMS = "hop sums"
"""What clients get of other clients in a hop: (own node, the sum over its foreign neighbours' rows)."""

HOP_GRADIENTS = "hop gradients"
"""What clients get of other clients in the backward pass of a hop: (own node, the sum over what its row went into)."""

OWN_HOP_ROWS = "own hop embeddings"
"""What clients have of their own nodes before a hop: (own node, row)."""

Note = Callable[[str, Step, torch.Tensor], None]


def foreign_sums(graph: FederatedGraph, channel: Channel) -> Grouping:
    """The sums that cross clients: node v sums over the nodes of other clients that it has an edge to."""
    devices, silos = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SILO)[graph.silo_of]
    target, source = graph.edges[:, graph.crosses_silos]
    return Grouping(devices, devices, source, target, silos, silos)


class Hopwise(StructureSum):
    """The structure embeddings of Eq. 9 by repeated neighbour sums.

    Args:
        graph: who has what; nodes are devices of their clients.
        channel: between the parties of `hierarchy_of(graph, scheme.helpers)`.
        scheme: computes the sums over foreign neighbours. Where it refuses small groups, these neighbours are left
            out, and the node's degree counts those that it hears of.
        width: columns of the embeddings, c.
        hops: L_s, at least 1.
        weights: beta_1 to beta_{L_s}; None takes the last power alone.
        device: where model compute runs.
    """

    def __init__(
        self,
        graph: FederatedGraph,
        channel: Channel,
        scheme: Scheme,
        width: int,
        hops: int,
        weights: Sequence[float] | None = None,
        device: torch.device | None = None,
    ) -> None:
        if hops < 1:
            raise InputError(f"hops must be at least 1; found {hops}")
        if weights is not None and len(weights) != hops:
            raise InputError(f"weights must have one number for each of {hops} powers; found {len(weights)}")
        self._weights = [0.0] * (hops - 1) + [1.0] if weights is None else list(weights)
        self._channel, self._client_of = channel, graph.silo_of
        grouping = foreign_sums(graph, channel)
        self._foreign = GroupedSum(Collective(scheme, Topology(NEIGHBOURS, grouping, width), channel))
        answered = np.bincount(scheme.answered(grouping).target, minlength=graph.num_devices)
        inside = sparse.csr_array(looped_adjacency(graph.restricted_to_silos().graph))
        degrees = inside.sum(axis=1) + answered
        self._inside = to_torch(inside, device), to_torch(sparse.csr_array(inside.T), device)
        self._degrees = torch.from_numpy(degrees.astype(np.float32)[:, None]).to(device)

    def __call__(self, embeddings: torch.Tensor, step: Step) -> torch.Tensor:
        """L_s rounds of messages along the edges that cross clients; the backward pass has as many, reversed."""
        z, total = embeddings, torch.zeros_like(embeddings)
        for hop, weight in enumerate(self._weights):
            now = replace(step, layer=hop)
            heard = _Noted.apply(z, self._note, HOP_GRADIENTS, now)  # type: ignore[no-untyped-call]
            foreign = self._foreign(heard, now)
            self._note(OWN_HOP_ROWS, now, z)
            self._note(HOP_SUMS, now, foreign)
            z = (multiply(*self._inside, z) + foreign) / self._degrees
            total = total + weight * z if weight else total
        return total

    def _note(self, name: str, step: Step, rows: torch.Tensor) -> None:
        if step.evaluation or not self._channel.recording.keeps(step):
            return
        values: NDArray[np.float64] = rows.detach().cpu().numpy().astype(np.float64)
        owners = self._channel.parties.ids(Role.SILO)[self._client_of]
        self._channel.note_inputs(name, step, owners, np.column_stack([np.arange(len(values)), values]))


class _Noted(torch.autograd.Function):
    """Lets values through, and shows what comes back in the backward pass."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, note: Note, name: str, step: Step) -> torch.Tensor:
        ctx.shown = note, name, step
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        note, name, step = ctx.shown
        note(name, step, gradients[0])
        return gradients[0], None, None, None
