"""What the server learns of labelled nodes that clients add from one round to the next.

The proxy of a node that a client adds between two rounds: n times the new mean less n - 1 times the old one.

That is exact while the other nodes' proxies stay as they are, and off by n - 1 times what these move by otherwise.
Where the server only has sums, what is known of the client that adds the node is how the sums change, and the mean
proxy of all clients stands for the client's own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from fgl_secure.attacks.base import Attack, Card, DataSecret, InformedAttack, Measurement
from fgl_secure.attacks.proxies.fractions import counts_from_change, joined_on_grid, one_more, whole_counts
from fgl_secure.attacks.proxies.knowledge import (
    FEDSPRAY_ROUNDS,
    LAYOUT,
    PROXIES,
    ProxyKnowledge,
    ProxyRows,
    close,
    proxy_rows,
)
from fgl_secure.attacks.truth import ProxyTruth
from fgl_secure.attacks.updates import SUM, Suspects
from fgl_secure.runtime import Circumstance, PublicParameters, Role, View
from fgl_secure.statistics.metrics import advantage, exact_proportion
from fgl_secure.typing import Floats, Ids


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


def adders(truth: ProxyTruth) -> tuple[tuple[int, int], ...]:
    """Which clients do have a labelled node more than in the round before: pairs of a round and a client."""
    more = truth.sizes[:, 1:] == truth.sizes[:, :-1] + 1
    return tuple((int(number) + 1, int(client)) for number, client in np.argwhere(more.T))


def _of_clients(before: ProxyRows, after: ProxyRows) -> Iterator[Addition]:
    later = {client: row for row, client in enumerate(after.clients.tolist())}
    for row, client in enumerate(before.clients.tolist()):
        if client not in later or np.array_equal(before.shares[row], after.shares[later[client]]):
            continue
        old, new = (whole_counts(*item) for item in ((before, row), (after, later[client])))
        result = None if old is None or new is None else one_more(old, new)
        if result is None:
            continue
        counts, kind = result
        there = int(counts[kind])
        mean = before.proxies[row, kind] if there else 0.0
        proxy = (there + 1) * after.proxies[later[client], kind] - there * mean
        yield Addition(after.round, client, counts, kind, proxy)


def _of_sum(before: ProxyRows, after: ProxyRows) -> Iterator[Addition]:
    """With m nodes before, the sum of products changes by x / (m + 1) - c_j s_j / (m (m + 1)), where x is what is new.

    The client's own s_j is not known; the mean over clients stands for it.
    """
    if not (before.is_sum and after.is_sum):
        return
    change, rounding = after.shares[0] - before.shares[0], before.rounding + after.rounding
    result = joined_on_grid(change, rounding, after.unit) if after.unit else counts_from_change(change, rounding)
    if result is None:
        return
    counts, kind = result
    labelled, there = int(counts.sum()), int(counts[kind])
    proxy = (labelled + 1) * (after.products[0, kind] - before.products[0, kind])
    if there:
        proxy = proxy + there / labelled * before.proxies[0, kind]
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
        right = [self._right(guess, truth, *event) for event in adders(truth)]
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
        events, proxies = adders(truth), truth.added
        if not events:
            return ()
        by_event = {(item.round, item.client): item for item in guess}
        sides = [_side(by_event.get(event), proxies[event[1], event[0]]) for event in events]
        right, wrong = sides.count(1), sides.count(-1)
        result = advantage(right, len(events), wrong, len(events))
        finding = (
            f"Of {len(events):,} nodes that were added {right:,} are told from another one, and for {wrong:,} the "
            f"other one is named."
        )
        metric = "added nodes told apart"
        return (Measurement.of_advantage(metric, result, wrong / len(events), finding),)


def _name_proxies(addition: Addition, suspects: Suspects) -> Iterator[_NamedProxy]:
    """About the pair of that client; about every pair of that round where the client is not known."""
    pairs = suspects.pairs.get(addition.round)
    if pairs is None:
        return
    for client in range(len(pairs)) if addition.client == SUM else (addition.client,):
        far = np.linalg.norm(pairs[client] - addition.proxy, axis=1)
        if np.isfinite(far).all():
            near = int(far.argmin())
            yield _NamedProxy(addition.round, client, pairs[client, near], pairs[client, 1 - near])


def _side(named_proxy: _NamedProxy | None, actual: Floats) -> int:
    """1 for the right one, -1 for the other one, 0 where nothing is said."""
    if named_proxy is None:
        return 0
    near, far = (float(np.linalg.norm(proxy - actual)) for proxy in (named_proxy.named, named_proxy.other))
    return int(near < far) - int(far < near)


ATTACKS: tuple[Attack[Any, Any], ...] = (_ProxyDifferencing(), _ProxyLabelChanges(), _ProxyMembership())
