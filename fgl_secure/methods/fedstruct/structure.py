"""Structure embeddings z_v = sum over u of A-bar_vu g(s_u) of one client's nodes (FedStruct, ICLR 2025, Eq. 9).

How they come about is what exchanges differ in: a client holds rows of A-bar and the structure features of all nodes
(Algorithms 1 and 2), or asks for weighted sums (App. G.1, `queries`), or gets sums over foreign neighbours hop by hop.
With the same hops all give the same embeddings: z <- A^ z, L times, in which client i adds up its own nodes' rows
itself, and the sum over a node's neighbours at other clients comes from a scheme for neighbours' sums.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.algebra.checks import largest_magnitude
from fgl_secure.errors import ProtocolError
from fgl_secure.methods.fedstruct.exchange import AuditRule, QueryAudit, published_limit
from fgl_secure.methods.fedstruct.row_exchange import EdgeBlocks, entries_of
from fgl_secure.protocols.topology import CLIENTS, SERVER
from fgl_secure.runtime import Phase
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.runtime.transcript import SECRETS
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.ranges import shrunk
from fgl_secure.training.silo import Silo
from fgl_secure.training.sparse_products import SparseMatrix, matrix_arrays, matrix_from, product, to_torch
from fgl_secure.typing import Array, Floats, Ids

STRUCTURE_SUM = "structure gradient sum"
"""What the server is left with of the gradients of structure: the sum float64 [1, n d], row after row."""

CONTRIBUTORS = "contributors"
"""What a party that is entitled to a sum of rows learns beside it: how many clients contribute to each, int64 [1,
n]."""

Rows = NDArray[np.floating[Any]]


class RowSums(ABC):
    """Sums of a matrix [n, d] of each client, of which rows that few clients contribute to stay closed.

    Args:
        comm: the collectives of the run.
        k_min: fewest clients that a row is opened for; 1 opens all, without marks.

    Raises:
        InputError: no row can have so many contributors.
    """

    def __init__(self, comm: Collectives, k_min: int = 1) -> None:
        self._comm, self._silo = comm, comm.silo
        self._needed = 1 if k_min == 1 else comm.required_markers(self._topology, k_min)

    @property
    @abstractmethod
    def _topology(self) -> str:
        """Of the sums."""

    @abstractmethod
    def own(self, rows: Rows) -> Floats:
        """The sum's rows of own nodes, float64 [m, d], from this client's matrix [n, d]; closed ones are 0."""


class SumsByServer(RowSums):
    """The server adds up, and sends the sum to all clients (Algorithm 2)."""

    @property
    def _topology(self) -> str:
        return SERVER

    def all(self, rows: Rows) -> Floats:
        """The whole sum, float64 [n, d]; rows that stay closed are 0."""
        if self._needed > 1:
            grid = self._comm.gradient_grid
            exponent = self._comm.exponent(largest_magnitude(rows), grid.bound)
            marks = (grid.encode(shrunk(rows.astype(np.float64), exponent)) != 0).any(axis=1)
            opened = self._comm.enough(marks, self._needed, CONTRIBUTORS)
            rows = _zero_closed(rows, opened)
        total, _ = self._comm.server(rows.reshape(-1), output=STRUCTURE_SUM)
        return total.reshape(rows.shape)

    def own(self, rows: Rows) -> Floats:
        """See `RowSums.own`."""
        return self.all(rows)[self._silo.nodes]


class SumsByOwners(RowSums):
    """The owner of a node learns the sum of the other clients' rows, to which it adds its own; the server sees sizes.

    Rows are sent for all nodes of the owner, zero or not, so that their number tells nothing.

    Args:
        comm: the collectives of the run.
        owners: int64 [n], whose node each is.
        k_min: fewest other clients that a row is opened for.
    """

    def __init__(self, comm: Collectives, owners: Ids, k_min: int = 1) -> None:
        super().__init__(comm, k_min)
        self._nodes = [np.flatnonzero(owners == silo) for silo in range(comm.silo.facts.silos)]
        self._grid = comm.clients_grid

    @property
    def _topology(self) -> str:
        return CLIENTS

    def own(self, rows: Rows) -> Floats:
        """See `RowSums.own`."""
        me, width = self._silo.silo, rows.shape[1]
        exponent = self._comm.exponent(largest_magnitude(rows), self._grid.bound)
        parts = [shrunk(rows[nodes], exponent) for nodes in self._nodes]
        if self._needed > 1:
            parts = [_zero_closed(*pair) for pair in zip(parts, self._open_rows(parts), strict=True)]
        terms: dict[int, Ids | int] = {
            silo: self._grid.encode(part.reshape(-1).astype(np.float64)) for silo, part in enumerate(parts)
        }
        total = self._comm.clients({**terms, me: parts[me].size}, self._grid.largest)
        others = shrunk(self._grid.decode(total), -exponent)
        summed: Floats = others.reshape(-1, width) + rows[self._nodes[me]]
        return summed

    def _open_rows(self, parts: list[Rows]) -> list[NDArray[np.bool_]]:
        """For each owner, bool [n_i]: which of its rows others contribute enough to; of its own all."""
        me, sizes = self._silo.silo, self._silo.facts.sizes
        marks: dict[int, Ids | int] = {
            silo: (self._grid.encode(part.astype(np.float64)) != 0).any(axis=1).astype(np.int64)
            for silo, part in enumerate(parts)
        }
        enough = self._comm.clients({**marks, me: sizes[me]}, 1, CONTRIBUTORS) >= self._needed
        bits = np.packbits(np.pad(enough, (0, max(sizes) - len(enough))))[None]
        received = self._comm.exchange(Phase.OPENED, dict.fromkeys(self._silo.others, bits))
        received[me] = np.packbits(np.ones((1, max(sizes)), dtype=np.bool_), axis=1)
        for silo, bits_of_silo in enumerate(received):
            if bits_of_silo.shape != bits.shape:
                raise ProtocolError(f"silo {silo} must state which of its {sizes[silo]} rows are open; it does not")
        return [
            np.unpackbits(bits_of_silo[0])[:size].astype(np.bool_)
            for bits_of_silo, size in zip(received, sizes, strict=True)
        ]


def _zero_closed(rows: Rows, opened: NDArray[np.bool_]) -> Rows:
    """What a client hands in of its rows: 0 for those that are not open."""
    return np.where(opened[:, None], rows, 0).astype(rows.dtype, copy=False)


HOP_SUMS = "hop sums"
"""What clients get of other clients in a hop: (own node, the sum over its foreign neighbours' rows)."""

HOP_GRADIENTS = "hop gradients"
"""What clients get of other clients in the backward pass of a hop: (own node, the sum over what its row went into)."""

OWN_HOP_ROWS = "own hop embeddings"
"""What clients have of their own nodes before a hop: (own node, row)."""


class StructureEmbedding(ABC):
    """Structure embeddings of own nodes, forward and backward."""

    @abstractmethod
    def combine(self, embeddings: torch.Tensor) -> torch.Tensor:
        """The structure embeddings float [m, c] of own nodes, from g(s_u) of the nodes whose features the client has.

        Args:
            embeddings: float [n, c] where clients hold the features of all nodes, else [m, c].
        """

    def backward(self, loss: torch.Tensor) -> None:
        """Gradients for every parameter that the client has: of its own loss, unless gradients travel."""
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped


class HeldRows(StructureEmbedding):
    """The client holds its rows of A-bar, and the embeddings of all nodes; it says nothing.

    Args:
        rows: CSR [m, n].
        device: where model compute runs.
    """

    def __init__(self, rows: sparse.csr_array, device: torch.device | None = None) -> None:
        self._rows = SparseMatrix(rows, device)

    def combine(self, embeddings: torch.Tensor) -> torch.Tensor:
        """One product, of embeddings [n, c]."""
        return self._rows(embeddings)


class Hopwise(StructureEmbedding):
    """Embeddings travel hop by hop, over sums for neighbours at other clients; gradients take the same way back.

    Where the scheme refuses small sums these neighbours are left out, and the degree of a node counts those that it
    hears of.

    Args:
        comm: the collectives of the run, whose sums over neighbours cross clients.
        hops: L_s, at least 1.
        device: where model compute runs.
        betas: weights of the embeddings after 0 to L_s hops in their sum; None takes those after the last alone.
    """

    def __init__(
        self, comm: Collectives, hops: int, device: torch.device | None = None, betas: tuple[float, ...] | None = None
    ) -> None:
        self._comm, self._hops, self._nodes, self._betas = comm, hops, comm.silo.nodes, betas
        inside = EdgeBlocks(comm.silo).inside()
        self._inside = SparseMatrix(inside, device)
        degrees = (inside.sum(axis=1) + comm.message_counts).astype(np.float32)
        self._degrees = torch.from_numpy(degrees[:, None]).to(device)

    def combine(self, embeddings: torch.Tensor) -> torch.Tensor:
        """As many rounds of messages along the edges that cross clients as there are hops."""
        z, total = embeddings, None if self._betas is None else self._betas[0] * embeddings
        for hop in range(self._hops):
            outgoing: torch.Tensor = _GradientTap.apply(z, self, hop)  # type: ignore[no-untyped-call]
            self.note(OWN_HOP_ROWS, hop, z)
            carry = z if total is None else torch.cat([z, total], dim=1)
            carried, foreign = self._comm.neighbours(outgoing, carry=carry, layer=hop)
            self.note(HOP_SUMS, hop, foreign)
            z = (self._inside(carried[:, : foreign.shape[1]]) + foreign) / self._degrees
            if self._betas is not None:
                total = carried[:, foreign.shape[1] :] + self._betas[hop + 1] * z
        return z if total is None else total

    def backward(self, loss: torch.Tensor) -> None:
        """As many messages, reversed."""
        self._comm.backward(loss)

    def note(self, name: str, hop: int, rows: torch.Tensor) -> None:
        """Takes down rows [m, c] behind the numbers of own nodes."""
        self._comm.note(name, lambda: _by_node(self._nodes, rows), layer=hop)


def _by_node(nodes: Array, rows: torch.Tensor) -> Array:
    return np.column_stack([nodes, rows.detach().cpu().numpy().astype(np.float64)])


class _GradientTap(torch.autograd.Function):
    """Lets rows through, and has what comes back to them from other clients taken down."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, hops: Hopwise, hop: int) -> torch.Tensor:
        ctx.at = hops, hop
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        hops, hop = ctx.at
        hops.note(HOP_GRADIENTS, hop, gradients[0])
        return gradients[0], None, None


OWN_QUERIES = "own query weights"
"""What a client asks, in recordings: (client that is asked, own node, node of that client, weight) an entry."""

EVERYTHING = AuditRule(1.0, 1)
"""Refuses nothing, and only keeps account of what is told."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Answering:
    """What one client answers in every round, as it has decided before the first.

    Attributes:
        weights: float64 CSR [q, m], of its own nodes in each query that it answers.
        nodes: int64 [q], the node that each query is for.
        askers: int64 [q], who asks.
        asked: queries that it was sent.
        leverage: float64 [m], how near each own node is to being known to one requester (or to all, where they are
            pooled).
    """

    weights: sparse.csr_array
    nodes: Ids
    askers: Ids
    asked: int
    leverage: Floats

    @property
    def refused_queries(self) -> int:
        """Queries that it does not answer; a query is one node's to one client."""
        return self.asked - len(self.nodes)

    def state(self) -> dict[str, Array]:
        """All of it, as arrays."""
        rest = {"nodes": self.nodes, "askers": self.askers, "leverage": self.leverage}
        return {**rest, "asked": np.array(self.asked), **under("weights", matrix_arrays(self.weights))}

    @classmethod
    def restore(cls, state: Arrays) -> Answering:
        """What a state was taken of."""
        rest = state["nodes"], state["askers"], int(state["asked"]), state["leverage"]
        return cls(matrix_from(within("weights", state)), *rest)


def ask(
    comm: Collectives, rows: sparse.csr_array, owners: Ids, rule: AuditRule | None, *, pooled: bool, width: int
) -> Answering:
    """Client i sends client j the weights A-bar_vu of j's nodes u, and every client decides what it will answer.

    So j learns which of i's nodes reach which of its own. Weights are sent once; what is answered is decided from them
    before training and stays the same in every round, because new parameters bring new equations about the same
    embeddings. Labelled nodes ask first, in messages of their own.

    Args:
        comm: the collectives of the run.
        rows: CSR [m, n], A-bar as the client holds it.
        owners: int64 [n], whose node each is.
        rule: when a client refuses; None counts queries as the paper does, with `width` columns a feature.
        pooled: whether clients assume that all others pool their answers, and audit them as one.
        width: d_s of the paper's rule, c where the embeddings themselves are learnt.
    """
    silo = comm.silo
    entries = entries_of(rows, silo.nodes)
    owner_of_entry = owners[entries[:, 1].astype(np.int64)]
    abroad = owner_of_entry != silo.silo
    comm.note(OWN_QUERIES, lambda: np.column_stack([owner_of_entry[abroad], entries[abroad]]))
    labelled = silo.train[silo.local(entries[:, 0].astype(np.int64))]
    parts = []
    for number, mask in enumerate((labelled, ~labelled)):
        queries = {other: entries[mask & (owner_of_entry == other)] for other in silo.others}
        received = comm.exchange(Phase.QUERY_WEIGHTS, queries, layer=number)
        parts.append([_queries(silo, asker, received[asker]) for asker in silo.others])
    # Audits queries in their order: those of labelled nodes first, of each kind by node.
    nodes, askers = (np.concatenate([item[place] for part in parts for item in part]) for place in (0, 1))
    kinds = np.repeat(range(len(parts)), [sum(len(item[0]) for item in part) for part in parts])
    weights = sparse.csr_array(sparse.vstack([item[2] for part in parts for item in part], format="csr"))
    order = np.lexsort((askers, nodes, kinds))
    leverage, answered = np.zeros(len(silo.nodes)), np.zeros(len(nodes), dtype=np.bool_)
    for audited in _by_auditor(order, np.zeros_like(askers) if pooled else askers):
        block, audit = weights[audited].toarray(), QueryAudit(len(silo.nodes), rule or EVERYTHING)
        count = len(audited) if rule is not None else _most_counted(block, width, silo.facts.classes)
        answered[audited[:count]] = [audit.admits(query) for query in block[:count]]
        leverage = np.maximum(leverage, audit.leverage)
    return Answering(weights[answered], nodes[answered], askers[answered], len(nodes), leverage)


def _queries(silo: Silo, asker: int, entries: Floats) -> tuple[Ids, Ids, sparse.csr_array]:
    """Nodes that a client asks for, ascending, who asks, and the weights of own nodes, CSR [q, m]."""
    pairs = entries[:, :2].astype(np.int64) if np.isfinite(entries).all() else np.full((1, 2), -1)
    if not np.isin(pairs[:, 1], silo.nodes).all() or ((pairs < 0) | (pairs >= silo.facts.nodes)).any():
        raise ProtocolError(f"silo {asker} must ask with finite weights for nodes that are asked; it does not")
    nodes, query = np.unique(pairs[:, 0], return_inverse=True)
    shape = len(nodes), len(silo.nodes)
    weights = sparse.csr_array((entries[:, 2], (query, silo.local(pairs[:, 1]))), shape=shape)
    return nodes, np.full(len(nodes), asker), weights


def _by_auditor(order: Ids, requesters: Ids) -> Iterator[Ids]:
    """The queries of one requester, or of all as one, in their order."""
    for item in np.unique(requesters):
        yield order[requesters[order] == item]


def _most_counted(block: NDArray[np.float64], width: int, classes: int) -> int:
    """How many queries, in order, the paper's count lets through."""
    weighed = np.cumsum(block != 0, axis=0) > 0
    return max(
        (count for count in range(len(block) + 1)
         if not count or published_limit(count, width, classes, int(weighed[count - 1].sum()))),
        default=0,
    )  # fmt: skip


class Queries(StructureEmbedding):
    """A client gets sum_u A-bar_vu g(s_u) over another's nodes u as an answer (Eqs. 47, 49), and adds up its own.

    What is refused is missing from z_v, as if A-bar_vu were 0. Gradients of the embeddings go to the owners of the
    nodes as sums over clients; each goes on from its own g(s_u).

    Args:
        comm: the collectives of the run.
        rows: CSR [m, n], A-bar as the client holds it.
        owners: int64 [n], whose node each is.
        answering: what the client answers.
        sums: of gradients of embeddings.
        device: where model compute runs.
    """

    def __init__(
        self,
        comm: Collectives,
        rows: sparse.csr_array,
        owners: Ids,
        answering: Answering,
        sums: RowSums,
        device: torch.device | None = None,
    ) -> None:
        self._comm, self._silo, self._sums, self._device = comm, comm.silo, sums, device
        self._entries, self._owners, self.answering = rows.tocoo(), owners, answering
        self._inside = SparseMatrix(rows[:, comm.silo.nodes], device)
        self._weights = to_torch(answering.weights, device)
        self._answered = np.zeros((0, 0), dtype=np.bool_)
        self._used = self._inside
        self._parts: tuple[torch.Tensor, torch.Tensor] | None = None

    def combine(self, embeddings: torch.Tensor) -> torch.Tensor:
        """One answer a query, and what the client makes of them."""
        values, answering = embeddings.detach(), self.answering
        own_answers = np.column_stack([answering.nodes, product(self._weights, values).cpu().numpy()]).astype(
            np.float32
        )
        self._comm.note(SECRETS, lambda: values.cpu().numpy().astype(np.float64), devices=True)
        messages = {other: own_answers[answering.askers == other] for other in self._silo.others}
        received = self._comm.exchange(Phase.QUERY_ANSWERS, messages)
        z, answered = self._inside(values), np.zeros((len(values), len(received)), dtype=np.bool_)
        for other in self._silo.others:
            # Places of own nodes, and answers for them [q, c].
            rows = received[other]
            node_names = rows[:, 0].astype(np.int64) if np.isfinite(rows).all() else np.array([-1])
            if not np.isin(node_names, self._silo.nodes).all() or len(np.unique(node_names)) < len(node_names):
                raise ProtocolError(f"silo {other} must send one finite answer a query of this one; it does not")
            (index, answers) = self._silo.local(node_names), rows[:, 1:]
            answered[index, other] = True
            z = z.index_add(0, torch.from_numpy(index).to(z.device), torch.tensor(answers).to(z.device))
        self._use(answered)
        if torch.is_grad_enabled():
            self._parts = embeddings, z.requires_grad_()
        return z

    def _use(self, answered: NDArray[np.bool_]) -> None:
        """Which queries were answered decides which entries of A-bar the embeddings are made with."""
        if np.array_equal(answered, self._answered):
            return
        entries, owner = self._entries, self._owners[self._entries.col]
        used = (owner == self._silo.silo) | answered[entries.row, owner]
        places = entries.row[used], entries.col[used]
        self._answered = answered
        self._used = SparseMatrix(sparse.csr_array((entries.data[used], places), shape=entries.shape), self._device)

    def backward(self, loss: torch.Tensor) -> None:
        """The gradient of z goes back to the owners of the nodes that it came from."""
        assert self._parts is not None, "it is combined before"
        (embeddings, z), self._parts = self._parts, None
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        gradient = torch.zeros_like(z) if z.grad is None else z.grad
        total = torch.from_numpy(self._sums.own(self._used.transposed_product(gradient).cpu().numpy()))
        torch.autograd.backward([embeddings], [total.to(dtype=z.dtype, device=z.device)])
