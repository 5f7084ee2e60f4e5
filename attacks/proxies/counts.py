"""What one client's shares and class proxies say: its classes, its counts, and proxies of single nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fgl_secure.attacks.base import Attack, Card, DataSecret, InformedAttack, Measurement
from fgl_secure.attacks.proxies.fractions import whole_counts
from fgl_secure.attacks.proxies.knowledge import (
    FEDSPRAY,
    LAYOUT,
    PROXIES,
    ProxyKnowledge,
    close,
    proxy_rows,
    share_of_cells,
)
from fgl_secure.attacks.recovery import share_right
from fgl_secure.attacks.truth import ProxyTruth
from fgl_secure.runtime import Directory, PublicParameters, Role, View
from fgl_secure.statistics.metrics import clustered_advantage
from fgl_secure.typing import Flags, Floats, Ids


@dataclass(frozen=True, slots=True, eq=False)
class _FirstRound:
    """What is said of the first round that was seen."""

    round: int
    clients: Ids  # int64 [k], indices of silos; [SUM] where only the sum is seen
    present: Flags  # bool [k, C], which classes are there
    shares: Floats  # float64 [k, C], of labels
    counts: Ids  # int64 [k, C], the smallest whole numbers behind the shares; -1 where none fit, and of sums
    proxies: Floats  # float64 [k, C, d], class proxies; NaN where there are none

    @property
    def is_sum(self) -> bool:
        """Whether it speaks of all clients together."""
        return bool((self.clients < 0).any())

    def among(self, clients: int) -> Ids:
        """The clients that it speaks of, of so many."""
        return np.arange(clients) if self.is_sum else self.clients


class _FirstRoundAttack(InformedAttack[_FirstRound, ProxyKnowledge, ProxyTruth]):
    """What all attacks do with the first round that was seen."""

    def infer_with(self, view: View, public: PublicParameters, known: ProxyKnowledge) -> _FirstRound | None:
        rounds = proxy_rows(view, public, known)
        if not rounds:
            return None
        rows = rounds[0]
        counts = np.full(rows.shares.shape, -1, dtype=np.int64)
        for row in range(0 if rows.is_sum else len(counts)):
            result = whole_counts(rows, row)
            if result is not None:
                counts[row] = result
        return _FirstRound(rows.round, rows.clients, rows.present, rows.shares, counts, rows.proxies)


class _ProxyClasses(_FirstRoundAttack):
    """A share or a proxy that is not zero."""

    card = Card(
        "proxy-classes",
        "the server sees which classes a client has labelled nodes of: others come with zeros",
        "contradicts what FedSpray (KDD 2024, 4.5.1) expects of averages",
        Role.SERVER, DataSecret.CLASS_PRESENCE, PROXIES, FEDSPRAY, auxiliary=LAYOUT, truth=ProxyTruth,
        knowledge=ProxyKnowledge,
    )  # fmt: skip

    def guess_without(self, guess: _FirstRound, known: ProxyKnowledge, parties: Directory) -> _FirstRound:  # noqa: ARG002  # needs no numbering
        """Every class at every client that has labelled nodes."""
        sizes = known.sizes_of(guess.clients)
        some = np.ones((len(guess.clients), 1), dtype=np.bool_) if sizes is None else sizes[:, None] > 0
        return replace(guess, present=np.broadcast_to(some, guess.present.shape))

    def score(self, guess: _FirstRound, truth: ProxyTruth) -> tuple[Measurement, ...]:
        """The share of pairs of a client and a class that are right.

        From the sum a class that is there is guessed of every client. The prior is to know of each class whether most
        clients have it.
        """
        actual = truth.labelled[:, guess.round] > 0
        clients = guess.among(len(actual))
        right = np.broadcast_to(guess.present, (len(clients), actual.shape[1])) == actual[clients]
        has = actual.mean(axis=0)
        prior, missing = float(np.maximum(has, 1 - has).mean()), int((~guess.present).sum())
        what = (
            f"The sum tells that {missing:,} of {len(has):,} classes are labelled by nobody; guessing the others of "
            "every client is right {} times."
            if guess.is_sum
            else f"Whether a client has labelled nodes of a class is read right {{}} times; {missing:,} times there "
            "are none."
        )
        everywhere = np.ones(right.shape, dtype=np.bool_)
        return (share_of_cells("classes of clients", right, everywhere, what, random=0.5, prior=prior),)


class _ProxyCounts(_FirstRoundAttack):
    """Shares are fractions of one denominator, which is how many labelled nodes there are."""

    card = Card(
        "proxy-counts",
        "the server counts a client's labelled nodes of each class by the denominators of its shares",
        "rational reconstruction of the shares of FedSpray (KDD 2024), Eq. 15",
        Role.SERVER, DataSecret.LABEL_SHARES, PROXIES, FEDSPRAY, minimum=0.9, auxiliary=LAYOUT, truth=ProxyTruth,
        knowledge=ProxyKnowledge,
    )  # fmt: skip

    def guess_without(self, guess: _FirstRound, known: ProxyKnowledge, parties: Directory) -> _FirstRound:  # noqa: ARG002  # needs no numbering
        """As many labelled nodes of every class, where it is known how many a client has in all."""
        sizes, even = known.sizes_of(guess.clients), np.ones_like(guess.shares) / guess.shares.shape[1]
        counts = np.full_like(guess.counts, -1) if sizes is None else np.rint(sizes[:, None] * even).astype(np.int64)
        return replace(guess, shares=even, counts=counts)

    def score(self, guess: _FirstRound, truth: ProxyTruth) -> tuple[Measurement, ...]:
        """The share of clients whose most frequent label is read, and of counts, where there are any nodes, that are.

        From the sum all clients' most frequent label is guessed of each, and nothing is counted. The priors are to know
        of how many clients a label is the most frequent, and to guess the count that comes most often.
        """
        actual = truth.labelled[:, guess.round]
        clients = guess.among(len(actual))
        labels = _labels(np.broadcast_to(guess.shares, (len(clients), actual.shape[1])), actual[clients])
        if guess.is_sum:
            return labels
        return (*labels, *_counts(guess.counts, actual[clients]))


def _labels(shares: Floats, actual: Ids) -> tuple[Measurement, ...]:
    there = actual.any(axis=1)
    if not there.any():
        return ()
    most = actual[there].argmax(axis=1)
    right, prior = shares[there].argmax(axis=1) == most, float(np.bincount(most).max() / len(most))
    what = "The most frequent label is read right of {} clients."
    return (share_right("most frequent labels", right, None, what, random=1 / actual.shape[1], prior=prior),)


def _counts(counts: Ids, actual: Ids) -> tuple[Measurement, ...]:
    there = actual > 0
    if not there.any():
        return ()
    values = np.bincount(actual[there])
    random, prior = 1 / (len(values) - 1), float(values.max() / values.sum())
    what = "How many labelled nodes of a class a client has is read right {} times."
    return (share_of_cells("labelled nodes of a class", counts == actual, there, what, random=random, prior=prior),)


class _ProxySingletons(_FirstRoundAttack):
    """Divides by the share, and counts."""

    card = Card(
        "proxy-singletons",
        "the server reads the structure proxy of a node that is its client's only labelled one of a class",
        "contradicts FedSpray (KDD 2024), 4.5.1: class proxies are averages, which are irreversible",
        Role.SERVER, DataSecret.STRUCTURE_FEATURE, PROXIES, FEDSPRAY, minimum=0.9, auxiliary=LAYOUT, truth=ProxyTruth,
        knowledge=ProxyKnowledge,
    )  # fmt: skip

    def guess_without(self, guess: _FirstRound, known: ProxyKnowledge, parties: Directory) -> _FirstRound:  # noqa: ARG002  # needs no numbering
        """Single nodes where a client has about one labelled node a class, and no proxy of any."""
        sizes, classes = known.sizes_of(guess.clients), guess.counts.shape[1]
        about = np.zeros(1) if sizes is None else np.rint(sizes / classes)
        counts = np.broadcast_to(about[:, None], guess.counts.shape).astype(np.int64)
        return replace(guess, counts=counts, proxies=np.full_like(guess.proxies, np.nan))

    def score(self, guess: _FirstRound, truth: ProxyTruth) -> tuple[Measurement, ...]:
        """How well single nodes are told from several, and the share of single nodes' proxies that are read.

        From the sum nothing is told apart, and each class's mean over all clients is tried. Nothing is measured where
        nobody has a single node.
        """
        counts, proxies = truth.labelled[:, guess.round], truth.singles[:, guess.round]
        clients = guess.among(len(counts))
        single, several = counts[clients] == 1, counts[clients] > 1
        if not single.any():
            return ()
        read = np.broadcast_to(guess.proxies, (len(clients), *guess.proxies.shape[1:]))
        whence = "off the sum, where nobody else has the class" if guess.is_sum else "exactly"
        what = f"The proxies of {{}} nodes that are single in their class are read {whence}."
        recovered = share_of_cells("proxies of single nodes", close(read, proxies[clients]), single, what)
        return (recovered,) if guess.is_sum else (recovered, _measure_singles(guess.counts == 1, single, several))


def _measure_singles(claimed: Flags, single: Flags, several: Flags) -> Measurement:
    hits, alarms = int((claimed & single).sum()), int((claimed & several).sum())
    there = single | several
    client = np.broadcast_to(np.arange(len(single))[:, None], single.shape)
    result = clustered_advantage(claimed[there], single[there], client[there], seed=0)
    finding = (
        f"{hits:,} of {int(single.sum()):,} single nodes are recognised by their share, and {alarms:,} of "
        f"{int(several.sum()):,} larger classes are taken for one."
    )
    return Measurement.of_advantage("single nodes told", result, alarms / max(int(several.sum()), 1), finding)


ATTACKS: tuple[Attack[Any, Any], ...] = (_ProxyClasses(), _ProxyCounts(), _ProxySingletons())
