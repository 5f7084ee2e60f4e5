"""From sums of proxies to what clients contributed: counts by class, single nodes, and what one more node changes.

The proxy of a node that a client adds between two rounds: n times the new mean less n - 1 times the old one. That is
exact while the other nodes' proxies stay as they are, and off by n - 1 times what these move by otherwise. Where the
server only has sums, what is known of the client that adds the node is how the sums change, and the mean proxy of all
clients stands for the client's own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from fgl_secure.attacks.base import Attack, Card, DataSecret, InformedAttack, Measurement
from fgl_secure.attacks.proxies.fractions import MOST, counts_from_change, whole_numbers
from fgl_secure.attacks.proxies.knowledge import (
    FEDSPRAY,
    FEDSPRAY_ROUNDS,
    LAYOUT,
    PROXIES,
    ProxyKnowledge,
    ProxyRows,
    close,
    proxy_rows,
    share_of_cells,
)
from fgl_secure.attacks.recovery import share_right
from fgl_secure.attacks.truth import ProxyTruth
from fgl_secure.attacks.updates import SUM, Suspects
from fgl_secure.runtime import Circumstance, Directory, PublicParameters, Role, View
from fgl_secure.statistics.metrics import advantage, clustered_advantage, exact_proportion
from fgl_secure.typing import Flags, Floats, Ids


@dataclass(frozen=True, slots=True, eq=False)
class Addition:
    """One labelled node more."""

    round: int  # the first round with it
    client: int  # index of the silo; SUM where it is one of all
    counts: Ids  # int64 [C], the client's labelled nodes of each class before
    kind: int  # the node's class
    proxy: Floats  # float64 [d], what its proxy is if the others' have not changed


def _additions(rounds: tuple[ProxyRows, ...]) -> tuple[Addition, ...]:
    """What is found between one round and the next: of single clients where their rows are seen, else of the sum."""
    additions: list[Addition] = []
    for before, after in pairwise(rounds):
        if after.round != before.round + 1:
            continue
        if before.is_sum or after.is_sum:
            additions += _of_sum(before, after)
        else:
            additions += _of_clients(before, after)
    return tuple(additions)


def _adders(truth: ProxyTruth) -> tuple[tuple[int, int], ...]:
    """Which clients do have a labelled node more than in the round before: pairs of a round and a client."""
    more = truth.sizes[:, 1:] == truth.sizes[:, :-1] + 1
    return tuple((int(number) + 1, int(client)) for number, client in np.argwhere(more.T))


def _whole_counts(rows: ProxyRows, row: int) -> Ids | None:
    """The numbers behind one client's shares, int64 [C]: zeros without labelled nodes, None where none fit."""
    shares = rows.shares[row]
    return whole_numbers(shares, rows.rounding + rows.unit) if shares.any() else np.zeros(len(shares), dtype=np.int64)


