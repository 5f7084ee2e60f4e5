"""Which client of FedVN an unsigned summand is from, by how it moves the virtual nodes.

An anonymising channel takes the name from a summand and leaves what it says. Clients differ in what their graphs look
like (that is the setting of FedVN), so each pulls the virtual nodes its own way, round after round. What a summand
differs by from the mean of its round is compared with what those of named summands differed by in the rounds before,
and summands are assigned to clients so that the cosines sum to most.

How often each label occurs, at one client of FedVN or at all together.

Label shares from what local training does to the bias of the last layer.

The gradient of that bias is the mean of soft-max p less one-hot y over a batch. So T steps of gradient descent at rate
r change it by r T (s - p), where s are the shares of the labels and p the mean predictions along the way, and s is the
change divided by r T, plus p; exactly so where batches are full. See `GradientLabels` for single gradients (iDLG, Zhao
et al. 2020; LLG, Wainakh et al., PoPETs 2022).

No party tells the server p. With rows h that enter the last layer its weight changes by about the change of the bias
times the mean of h, row by row, and p is about the soft-max at that mean. Gradients are taken at the T states ahead of
the steps, which lie (T - 1) / (2 T) of the way from what was handed out to what came back, on average.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import softmax

from fgl_secure.attacks.base import Attack, Card, DataSecret, InformedAttack, Measurement
from fgl_secure.attacks.recovery import share_right
from fgl_secure.attacks.truth import VirtualNodeTruth
from fgl_secure.attacks.virtual_nodes.knowledge import (
    FEDVN,
    FEDVN_SKEWED,
    VIRTUAL_NODES,
    LocalWork,
    RoundStates,
    VirtualSlices,
    client_states,
    mean_states,
)
from fgl_secure.runtime import PublicParameters, Role, View
from fgl_secure.statistics.metrics import Interval, clustered_proportion, mean_interval
from fgl_secure.typing import Floats, Ids


class LinkKey(StrEnum):
    """What summands are compared by."""

    NODES = "virtual nodes"
    MODEL = "the model"
    SCORES = "score vectors"

    def of(self, layout: VirtualSlices) -> slice:
        """Where it lies in a summand."""
        return {LinkKey.NODES: layout.nodes, LinkKey.MODEL: layout.model, LinkKey.SCORES: layout.score_vector}[self]

    @property
    def metric(self) -> str:
        """What the figure is called."""
        return f"clients told by {self}"


@dataclass(frozen=True, slots=True, eq=False)
class _LinkedSummands:
    """Which client each summand is believed to be from."""

    rounds: Ids  # int64 [m]
    # int64 [m], the place of the summand in the record, which names it for scoring and takes no part in the guess
    places: Ids
    names: Mapping[LinkKey, Ids]  # int64 [m], index of a silo, by what summands are compared by
    among: Ids  # int64 [m], how many summands there were to tell apart in that round


class _VirtualNodeClients(InformedAttack[_LinkedSummands, VirtualSlices, VirtualNodeTruth]):
    """Names for summands of one round by those of the round before."""

    card = Card(
        "virtual-node-clients",
        "the server tells by virtual nodes which client a summand without a name is from",
        "FedVN (AAAI 2025) leaves open what virtual nodes tell; linking as in Narayanan and Shmatikov (2008)",
        Role.SERVER, DataSecret.CLIENT_IDENTITY, VIRTUAL_NODES, FEDVN, minimum=0.8,
        auxiliary="the parts of a summand, and who sent those of the rounds before", truth=VirtualNodeTruth,
        knowledge=VirtualSlices, tells_nothing="where the parts of a summand lie doesn't say whose it is",
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: VirtualSlices) -> _LinkedSummands | None:  # noqa: ARG002  # needs no parameter
        """Links each round to those before; None without two rounds of the same clients, at least two."""
        if not known.virtual_nodes:
            return None
        rounds = _alike(client_states(view, known))
        if len(rounds) < 2:  # one to link, and one with names
            return None
        parts = tuple(part for part in LinkKey if part is not LinkKey.SCORES or known.scores)
        names = {part: np.concatenate(_link_rounds(rounds, part.of(known))) for part in parts}
        later, size = rounds[1:], len(rounds[0].clients)
        numbers = np.repeat([item.number for item in later], size)
        return _LinkedSummands(
            numbers, np.concatenate([item.clients for item in later]), names, np.full_like(numbers, size)
        )

    def score(self, guess: _LinkedSummands, truth: VirtualNodeTruth) -> tuple[Measurement, ...]:
        """The share of right names less that of names dealt at random, with a bootstrap over rounds."""
        actual = truth.clients[guess.places]
        return tuple(_measure_links(part, names == actual, guess) for part, names in guess.names.items())


def _link_rounds(rounds: tuple[RoundStates, ...], part: slice) -> list[Ids]:
    """For each round but the first the names of its summands."""
    named_directions, result = np.zeros_like(directions(rounds[0].states[:, part])), []
    for before, now in pairwise(rounds):
        named_directions = named_directions + directions(before.states[:, part])
        result.append(before.clients[links(directions(now.states[:, part]), named_directions, now.number)])
    return result


def links(unnamed: Floats, named_rows: Floats, seed: int) -> Ids:
    """For each row the one among as many named rows that it goes best with, int64 [k].

    Args:
        unnamed: float64 [k, d]; shuffled first, so that where a row lies in the record decides nothing.
        named_rows: float64 [k, d].
        seed: of the shuffle.
    """
    order = np.random.default_rng(seed).permutation(len(unnamed))
    lengths = np.maximum(np.linalg.norm(named_rows, axis=1), np.finfo(np.float64).tiny)
    rows, columns = linear_sum_assignment(unnamed[order] @ named_rows.T / lengths, maximize=True)
    result = np.empty(len(order), dtype=np.int64)
    result[order[rows]] = columns
    return result


def directions(states: Floats) -> Floats:
    """What states [k, d] differ by from their mean, at length 1; zeros where they don't."""
    apart = states - states.mean(axis=0)
    lengths = np.linalg.norm(apart, axis=1, keepdims=True)
    return np.asarray(np.divide(apart, lengths, out=np.zeros_like(apart), where=lengths > 0))


