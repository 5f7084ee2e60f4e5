"""Gradient matching as attacks of a server on what it receives in one round, and how near it comes to the truth.

The figures GSM-0, GSM-1, GSM-2 and FULL are those of GRAIN (Drencheva et al., ICLR 2025), with what its evaluation
takes from the attacked network replaced by something that depends on the graph alone:

* nodes are matched first, one to one, by an assignment (theirs is by hidden states, ours by rows);
* GSM-0 is agreement of the features themselves: theirs the F1 of categorical features, here, where features are
  numbers, the share of entries that are right up to half a step;
* GSM-N for N = 1, 2 is the coefficient of determination R^2, at least 0, between what N layers make of both graphs:
  theirs are the layers of the attacked network, ours N averages with D^-1/2 (A + I) D^-1/2 without weights;
* all are multiplied by the smaller over the larger number of nodes, which is 1 here as sizes are known;
* FULL is 1 if every row is recovered and every edge is right.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from fgl_secure.attacks.areas import area
from fgl_secure.attacks.base import Attack, Card, InformedAttack, Measurement
from fgl_secure.attacks.gradients.inversion import (
    MOST_NODES,
    Effort,
    Reconstruction,
    SeenGradient,
    deep_leakage,
    features_and_edges,
    improved_deep_leakage,
    inverting_gradients,
    likeliest_edges,
)
from fgl_secure.attacks.gradients.knowledge import (
    FEDAVG_SMOOTH,
    SUM,
    UPDATES,
    ClientGradients,
    GradientKnowledge,
    client_gradients,
)
from fgl_secure.attacks.gradients.model import side_by_side
from fgl_secure.attacks.gradients.single import counted, mean_predictions
from fgl_secure.attacks.recovery import share_right
from fgl_secure.attacks.truth import GradientTruth
from fgl_secure.runtime import PublicParameters, Role, Secret, View
from fgl_secure.typing import Flags, Floats, Ids

MOST_ENTRIES = 2**15
"""Unknown entries of rows up to which a gradient is attacked: 512 pictures of 64 pixels, or 22 rows of 1,433 words."""


@dataclass(frozen=True, slots=True, eq=False)
class _Exhibit:
    """A gradient to be inverted, and whose it is."""

    seen: SeenGradient  # the gradient
    clients: Ids  # int64 [k], the silos that it is the mean of; one, unless only a sum was seen
    place: Ids  # int64 [m], which row of the field each row of the clients' own fields, one after the other, has become


def exhibits(view: View, public: PublicParameters, known: GradientKnowledge) -> tuple[_Exhibit, ...]:
    """Every gradient of the round that the observer knows the model of, and whose field it knows the shape of.

    A sum over clients is the mean over all of their nodes times the number of clients. It is attacked as one batch on
    all fields side by side; a clipping norm of single clients says nothing about it.
    """
    gradients = client_gradients(view, public, known)
    if gradients is None or known.fields is None:
        return ()
    return tuple(
        exhibit
        for exhibit in _exhibits(gradients, known)
        if exhibit.seen.field.nodes * gradients.model.widths[0] <= MOST_ENTRIES
    )


def _exhibits(gradients: ClientGradients, known: GradientKnowledge) -> Iterator[_Exhibit]:
    fields = known.fields or {}
    expected = mean_predictions(gradients.model, None)
    for row, client in enumerate(gradients.clients):
        members = gradients.participants if client == SUM else np.array([client], dtype=np.int64)
        if all(int(member) in fields for member in members):
            yield _exhibit(gradients, row, members, known, expected)


def _exhibit(
    gradients: ClientGradients, row: int, members: Ids, known: GradientKnowledge, expected: Floats
) -> _Exhibit:
    fields = known.fields or {}
    field, place = side_by_side([fields[int(member)] for member in members])
    model = gradients.model
    flat = np.concatenate([gradients.parts[name][row].ravel() for name in model.layout.names]) / len(members)
    bias = gradients.parts[model.last_bias][row] / len(members)
    labels = np.repeat(np.arange(model.widths[-1]), counted(bias, expected, field.batch))
    clip = known.clip if len(members) == 1 else None
    return _Exhibit(SeenGradient(model, flat, field, labels, known.image_shape, clip), members, place)


HALF_STEP = 1 / 32
"""A row counts as recovered if no entry is off by as much: half a step of 16 levels of grey, and well below one half
where features are zeros and ones."""


@dataclass(frozen=True, slots=True)
class RowScores:
    """How near rows are to those that they are matched with.

    Attributes:
        rmse: root of the mean squared error over rows and entries.
        cosine: mean cosine of rows, 0 for rows of zeros.
        exact: share of rows without an entry that is off by 1/32 or more.
        rows: how many there are.
    """

    rmse: float
    cosine: float
    exact: float
    rows: int


def matched(found: NDArray[Any], true: NDArray[Any], batch: int) -> Ids:
    """Which found row stands for each true one: int64 [m], the assignment of least squared distance.

    The order of nodes changes no gradient, so a reconstruction can't know it. Rows of the batch, the first b, are
    matched among themselves, and so are the others.

    Args:
        found: [m, d].
        true: [m, d].
        batch: b.
    """
    order = np.empty(len(true), dtype=np.int64)
    for part in (np.arange(batch), np.arange(batch, len(true))):
        rows, columns = linear_sum_assignment(cdist(true[part], found[part], "sqeuclidean"))
        order[part[rows]] = part[columns]
    return order


def row_scores(found: NDArray[Any], true: NDArray[Any]) -> RowScores:
    """Compares rows [m, d] that are in the same order."""
    error = np.asarray(found, dtype=np.float64) - true
    return RowScores(
        float(np.sqrt((error**2).mean())), float(cosines(found, true).mean()), float(recovered(found, true).mean()),
        len(true),
    )  # fmt: skip


def recovered(found: NDArray[Any], true: NDArray[Any]) -> NDArray[np.bool_]:
    """Bool [m], which rows [m, d] are right in every entry up to half a step."""
    return np.asarray(np.abs(np.asarray(found, dtype=np.float64) - true).max(axis=1) < HALF_STEP)


def cosines(found: NDArray[Any], true: NDArray[Any]) -> Floats:
    """float64 [m], cosines of rows [m, d]; 0 where one is all zeros."""
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(true, axis=1)
    products = (np.asarray(found, dtype=np.float64) * true).sum(axis=1)
    quotient: Floats = np.divide(products, lengths, out=np.zeros(len(lengths)), where=lengths > 0)
    return quotient


def class_means(public: NDArray[Any], labels: Ids, wanted: Ids) -> Floats:
    """The prior: the mean public row of the class of each wanted label, float64 [k, d].

    Args:
        public: [n, d], rows of nodes that somebody else published.
        labels: int64 [n].
        wanted: int64 [k]; a class without public rows has the mean of all.
    """
    everyone = public.mean(axis=0, dtype=np.float64)
    means = [public[labels == each].mean(axis=0, dtype=np.float64) if (labels == each).any() else everyone
             for each in wanted]  # fmt: skip
    return np.stack(means)


@dataclass(frozen=True, slots=True, eq=False)
class Inverted:
    """What was made of each gradient.

    Attributes:
        exhibits: the gradients.
        found: a reconstruction of each.
    """

    exhibits: tuple[_Exhibit, ...]
    found: tuple[Reconstruction, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Aligned:
    """A reconstruction in the order of the truth: devices int64 [m], rows [m, d], order int64 [m], batch b."""

    devices: Ids
    rows: Floats
    order: Ids
    batch: int


def aligned_with(guess: Inverted, truth: GradientTruth) -> list[_Aligned]:
    """Every reconstruction in the order of the devices that its field is made of."""
    return [_aligned(exhibit, found, truth) for exhibit, found in zip(guess.exhibits, guess.found, strict=True)]


def _aligned(exhibit: _Exhibit, found: Reconstruction, truth: GradientTruth) -> _Aligned:
    devices = np.empty(exhibit.seen.field.nodes, dtype=np.int64)
    devices[exhibit.place] = np.concatenate([truth.fields[int(client)] for client in exhibit.clients])
    order = matched(found.features, truth.features[devices], exhibit.seen.field.batch)
    return _Aligned(devices, found.features[order], order, exhibit.seen.field.batch)


def _rows_recovered(aligned: list[_Aligned], truth: GradientTruth) -> Measurement:
    """The share of batch nodes whose rows are right up to half a step of grey."""
    hits = [recovered(each.rows[: each.batch], truth.features[each.devices[: each.batch]]) for each in aligned]
    usual = [recovered(_prior(each, truth), truth.features[each.devices[: each.batch]]) for each in aligned]
    told = "rows of nodes in batches are found with every entry right within 1/32."
    return _share("rows recovered", hits, float(np.concatenate(usual).mean()), 0.0, told)


def _nodes_told(aligned: list[_Aligned], truth: GradientTruth) -> Measurement:
    """The share of batch nodes that a public list of all rows would tell by what was found."""
    hits = [_own_nearest(each.rows[: each.batch], each, truth) for each in aligned]
    usual = [_own_nearest(_prior(each, truth), each, truth) for each in aligned]
    told = "nodes in batches have no other node's row nearer to what was found than their own."
    random = 1 / len(truth.features)
    return _share("nodes told by their rows", hits, float(np.concatenate(usual).mean()), random, told)


def _edges_found(guess: Inverted, aligned: list[_Aligned]) -> Measurement | None:
    """The share of edges among as many pairs of largest weight; None where no field has any.

    Counted are edges that some average on the way to the batch depends on: the others leave no trace in a gradient. The
    prior is to join the nodes of the batch with each other and with all others first, or any at random if that is
    better.
    """
    hits, usual, density = [], [], []
    for exhibit, found, each in zip(guess.exhibits, guess.found, aligned, strict=True):
        field, weights = exhibit.seen.field, found.adjacency
        if weights is None or not field.pairs:
            continue
        there = np.triu(field.adjacency * field.averaged(exhibit.seen.model.reach), 1) > 0
        hits.append(likeliest_edges(weights[np.ix_(each.order, each.order)], field.pairs)[there])
        usual.append(likeliest_edges(_around_batch(field.nodes, field.batch), field.pairs)[there])
        density.append(np.full(len(hits[-1]), 2 * field.pairs / (field.nodes * (field.nodes - 1))))
    if not sum(len(each) for each in hits):
        return None
    told = "edges that a gradient depends on are among as many pairs of largest weight as there are edges."
    prior, random = float(np.concatenate(usual).mean()), float(np.concatenate(density).mean())
    return _share("edges found", hits, prior, random, told)


def _around_batch(nodes: int, batch: int) -> Floats:
    """Float64 [m, m]: how many ends of each pair are in the batch."""
    inside = (np.arange(nodes) < batch).astype(np.float64)
    return np.add.outer(inside, inside)


def _share(metric: str, hits: list[Flags], prior: float, random: float, told: str) -> Measurement:
    """The share of hits, whose units come in clusters: those of one gradient. A prior is no worse than chance."""
    hit, cluster = np.concatenate(hits), np.repeat(np.arange(len(hits)), [len(each) for each in hits])
    return share_right(metric, hit, cluster, told, random=random, prior=max(prior, random))


def _prior(each: _Aligned, truth: GradientTruth) -> Floats:
    """The mean row of each batch node's class: the best guess of who knows labels and public rows."""
    return class_means(truth.features, truth.labels, truth.labels[each.devices[: each.batch]])


