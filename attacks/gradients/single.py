"""Labels of batches, and the gradient at one node of a model of one layer.

Labels of a batch follow from the gradient of the last bias, which is the mean of soft-max less one-hot over its nodes.
For one node the only negative entry is the label (iDLG, Zhao et al. 2020). For b nodes the number of labels of a class
is b times the mean prediction of that class less the entry; at the start of a round a party that has the model knows
mean predictions well enough (LLG, Wainakh et al., PoPETs 2022). A sum over clients tells the labels of all batches
together.

In a model of one layer the gradient of the weight is the outer product of the row r that entered and the gradient at
the logits, which is the gradient of the bias: r is any column over the entry of the bias (Geiping et al. 2020, Prop.
3.1). Under GCN and SGC it is the average over the neighbourhood; under GraphSAGE the node's own row is one, and its
neighbours' mean another. Public features take the row apart: it has a non-zero entry wherever one of the averaged rows
has, so that few rows can be part of it, and their weights follow by non-negative least squares.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy  # its statistics are loaded when they are first asked for
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import nnls

from fgl_secure.attacks.base import Attack, Card, DataSecret, InformedAttack, Measurement
from fgl_secure.attacks.gradients.knowledge import (
    FEDAVG,
    FEDAVG_SINGLE,
    UPDATES,
    Candidates,
    ClientGradients,
    GradientKnowledge,
    client_gradients,
)
from fgl_secure.attacks.gradients.model import GradientModel
from fgl_secure.attacks.neighbourhoods import undirected_adjacency
from fgl_secure.attacks.recovery import share_right
from fgl_secure.attacks.truth import ClientBatch, GradientTruth
from fgl_secure.runtime import Directory, PublicParameters, Role, View
from fgl_secure.typing import Floats, Ids

METRIC = "labels of batches"


@dataclass(frozen=True, slots=True, eq=False)
class _LabelCounts:
    """How many nodes of each class are in batches."""

    round: int  # of the gradients
    members: tuple[Ids, ...]  # int64 arrays, the silos whose batches each row speaks of: one, or all under a sum
    counts: Ids  # int64 [k, c]


class _GradientLabels(InformedAttack[_LabelCounts, GradientKnowledge, GradientTruth]):
    """The entries of the last bias's gradient, less what predictions add to them."""

    card = Card(
        "gradient-labels",
        "the server counts the labels of each class in a batch by the gradient of the last bias",
        "iDLG (Zhao et al. 2020) for one node, LLG (Wainakh et al., PoPETs 2022) for batches",
        Role.SERVER, DataSecret.LABEL, UPDATES, FEDAVG, minimum=0.9,
        auxiliary="the model, the sizes of batches, and public features of nodes for its mean predictions",
        truth=GradientTruth, knowledge=GradientKnowledge,
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: GradientKnowledge) -> _LabelCounts | None:
        """Counts; None where the sizes of batches are not known."""
        gradients = client_gradients(view, public, known)
        if gradients is None or not gradients.model.sizes:
            return None
        entries = gradients.parts[gradients.model.last_bias]
        members = (
            (gradients.participants,) if gradients.is_sum else tuple(np.array([item]) for item in gradients.clients)
        )
        expected = mean_predictions(gradients.model, known.candidates)
        nodes = [sum(gradients.model.sizes[client] for client in clients) for clients in members]
        rows = zip(entries, members, nodes, strict=True)
        counts = [count_labels(entry / len(clients), expected, number) for entry, clients, number in rows]
        return _LabelCounts(gradients.model.round, members, np.stack(counts))

    def guess_without(self, guess: _LabelCounts, known: GradientKnowledge, parties: Directory) -> _LabelCounts:  # noqa: ARG002  # needs no numbering
        """What the model predicts for public nodes, at the sizes of the batches."""
        expected = mean_predictions(known.model, known.candidates)
        counts = [_round_to_sum(size * expected, size) for size in guess.counts.sum(axis=1).tolist()]
        return replace(guess, counts=np.stack(counts))

    def score(self, guess: _LabelCounts, truth: GradientTruth) -> tuple[Measurement, ...]:
        """The share of single nodes' labels that are right, or of the counts of one class in one batch.

        The prior is to know how often each class comes with the nodes of each client.
        """
        own_batches = [item for item in truth.batches if item.round == guess.round]
        batches = [
            truth.labels[
                np.concatenate([np.empty(0, dtype=np.int64), *(b.nodes for b in own_batches if b.client in clients)])
            ]
            for clients in guess.members
        ]
        pools = [truth.labels[np.isin(truth.silo_of, clients) & (truth.labels >= 0)] for clients in guess.members]
        if not sum(len(labels) for labels in batches):
            return ()
        classes = guess.counts.shape[1]
        actual, shares = (
            np.stack([np.bincount(rows, minlength=classes) for rows in item]) for item in (batches, pools)
        )
        chances = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1)
        if guess.counts.sum(axis=1).max() == 1:
            right, prior = (guess.counts == actual).all(axis=1), float(chances.max(axis=1).mean())
            text = "labels of single nodes are read."
            return (share_right(METRIC, right, None, text, random=1 / classes, prior=prior),)
        return (_of_batches(guess.counts, actual, chances),)


