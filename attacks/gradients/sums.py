"""Updates of single clients from sums: which of two is in one, and solving those of many rounds.

The sums are P U, with P the 0/1 matrix of who took part when and U the updates, where these hardly change (Lam et al.,
ICML 2021). Client i's update is determined where its unit vector lies in the row space of P, that is where its leverage
is 1. With clients drawn at random that happens after about as many rounds as there are clients (So et al., AAAI 2023);
with fixed groups of T that always come together no leverage exceeds 1 / T.

A secure sum is not private by itself (Ngo et al. 2024): to an observer the others' updates are noise, about normal with
n - 1 times their covariance. The likelihood ratio then tells two updates apart with accuracy Phi(mu / 2), where mu^2 =
D^T ((n - 1) Sigma)^-1 D and D is their difference; for updates drawn like the others mu^2 is about 2 d / (n - 1). What
counts is the number of clients over the effective rank d of what they send.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy  # its statistics are loaded when they are first asked for

from fgl_secure.attacks.base import Attack, Card, InformedAttack, Measurement
from fgl_secure.attacks.gradients.knowledge import FEDAVG_PAIRS, FEDAVG_STATIC, UPDATES, update_sums
from fgl_secure.attacks.row_space import leverages, row_basis, solver
from fgl_secure.attacks.truth import UpdateTruth
from fgl_secure.attacks.updates import Suspects, participants_of
from fgl_secure.errors import InputError
from fgl_secure.runtime import Directory, PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import clustered_proportion, exact_proportion
from fgl_secure.typing import Floats, Ids


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """How one update is distributed."""

    mean: Floats  # float64 [P]
    # float64 [q, P], a row for each direction in which updates vary; (update - mean) @ whitening.T has independent
    # entries of variance 1
    whitening: Floats

    @classmethod
    def normal(cls, mean: Floats, covariance: Floats) -> Population:
        """A distribution that is known: mean [P], covariance [P, P], which must be invertible."""
        return cls(mean, _root_of_inverse(covariance))

    @classmethod
    def of(cls, updates: Floats, energy: float = 0.99) -> Population:
        """Estimates from a sample [N, P]: Ledoit and Wolf's covariance along the principal axes.

        Args:
            updates: at least 10, one a row.
            energy: the share of the variance that the axes have together, inside (0, 1]; with little of it left out,
                updates of other batches differ mostly in what is left out.

        Raises:
            InputError: for fewer updates, updates that are all alike, or an energy outside its range.
        """
        if updates.ndim != 2 or len(updates) < 10:
            raise InputError(f"updates must be [N, P] with N at least 10; found shape {list(updates.shape)}")
        if not 0 < energy <= 1:
            raise InputError(f"energy must be inside (0, 1]; found {energy}")
        from sklearn.covariance import ledoit_wolf  # noqa: PLC0415  # slow to import, needed for samples only

        mean = updates.mean(axis=0)
        _, singular, axes = np.linalg.svd(updates - mean, full_matrices=False)
        if not singular[0] > 0:
            raise InputError("updates must not be all alike")
        nonzero = singular > 1e-10 * singular[0]
        enough = np.cumsum(singular**2) / (singular**2).sum() < energy
        mask = nonzero & np.concatenate([[True], enough[:-1]])
        covariance, _ = ledoit_wolf((updates - mean) @ axes[mask].T, assume_centered=True)
        return cls(mean, _root_of_inverse(np.atleast_2d(covariance)) @ axes[mask])

    def ratio(self, total: Floats, first: Floats, second: Floats, others: int) -> Floats:
        """Log-likelihood ratios, float64 [k]: positive where a sum [k, P] rather has `first` [k, P] than `second`.

        Args:
            total: sums of one of the two and of `others` updates.
            first: one update.
            second: another.
            others: how many further updates are in each sum, at least 1.
        """
        self._check(others)
        rest = (total - others * self.mean - (first + second) / 2) @ self.whitening.T
        return np.asarray((rest * ((first - second) @ self.whitening.T)).sum(axis=1) / others)

    def accuracy(self, first: Floats, second: Floats, others: int) -> Floats:
        """What share of such decisions is right, float64 [k], if the population is as stated: Phi(mu / 2)."""
        self._check(others)
        apart = (first - second) @ self.whitening.T
        return np.asarray(scipy.stats.norm.cdf(np.linalg.norm(apart, axis=1) / (2 * np.sqrt(others))))

    def _check(self, others: int) -> None:
        if others < 1:
            raise InputError(f"others must be at least 1: a sum of one update is that update; found {others}")


def _root_of_inverse(covariance: Floats) -> Floats:
    """W with W.T @ W the inverse of a covariance."""
    return np.asarray(np.linalg.inv(np.linalg.cholesky(covariance)), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class _NamedUpdates:
    """What each client is believed to have put in, and what it is believed not to have."""

    rounds: Ids  # int64 [k]
    clients: Ids  # int64 [k], indices of silos
    named: Floats  # float64 [k, P], the update that is believed to be in the sum
    other: Floats  # float64 [k, P], the other one
    expected: float  # what share is right if others' updates are normal with the estimated covariance


class _SumMembership(InformedAttack[_NamedUpdates, Suspects, UpdateTruth]):
    """One test for each client and round, against every other party's updates as noise."""

    card = Card(
        "sum-membership",
        "the server tells which of two updates a client put into a secure sum",
        "Ngo et al. 2024, secure aggregation is not private against membership inference",
        Role.SERVER, Secret.SUMMAND, UPDATES, FEDAVG_PAIRS, minimum=0.9,
        auxiliary="two updates of each client, of which it sent one, and a sample of what others send",
        truth=UpdateTruth, knowledge=Suspects,
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: Suspects) -> _NamedUpdates | None:  # noqa: ARG002  # needs no parameter
        """Tests every client in the sum of every round; None without sums over two clients or more."""
        sums = {number: row for number, row in update_sums(view).items() if number in known.pairs}
        if not sums:
            return None
        population = Population.of(known.population)
        result = []
        for number, row in sums.items():
            clients = participants_of(view, number)
            if len(clients) > 1:
                result.append(_choose_likelier(number, clients, row, known.pairs[number], population))
        if not result:
            return None
        fields, sizes = ("rounds", "clients", "named", "other"), [len(item.clients) for item in result]
        rounds, clients, named_updates, other = (
            np.concatenate([getattr(item, name) for item in result]) for name in fields
        )
        expected = float(np.average([item.expected for item in result], weights=sizes))
        return _NamedUpdates(rounds, clients, named_updates, other, expected)

    def guess_without(self, guess: _NamedUpdates, known: Suspects, parties: Directory) -> _NamedUpdates:  # noqa: ARG002  # needs no numbering
        """Of each two the one that is more like the sample of what others send."""
        population = Population.of(known.population)
        near, other = (
            np.linalg.norm((item - population.mean) @ population.whitening.T, axis=1)
            for item in (guess.named, guess.other)
        )
        first = (near < other)[:, None]
        return replace(
            guess, named=np.where(first, guess.named, guess.other), other=np.where(first, guess.other, guess.named)
        )

    def score(self, guess: _NamedUpdates, truth: UpdateTruth) -> tuple[Measurement, ...]:
        known = np.array([number in truth.updates for number in guess.rounds.tolist()], dtype=np.bool_)
        pairs = zip(guess.rounds[known].tolist(), guess.clients[known].tolist(), strict=True)
        actual = [truth.updates[number][client] for number, client in pairs]
        if not actual:
            return ()
        near, other = (np.linalg.norm(item[known] - np.stack(actual), axis=1) for item in (guess.named, guess.other))
        share = clustered_proportion(np.asarray(near < other), guess.clients[known], seed=0)
        finding = (
            f"{int((near < other).sum()):,} of {len(near):,} times the update in the sum is told from another one "
            f"({guess.expected:.3f} expected of normal updates)."
        )
        return (Measurement.of_area("updates told apart", share.value, share.interval, share.n, finding),)


