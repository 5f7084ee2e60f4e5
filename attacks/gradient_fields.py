"""Scores of nodes that may have entered clients' gradients, and how well they tell those that did."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Measurement
from fgl_secure.attacks.ego_networks import undirected
from fgl_secure.attacks.gradient_candidates import Candidates
from fgl_secure.attacks.gradient_views import ClientGradients
from fgl_secure.attacks.node_shares import ranking_of_nodes
from fgl_secure.attacks.stratified_area import area_within, mean_area
from fgl_secure.attacks.truth import Truth
from fgl_secure.statistics.metrics import Interval, clustered_proportion, exact_proportion

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class FieldGuess:
    """Which nodes a gradient was taken over, for each of k clients; the rows of all are alike where only a sum is seen.

    Attributes:
        round: of the gradients.
        clients: int64 [k], indices of silos.
        scores: float64 [k, n], high where a node is believed to be among those of the client.
        hits: bool [k, n], nodes that are claimed to be; None for scores that only rank.
        eligible: bool [k, n], nodes that can be among them as far as the observer knows.
        alike: int64 [n], a number that nodes share whose rows point the same way: no span can tell them apart.
        summed: whether only the sum was seen.
        owners_known: whether the observer knows which client each node belongs to.
    """

    round: int
    clients: Ids
    scores: Floats
    hits: Bools | None
    eligible: Bools
    alike: Ids
    summed: bool
    owners_known: bool


def fields_of(
    seen: ClientGradients, candidates: Candidates, entering: dict[str, Floats], scores: Floats, hits: Bools | None
) -> FieldGuess:
    """A guess from scores [k, n] of the gradients that were seen, or [1, n] of their sum."""
    clients = seen.participants
    shape = (len(clients), scores.shape[1])
    owners = candidates.clients
    eligible = (owners == clients[:, None]) | (owners < 0)
    every = None if hits is None else np.broadcast_to(hits, shape) & eligible
    return FieldGuess(
        seen.model.round,
        clients,
        np.broadcast_to(scores, shape),
        every,
        eligible,
        _directions(list(entering.values())),
        seen.summed,
        bool((owners >= 0).all()),
    )


def _directions(blocks: list[Floats]) -> Ids:
    """A number for the direction of each node's rows, int64 [n]: by their products with one random vector."""
    rng = np.random.default_rng(0)
    products = []
    for rows in blocks:
        length = np.linalg.norm(rows, axis=1)
        products.append(rows @ rng.normal(size=rows.shape[1]) / np.where(length > 0, length, 1))
    _, number = np.unique(np.round(np.stack(products, axis=1), 9), axis=0, return_inverse=True)
    return np.asarray(number.ravel(), dtype=np.int64)


def score_fields(guess: FieldGuess, truth: Truth) -> tuple[Measurement, ...]:
    """How well a guess tells the nodes of each client's gradient.

    Nodes whose row points the same way as one that entered are left out of those that did not. Figures: exact hits (the
    share of nodes that entered and are claimed, less that of others); areas under the curve for pairs of a client and a
    node, against all others and against those one hop outside; and, where nobody knows whose a node is, the area for
    nodes that are in anybody's gradient, and how often the client of such a node is named.
    """
    there = _members(guess, truth)
    twins = np.stack([np.isin(guess.alike, guess.alike[row]) for row in there]) & ~there
    adjacency = undirected(truth.edges, there.shape[1])
    near, degrees = np.asarray((adjacency @ there.T.astype(np.int64)).T) > 0, np.asarray(adjacency.sum(axis=1))
    asked = guess.eligible & ~twins
    found = [
        _hits(guess, there, asked),
        _pairs("nodes in a client's gradient", guess, degrees, there, asked, "others of its nodes"),
        _pairs(
            "nodes in it or one hop outside", guess, degrees, there, asked & (there | near), "those one hop outside"
        ),
    ]
    if not guess.owners_known and len(guess.clients) > 1:
        found += [_anybody(guess, there, twins), _attribution(guess, there)]
    return tuple(each for each in found if each is not None)


def _members(guess: FieldGuess, truth: Truth) -> Bools:
    """Bool [k, n]: which nodes entered whose gradient."""
    there = np.zeros(guess.scores.shape, dtype=np.bool_)
    for batch in truth.batches:
        if batch.round == guess.round:
            there[np.flatnonzero(guess.clients == batch.client)[:, None], batch.receptive] = True
    return there


def _hits(guess: FieldGuess, there: Bools, asked: Bools) -> Measurement | None:
    """The share of nodes that are claimed, less that of others, who are claimed wrongly."""
    if guess.hits is None:
        return None
    inside, outside = guess.hits[asked & there], guess.hits[asked & ~there]
    if not len(inside) or not len(outside):
        return None
    share, wrong = exact_proportion(int(inside.sum()), len(inside)), float(outside.mean())
    bounds = Interval(share.interval.low - wrong, share.interval.high - wrong)
    finding = (
        f"{int(inside.sum()):,} of {len(inside):,} nodes that gradients were taken over are found exactly, and "
        f"{int(outside.sum()):,} of {len(outside):,} others are claimed."
    )
    return Measurement("exact hits", share.value - wrong, bounds, share.n, 0.0, 0.0, 1.0, True, finding)


def _advantage(metric: str, found: tuple[float, Interval], units: int, prior: float, finding: str) -> Measurement:
    value, interval = found
    bounds = Interval(2 * interval.low - 1, 2 * interval.high - 1)
    return Measurement(metric, 2 * value - 1, bounds, units, 0.0, prior, 1.0, False, finding)


def _pairs(metric: str, guess: FieldGuess, degrees: Ids, there: Bools, asked: Bools, others: str) -> Measurement | None:
    """Twice the area under the curve less one, among the nodes of each client; the prior ranks nodes by degree."""
    found = area_within(guess.scores, there, asked)
    if found is None:
        return None
    usual = mean_area(np.broadcast_to(degrees.astype(np.float64), there.shape), there, asked)
    finding = (
        f"Nodes that a client's gradient was taken over and {others} are told apart with an area under the curve of "
        f"{found[0]:.3f}."
    )
    return _advantage(metric, found, int(asked.sum()), max(2 * usual - 1, 0.0), finding)


def _anybody(guess: FieldGuess, there: Bools, twins: Bools) -> Measurement | None:
    anyone = np.asarray(there.any(axis=0))
    nodes = np.flatnonzero(anyone | ~twins.any(axis=0))
    if anyone[nodes].all() or not anyone.any():
        return None
    best = np.where(guess.eligible, guess.scores, -np.inf).max(axis=0)
    what = "Nodes that anybody's gradient was taken over and others"
    return ranking_of_nodes("nodes in anybody's gradient", best[nodes], anyone[nodes], nodes, what)


def _attribution(guess: FieldGuess, there: Bools) -> Measurement | None:
    """How often the client with the best score is the right one, for nodes of one client's gradient alone."""
    nodes = np.flatnonzero(there.sum(axis=0) == 1)
    if not len(nodes):
        return None
    scores = guess.scores[:, nodes]
    ties = np.random.default_rng(0).random(scores.shape)
    named = np.lexsort((ties, scores), axis=0)[-1]
    right = there[named, nodes]
    share = clustered_proportion(right, nodes, seed=0)
    chance = 1 / len(guess.clients)
    finding = f"For {int(right.sum()):,} of {len(nodes):,} nodes the client whose gradient they are in is named."
    prior = float(there[:, nodes].sum(axis=1).max() / len(nodes))
    return Measurement("clients of nodes", share.value, share.interval, share.n, chance, prior, 1.0, True, finding)