def _of_batches(counts: Ids, actual: Ids, chances: Floats) -> Measurement:
    right = counts == actual
    client = np.broadcast_to(np.arange(len(right))[:, None], right.shape)
    nodes = actual.sum(axis=1)
    each_row = zip(nodes, chances, strict=True)
    usual = [scipy.stats.binom.pmf(np.arange(b + 1), b, row[:, None]).max(axis=1) for b, row in each_row]
    text = f"How many nodes of a class are in a batch is right {{}} times ({int(nodes.sum()):,} nodes)."
    random, prior = float(np.mean(1 / (nodes + 1))), float(np.mean(usual))
    return share_right(METRIC, right.ravel(), client.ravel(), text, random=random, prior=prior)


def mean_predictions(model: GradientModel, candidates: Candidates | None) -> Floats:
    """The mean soft-max over public nodes, float64 [c]; even where there are none."""
    if candidates is None:
        return np.full(model.widths[-1], 1 / model.widths[-1])
    x = torch.tensor(np.asarray(candidates.features), dtype=torch.float64)
    with torch.no_grad():
        logits = model.logits(x, torch.tensor(candidates.edges), model.parameters())
    return np.asarray(torch.softmax(logits, dim=1).mean(dim=0).numpy())


def count_labels(entry: Floats, expected: Floats, nodes: int) -> Ids:
    """How many of some nodes have each label, int64 [c], by the gradient of the last bias [c] of their mean loss."""
    if nodes == 1:
        return np.asarray(np.arange(len(entry)) == entry.argmin(), dtype=np.int64)
    return _round_to_sum(nodes * (expected - entry), nodes)


def _round_to_sum(counts: Floats, total: int) -> Ids:
    """Whole numbers of at least 0 next to given ones, with a given sum: the largest remainders round up."""
    positive = np.maximum(counts, 0)
    scaled = positive * total / positive.sum() if positive.sum() else np.full(len(counts), total / len(counts))
    floors = np.floor(scaled).astype(np.int64)
    short = np.argsort(floors - scaled, kind="stable")[: total - int(floors.sum())]
    floors[short] += 1
    return np.asarray(floors)


WEIGHT = 1e-3
"""Weights up to this share of the largest are none."""

NUMBER = 1e-5
"""Entries up to this share of the largest are zero, and sums that are off by more do not fit."""


