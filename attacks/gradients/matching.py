"""Gradient matching as attacks of a server on what it receives in one round, and how near it comes to the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from fgl_secure.attacks.base import Attack, Card, DataSecret, InformedAttack, Measurement
from fgl_secure.attacks.gradients.inversion import (
    MOST_NODES,
    Effort,
    ObservedGradient,
    Reconstruction,
    deep_leakage,
    features_and_edges,
    improved_deep_leakage,
    inverting_gradients,
    likeliest_edges,
)
from fgl_secure.attacks.gradients.knowledge import FEDAVG_SMOOTH, UPDATES, GradientKnowledge, client_gradients
from fgl_secure.attacks.gradients.model import ReceptiveField
from fgl_secure.attacks.gradients.single import count_labels, mean_predictions
from fgl_secure.attacks.recovery import share_right
from fgl_secure.attacks.truth import GradientTruth
from fgl_secure.attacks.updates import SUM
from fgl_secure.errors import InputError
from fgl_secure.runtime import PublicParameters, Role, View
from fgl_secure.typing import Flags, Floats, Ids

MOST_ENTRIES = 2**15
"""Unknown entries of rows up to which a gradient is attacked: 512 pictures of 64 pixels, or 22 rows of 1,433 words."""


@dataclass(frozen=True, slots=True, eq=False)
class _Exhibit:
    """A gradient to be inverted, and whose it is."""

    seen: ObservedGradient  # the gradient
    clients: Ids  # int64 [k], the silos that it is the mean of; one, unless only a sum was seen
    place: Ids  # int64 [m], which row of the field each row of the clients' own fields, one after the other, has become


def _side_by_side(fields: Sequence[ReceptiveField]) -> tuple[ReceptiveField, Ids]:
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


def exhibits(view: View, public: PublicParameters, knowledge: GradientKnowledge) -> tuple[_Exhibit, ...]:
    """Every gradient of the round that the observer knows the model of, and whose field it knows the shape of.

    A sum over clients is the mean over all of their nodes times the number of clients. It is attacked as one batch on
    all fields side by side; a clipping norm of single clients says nothing about it.
    """
    gradients = client_gradients(view, public, knowledge)
    if gradients is None or knowledge.fields is None:
        return ()
    expected = mean_predictions(gradients.model, None)
    result = []
    for row, client in enumerate(gradients.clients):
        members = gradients.participants if client == SUM else np.array([client], dtype=np.int64)
        fields = [knowledge.fields[int(member)] for member in members if int(member) in knowledge.fields]
        if len(fields) == len(members):
            (field, place), model = _side_by_side(fields), gradients.model
            flat = np.concatenate([gradients.parts[name][row].ravel() for name in model.layout.names]) / len(members)
            bias = gradients.parts[model.last_bias][row] / len(members)
            labels = np.repeat(np.arange(model.widths[-1]), count_labels(bias, expected, field.batch))
            clip = knowledge.clip if len(members) == 1 else None
            result.append(
                _Exhibit(ObservedGradient(model, flat, field, labels, knowledge.image_shape, clip), members, place)
            )
    return tuple(item for item in result if item.seen.field.nodes * gradients.model.widths[0] <= MOST_ENTRIES)


HALF_STEP = 1 / 32
"""A row counts as recovered if no entry is off by as much: half a step of 16 levels of grey, and well below one half
where features are zeros and ones."""


def match_rows(result: NDArray[Any], true: NDArray[Any], batch: int) -> Ids:
    """Which found row stands for each true one: int64 [m], the assignment of least squared distance.

    The order of nodes changes no gradient, so a reconstruction can't know it. Rows of the batch, the first b, are
    matched among themselves, and so are the others.

    Args:
        result: [m, d].
        true: [m, d].
        batch: b.
    """
    order = np.empty(len(true), dtype=np.int64)
    for part in (np.arange(batch), np.arange(batch, len(true))):
        rows, columns = linear_sum_assignment(cdist(true[part], result[part], "sqeuclidean"))
        order[part[rows]] = part[columns]
    return order


def is_recovered(result: NDArray[Any], true: NDArray[Any]) -> NDArray[np.bool_]:
    """Bool [m], which rows [m, d] are right in every entry up to half a step."""
    return np.asarray(np.abs(np.asarray(result, dtype=np.float64) - true).max(axis=1) < HALF_STEP)


def class_means(public: NDArray[Any], labels: Ids, classes: Ids) -> Floats:
    """The prior: the mean public row of the class of each wanted label, float64 [k, d].

    Args:
        public: [n, d], rows of nodes that another party published.
        labels: int64 [n].
        classes: int64 [k]; a class without public rows has the mean of all.
    """
    overall = public.mean(axis=0, dtype=np.float64)
    means = [public[labels == item].mean(axis=0, dtype=np.float64) if (labels == item).any() else overall
             for item in classes]  # fmt: skip
    return np.stack(means)


@dataclass(frozen=True, slots=True, eq=False)
class InvertedGradients:
    """What was made of each gradient."""

    exhibits: tuple[_Exhibit, ...]  # the gradients
    found: tuple[Reconstruction, ...]  # a reconstruction of each


@dataclass(frozen=True, slots=True, eq=False)
class _AlignedReconstruction:
    """A reconstruction in the order of the truth: devices int64 [m], rows [m, d], order int64 [m], batch b."""

    devices: Ids
    rows: Floats
    order: Ids
    batch: int


def aligned_with(guess: InvertedGradients, truth: GradientTruth) -> list[_AlignedReconstruction]:
    """Every reconstruction in the order of the devices that its field is made of."""
    aligned = []
    for exhibit, result in zip(guess.exhibits, guess.found, strict=True):
        devices, batch = np.empty(exhibit.seen.field.nodes, dtype=np.int64), exhibit.seen.field.batch
        devices[exhibit.place] = np.concatenate([truth.fields[int(client)] for client in exhibit.clients])
        order = match_rows(result.features, truth.features[devices], batch)
        aligned.append(_AlignedReconstruction(devices, result.features[order], order, batch))
    return aligned


def _score_recognition(aligned: list[_AlignedReconstruction], truth: GradientTruth) -> Measurement:
    """The share of batch nodes that a public list of all rows would tell by what was found."""
    hits = [_own_nearest(item.rows[: item.batch], item, truth) for item in aligned]
    usual = [_own_nearest(_prior(item, truth), item, truth) for item in aligned]
    finding = "nodes in batches have no other node's row nearer to what was found than their own."
    random = 1 / len(truth.features)
    return _share("nodes told by their rows", hits, float(np.concatenate(usual).mean()), random, finding)


def _edges_found(guess: InvertedGradients, aligned: list[_AlignedReconstruction]) -> Measurement | None:
    """The share of edges among as many pairs of largest weight; None where no field has any.

    Counted are edges that some average on the way to the batch depends on: the others leave no trace in a gradient. The
    prior is to join the nodes of the batch with each other and with all others first, or any at random if that is
    better.
    """
    hits, usual, density = [], [], []
    for exhibit, result, item in zip(guess.exhibits, guess.found, aligned, strict=True):
        field, weights = exhibit.seen.field, result.adjacency
        if weights is None or not field.pairs:
            continue
        actual = np.triu(field.adjacency * field.pooled_pairs(exhibit.seen.model.reach), 1) > 0
        hits.append(likeliest_edges(weights[np.ix_(item.order, item.order)], field.pairs)[actual])
        inside = (np.arange(field.nodes) < field.batch).astype(np.float64)
        usual.append(likeliest_edges(np.add.outer(inside, inside), field.pairs)[actual])
        density.append(np.full(len(hits[-1]), 2 * field.pairs / (field.nodes * (field.nodes - 1))))
    if not sum(len(item) for item in hits):
        return None
    finding = "edges that a gradient depends on are among as many pairs of largest weight as there are edges."
    prior, random = float(np.concatenate(usual).mean()), float(np.concatenate(density).mean())
    return _share("edges found", hits, prior, random, finding)


def _share(metric: str, hits: list[Flags], prior: float, random: float, finding: str) -> Measurement:
    """The share of hits, whose units come in clusters: those of one gradient. A prior is no worse than chance."""
    hit, cluster = np.concatenate(hits), np.repeat(np.arange(len(hits)), [len(item) for item in hits])
    return share_right(metric, hit, cluster, finding, random=random, prior=max(prior, random))


def _prior(aligned: _AlignedReconstruction, truth: GradientTruth) -> Floats:
    """The mean row of each batch node's class: the best guess of who knows labels and public rows."""
    return class_means(truth.features, truth.labels, truth.labels[aligned.devices[: aligned.batch]])