def _one_more(before: Ids, after: Ids, most: int = MOST) -> tuple[Ids, int] | None:
    """How many nodes of each class there were before one was added, and of which class that one is.

    Shares tell counts except for a common divisor; that one node was added also tells the divisor.

    Args:
        before: int64 [C], smallest whole numbers behind the shares before; zeros where there were none.
        after: the same afterwards.
        most: the largest sum of counts that is tried.

    Returns:
        Counts int64 [C] before, the smallest that explain both, and the class; None where nothing does.
    """
    most_times = most // int(before.sum()) if before.any() else 1
    for times in range(1, most_times + 1):
        old = times * before
        total = int(old.sum()) + 1
        if total % int(after.sum()):
            continue
        change = after * (total // int(after.sum())) - old
        if (change >= 0).all():  # they add up to one
            return old, int(change.argmax())
    return None


def _of_clients(before: ProxyRows, after: ProxyRows) -> Iterator[Addition]:
    later = {client: row for row, client in enumerate(after.clients.tolist())}
    for row, client in enumerate(before.clients.tolist()):
        if client not in later or np.array_equal(before.shares[row], after.shares[later[client]]):
            continue
        old, new = (_whole_counts(*item) for item in ((before, row), (after, later[client])))
        result = None if old is None or new is None else _one_more(old, new)
        if result is None:
            continue
        counts, kind = result
        count = int(counts[kind])
        mean = before.proxies[row, kind] if count else 0.0
        proxy = (count + 1) * after.proxies[later[client], kind] - count * mean
        yield Addition(after.round, client, counts, kind, proxy)


def _joined_on_grid(change: Floats, rounding: float, unit: float) -> tuple[Ids, int] | None:
    """The same where clients round their shares to multiples of a unit, by largest remainders.

    Counts are guessed from the change as if it were exact, and kept if rounding their shares again gives that change. A
    guess may miss the true counts, and others may round to the same change.

    Args:
        change: float64 [C], the sum of shares after less that before.
        rounding: what each entry is off by at most, for the numbers that sums work on.
        unit: what shares are multiples of.

    Returns:
        Counts int64 [C] before, the smallest guess that fits, and the class that was added; None where nothing fits.
    """
    if not (np.abs(change) > rounding).any():
        return None
    kind, grid = int(change.argmax()), round(1 / unit)
    if (np.abs(change - np.eye(len(change))[kind]) <= rounding).all():
        return np.zeros(len(change), dtype=np.int64), kind
    for m in range(1, int(np.sqrt(grid)) + 1):
        counts = np.rint(m * (np.eye(len(change))[kind] - (m + 1) * change)).astype(np.int64)
        if (counts < 0).any() or counts.sum() != m:
            continue
        more = counts + np.eye(len(change), dtype=np.int64)[kind]
        if (np.abs(_round_shares(more, grid) - _round_shares(counts, grid) - change) <= rounding).all():
            return counts, kind
    return None


def _round_shares(counts: Ids, grid: int) -> Floats:
    """Shares float64 [C] as clients round them."""
    units, lost = np.divmod(counts * grid, counts.sum())
    units[np.argsort(-lost, kind="stable")[: grid - int(units.sum())]] += 1
    return np.asarray(units / grid)


def _of_sum(before: ProxyRows, after: ProxyRows) -> Iterator[Addition]:
    """With m nodes before, the sum of products changes by x / (m + 1) - c_j s_j / (m (m + 1)), where x is what is new.

    The client's own s_j is not known; the mean over clients stands for it.
    """
    if not (before.is_sum and after.is_sum):
        return
    change, rounding = after.shares[0] - before.shares[0], before.rounding + after.rounding
    result = _joined_on_grid(change, rounding, after.unit) if after.unit else counts_from_change(change, rounding)
    if result is None:
        return
    counts, kind = result
    labelled, count = int(counts.sum()), int(counts[kind])
    proxy = (labelled + 1) * (after.products[0, kind] - before.products[0, kind])
    if count:
        proxy = proxy + count / labelled * before.proxies[0, kind]
    yield Addition(after.round, SUM, counts, kind, proxy)


Found = tuple[Addition, ...]


class _Changes(InformedAttack[Found, ProxyKnowledge, ProxyTruth]):
    """What attacks on added nodes do with all rounds that were seen."""

    metric: ClassVar[str]
    finding: ClassVar[str]

    def infer_with(self, view: View, public: PublicParameters, known: ProxyKnowledge) -> Found | None:
        """Reads all rounds that were seen; None for fewer than two."""
        rounds = proxy_rows(view, public, known)
        return _additions(self._visible_rounds(rounds)) if len(rounds) > 1 else None

    def score(self, guess: Found, truth: ProxyTruth) -> tuple[Measurement, ...]:
        right = [self._right(guess, truth, *event) for event in _adders(truth)]
        if not right:
            return ()
        finding = self.finding.format(f"{sum(right):,} of {len(right):,}")
        return (Measurement.of_share(self.metric, exact_proportion(sum(right), len(right)), finding),)

    def _visible_rounds(self, rounds: tuple[ProxyRows, ...]) -> tuple[ProxyRows, ...]:
        """What of the rounds is read."""
        return rounds

    @abstractmethod
    def _right(self, guess: Found, truth: ProxyTruth, number: int, client: int) -> bool:
        """Whether the node that a client adds in a round is found right."""


class _ProxyDifferencing(_Changes):
    """Differences of means, with the counts that shares tell: the proxies of added nodes."""

    metric = "proxies of added nodes"
    finding = "The proxies of {} nodes that were added are told by differences."
    card = Card(
        "proxy-differencing",
        "the server takes the class proxy before a node was labelled from the one after, and has the node's own",
        "contradicts FedSpray (KDD 2024), 4.5.1: class proxies are averages, which are irreversible",
        Role.SERVER, DataSecret.STRUCTURE_FEATURE, PROXIES, FEDSPRAY_ROUNDS, Circumstance.REPEATED_SUM, minimum=0.9,
        auxiliary=LAYOUT, truth=ProxyTruth, knowledge=ProxyKnowledge,
        tells_nothing="where the parts of a summand lie says nothing of what one more node adds to it",
    )  # fmt: skip

    def _right(self, guess: Found, truth: ProxyTruth, number: int, client: int) -> bool:
        proxy = truth.added[client, number]
        index = [item for item in guess if item.round == number and item.client in (client, SUM)]
        return any(bool(close(item.proxy, proxy)) for item in index)


class _ProxyLabelChanges(_Changes):
    """Shares do not move with training, so all that changes in their sum is the client's that adds a node.

    All counts of the client must be right, and the class that is added.
    """

    metric = "labels of a client that adds one"
    finding = (
        "{} times when a client adds a labelled node, the sums of all clients' shares before and after tell how many "
        "it has of every class, and the class of the new one; not which client it is."
    )
    card = Card(
        "proxy-label-changes",
        "the server counts the labels of a client that adds a node by how the sum of all clients' shares changes",
        "rational reconstruction of differences; no paper here has it",
        Role.SERVER, DataSecret.LABEL_SHARES, PROXIES, FEDSPRAY_ROUNDS, Circumstance.REPEATED_SUM, minimum=0.75,
        auxiliary=LAYOUT, truth=ProxyTruth, knowledge=ProxyKnowledge,
        tells_nothing="where the parts of a summand lie says nothing of what one more node adds to it",
    )  # fmt: skip

    def _visible_rounds(self, rounds: tuple[ProxyRows, ...]) -> tuple[ProxyRows, ...]:
        return tuple(rows if rows.is_sum else rows.total for rows in rounds)

    def _right(self, guess: Found, truth: ProxyTruth, number: int, client: int) -> bool:
        before, after = truth.labelled[client, number - 1 : number + 1]
        index = [item for item in guess if item.round == number]
        return any(np.array_equal(item.counts, before) and (after - before)[item.kind] == 1 for item in index)


@dataclass(frozen=True, slots=True, eq=False)
class _NamedProxy:
    """One decision."""

    round: int  # from which the node is trained on
    client: int  # index of the silo whose pair it is
    named: Floats  # float64 [d], the proxy that is believed to be in the mean
    other: Floats  # float64 [d], the other one


class _ProxyMembership(InformedAttack[tuple[_NamedProxy, ...], ProxyKnowledge, ProxyTruth]):
    """One decision for each pair, about a node that was found to be added."""

    card = Card(
        "proxy-membership",
        "the server tells which of two nodes a client added to those that it trains on",
        "membership inference by differences of means, against FedSpray (KDD 2024), 4.5.1",
        Role.SERVER, DataSecret.TRAINING_NODE, PROXIES, FEDSPRAY_ROUNDS, Circumstance.REPEATED_SUM, minimum=0.9,
        auxiliary="where the parts of a summand lie, and two proxies for each node added, of which it has one",
        truth=ProxyTruth, knowledge=ProxyKnowledge, tells_nothing="two proxies in an order that says nothing",
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: ProxyKnowledge) -> tuple[_NamedProxy, ...] | None:
        """Decides about every pair of rounds in which something is found to be added; None without suspects."""
        rounds, suspects = proxy_rows(view, public, known), known.suspects
        if suspects is None or len(rounds) < 2:
            return None
        return tuple(named for addition in _additions(rounds) for named in _name_proxies(addition, suspects))

    def score(self, guess: tuple[_NamedProxy, ...], truth: ProxyTruth) -> tuple[Measurement, ...]:
        events, proxies = _adders(truth), truth.added
        if not events:
            return ()
        by_event = {(item.round, item.client): item for item in guess}
        sides = [_side(by_event.get(event), proxies[event[1], event[0]]) for event in events]
        right, misses = sides.count(1), sides.count(-1)
        result = advantage(right, len(events), misses, len(events))
        finding = (
            f"Of {len(events):,} nodes that were added {right:,} are told from another one, and for {misses:,} the "
            f"other one is named."
        )
        metric = "added nodes told apart"
        return (Measurement.of_advantage(metric, result, misses / len(events), finding),)


def _name_proxies(addition: Addition, suspects: Suspects) -> Iterator[_NamedProxy]:
    """About the pair of that client; about every pair of that round where the client is not known."""
    pairs = suspects.pairs.get(addition.round)
    if pairs is None:
        return
    for client in range(len(pairs)) if addition.client == SUM else (addition.client,):
        distances = np.linalg.norm(pairs[client] - addition.proxy, axis=1)
        if np.isfinite(distances).all():
            near = int(distances.argmin())
            yield _NamedProxy(addition.round, client, pairs[client, near], pairs[client, 1 - near])


def _side(named_proxy: _NamedProxy | None, actual: Floats) -> int:
    """1 for the right one, -1 for the other one, 0 where nothing is said."""
    if named_proxy is None:
        return 0
    near, to_other = (float(np.linalg.norm(proxy - actual)) for proxy in (named_proxy.named, named_proxy.other))
    return int(near < to_other) - int(to_other < near)


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
            result = _whole_counts(rows, row)
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
        nonempty = np.ones((len(guess.clients), 1), dtype=np.bool_) if sizes is None else sizes[:, None] > 0
        return replace(guess, present=np.broadcast_to(nonempty, guess.present.shape))

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
        text = (
            f"The sum tells that {missing:,} of {len(has):,} classes are labelled by no client; guessing the others of "
            "every client is right {} times."
            if guess.is_sum
            else f"Whether a client has labelled nodes of a class is read right {{}} times; {missing:,} times there "
            "are none."
        )
        all_cells = np.ones(right.shape, dtype=np.bool_)
        return (share_of_cells("classes of clients", right, all_cells, text, random=0.5, prior=prior),)


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
    has_labels = actual.any(axis=1)
    if not has_labels.any():
        return ()
    most = actual[has_labels].argmax(axis=1)
    right, prior = shares[has_labels].argmax(axis=1) == most, float(np.bincount(most).max() / len(most))
    text = "The most frequent label is read right of {} clients."
    return (share_right("most frequent labels", right, None, text, random=1 / actual.shape[1], prior=prior),)


def _counts(counts: Ids, actual: Ids) -> tuple[Measurement, ...]:
    nonzero = actual > 0
    if not nonzero.any():
        return ()
    values = np.bincount(actual[nonzero])
    random, prior = 1 / (len(values) - 1), float(values.max() / values.sum())
    text = "How many labelled nodes of a class a client has is read right {} times."
    return (share_of_cells("labelled nodes of a class", counts == actual, nonzero, text, random=random, prior=prior),)


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
        no party has a single node.
        """
        counts, proxies = truth.labelled[:, guess.round], truth.singles[:, guess.round]
        clients = guess.among(len(counts))
        single, several = counts[clients] == 1, counts[clients] > 1
        if not single.any():
            return ()
        read = np.broadcast_to(guess.proxies, (len(clients), *guess.proxies.shape[1:]))
        whence = "off the sum, where nobody else has the class" if guess.is_sum else "exactly"
        text = f"The proxies of {{}} nodes that are single in their class are read {whence}."
        recovered = share_of_cells("proxies of single nodes", close(read, proxies[clients]), single, text)
        return (recovered,) if guess.is_sum else (recovered, _measure_singles(guess.counts == 1, single, several))


def _measure_singles(claimed: Flags, single: Flags, several: Flags) -> Measurement:
    hits, alarms = int((claimed & single).sum()), int((claimed & several).sum())
    eligible = single | several
    client = np.broadcast_to(np.arange(len(single))[:, None], single.shape)
    result = clustered_advantage(claimed[eligible], single[eligible], client[eligible], seed=0)
    finding = (
        f"{hits:,} of {int(single.sum()):,} single nodes are recognised by their share, and {alarms:,} of "
        f"{int(several.sum()):,} larger classes are taken for one."
    )
    return Measurement.of_advantage("single nodes told", result, alarms / max(int(several.sum()), 1), finding)


ATTACKS: tuple[Attack[Any, Any], ...] = (_ProxyClasses(), _ProxyCounts(), _ProxySingletons())
"""On one sum."""

ADDITIONS: tuple[Attack[Any, Any], ...] = (_ProxyDifferencing(), _ProxyLabelChanges(), _ProxyMembership())
"""On sums of rounds between which one node is added."""