def _alike(rounds: tuple[RoundStates, ...]) -> tuple[RoundStates, ...]:
    """The rounds with the same clients as the first, at least two clients, each round's in ascending order."""
    result = []
    for item in rounds:
        order = np.argsort(item.clients, kind="stable")
        if len(order) > 1 and np.array_equal(item.clients[order], np.sort(rounds[0].clients)):
            result.append(replace(item, clients=item.clients[order], states=item.states[order]))
    return tuple(result)


def _measure_links(part: LinkKey, right: NDArray[np.bool_], guess: _LinkedSummands) -> Measurement:
    share = clustered_proportion(right, guess.rounds, seed=0)
    chance = float((1 / guess.among).mean())
    finding = (
        f"Of {int(right.sum()):,} of {len(right):,} summands the client is told by {part} ({chance:.3f} by chance)."
    )
    bounds = Interval(share.interval.low - chance, share.interval.high - chance)
    value = share.value - chance
    return Measurement(part.metric, value, bounds, len(right), 0.0, 0.0, 1 - chance, False, finding)


RIDGE = 1e-3
"""Changes of the bias by about the root of this, for a rate and a number of steps of 1, are too small to divide by."""


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What local training did to what a server handed out."""

    sent: Floats  # float64 [P + M width], what the server handed out
    state: Floats  # float64 [P + M width], what came back, or its mean over clients
    steps: int  # how many steps that took

    def by_step(self, work: LocalWork) -> Floats:
        """The change for a rate and a number of steps of 1."""
        return (self.state - self.sent) / (work.rate * self.steps)

    @property
    def midway(self) -> Floats:
        """The mean of the states at which gradients were taken, if each step was the same."""
        return self.sent + (self.state - self.sent) * (self.steps - 1) / (2 * self.steps)


def label_shares(changes: Sequence[Change], layout: VirtualSlices, work: LocalWork) -> Floats:
    """How often each label occurs behind each of some changes, float64 [m, C] of sum 1; below 0 where p is wrong.

    What enters the last layer is taken to have one mean for all of them.
    """
    moved = np.stack([item.by_step(work) for item in changes])
    entering, shares = _mean_entering(moved, layout), []
    for row, item in zip(moved, changes, strict=True):
        weight = item.midway[layout.head_weight].reshape(layout.classes, layout.hidden)
        shares.append(row[layout.head_bias] + softmax(weight @ entering + item.midway[layout.head_bias]))
    return np.stack(shares)


def _mean_entering(moved: Floats, layout: VirtualSlices) -> Floats:
    """The mean of the rows that enter the last layer, float64 [hidden], by how its weight and its bias moved.

    A weight moves by about the change of the bias times that mean. This is the least-squares solution over all rows of
    float64 [m, P + M width], drawn towards zero where biases hardly moved.
    """
    bias = moved[:, layout.head_bias]
    weight = moved[:, layout.head_weight].reshape(len(moved), layout.classes, layout.hidden)
    return np.asarray(np.einsum("mc,mch->h", bias, weight) / (np.square(bias).sum() + RIDGE))


def _nearest_shares(values: Floats) -> Floats:
    """The point of the simplex that is nearest to float64 [C]: all entries lowered alike, and none below zero."""
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - 1) / np.arange(1, len(values) + 1)
    remaining = np.flatnonzero(descending > excess)[-1]
    return np.asarray(np.maximum(values - excess[remaining], 0.0))


def _distance(first: Floats, second: Floats) -> Floats:
    """The total-variation distance of distributions [..., C]."""
    return np.asarray(np.abs(first - second).sum(axis=-1) / 2)


def _mean_interval(gains: Floats) -> Interval:
    """Student's 95 % interval of the mean of gains in [-1, 1], within these bounds; all of them for a single gain."""
    if len(gains) == 1:
        return Interval(-1.0, 1.0)
    interval = mean_interval(gains)
    return Interval(max(interval.low, -1.0), min(interval.high, 1.0))