def _own_nearest(rows: Floats, aligned: _AlignedReconstruction, truth: GradientTruth) -> Flags:
    """Bool [b]: whether no row of another node is nearer to each row than the node's own."""
    apart = cdist(rows, truth.features, "sqeuclidean")
    distances = apart[np.arange(aligned.batch), aligned.devices[: aligned.batch]]
    return np.asarray(distances <= apart.min(axis=1))


KNOWN = "the model, the labels that its last bias tells, and how the nodes behind each gradient are joined"


@dataclass(frozen=True, slots=True)
class GradientMatching(InformedAttack[InvertedGradients, GradientKnowledge, GradientTruth]):
    """Inputs are sought whose gradient is the one that was seen.

    Attributes:
        card: what the attack is.
        attempt: one try of what one gradient was taken over, in so many steps and from a first guess.
        effort: how long each gradient is tried; seconds on a batch of a few pictures unless chosen.
        joint: whether edges are sought, of fields of up to 64 nodes.
    """

    card: Card = field()  # no default: the base class has a property of that name
    attempt: Callable[[ObservedGradient, int, torch.Generator], Reconstruction]
    effort: Effort
    joint: bool = False

    def invert(self, observed: ObservedGradient, effort: Effort) -> Reconstruction:
        """The try whose gradient is nearest to the one that was seen."""
        tries = [self.attempt(observed, effort.steps, start) for start in effort.starts()]
        return min(tries, key=lambda item: item.distance)

    def infer_with(self, view: View, public: PublicParameters, known: GradientKnowledge) -> InvertedGradients | None:
        """Inverts every gradient in the view, or their sum; None without any."""
        every = exhibits(view, public, known)
        selection = tuple(item for item in every if not self.joint or item.seen.field.nodes <= MOST_NODES)
        return (
            InvertedGradients(selection, tuple(self.invert(item.seen, self.effort) for item in selection))
            if selection
            else None
        )

    def score(self, guess: InvertedGradients, truth: GradientTruth) -> tuple[Measurement, ...]:
        """The share of batch nodes told by their rows, and of edges or of rows that are recovered."""
        aligned = aligned_with(guess, truth)
        nodes_told = _score_recognition(aligned, truth)
        if not self.joint:
            # The share of batch nodes whose rows are right up to half a step of grey.
            hits = [
                is_recovered(item.rows[: item.batch], truth.features[item.devices[: item.batch]]) for item in aligned
            ]
            usual = [is_recovered(_prior(item, truth), truth.features[item.devices[: item.batch]]) for item in aligned]
            finding = "rows of nodes in batches are found with every entry right within 1/32."
            return (_share("rows recovered", hits, float(np.concatenate(usual).mean()), 0.0, finding), nodes_told)
        edges = _edges_found(guess, aligned)
        return (nodes_told,) if edges is None else (nodes_told, edges)