def _own_nearest(rows: Floats, each: _Aligned, truth: GradientTruth) -> Flags:
    """Bool [b]: whether no row of another node is nearer to each row than the node's own."""
    apart = cdist(rows, truth.features, "sqeuclidean")
    own = apart[np.arange(each.batch), each.devices[: each.batch]]
    return np.asarray(own <= apart.min(axis=1))


HOPS = 2


@dataclass(frozen=True, slots=True)
class EdgeScores:
    """How well weights of pairs tell edges.

    Attributes:
        auc: probability that an edge has a larger weight than another pair; .5 where either is missing.
        f1: of the pairs of largest weight, as many as there are edges; precision and recall are the same.
        density: share of pairs that are edges, the f1 of a random guess.
        pairs: how many pairs there are.
    """

    auc: float
    f1: float
    density: float
    pairs: int


@dataclass(frozen=True, slots=True)
class GraphScores:
    """Agreement of two graphs.

    Attributes:
        gsm: GSM-0, GSM-1 and GSM-2, see above.
        full: whether all of it is right.
    """

    gsm: tuple[float, ...]
    full: bool


def edge_scores(weights: Floats, true: Floats) -> EdgeScores:
    """Compares weights [m, m] with an adjacency [m, m] of zeros and ones, both symmetric and in the same order."""
    upper = np.triu_indices(len(true), 1)
    score, edge = weights[upper], true[upper] > 0
    top = likeliest_edges(weights, int(edge.sum()))[upper]
    f1 = float((top & edge).sum() / max(int(edge.sum()), 1))
    return EdgeScores(area(score[edge], score[~edge]), f1, float(edge.mean()) if len(edge) else 0.0, len(edge))