SHARES = "label shares, total variation"
COMMONEST = "commonest label"

ALIKE = 0.05
"""Clients whose label shares are no further than this from those of all have next to nothing to be found out."""


@dataclass(frozen=True, slots=True, eq=False)
class _ShareGuess:
    """How often each label is believed to occur."""

    clients: Ids  # int64 [k], indices of silos
    shares: Floats  # float64 [k, C]
    rounds: int  # most rounds that one of them was seen in


class _VirtualNodeLabels(InformedAttack[_ShareGuess, VirtualSlices, VirtualNodeTruth]):
    """What each client did to the last bias, less what predictions add to that."""

    card = Card(
        "virtual-node-labels",
        "the server tells from a client's model how often each label occurs there",
        "iDLG (Zhao et al. 2020) and LLG (PoPETs 2022) on the model of FedVN (AAAI 2025), as EC-LDA (2025) asks",
        Role.SERVER, DataSecret.LABEL_SHARES, VIRTUAL_NODES, FEDVN_SKEWED, minimum=0.8,
        auxiliary="the model that it hands out, and how clients train it", truth=VirtualNodeTruth,
        knowledge=VirtualSlices, tells_nothing="the model that is handed out first has seen no label",
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: VirtualSlices) -> _ShareGuess | None:  # noqa: ARG002  # needs no parameter
        """Estimates, and takes the mean over the rounds; None where targets are no labels."""
        if known.work is None or known.classes < 2:
            return None
        clients, changes = _changes(view, known, known.work)
        if not changes:
            return None
        shares = label_shares(changes, known, known.work)
        result = [_nearest_shares(shares[clients == client].mean(axis=0)) for client in np.unique(clients)]
        return _ShareGuess(np.unique(clients), np.stack(result), int(np.bincount(clients).max()))

    def score(self, guess: _ShareGuess, truth: VirtualNodeTruth) -> tuple[Measurement, ...]:
        if truth.label_shares is None or not len(guess.clients):
            return ()
        actual = truth.label_shares
        return (_of_shares(guess, actual), _of_commonest(guess, actual))


def _changes(view: View, layout: VirtualSlices, work: LocalWork) -> tuple[Ids, list[Change]]:
    """What each client did in each round of which the server knows what it had handed out, and which client it was."""
    clients, changes = [], []
    for states in client_states(view, layout):
        if states.sent is None:
            continue
        for client, state, weight in zip(states.clients.tolist(), states.states, states.weights.tolist(), strict=True):
            clients.append(client)
            changes.append(Change(states.sent, state[: layout.entries], work.steps(weight)))
    return np.array(clients, dtype=np.int64), changes