def _choose_likelier(number: int, clients: Ids, total: Floats, pairs: Floats, population: Population) -> _NamedUpdates:
    if pairs.shape[1:] != (2, total.shape[1]) or len(pairs) <= clients.max():
        raise InputError(
            f"pairs of round {number} must be [clients, 2, {total.shape[1]}]; found shape {list(pairs.shape)}"
        )
    first, second = pairs[clients, 0], pairs[clients, 1]
    ratio = population.ratio(np.broadcast_to(total, first.shape), first, second, len(clients) - 1)
    is_first = (ratio > 0)[:, None]
    likelier, other = np.where(is_first, first, second), np.where(is_first, second, first)
    accuracy = float(population.accuracy(first, second, len(clients) - 1).mean())
    return _NamedUpdates(np.full(len(clients), number), clients, likelier, other, accuracy)


LEAST_SUMS = 2
"""One sum of several updates alone is solved for none of them."""
RECOVERED = 1e-5
"""Up to this share of its length an update may be off and counts as recovered."""


@dataclass(frozen=True, slots=True, eq=False)
class _SolvedUpdates:
    """Updates of single clients, if they never change."""

    first: int  # the first round with a sum
    clients: Ids  # int64 [k], indices of silos that are exposed
    updates: Floats  # float64 [k, P]
    total: int  # how many clients there are
    leverage: float  # the largest; at most 1 / T under groups of T or more that always come together
    rounds: int  # how many sums they were solved from


