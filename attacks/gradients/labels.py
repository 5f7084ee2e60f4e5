"""Labels of a batch from the gradient of the last bias, which is the mean of soft-max less one-hot over its nodes.

For one node the only negative entry is the label (iDLG, Zhao et al. 2020). For b nodes the number of labels of a class
is b times the mean prediction of that class less the entry; at the start of a round whoever has the model knows mean
predictions well enough (LLG, Wainakh et al., PoPETs 2022). A sum over clients tells the labels of all batches together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy  # its statistics are loaded when they are first asked for
import torch
from numpy.typing import NDArray

from fgl_secure.attacks.base import Card, InformedAttack, Measurement
from fgl_secure.attacks.gradients.knowledge import FEDAVG, UPDATES, Candidates, GradientKnowledge
from fgl_secure.attacks.gradients.model import GradientModel
from fgl_secure.attacks.gradients.truth import GradientTruth
from fgl_secure.attacks.gradients.views import client_gradients
from fgl_secure.runtime import Directory, PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import clustered_proportion, exact_proportion

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


METRIC = "labels of batches"


@dataclass(frozen=True, slots=True, eq=False)
class LabelCounts:
    """How many nodes of each class are in batches.

    Attributes:
        round: of the gradients.
        members: int64 arrays, the silos whose batches each row speaks of: one, or all under a sum.
        counts: int64 [k, c].
    """

    round: int
    members: tuple[Ids, ...]
    counts: Ids


class GradientLabels(InformedAttack[LabelCounts, GradientKnowledge, GradientTruth]):
    """The entries of the last bias's gradient, less what predictions add to them."""

    card = Card(
        "gradient-labels",
        "the server counts the labels of each class in a batch by the gradient of the last bias",
        "iDLG (Zhao et al. 2020) for one node, LLG (Wainakh et al., PoPETs 2022) for batches",
        Role.SERVER, Secret.LABEL, UPDATES, FEDAVG, minimum=0.9,
        auxiliary="the model, the sizes of batches, and public features of nodes for its mean predictions",
        truth=GradientTruth, knowledge=GradientKnowledge,
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: GradientKnowledge) -> LabelCounts | None:
        """Counts; None where the sizes of batches are not known."""
        seen = client_gradients(view, public, known)
        if seen is None or not seen.model.sizes:
            return None
        entries = seen.parts[seen.model.last_bias]
        members = (seen.participants,) if seen.summed else tuple(np.array([each]) for each in seen.clients)
        expected = mean_predictions(seen.model, known.candidates)
        nodes = [sum(seen.model.sizes[client] for client in clients) for clients in members]
        rows = zip(entries, members, nodes, strict=True)
        counts = [counted(entry / len(clients), expected, number) for entry, clients, number in rows]
        return LabelCounts(seen.model.round, members, np.stack(counts))

    def guess_without(self, guess: LabelCounts, known: GradientKnowledge, parties: Directory) -> LabelCounts:  # noqa: ARG002  # needs no numbering
        """What the model predicts for public nodes, at the sizes of the batches."""
        expected = mean_predictions(known.model, known.candidates)
        counts = [rounded(size * expected, size) for size in guess.counts.sum(axis=1).tolist()]
        return replace(guess, counts=np.stack(counts))

    def score(self, guess: LabelCounts, truth: GradientTruth) -> tuple[Measurement, ...]:
        """The share of single nodes' labels that are right, or of the counts of one class in one batch.

        The prior is to know how often each class comes with the nodes of each client.
        """
        batches = [_labels(guess.round, clients, truth) for clients in guess.members]
        pools = [truth.labels[np.isin(truth.silo_of, clients)] for clients in guess.members]
        if not sum(len(labels) for labels in batches):
            return ()
        classes = guess.counts.shape[1]
        actual, shares = (
            np.stack([np.bincount(rows, minlength=classes) for rows in each]) for each in (batches, pools)
        )
        chances = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1)
        if guess.counts.sum(axis=1).max() == 1:
            return (_of_single_nodes(guess.counts, actual, chances),)
        return (_of_batches(guess.counts, actual, chances),)


def _of_single_nodes(counts: Ids, actual: Ids, chances: Floats) -> Measurement:
    right = (counts == actual).all(axis=1)
    share, prior = exact_proportion(int(right.sum()), len(right)), float(chances.max(axis=1).mean())
    finding = f"{int(right.sum()):,} of {len(right):,} labels of single nodes are read."
    random = 1 / counts.shape[1]
    return Measurement.of_share(METRIC, share, finding, random=random, prior=prior)


def _of_batches(counts: Ids, actual: Ids, chances: Floats) -> Measurement:
    right = counts == actual
    client = np.broadcast_to(np.arange(len(right))[:, None], right.shape)
    share = clustered_proportion(right.ravel(), client.ravel(), seed=0)
    nodes = actual.sum(axis=1)
    each_row = zip(nodes, chances, strict=True)
    usual = [scipy.stats.binom.pmf(np.arange(b + 1), b, row[:, None]).max(axis=1) for b, row in each_row]
    finding = (
        f"How many nodes of a class are in a batch is right {int(right.sum()):,} of {right.size:,} times "
        f"({int(nodes.sum()):,} nodes)."
    )
    random, prior = float(np.mean(1 / (nodes + 1))), float(np.mean(usual))
    return Measurement.of_share(METRIC, share, finding, random=random, prior=prior)


def mean_predictions(model: GradientModel, candidates: Candidates | None) -> Floats:
    """The mean soft-max over public nodes, float64 [c]; even where there are none."""
    if candidates is None:
        return np.full(model.widths[-1], 1 / model.widths[-1])
    x = torch.tensor(np.asarray(candidates.features), dtype=torch.float64)
    with torch.no_grad():
        logits = model.logits(x, torch.tensor(candidates.edges), model.parameters())
    return np.asarray(torch.softmax(logits, dim=1).mean(dim=0).numpy())


def counted(entry: Floats, expected: Floats, nodes: int) -> Ids:
    """How many of some nodes have each label, int64 [c], by the gradient of the last bias [c] of their mean loss."""
    if nodes == 1:
        return np.asarray(np.arange(len(entry)) == entry.argmin(), dtype=np.int64)
    return rounded(nodes * (expected - entry), nodes)


def rounded(counts: Floats, total: int) -> Ids:
    """Whole numbers of at least 0 next to given ones, with a given sum: the largest remainders round up."""
    positive = np.maximum(counts, 0)
    scaled = positive * total / positive.sum() if positive.sum() else np.full(len(counts), total / len(counts))
    whole = np.floor(scaled).astype(np.int64)
    short = np.argsort(whole - scaled, kind="stable")[: total - int(whole.sum())]
    whole[short] += 1
    return np.asarray(whole)


def _labels(number: int, clients: Ids, truth: GradientTruth) -> Ids:
    batches = [each.nodes for each in truth.batches if each.round == number and each.client in clients]
    return np.asarray(truth.labels[np.concatenate([np.empty(0, dtype=np.int64), *batches])])