def _of_shares(guess: _ShareGuess, actual: Floats) -> Measurement:
    """Against the better of even shares and of the mean over all clients."""
    actual_shares = actual[guess.clients]
    even = _distance(actual_shares, np.full(actual.shape[1], 1 / actual.shape[1]))
    usual = _distance(actual_shares, actual.mean(axis=0))
    without = even if even.mean() < usual.mean() else usual
    error = _distance(actual_shares, guess.shares)
    gain = without - error
    nothing = ", so there is next to nothing to find" if without.mean() <= ALIKE else ""
    finding = (
        f"The label shares of {len(error):,} clients are told to {error.mean():.3f} in total variation; a guess of the "
        f"same for all is {without.mean():.3f} off{nothing}."
    )
    value, bounds = float(gain.mean()), _mean_interval(gain)
    return Measurement(SHARES, value, bounds, len(actual_shares), 0.0, 0.0, float(without.mean()), False, finding)


def _of_commonest(guess: _ShareGuess, actual: Floats) -> Measurement:
    """A client with several commonest labels counts whichever of them is named."""
    commonest = actual == actual.max(axis=1, keepdims=True)
    right, guessed_labels = commonest[guess.clients, guess.shares.argmax(axis=1)], commonest[guess.clients]
    prior, random = float(guessed_labels.mean(axis=0).max()), float(guessed_labels.mean())
    text = "Of {} clients the commonest label is named."
    return share_right(COMMONEST, right, None, text, random=random, prior=prior)


METRIC = "label shares of all, total variation"
DRAWS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class _PopulationGuess:
    """How often each label is believed to occur at all clients together."""

    shares: Floats  # float64 [rounds, C], by what the sum of each round says


class _VirtualNodePopulation(InformedAttack[_PopulationGuess, VirtualSlices, VirtualNodeTruth]):
    """What all clients together did to the last bias, less what predictions add to that."""

    card = Card(
        "virtual-node-population",
        "the server tells from the sum of the models how often each label occurs at all clients together",
        "LLG (Wainakh et al., PoPETs 2022) on the mean model of FedVN (AAAI 2025)",
        Role.SERVER, DataSecret.LABEL, VIRTUAL_NODES, FEDVN_SKEWED, minimum=0.7,
        auxiliary="the model that it hands out, and how clients train it", truth=VirtualNodeTruth,
        knowledge=VirtualSlices, tells_nothing="the model that is handed out first has seen no label",
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: VirtualSlices) -> _PopulationGuess | None:  # noqa: ARG002  # needs no parameter
        """Estimates round by round, as of one client of mean weight; None where targets are no labels."""
        if known.work is None or known.classes < 2:
            return None
        changes = [
            Change(mean.sent, mean.state, known.work.steps(mean.weight))
            for mean in mean_states(view, known)
            if mean.sent is not None
        ]
        result = [_nearest_shares(label_shares([change], known, known.work)[0]) for change in changes]
        return _PopulationGuess(np.stack(result)) if result else None

    def score(self, guess: _PopulationGuess, truth: VirtualNodeTruth) -> tuple[Measurement, ...]:
        if truth.population is None:
            return ()
        actual = truth.population
        even = float(_distance(actual, np.full(len(actual), 1 / len(actual))))
        error = float(_distance(guess.shares.mean(axis=0), actual))
        nothing = ", so there is next to nothing to find" if even <= ALIKE else ""
        finding = (
            f"The label shares of all clients together are told to {error:.3f} in total variation; even shares are "
            f"{even:.3f} off{nothing}."
        )
        rest = (len(guess.shares), 0.0, 0.0, even, False, finding)
        return (Measurement(METRIC, even - error, _bounds(guess.shares, actual, even), *rest),)


def _bounds(shares: Floats, actual: Floats, even: float) -> Interval:
    """The percentile bootstrap over rounds of what their mean gains; everything for a single round."""
    rounds = len(shares)
    if rounds == 1:
        return Interval(-1.0, 1.0)
    resamples = np.random.default_rng(0).integers(rounds, size=(DRAWS, rounds))
    gains = even - _distance(shares[resamples].mean(axis=1), actual)
    low, high = np.percentile(gains, (2.5, 97.5))
    value = even - float(_distance(shares.mean(axis=0), actual))  # means of fewer rounds lie further off
    return Interval(min(float(low), value), max(float(high), value))


ATTACKS: tuple[Attack[Any, Any], ...] = (_VirtualNodeLabels(), _VirtualNodePopulation(), _VirtualNodeClients())
