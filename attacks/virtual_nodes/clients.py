"""Which client of FedVN an unsigned summand is from, by how it moves the virtual nodes.

An anonymising channel takes the name from a summand and leaves what it says. Clients differ in what their graphs look
like (that is the setting of FedVN), so each pulls the virtual nodes its own way, round after round. What a summand
differs by from the mean of its round is compared with what those of named summands differed by in the rounds before,
and summands are assigned to clients so that the cosines sum to most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from fgl_secure.attacks.base import Card, InformedAttack, Measurement
from fgl_secure.attacks.virtual_nodes.knowledge import FEDVN, VIRTUAL_NODES, RoundStates, VirtualSlices, client_states
from fgl_secure.attacks.virtual_nodes.truth import VirtualNodeTruth
from fgl_secure.runtime import PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import Interval, clustered_proportion
from fgl_secure.typing import Floats, Ids


class Part(StrEnum):
    """What summands are compared by."""

    NODES = "virtual nodes"
    MODEL = "the model"
    SCORES = "score vectors"

    def of(self, layout: VirtualSlices) -> slice:
        """Where it lies in a summand."""
        return {Part.NODES: layout.nodes, Part.MODEL: layout.model, Part.SCORES: layout.score_vector}[self]

    @property
    def metric(self) -> str:
        """What the figure is called."""
        return f"clients told by {self}"


@dataclass(frozen=True, slots=True, eq=False)
class LinkedSummands:
    """Which client each summand is believed to be from.

    Attributes:
        rounds: int64 [m].
        places: int64 [m], the place of the summand in the record, which names it for scoring and takes no part in the
            guess.
        names: int64 [m], index of a silo, by what summands are compared by.
        among: int64 [m], how many summands there were to tell apart in that round.
    """

    rounds: Ids
    places: Ids
    names: Mapping[Part, Ids]
    among: Ids


class VirtualNodeClients(InformedAttack[LinkedSummands, VirtualSlices, VirtualNodeTruth]):
    """Names for summands of one round by those of the round before."""

    card = Card(
        "virtual-node-clients",
        "the server tells by virtual nodes which client a summand without a name is from",
        "FedVN (AAAI 2025) leaves open what virtual nodes tell; linking as in Narayanan and Shmatikov (2008)",
        Role.SERVER, Secret.CLIENT_IDENTITY, VIRTUAL_NODES, FEDVN, minimum=0.8,
        auxiliary="the parts of a summand, and who sent those of the rounds before", truth=VirtualNodeTruth,
        knowledge=VirtualSlices, tells_nothing="where the parts of a summand lie doesn't say whose it is",
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: VirtualSlices) -> LinkedSummands | None:  # noqa: ARG002  # needs no parameter
        """Links each round to those before; None without two rounds of the same clients, at least two."""
        if not known.virtual_nodes:
            return None
        rounds = _alike(client_states(view, known))
        if len(rounds) < 2:  # one to link, and one with names
            return None
        parts = tuple(part for part in Part if part is not Part.SCORES or known.scores)
        names = {part: np.concatenate(_linked(rounds, part.of(known))) for part in parts}
        later, size = rounds[1:], len(rounds[0].clients)
        numbers = np.repeat([each.number for each in later], size)
        return LinkedSummands(
            numbers, np.concatenate([each.clients for each in later]), names, np.full_like(numbers, size)
        )

    def score(self, guess: LinkedSummands, truth: VirtualNodeTruth) -> tuple[Measurement, ...]:
        """The share of right names less that of names dealt at random, with a bootstrap over rounds."""
        actual = truth.clients[guess.places]
        return tuple(_told(part, names == actual, guess) for part, names in guess.names.items())


def _linked(rounds: tuple[RoundStates, ...], part: slice) -> list[Ids]:
    """For each round but the first the names of its summands."""
    named, found = np.zeros_like(directions(rounds[0].states[:, part])), []
    for before, now in pairwise(rounds):
        named = named + directions(before.states[:, part])
        found.append(before.clients[links(directions(now.states[:, part]), named, now.number)])
    return found


def links(unnamed: Floats, named: Floats, seed: int) -> Ids:
    """For each row the one among as many named rows that it goes best with, int64 [k].

    Args:
        unnamed: float64 [k, d]; shuffled first, so that where a row lies in the record decides nothing.
        named: float64 [k, d].
        seed: of the shuffle.
    """
    order = np.random.default_rng(seed).permutation(len(unnamed))
    lengths = np.maximum(np.linalg.norm(named, axis=1), np.finfo(np.float64).tiny)
    rows, columns = linear_sum_assignment(unnamed[order] @ named.T / lengths, maximize=True)
    found = np.empty(len(order), dtype=np.int64)
    found[order[rows]] = columns
    return found


def directions(states: Floats) -> Floats:
    """What states [k, d] differ by from their mean, at length 1; zeros where they don't."""
    apart = states - states.mean(axis=0)
    lengths = np.linalg.norm(apart, axis=1, keepdims=True)
    return np.asarray(np.divide(apart, lengths, out=np.zeros_like(apart), where=lengths > 0))


def _alike(rounds: tuple[RoundStates, ...]) -> tuple[RoundStates, ...]:
    """The rounds with the same clients as the first, at least two clients, each round's in ascending order."""
    found = []
    for each in rounds:
        order = np.argsort(each.clients, kind="stable")
        if len(order) > 1 and np.array_equal(each.clients[order], np.sort(rounds[0].clients)):
            found.append(replace(each, clients=each.clients[order], states=each.states[order]))
    return tuple(found)


def _told(part: Part, right: NDArray[np.bool_], guess: LinkedSummands) -> Measurement:
    share = clustered_proportion(right, guess.rounds, seed=0)
    chance = float((1 / guess.among).mean())
    finding = (
        f"Of {int(right.sum()):,} of {len(right):,} summands the client is told by {part} ({chance:.3f} by chance)."
    )
    bounds = Interval(share.interval.low - chance, share.interval.high - chance)
    value = share.value - chance
    return Measurement(part.metric, value, bounds, len(right), 0.0, 0.0, 1 - chance, False, finding)
