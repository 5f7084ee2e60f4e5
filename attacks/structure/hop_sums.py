"""What is left where no client holds a power of the adjacency: rows and edges from sums hop by hop.

What is left where no client holds a power of the adjacency, but its sums over foreign neighbours hop by hop.

A client that computes z <- D^-1 (A + I) z with its neighbours' clients learns for each own node and hop the sum of the
foreign neighbours' embeddings. It knows who is summed: its sums are equations with its crossing edges as coefficients,
and foreign nodes that these determine (a node alone in a sum is the plain case) are read in every hop.

Which edges between other clients' nodes hop-wise sums still tell: those that the recursion itself gives away.

Of the foreign nodes w that a client reads in every hop (`hop_sums`), d_w z_w' = z_w + the sum of z_u over w's
neighbours holds between one hop and the next. With the client's own nodes taken out, what remains is a sum of as many
foreign rows as the degree leaves room for; where these rows are known too, it names them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.edge_claims import ForeignEdges, score_foreign_edges
from fgl_secure.attacks.known_surroundings import MARGIN, edges_of_known_surroundings, explained_by
from fgl_secure.attacks.neighbourhoods import Client, clients_of, rows_of, stacked
from fgl_secure.attacks.row_space import solver
from fgl_secure.attacks.structure.knowledge import FEDSTRUCT_HOPWISE, STRUCTURE
from fgl_secure.attacks.structure.query_rowspace import CLOSE, SolvedEmbeddings, SolvedSystem, score_solved_embeddings
from fgl_secure.attacks.structure.truth import StructureTruth
from fgl_secure.runtime import PublicParameters, Role, Secret, Step, Transcript, View

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

HOP_SUMS = "hop sums"
"""Name of a client's rows (own node, sum of its foreign neighbours' embeddings), by layer from 0."""

OWN_EMBEDDINGS = "own hop embeddings"
"""Name of a client's rows (own node, its embedding), by layer from 0."""

REAL_BITS = 16
"""Bits behind the binary point, in units of the largest sum, to which sums are read where their coding is unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class HopSystem:
    """One client's sums of all hops, and the foreign rows that they determine.

    Attributes:
        client: who has the sums.
        own: float64 [hops, n, c], embeddings of its own nodes; 0 for other nodes.
        sums: number of sums in a hop.
        nodes: int64 [k], foreign nodes that the sums determine.
        rows: float64 [hops, k, c], their embeddings.
        error: float64 [k], how far a coordinate of each may be off.
        unit: rounding of one sum.
    """

    client: Client
    own: Floats
    sums: int
    nodes: Ids
    rows: Floats
    error: Floats
    unit: float


class HopSumRows(Attack[SolvedEmbeddings, StructureTruth]):
    """A client solves its sums over foreign neighbours for the structure embeddings of single ones."""

    card = Card(
        "hop-sum-rows",
        "a client solves its sums over foreign neighbours for the structure embeddings of single nodes",
        "on hop-wise sums in place of FedStruct's (ICLR 2025) App. D: exact sums over few known neighbours",
        Role.SILO, Secret.STRUCTURE_FEATURE, STRUCTURE, FEDSTRUCT_HOPWISE, minimum=0.9, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> SolvedEmbeddings | None:
        """The rows of the first hop, g(s_u) themselves."""
        steps = [rows.step for rows in rows_of(view, HOP_SUMS)]
        systems = hop_systems(view, public)
        if not systems:
            return None
        first = min(steps, key=lambda step: (step.round, step.layer))
        return SolvedEmbeddings.of_all(first, [_solved(system) for system in systems])

    def score(self, guess: SolvedEmbeddings, truth: StructureTruth) -> tuple[Measurement, ...]:
        """Rows that are right, clients that read one, nodes that are exposed, labels: `score_solved_embeddings`."""
        return score_solved_embeddings(guess, truth)


def hop_systems(view: View, public: PublicParameters) -> list[HopSystem]:
    """The sums of every client that has some, of the first round, solved."""
    batches = rows_of(view, HOP_SUMS)
    first = min((rows.step.round for rows in batches), default=0)
    layers = sorted({rows.step.layer for rows in batches if rows.step.round == first})
    if not layers:
        return []
    found = []
    for client in clients_of(view):
        sums, own = (_by_layer(view, name, layers, Step(first), client) for name in (HOP_SUMS, OWN_EMBEDDINGS))
        summed = np.flatnonzero(sums[1] & sums[0].any(axis=(0, 2)))  # a refused sum is noted as 0
        if len(summed):
            found.append(_system(client, sums[0][:, summed], summed, own[0], public))
    return found


def noted_embeddings(transcript: Transcript) -> dict[Step, Floats]:
    """What all clients noted of their own nodes before each hop, float64 [n, c] in the order of the nodes.

    The truth that `HopSumRows` is scored against: schemes over a field note elements of it and not real numbers.
    """
    found = {}
    for batch in transcript.private:
        if batch.name == OWN_EMBEDDINGS:
            order = np.argsort(batch.values[:, 0], kind="stable")
            found[batch.step] = batch.values[order, 1:].astype(np.float64)
    return found


def _by_layer(view: View, name: str, layers: list[int], step: Step, client: Client) -> tuple[Floats, NDArray[np.bool_]]:
    """A client's rows of a name, float64 [hops, n, c], and bool [n], for which nodes there are some in every hop."""
    n = len(client.owned)
    tables = [
        stacked(tuple(rows for rows in rows_of(view, name, layer) if rows.step.round == step.round))
        for layer in layers
    ]  # fmt: skip
    width = tables[0].values.shape[1] - 1
    values, there = np.zeros((len(layers), n, width)), np.ones(n, dtype=np.bool_)
    for hop, table in enumerate(tables):
        rows = table.of(client.observer)
        nodes = rows[:, 0].astype(np.int64)
        values[hop, nodes] = rows[:, 1:]
        there &= np.isin(np.arange(n), nodes)
    return values, there