class _RoundDisaggregation(Attack[_SolvedUpdates, UpdateTruth]):
    """Solves the sums of all rounds for the clients that are determined."""

    card = Card(
        "round-disaggregation",
        "the server solves the sums of several rounds for the updates of single clients",
        "Lam et al. (ICML 2021); So et al. (AAAI 2023)",
        Role.SERVER, Secret.SUMMAND, UPDATES, FEDAVG_STATIC, truth=UpdateTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> _SolvedUpdates | None:  # noqa: ARG002  # needs no parameter
        """Solves; None where there are not two sums or more."""
        sums = update_sums(view)
        clients = view.parties.counts.get(Role.SILO, 0)
        if len(sums) < LEAST_SUMS or not clients:
            return None
        matrix = np.zeros((len(sums), clients))
        for index, number in enumerate(sums):
            matrix[index, participants_of(view, number)] = 1
        solution, largest = solver(matrix), float(leverages(row_basis(matrix)).max(initial=0.0))
        updates = solution.weights @ np.concatenate(list(sums.values()))
        return _SolvedUpdates(min(sums), solution.unknowns, updates, clients, min(largest, 1.0), len(sums))

    def score(self, guess: _SolvedUpdates, truth: UpdateTruth) -> tuple[Measurement, ...]:
        first: dict[int, Floats] = {}  # by client, what it put in when it first took part
        for number in sorted(truth.updates):
            for client, row in enumerate(truth.updates[number]):
                if not np.isnan(row).any():
                    first.setdefault(client, np.asarray(row, dtype=np.float64))
        right, exposed, total = 0, len(guess.clients), guess.total
        for client, row in zip(guess.clients.tolist(), guess.updates, strict=True):
            actual = first.get(client)
            right += actual is not None and bool(np.linalg.norm(row - actual) <= RECOVERED * np.linalg.norm(actual))
        # who took part is known, and no sum is needed for the second figure
        result, open_ = exact_proportion(right, total), exact_proportion(exposed, total)
        solved = f"The updates of {right:,} of {total:,} clients are solved from the sums of {guess.rounds:,} rounds."
        shape = (
            f"Who took part when determines {exposed:,} of {total:,} clients' updates, if they stay the same; the "
            f"largest leverage is {guess.leverage:.2f}."
        )
        return (
            Measurement.of_share("updates solved", result, solved),
            Measurement.of_share("clients exposed", open_, shape, prior=open_.value, context=True),
        )


ATTACKS: tuple[Attack[Any, Any], ...] = (_SumMembership(), _RoundDisaggregation())