def _parts_of(total: Floats, dictionary: Floats, eligible: NDArray[np.bool_]) -> Ids:
    """The rows of a dictionary that a sum is made of, int64 [k] ascending; none where no sum of them fits.

    Args:
        total: float64 [d], a sum of rows with positive weights.
        dictionary: float64 [n, d], non-negative.
        eligible: bool [n], rows that can be in it.
    """
    nonzero = np.abs(total) > NUMBER * np.abs(total).max(initial=0.0)
    outside, inside = (dictionary @ np.stack([~nonzero, nonzero], axis=1).astype(np.float64)).T
    rows = np.flatnonzero(eligible & (outside == 0) & (inside > 0))
    if not len(rows) or len(rows) > nonzero.sum():
        return np.empty(0, dtype=np.int64)
    weights, error = nnls(dictionary[np.ix_(rows, np.flatnonzero(nonzero))].T, total[nonzero])
    if error > NUMBER * np.linalg.norm(total):
        return np.empty(0, dtype=np.int64)
    return np.asarray(rows[weights > WEIGHT * weights.max()], dtype=np.int64)


RANK_ONE = 1e-5
"""Up to this share of its length a gradient may differ from an outer product, and a row from the right one."""


@dataclass(frozen=True, slots=True, eq=False)
class _SingleNodeRows:
    """Rows that entered, of the clients whose gradient is of a single node."""

    round: int  # of the gradients
    clients: Ids  # int64 [k], indices of silos
    rows: dict[str, Floats]  # by name of each first weight, float64 [k, d_in]


def _single_rows(gradients: ClientGradients) -> _SingleNodeRows | None:
    """Rows that entered; None where the model has two layers, or no gradient is of one node."""
    if gradients.model.layers > 1 or gradients.is_sum:
        return None
    delta = gradients.parts[gradients.model.last_bias]
    entry, row_numbers = np.abs(delta).argmax(axis=1), np.arange(len(delta))
    sizes, fits, rows = delta[row_numbers, entry], delta.any(axis=1), {}
    for name in gradients.model.first_weights:
        gradient = gradients.parts[name]
        rows[name] = gradient[row_numbers, :, entry] / np.where(sizes == 0, 1, sizes)[:, None]
        rest = np.linalg.norm(gradient - rows[name][:, :, None] * delta[:, None, :], axis=(1, 2))
        fits &= rest <= RANK_ONE * np.linalg.norm(gradient, axis=(1, 2))
    if not fits.any():
        return None
    remaining = {name: values[fits] for name, values in rows.items()}
    return _SingleNodeRows(gradients.model.round, gradients.clients[fits], remaining)


class _GradientSingleRow(InformedAttack[_SingleNodeRows, GradientKnowledge, GradientTruth]):
    """A column of the weight's gradient over an entry of the bias's."""

    card = Card(
        "gradient-single-row",
        "the server reads the row that entered a model of one layer off the gradient of a batch of one node",
        "Geiping et al. (NeurIPS 2020) Prop. 3.1, on averaged rows",
        Role.SERVER, DataSecret.NODE_FEATURES, UPDATES, FEDAVG_SINGLE, auxiliary="the model", truth=GradientTruth,
        knowledge=GradientKnowledge, tells_nothing="the model that is handed out says nothing of rows",
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: GradientKnowledge) -> _SingleNodeRows | None:
        gradients = client_gradients(view, public, known)
        return None if gradients is None else _single_rows(gradients)

    def score(self, guess: _SingleNodeRows, truth: GradientTruth) -> tuple[Measurement, ...]:
        batches = _single_batches(guess.round, truth)
        if not batches or not set(guess.rows) <= set(truth.entering):
            return ()
        right = np.zeros(len(batches), dtype=np.bool_)
        for number, batch in enumerate(batches):
            index = np.flatnonzero(guess.clients == batch.client)
            pairs = [(rows[index[:1]], truth.entering[name][batch.nodes[0]]) for name, rows in guess.rows.items()]
            close = [np.linalg.norm(read - row) <= RANK_ONE * np.linalg.norm(row) for read, row in pairs]
            right[number] = bool(len(index)) and all(close)
        text = "rows that entered the gradient of a single node are read."
        return (share_right("entering rows", right, None, text),)


def _single_batches(number: int, truth: GradientTruth) -> list[ClientBatch]:
    """The batches of a round that are of one node."""
    return [batch for batch in truth.batches if batch.round == number and len(batch.nodes) == 1]


