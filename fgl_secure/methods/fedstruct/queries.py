"""Structure embeddings from answers to weighted queries, so that no client holds another's (FedStruct, App. G.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import ProtocolError
from fgl_secure.methods.fedstruct.exchange import AuditRule, QueryAudit, published_limit
from fgl_secure.methods.fedstruct.row_exchange import entries_of
from fgl_secure.methods.fedstruct.structure import RowSums, StructureEmbedding
from fgl_secure.runtime import Phase
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.runtime.transcript import SECRETS
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.silo import Silo
from fgl_secure.training.sparse_products import SparseMatrix, matrix_arrays, matrix_from, product, to_torch
from fgl_secure.typing import Array, Floats, Ids

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
    talk: Collectives, rows: sparse.csr_array, owners: Ids, rule: AuditRule | None, *, pooled: bool, width: int
) -> Answering:
    """Client i sends client j the weights A-bar_vu of j's nodes u, and every client decides what it will answer.

    So j learns which of i's nodes reach which of its own. Weights are sent once; what is answered is decided from them
    before training and stays the same in every round, because new parameters bring new equations about the same
    embeddings. Labelled nodes ask first, in messages of their own.

    Args:
        talk: the collectives of the run.
        rows: CSR [m, n], A-bar as the client holds it.
        owners: int64 [n], whose node each is.
        rule: when a client refuses; None counts queries as the paper does, with `width` columns a feature.
        pooled: whether clients assume that all others pool their answers, and audit them as one.
        width: d_s of the paper's rule, c where the embeddings themselves are learnt.
    """
    silo = talk.silo
    entries = entries_of(rows, silo.nodes)
    owner_of_entry = owners[entries[:, 1].astype(np.int64)]
    abroad = owner_of_entry != silo.silo
    talk.note(OWN_QUERIES, lambda: np.column_stack([owner_of_entry[abroad], entries[abroad]]))
    labelled = silo.train[silo.local(entries[:, 0].astype(np.int64))]
    parts = []
    for number, some in enumerate((labelled, ~labelled)):
        queries = {other: entries[some & (owner_of_entry == other)] for other in silo.others}
        received = talk.exchange(Phase.QUERY_WEIGHTS, queries, layer=number)
        parts.append([_queries(silo, asker, received[asker]) for asker in silo.others])
    return _decide_queries(silo, parts, rule, pooled=pooled, width=width)


def _queries(silo: Silo, asker: int, entries: Floats) -> tuple[Ids, Ids, sparse.csr_array]:
    """Nodes that a client asks for, ascending, who asks, and the weights of own nodes, CSR [q, m]."""
    whole = entries[:, :2].astype(np.int64) if np.isfinite(entries).all() else np.full((1, 2), -1)
    if not np.isin(whole[:, 1], silo.nodes).all() or ((whole < 0) | (whole >= silo.facts.nodes)).any():
        raise ProtocolError(f"silo {asker} must ask with finite weights for nodes that are asked; it does not")
    nodes, query = np.unique(whole[:, 0], return_inverse=True)
    shape = len(nodes), len(silo.nodes)
    weights = sparse.csr_array((entries[:, 2], (query, silo.local(whole[:, 1]))), shape=shape)
    return nodes, np.full(len(nodes), asker), weights


def _decide_queries(
    silo: Silo,
    parts: list[list[tuple[Ids, Ids, sparse.csr_array]]],
    rule: AuditRule | None,
    *,
    pooled: bool,
    width: int,
) -> Answering:
    """Audits queries in their order: those of labelled nodes first, of each kind by node."""
    nodes, askers = (np.concatenate([item[place] for part in parts for item in part]) for place in (0, 1))
    kinds = np.repeat(range(len(parts)), [sum(len(item[0]) for item in part) for part in parts])
    weights = sparse.csr_array(sparse.vstack([item[2] for part in parts for item in part], format="csr"))
    order = np.lexsort((askers, nodes, kinds))
    leverage, answered = np.zeros(len(silo.nodes)), np.zeros(len(nodes), dtype=np.bool_)
    for queries in _by_auditor(order, np.zeros_like(askers) if pooled else askers):
        block, audit = weights[queries].toarray(), QueryAudit(len(silo.nodes), rule or EVERYTHING)
        count = len(queries) if rule is not None else _most_counted(block, width, silo.facts.classes)
        answered[queries[:count]] = [audit.admits(query) for query in block[:count]]
        leverage = np.maximum(leverage, audit.leverage)
    return Answering(weights[answered], nodes[answered], askers[answered], len(nodes), leverage)


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
        talk: the collectives of the run.
        rows: CSR [m, n], A-bar as the client holds it.
        owners: int64 [n], whose node each is.
        answering: what the client answers.
        sums: of gradients of embeddings.
        device: where model compute runs.
    """

    def __init__(
        self,
        talk: Collectives,
        rows: sparse.csr_array,
        owners: Ids,
        answering: Answering,
        sums: RowSums,
        device: torch.device | None = None,
    ) -> None:
        self._talk, self._silo, self._sums, self._device = talk, talk.silo, sums, device
        self._entries, self._owners, self.answering = rows.tocoo(), owners, answering
        self._inside = SparseMatrix(rows[:, talk.silo.nodes], device)
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
        self._talk.note(SECRETS, lambda: values.cpu().numpy().astype(np.float64), devices=True)
        messages = {other: own_answers[answering.askers == other] for other in self._silo.others}
        received = self._talk.exchange(Phase.QUERY_ANSWERS, messages)
        z, answered = self._inside(values), np.zeros((len(values), len(received)), dtype=np.bool_)
        for other in self._silo.others:
            index, answers = self._read_answers(other, received[other])
            answered[index, other] = True
            z = z.index_add(0, torch.from_numpy(index).to(z.device), torch.tensor(answers).to(z.device))
        self._use(answered)
        if torch.is_grad_enabled():
            self._parts = embeddings, z.requires_grad_()
        return z

    def _read_answers(self, other: int, rows: NDArray[np.float32]) -> tuple[Ids, NDArray[np.float32]]:
        """Places of own nodes, and answers for them [q, c]."""
        node_names = rows[:, 0].astype(np.int64) if np.isfinite(rows).all() else np.array([-1])
        if not np.isin(node_names, self._silo.nodes).all() or len(np.unique(node_names)) < len(node_names):
            raise ProtocolError(f"silo {other} must send one finite answer a query of this one; it does not")
        return self._silo.local(node_names), rows[:, 1:]

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
