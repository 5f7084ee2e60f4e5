"""Which nodes clients' gradients were taken over: by the span of their rows, or by a matched filter.

The gradient of the first weight is the sum of outer products of the rows that entered (averaged over neighbours, under
GCN) and the gradients at the layer's outputs. With fewer rows than the width of the layer its column space is exactly
the span of those rows, and a public row is either in it or not (DAGER, NeurIPS 2024, for text; GRAIN, ICLR 2025, for
graphs). With more rows the distance to that space still ranks nodes. Every client's gradient, or their sum, is tested.

A node adds the outer product of the row that enters for it and the gradient at its outputs of the first layer. The
latter is unknown, but lies near one of few directions that the model gives: soft-max less one-hot of a class, led back
through the second weight and the units that the node switches on. The largest product of the gradient with these is
the score; unlike a span it degrades slowly under noise (differential privacy), and it needs no rank below the width.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fgl_secure.attacks.areas import Ranking, area_interval, mean_area, ranking_of_nodes
from fgl_secure.attacks.base import Attack, Card, DataSecret, InformedAttack, Measurement
from fgl_secure.attacks.gradients.knowledge import (
    FEDAVG,
    UPDATES,
    Candidates,
    ClientGradients,
    GradientKnowledge,
    client_gradients,
)
from fgl_secure.attacks.gradients.model import Activation, GradientModel
from fgl_secure.attacks.neighbourhoods import undirected_adjacency
from fgl_secure.attacks.recovery import share_right
from fgl_secure.attacks.truth import GradientTruth
from fgl_secure.runtime import Directory, PublicParameters, Role, View
from fgl_secure.statistics.metrics import Interval, clustered_advantage
from fgl_secure.typing import Flags, Floats, Ids


@dataclass(frozen=True, slots=True, eq=False)
class FieldGuess:
    """Which nodes a gradient was taken over, for each of k clients; all rows are alike where only a sum is seen."""

    round: int  # of the gradients
    clients: Ids  # int64 [k], indices of silos
    scores: Floats  # float64 [k, n], high where a node is believed to be among those of the client
    hits: Flags | None  # bool [k, n], nodes that are claimed to be; None for scores that only rank
    eligible: Flags  # bool [k, n], nodes that can be among them as far as the observer knows
    alike: Ids  # int64 [n], a number that nodes share whose rows point the same way: no span can tell them apart
    summed: bool  # whether only the sum was seen
    owners_known: bool  # whether the observer knows which client each node belongs to


def _fields_of(
    gradients: ClientGradients, candidates: Candidates, entering: dict[str, Floats], scores: Floats, hits: Flags | None
) -> FieldGuess:
    """A guess from scores [k, n] of the gradients that were seen, or [1, n] of their sum."""
    clients = gradients.participants
    shape = (len(clients), scores.shape[1])
    owners = candidates.clients
    eligible = (owners == clients[:, None]) | (owners < 0)
    every = None if hits is None else np.broadcast_to(hits, shape) & eligible
    return FieldGuess(
        gradients.model.round,
        clients,
        np.broadcast_to(scores, shape),
        every,
        eligible,
        _directions(list(entering.values())),
        gradients.is_sum,
        bool((owners >= 0).all()),
    )


def _by_degree(guess: FieldGuess, candidates: Candidates) -> FieldGuess:
    """A guess of the same shape by public edges alone: a node with more neighbours is in more receptive fields."""
    degrees = np.bincount(candidates.edges[1], minlength=guess.scores.shape[1]).astype(np.float64)
    scores = np.broadcast_to(degrees, guess.scores.shape)
    if guess.hits is None:
        return replace(guess, scores=scores)
    hits = np.zeros_like(guess.hits)
    for row, claims in enumerate(guess.hits.sum(axis=1).tolist()):
        nodes = np.flatnonzero(guess.eligible[row])
        hits[row, nodes[np.argsort(-degrees[nodes], kind="stable")[:claims]]] = True
    return replace(guess, scores=scores, hits=hits)


def _directions(blocks: list[Floats]) -> Ids:
    """A number for the direction of each node's rows, int64 [n]: by their products with one random vector."""
    rng = np.random.default_rng(0)
    products = []
    for rows in blocks:
        length = np.linalg.norm(rows, axis=1)
        products.append(rows @ rng.normal(size=rows.shape[1]) / np.where(length > 0, length, 1))
    _, number = np.unique(np.round(np.stack(products, axis=1), 9), axis=0, return_inverse=True)
    return np.asarray(number.ravel(), dtype=np.int64)