@dataclass(frozen=True, slots=True, eq=False)
class _SingleFields:
    """Neighbourhoods of single nodes: int64 [k] clients, what each is made of (node included), hops that they span."""

    round: int
    clients: Ids
    fields: tuple[Ids, ...]
    hops: int


class _GradientSingleNeighbours(InformedAttack[_SingleFields, GradientKnowledge, GradientTruth]):
    """Takes the rows that entered apart by public features."""

    card = Card(
        "gradient-single-neighbours",
        "the server finds a node and its neighbours in the gradient of a model of one layer, with public features",
        "rank-one gradients (Geiping et al., NeurIPS 2020) and non-negative least squares on averaged rows",
        Role.SERVER, DataSecret.FOREIGN_EDGE, UPDATES, FEDAVG_SINGLE, minimum=0.95,
        auxiliary="the model, and public features of all nodes, but no edges", truth=GradientTruth,
        knowledge=GradientKnowledge,
        tells_nothing="rows don't say which node was drawn; the prior knows the edges besides",
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: GradientKnowledge) -> _SingleFields | None:
        gradients, candidates = client_gradients(view, public, known), known.candidates
        result = None if gradients is None else _single_rows(gradients)
        if gradients is None or result is None or candidates is None:
            return None
        dictionary = np.asarray(candidates.features, dtype=np.float64)
        fields = []
        for index, client in enumerate(result.clients):
            eligible = (candidates.clients == client) | (candidates.clients < 0)
            parts = [_parts_of(rows[index], dictionary, eligible) for rows in result.rows.values()]
            fields.append(np.unique(np.concatenate(parts)))
        return _SingleFields(result.round, result.clients, tuple(fields), gradients.model.reach)

    def score(self, guess: _SingleFields, truth: GradientTruth) -> tuple[Measurement, ...]:
        batches = _single_batches(guess.round, truth)
        if not batches:
            return ()
        step = undirected_adjacency(truth.edges, len(truth.silo_of))
        field_of = dict(zip(guess.clients.tolist(), guess.fields, strict=True))
        actual = [_nodes_within(batch.nodes, step, guess.hops) for batch in batches]
        claimed = [field_of.get(batch.client, np.empty(0, dtype=np.int64)) for batch in batches]
        # The share of a neighbourhood that one gets right who knows the graph and not the node: the most frequent
        # members.
        shares = []
        for client in {batch.client for batch in batches}:
            nodes = np.flatnonzero(truth.silo_of == client)
            once = sparse.csr_array(step[nodes][:, nodes] + sparse.eye_array(len(nodes), dtype=np.int64))
            near = once
            for _ in range(guess.hops - 1):
                near = sparse.csr_array(near @ once)
            often = np.sort(np.bincount(near.indices, minlength=len(nodes)))[::-1]
            size = max(1, round(often.mean()))
            shares.append(float(often[:size].sum() / often.sum()))
        prior = float(np.mean(shares))
        result = _share("neighbourhoods found", actual, claimed, prior, "members of neighbourhoods are found")
        return (result, _share("neighbourhoods claimed", claimed, actual, prior, "members that are claimed are right"))


def _nodes_within(nodes: Ids, step: sparse.csr_array, hops: int) -> Ids:
    """Nodes at most some hops away, int64 ascending."""
    reached = np.zeros(step.shape[0], dtype=np.int64)
    reached[nodes] = 1
    for _ in range(hops):
        reached = ((reached + step @ reached) > 0).astype(np.int64)
    return np.flatnonzero(reached)


def _share(metric: str, units: list[Ids], within: list[Ids], prior: float, text: str) -> Measurement:
    """Which share of the first sets' members is in the second sets; bootstrap over clients."""
    hits = [np.isin(unit, other) for unit, other in zip(units, within, strict=True)]
    right = np.concatenate(hits) if hits else np.empty(0, dtype=np.bool_)
    client = np.repeat(np.arange(len(units)), [len(unit) for unit in units])
    return share_right(metric, right.astype(np.bool_), client, f"{text}.", prior=prior)


ATTACKS: tuple[Attack[Any, Any], ...] = (_GradientLabels(), _GradientSingleRow(), _GradientSingleNeighbours())