def graph_scores(found: NDArray[Any], guessed: Floats, true: NDArray[Any], adjacency: Floats) -> GraphScores:
    """Compares rows [m, d] and adjacencies [m, m] of zeros and ones of two graphs in the same order."""
    levels = [float((np.abs(found - true) < HALF_STEP).mean())]
    here, there = np.asarray(found, dtype=np.float64), np.asarray(true, dtype=np.float64)
    for _ in range(HOPS):
        here, there = _averaged(here, guessed), _averaged(there, adjacency)
        levels.append(_determination(here, there))
    full = bool(recovered(found, true).all() and np.array_equal(guessed, adjacency))
    return GraphScores(tuple(levels), full)


def _averaged(rows: Floats, adjacency: Floats) -> Floats:
    looped = adjacency + np.eye(len(adjacency))
    root = 1 / np.sqrt(looped.sum(axis=1, keepdims=True))
    return np.asarray(root * (looped @ (root * rows)))


def _determination(found: Floats, true: Floats) -> float:
    """R^2 over all entries, at least 0."""
    spread = ((true - true.mean()) ** 2).sum()
    return max(0.0, 1 - float(((found - true) ** 2).sum() / spread)) if spread > 0 else 0.0


KNOWN = "the model, the labels that its last bias tells, and how the nodes behind each gradient are joined"