def _card(name: str, summary: str, source: str, minimum: float, known: str = KNOWN) -> Card:
    return Card(
        name, f"the server finds {summary}", source, Role.SERVER, DataSecret.NODE_FEATURES, UPDATES, FEDAVG_SMOOTH,
        minimum=minimum, auxiliary=known, truth=GradientTruth, knowledge=GradientKnowledge,
        tells_nothing="the model and the shape of a field say nothing of rows; the prior has each class's mean row",
    )  # fmt: skip


ATTACKS: tuple[Attack[Any, Any], ...] = (
    GradientMatching(
        _card("gradient-dlg", "features and labels by L-BFGS on the squared distance of gradients",
              "DLG (Zhu et al., NeurIPS 2019)", 0.9),
        deep_leakage, Effort(steps=150, restarts=2),
    ),
    GradientMatching(
        _card("gradient-idlg", "labels from the last bias, then features by L-BFGS on gradients",
              "iDLG (Zhao et al. 2020)", 0.9),
        improved_deep_leakage, Effort(steps=150, restarts=2),
    ),
    GradientMatching(
        _card("gradient-inverting", "features by the angle between gradients, with an image prior",
              "inverting gradients (Geiping et al., NeurIPS 2020)", 0.9),
        inverting_gradients, Effort(steps=300),
    ),
    GradientMatching(
        _card("gradient-joint", "features and edges of a batch's surroundings together",
              "after GLG (Sinha et al. 2024) and FedGIG (Xiao et al. 2024)", 0.6,
              "the model, the labels that its last bias tells, and how many nodes and edges are behind each gradient"),
        features_and_edges, Effort(steps=200, restarts=2), joint=True,
    ),
)  # fmt: skip
