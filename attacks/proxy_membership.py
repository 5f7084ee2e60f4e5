"""Which of two nodes a client began to train on: the one whose proxy is nearer to what differences of means give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Auxiliary, Card, InformedAttack, Material, Measurement, Reference
from fgl_secure.attacks.proxy_additions import Addition, adders, additions
from fgl_secure.attacks.proxy_rows import ADDED, SUM, proxy_rows
from fgl_secure.attacks.truth import Truth
from fgl_secure.attacks.update_population import Suspects
from fgl_secure.runtime import Circumstance, PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import advantage

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class NamedProxy:
    """One decision.

    Attributes:
        round: from which the node is trained on.
        client: index of the silo whose pair it is.
        named: float64 [d], the proxy that is believed to be in the mean.
        other: float64 [d], the other one.
    """

    round: int
    client: int
    named: Floats
    other: Floats


class ProxyMembership(InformedAttack[tuple[NamedProxy, ...]]):
    """One decision for each pair, about a node that was found to be added."""

    @property
    def card(self) -> Card:
        """The server alone, with two rounds."""
        return Card(
            "proxy-membership",
            "the server tells which of two nodes a client added to those that it trains on",
            "membership inference by differences of means, against FedSpray (KDD 2024), 4.5.1",
            Role.SERVER,
            Secret.TRAINING_NODE,
            Material.PROXIES,
            Reference.FEDSPRAY_ROUNDS,
            Circumstance.REPEATED_SUM,
            minimum=0.9,
            auxiliary="where the parts of a summand lie, and two proxies for each node added, of which it has one",
        )

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> tuple[NamedProxy, ...] | None:
        """Decides about every pair of rounds in which something is found to be added; None without suspects."""
        rounds, known = proxy_rows(view, public, auxiliary), auxiliary.suspects
        if known is None or len(rounds) < 2:
            return None
        return tuple(named for each in additions(rounds) for named in _decided(each, known))

    def score(self, guess: tuple[NamedProxy, ...], truth: Truth) -> tuple[Measurement, ...]:
        """The share of nodes that are named less the share of those for which the other one is."""
        events, proxies = adders(truth), truth.extra[ADDED]
        if not events:
            return ()
        by_event = {(each.round, each.client): each for each in guess}
        sides = [_side(by_event.get(event), proxies[event[1], event[0]]) for event in events]
        right, wrong = sides.count(1), sides.count(-1)
        found = advantage(right, len(events), wrong, len(events))
        finding = (
            f"Of {len(events):,} nodes that were added {right:,} are told from another one, and for {wrong:,} the "
            f"other one is named."
        )
        metric = "added nodes told apart"
        return (Measurement(metric, found.value, found.interval, len(events), 0.0, 0.0, 1.0, False, finding),)


def _decided(each: Addition, known: Suspects) -> Iterator[NamedProxy]:
    """About the pair of that client; about every pair of that round where the client is not known."""
    pairs = known.pairs.get(each.round)
    if pairs is None:
        return
    for client in range(len(pairs)) if each.client == SUM else (each.client,):
        far = np.linalg.norm(pairs[client] - each.proxy, axis=1)
        if np.isfinite(far).all():
            near = int(far.argmin())
            yield NamedProxy(each.round, client, pairs[client, near], pairs[client, 1 - near])


def _side(each: NamedProxy | None, actual: Floats) -> int:
    """1 for the right one, -1 for the other one, 0 where nothing is said."""
    if each is None:
        return 0
    near, far = (float(np.linalg.norm(proxy - actual)) for proxy in (each.named, each.other))
    return int(near < far) - int(far < near)