def _card(name: str, summary: str, source: str, minimum: float, known: str = KNOWN) -> Card:
    return Card(
        name,
        f"the server finds {summary}",
        source,
        Role.SERVER,
        Secret.NODE_FEATURES,
        UPDATES,
        FEDAVG_SMOOTH,
        minimum=minimum,
        auxiliary=known,
        truth=GradientTruth,
        knowledge=GradientKnowledge,
        tells_nothing="the model and the shape of a field say nothing of rows; the prior has each class's mean row",
    )


class GradientMatching(InformedAttack[Inverted, GradientKnowledge, GradientTruth]):
    """Inputs are sought whose gradient is the one that was seen.

    Args:
        effort: how long each gradient is tried; None for seconds on a batch of a few pictures.
    """

    __slots__ = ("effort",)

    usual: ClassVar[Effort]

    def __init__(self, effort: Effort | None = None) -> None:
        self.effort = self.usual if effort is None else effort

    @abstractmethod
    def invert(self, seen: SeenGradient, effort: Effort) -> Reconstruction:
        """What one gradient was taken over."""

    def takes(self, seen: SeenGradient) -> bool:  # noqa: ARG002  # of no account to most
        """Whether it can try its hand at a gradient."""
        return True

    def infer_with(self, view: View, public: PublicParameters, known: GradientKnowledge) -> Inverted | None:
        """Inverts every gradient in the view, or their sum; None without any."""
        shown = tuple(each for each in exhibits(view, public, known) if self.takes(each.seen))
        return Inverted(shown, tuple(self.invert(each.seen, self.effort) for each in shown)) if shown else None

    def score(self, guess: Inverted, truth: GradientTruth) -> tuple[Measurement, ...]:
        """The share of batch nodes whose rows are recovered, and that are told from all others by them."""
        aligned = aligned_with(guess, truth)
        return (_rows_recovered(aligned, truth), _nodes_told(aligned, truth))