def _hits(guess: FieldGuess, members: Flags, eligible: Flags) -> Measurement | None:
    """The share of nodes that are claimed, less that of others, who are claimed wrongly."""
    if guess.hits is None:
        return None
    inside, outside = guess.hits[eligible & members], guess.hits[eligible & ~members]
    if not len(inside) or not len(outside):
        return None
    client = np.broadcast_to(np.arange(len(members))[:, None], members.shape)
    gain = clustered_advantage(guess.hits[eligible], members[eligible], client[eligible], seed=0)
    finding = (
        f"{int(inside.sum()):,} of {len(inside):,} nodes that gradients were taken over are found exactly, and "
        f"{int(outside.sum()):,} of {len(outside):,} others are claimed."
    )
    units = gain.arms[0] if gain.arms else gain.n
    return Measurement("exact hits", gain.value, gain.interval, units, 0.0, 0.0, 1.0, True, finding)


def _area_within(scores: Floats, positive: Flags, eligible: Flags) -> tuple[float, Interval] | None:
    """The mean of each group's area, weighted by its positives, with a 95 % interval by resampling nodes.

    A node that several groups ask about counts equally often in all of them. Where all draws agree, the interval is
    Clopper-Pearson on the nodes of the rarer kind.

    Args:
        scores: float64 [groups, n].
        positive: bool [groups, n].
        eligible: bool [groups, n], the nodes that count.

    Returns:
        The area and its interval; None where no group has nodes of both kinds.
    """
    up, down = positive & eligible, ~positive & eligible
    both = np.flatnonzero(up.any(axis=1) & down.any(axis=1))
    if not len(both):
        return None
    nodes = [np.flatnonzero(eligible[index]) for index in both]
    rankings = [
        Ranking(node[None], scores[index, node], positive[index, node]) for index, node in zip(both, nodes, strict=True)
    ]
    value = mean_area(scores, positive, eligible)
    units = int(min(up[both].any(axis=0).sum(), down[both].any(axis=0).sum()))
    return value, area_interval(value, rankings, up[both].sum(axis=1), scores.shape[1], units)


def _pairs(
    metric: str, guess: FieldGuess, degrees: Ids, members: Flags, eligible: Flags, others: str
) -> Measurement | None:
    """Twice the area under the curve less one, among the nodes of each client; the prior ranks nodes by degree."""
    pairs = _area_within(guess.scores, members, eligible)
    if pairs is None:
        return None
    usual = mean_area(np.broadcast_to(degrees.astype(np.float64), members.shape), members, eligible)
    finding = (
        f"Nodes that a client's gradient was taken over and {others} are told apart with an area under the curve of "
        f"{pairs[0]:.3f}."
    )
    return Measurement.of_area(metric, *pairs, len(members), finding, max(2 * usual - 1, 0.0))


def _anybody(guess: FieldGuess, members: Flags, twins: Flags) -> Measurement | None:
    anyone = np.asarray(members.any(axis=0))
    nodes = np.flatnonzero(anyone | ~twins.any(axis=0))
    if anyone[nodes].all() or not anyone.any():
        return None
    best = np.where(guess.eligible, guess.scores, -np.inf).max(axis=0)
    text = "Nodes that anybody's gradient was taken over and others"
    return ranking_of_nodes("nodes in anybody's gradient", best[nodes], anyone[nodes], nodes, text)


def _attribution(guess: FieldGuess, members: Flags) -> Measurement | None:
    """How often the client with the best score is the right one, for nodes of one client's gradient alone."""
    nodes = np.flatnonzero(members.sum(axis=0) == 1)
    if not len(nodes):
        return None
    scores = guess.scores[:, nodes]
    ties = np.random.default_rng(0).random(scores.shape)
    guesses = np.lexsort((ties, scores), axis=0)[-1]
    right = members[guesses, nodes]
    prior = float(members[:, nodes].sum(axis=1).max() / len(nodes))
    text = "For {} nodes the client whose gradient they are in is named."
    return share_right("clients of nodes", right, nodes, text, random=1 / len(guess.clients), prior=prior)