def _system(client: Client, sums: Floats, summed: Ids, own: Floats, public: PublicParameters) -> HopSystem:
    outside = client.outside
    solution = solver(client.neighbours[summed][:, outside].toarray())
    scale = float(np.abs(sums).max(initial=0.0))
    unit = scale * 2.0**-REAL_BITS if public.fraction_bits is None else 2.0**-public.fraction_bits
    terms = client.neighbours[summed][:, outside].sum(axis=1)
    error = np.abs(solution.weights) @ (unit * terms)
    rows = np.einsum("kq,hqc->hkc", solution.weights, sums)
    return HopSystem(client, own, len(summed), outside[solution.unknowns], rows, error, unit)


def _solved(system: HopSystem) -> SolvedSystem:
    index, touched = system.client.index, len(system.client.outside)
    counts = (index, index, system.sums, touched, len(system.nodes))
    sure = system.error <= CLOSE * np.linalg.norm(system.rows[0], axis=1)
    return SolvedSystem(counts, system.nodes[sure], system.rows[0, sure])


class HopSumEdges(Attack[ForeignEdges, StructureTruth]):
    """A client explains the change of a foreign row from hop to hop by foreign rows that it knows."""

    card = Card(
        "hop-sum-edges",
        "a client explains the change of foreign rows from hop to hop by the rows of their neighbours",
        "on hop-wise sums in place of FedStruct's (ICLR 2025) App. D: what the recursion tells of the graph",
        Role.SILO, Secret.FOREIGN_EDGE, STRUCTURE, FEDSTRUCT_HOPWISE, minimum=0.51, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> ForeignEdges | None:
        """Looks for one or two known foreign neighbours of every foreign node that a client reads."""
        systems = hop_systems(view, public)
        return ForeignEdges.of_all([_explained(system) for system in systems]) if systems else None

    def score(self, guess: ForeignEdges, truth: StructureTruth) -> tuple[Measurement, ...]:
        """Precision, recall and advantage, see `score_foreign_edges` and `edges_of_known_surroundings`."""
        return score_foreign_edges(guess, truth, edges_of_known_surroundings(truth))


def _explained(system: HopSystem) -> ForeignEdges:
    """Claims the neighbours of each known row whose change has one explanation by at most two known rows."""
    hops, count, c = system.rows.shape
    width = max(hops - 1, 0) * c
    known, later = (rows.transpose(1, 0, 2).reshape(count, width) for rows in (system.rows[:-1], system.rows[1:]))
    ours = system.client.neighbours[:, system.nodes].T
    inside = (ours @ system.own[:-1].transpose(1, 0, 2).reshape(ours.shape[1], -1)).reshape(count, width)
    degree = 1 + ours.sum(axis=1)
    ends, others = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for w in range(count if width else 0):
        slack = MARGIN * ((degree[w] + 3) * system.error[w] + degree[w] * system.unit)
        # a node that is refused its sum over foreign neighbours counts neither them nor itself among theirs
        found = [
            explained_by(known, MARGIN * system.error, heard * later[w] - known[w] - inside[w] * whole, later[w], slack)
            for heard, whole in ((degree[w], 1.0), (1.0, 0.0))
        ]  # fmt: skip
        which = np.concatenate(found) if sum(map(len, found)) == max(map(len, found)) else np.empty(0, dtype=np.int64)
        ends.append(np.full(len(which), system.nodes[w]))
        others.append(system.nodes[which])
    return ForeignEdges.claimed(system.client, np.concatenate(ends), np.concatenate(others))