class _DeepLeakage(GradientMatching):
    """DLG."""

    card = _card("gradient-dlg", "features and labels by L-BFGS on the squared distance of gradients",
                 "DLG (Zhu et al., NeurIPS 2019)", 0.9)  # fmt: skip
    usual = Effort(steps=150, restarts=2)

    def invert(self, seen: SeenGradient, effort: Effort) -> Reconstruction:
        """See `deep_leakage`."""
        return deep_leakage(seen, effort)


class _ImprovedDeepLeakage(GradientMatching):
    """iDLG."""

    card = _card("gradient-idlg", "labels from the last bias, then features by L-BFGS on gradients",
                 "iDLG (Zhao et al. 2020)", 0.9)  # fmt: skip
    usual = Effort(steps=150, restarts=2)

    def invert(self, seen: SeenGradient, effort: Effort) -> Reconstruction:
        """See `improved_deep_leakage`."""
        return improved_deep_leakage(seen, effort)


class _InvertingGradients(GradientMatching):
    """Inverting gradients."""

    card = _card("gradient-inverting", "features by the angle between gradients, with an image prior",
                 "inverting gradients (Geiping et al., NeurIPS 2020)", 0.9)  # fmt: skip
    usual = Effort(steps=300)

    def invert(self, seen: SeenGradient, effort: Effort) -> Reconstruction:
        """See `inverting_gradients`."""
        return inverting_gradients(seen, effort)


class _FeaturesAndEdges(GradientMatching):
    """Features and adjacency jointly, where it is known how many nodes there are and not how they are joined."""

    card = _card(
        "gradient-joint", "features and edges of a batch's surroundings together",
        "after GLG (Sinha et al. 2024) and FedGIG (Xiao et al. 2024)", 0.6,
        "the model, the labels that its last bias tells, and how many nodes and edges are behind each gradient",
    )  # fmt: skip
    usual = Effort(steps=200, restarts=2)

    def takes(self, seen: SeenGradient) -> bool:
        """Fields of up to 64 nodes."""
        return seen.field.nodes <= MOST_NODES

    def invert(self, seen: SeenGradient, effort: Effort) -> Reconstruction:
        """Rows and weights of pairs."""
        return features_and_edges(seen, effort)

    def score(self, guess: Inverted, truth: GradientTruth) -> tuple[Measurement, ...]:
        """The share of batch nodes told by their rows, and of edges among as many pairs of largest weight."""
        aligned = aligned_with(guess, truth)
        edges = _edges_found(guess, aligned)
        return (_nodes_told(aligned, truth), *(() if edges is None else (edges,)))


ATTACKS: tuple[Attack[Any, Any], ...] = (
    _DeepLeakage(),
    _ImprovedDeepLeakage(),
    _InvertingGradients(),
    _FeaturesAndEdges(),
)