RANK = 1e-8
"""Singular values up to this share of the largest count as zero, or up to what rounding adds."""

SMALL, GAP = 1e-3, 0.03
"""Below the first share of the largest, one that is below the second share of that before starts the rounding's."""

INSIDE = 1e-6
"""Up to this share of its squared length a row may stick out of a span that it is in."""

ROUNDED_INSIDE = 1e-2
"""The same at most, where rounding blurs the span."""


@dataclass(frozen=True, slots=True, eq=False)
class _Span:
    """The column space of a gradient."""

    basis: Floats  # float64 [d, r], orthonormal
    inside: float  # up to which residual a row counts as inside


def _residuals(rows: Floats, span: _Span) -> Floats:
    """Which share of the squared length of each row [n, d] is outside of a span, float64 [n]; 1 for a row of zeros."""
    total = (rows * rows).sum(axis=1)
    inside = ((rows @ span.basis) ** 2).sum(axis=1)
    return np.asarray(1 - np.divide(inside, total, out=np.zeros_like(total), where=total > 0))


class _Fields(InformedAttack[FieldGuess, GradientKnowledge, GradientTruth]):
    """What attacks on the nodes of gradients do with every candidate and the gradient of every client."""

    def infer_with(self, view: View, public: PublicParameters, known: GradientKnowledge) -> FieldGuess | None:
        gradients, candidates = client_gradients(view, public, known), known.candidates
        if gradients is None or candidates is None:
            return None
        entering = candidates.entering(gradients.model)
        return _fields_of(gradients, candidates, entering, *self._score(gradients, entering))

    @abstractmethod
    def _score(self, gradients: ClientGradients, entering: dict[str, Floats]) -> tuple[Floats, Flags | None]:
        """Scores, and what is claimed if anything is: both [clients, n]."""

    def guess_without(self, guess: FieldGuess, known: GradientKnowledge, parties: Directory) -> FieldGuess | None:  # noqa: ARG002  # needs no numbering
        """Ranks nodes by their neighbours, and claims as many: `_by_degree`."""
        return None if known.candidates is None else _by_degree(guess, known.candidates)

    def score(self, guess: FieldGuess, truth: GradientTruth) -> tuple[Measurement, ...]:
        # How well a guess tells the nodes of each client's gradient.
        # Bool [k, n]: which nodes entered whose gradient.
        members: Flags = np.zeros(guess.scores.shape, dtype=np.bool_)
        for batch in truth.batches:
            if batch.round == guess.round:
                members[np.flatnonzero(guess.clients == batch.client)[:, None], batch.receptive] = True
        twins = np.stack([np.isin(guess.alike, guess.alike[row]) for row in members]) & ~members
        adjacency = undirected_adjacency(truth.edges, members.shape[1])
        degrees = np.asarray(adjacency.sum(axis=1))
        near = np.asarray((adjacency @ members.T.astype(np.int64)).T) > 0
        eligible = guess.eligible & ~twins
        fields = [
            _hits(guess, members, eligible),
            _pairs("nodes in a client's gradient", guess, degrees, members, eligible, "others of its nodes"),
            _pairs(
                "nodes in it or one hop outside",
                guess,
                degrees,
                members,
                eligible & (members | near),
                "those one hop outside",
            ),
        ]
        if not guess.owners_known and len(guess.clients) > 1:
            fields += [_anybody(guess, members, twins), _attribution(guess, members)]
        return tuple(item for item in fields if item is not None)


