"""Which of two updates a client put into a secure sum: a likelihood-ratio test on the sum (Ngo et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Auxiliary, Card, InformedAttack, Material, Measurement, Reference
from fgl_secure.attacks.gradient_views import participants_of, update_sums
from fgl_secure.attacks.truth import Truth
from fgl_secure.attacks.update_population import Population
from fgl_secure.errors import InputError
from fgl_secure.runtime import PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import Interval, clustered_proportion

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class NamedUpdates:
    """What each client is believed to have put in, and what it is believed not to have.

    Attributes:
        rounds: int64 [k].
        clients: int64 [k], indices of silos.
        named: float64 [k, P], the update that is believed to be in the sum.
        other: float64 [k, P], the other one.
        expected: what share is right if others' updates are normal with the estimated covariance.
    """

    rounds: Ids
    clients: Ids
    named: Floats
    other: Floats
    expected: float


class SumMembership(InformedAttack[NamedUpdates]):
    """One test for each client and round, against everybody else's updates as noise."""

    @property
    def card(self) -> Card:
        """The server alone, with the sum."""
        return Card(
            "sum-membership",
            "the server tells which of two updates a client put into a secure sum",
            "Ngo et al. 2024, secure aggregation is not private against membership inference",
            Role.SERVER,
            Secret.SUMMAND,
            Material.UPDATES,
            Reference.FEDAVG_PAIRS,
            minimum=0.9,
            auxiliary="two updates of each client, of which it sent one, and a sample of what others send",
        )

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> NamedUpdates | None:  # noqa: ARG002  # needs no parameter
        """Tests every client in the sum of every round; None without sums over two clients or more."""
        known = auxiliary.suspects
        sums = {number: row for number, row in update_sums(view).items() if known is not None and number in known.pairs}
        if known is None or not sums:
            return None
        population = Population.of(known.population)
        found = []
        for number, row in sums.items():
            clients = participants_of(view, number)
            if len(clients) > 1:
                found.append(_tested(number, clients, row, known.pairs[number], population))
        return _joined(found) if found else None

    def score(self, guess: NamedUpdates, truth: Truth) -> tuple[Measurement, ...]:
        """Twice the share of right decisions less one, with a bootstrap over clients."""
        there = np.array([number in truth.updates for number in guess.rounds.tolist()], dtype=np.bool_)
        pairs = zip(guess.rounds[there].tolist(), guess.clients[there].tolist(), strict=True)
        actual = [truth.updates[number][client] for number, client in pairs]
        if not actual:
            return ()
        near, far = (np.linalg.norm(each[there] - np.stack(actual), axis=1) for each in (guess.named, guess.other))
        share = clustered_proportion(np.asarray(near < far), guess.clients[there], seed=0)
        finding = (
            f"{int((near < far).sum()):,} of {len(near):,} times the update in the sum is told from another one "
            f"({guess.expected:.3f} expected of normal updates)."
        )
        bounds = Interval(2 * share.interval.low - 1, 2 * share.interval.high - 1)
        value = 2 * share.value - 1
        return (Measurement("updates told apart", value, bounds, len(near), 0.0, 0.0, 1.0, False, finding),)


def _tested(number: int, clients: Ids, total: Floats, pairs: Floats, population: Population) -> NamedUpdates:
    if pairs.shape[1:] != (2, total.shape[1]) or len(pairs) <= clients.max():
        raise InputError(
            f"pairs of round {number} must be [clients, 2, {total.shape[1]}]; found shape {list(pairs.shape)}"
        )
    first, second = pairs[clients, 0], pairs[clients, 1]
    ratio = population.ratio(np.broadcast_to(total, first.shape), first, second, len(clients) - 1)
    chosen = (ratio > 0)[:, None]
    named, other = np.where(chosen, first, second), np.where(chosen, second, first)
    accuracy = float(population.accuracy(first, second, len(clients) - 1).mean())
    return NamedUpdates(np.full(len(clients), number), clients, named, other, accuracy)


def _joined(found: list[NamedUpdates]) -> NamedUpdates:
    return NamedUpdates(
        np.concatenate([each.rounds for each in found]),
        np.concatenate([each.clients for each in found]),
        np.concatenate([each.named for each in found]),
        np.concatenate([each.other for each in found]),
        float(np.average([each.expected for each in found], weights=[len(each.clients) for each in found])),
    )