class _GradientSpan(_Fields):
    """The distance of every public row to the span, for each weight of the first layer; the larger one counts."""

    card = Card(
        "gradient-span",
        "the server tells which nodes a client's gradient was taken over, by the span of the first gradient",
        "GRAIN (ICLR 2025) and DAGER (NeurIPS 2024), span check",
        Role.SERVER, DataSecret.TRAINING_NODE, UPDATES, FEDAVG, minimum=0.95,
        auxiliary="the model, public features of all nodes, and the edges that clients average over",
        truth=GradientTruth, knowledge=GradientKnowledge,
    )  # fmt: skip

    def _score(self, gradients: ClientGradients, entering: dict[str, Floats]) -> tuple[Floats, Flags | None]:
        # Minus the largest residual, and whether a row is inside by every weight: both [clients, n].
        nonzero = {name: rows.any(axis=1) for name, rows in entering.items()}
        known = np.any(list(nonzero.values()), axis=0)
        shape = (len(gradients.clients), len(known))
        farthest, hits = np.broadcast_to(~known, shape).astype(np.float64), np.broadcast_to(known, shape).copy()
        for name, rows in entering.items():
            for index, gradient in enumerate(gradients.parts[name]):
                # The column space of a gradient [d, h] whose rounding has singular values up to about `noise`, or more.
                noise = gradients.noise(name)
                left, singular, _ = np.linalg.svd(gradient, full_matrices=False)
                strong = singular[singular > max(RANK * singular[0], 2 * noise)]
                drops = np.flatnonzero((strong[1:] < SMALL * singular[0]) & (strong[1:] < GAP * strong[:-1]))
                if len(drops) and len(strong) == len(singular):
                    noise, strong = float(strong[drops[0] + 1]), strong[: drops[0] + 1]
                blur = float(2 * noise / strong[-1]) ** 2 if len(strong) else 0.0
                span = _Span(left[:, : len(strong)], min(max(INSIDE, blur), ROUNDED_INSIDE))
                outside = np.where(nonzero[name], _residuals(rows, span), 0.0)
                farthest[index], hits[index] = (
                    np.maximum(farthest[index], outside),
                    hits[index] & (outside < span.inside),
                )
        return -farthest, hits


class _GradientFilter(_Fields):
    """The best product of a gradient with what a node of any class would add."""

    card = Card(
        "gradient-filter",
        "the server ranks nodes by how well a client's gradient goes with what they would add to it",
        "against noise on gradients: a matched filter (North 1943) for GRAIN's candidates (ICLR 2025)",
        Role.SERVER, DataSecret.TRAINING_NODE, UPDATES, FEDAVG, minimum=0.55,
        auxiliary="the model, public features of all nodes, and the edges that clients average over",
        truth=GradientTruth, knowledge=GradientKnowledge,
    )  # fmt: skip

    def _score(self, gradients: ClientGradients, entering: dict[str, Floats]) -> tuple[Floats, Flags | None]:
        length = np.sqrt(sum((rows * rows).sum(axis=1) for rows in entering.values()))[:, None]
        units = {name: rows / np.where(length > 0, length, 1) for name, rows in entering.items()}
        clients = range(len(gradients.clients))
        projected = [sum(rows @ gradients.parts[name][index] for name, rows in units.items()) for index in clients]
        scores = np.full((len(clients), len(length)), -np.inf)
        for direction in _possible_directions(gradients.model, entering):
            for index in clients:
                scores[index] = np.maximum(scores[index], (projected[index] * direction).sum(axis=1))
        return scores, None


def _possible_directions(model: GradientModel, entering: dict[str, Floats]) -> Iterator[Floats]:
    """Unit gradients at the first layer's outputs for each class and way back, each [n, width]."""
    weights = model.layout.split(model.weights)
    nodes = len(next(iter(entering.values())))
    errors = 1 / model.widths[-1] - np.eye(model.widths[-1])
    if model.layers == 1:
        yield from (np.broadcast_to(row / np.linalg.norm(row), (nodes, len(row))) for row in errors)
        return
    outputs = sum(rows @ weights[name] for name, rows in entering.items()) + weights["0.bias"]
    back = [values for name, values in weights.items() if name.startswith("1.") and name.endswith("weight")]
    slopes = _slope(model.activation, outputs)
    for rows in (slopes * (weight @ row) for weight in back for row in errors):
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        yield np.asarray(rows / np.where(length > 0, length, 1))


def _slope(activation: Activation, outputs: Floats) -> Floats:
    if activation is Activation.RELU:
        return (outputs > 0).astype(np.float64)
    chance = 1 / (1 + np.exp(-outputs))
    return np.asarray(chance if activation is Activation.SOFTPLUS else chance * (1 - chance))


ATTACKS: tuple[Attack[Any, Any], ...] = (_GradientSpan(), _GradientFilter())
