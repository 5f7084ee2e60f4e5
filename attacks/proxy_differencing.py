"""The proxy of a node that a client adds between two rounds: n times the new mean less n - 1 times the old one.

That is exact while the other nodes' proxies stay as they are, and off by n - 1 times what these move by otherwise.
Where the server only has sums, what is known of the client that adds the node is how the sums change, and the mean
proxy of all clients stands for the client's own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Auxiliary, Card, InformedAttack, Material, Measurement, Reference
from fgl_secure.attacks.proxy_additions import Addition, adders, additions, additions_of_sums
from fgl_secure.attacks.proxy_classes import LAYOUT
from fgl_secure.attacks.proxy_rows import ADDED, LABELLED, SUM, close, proxy_rows
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import Circumstance, PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import exact_proportion

Found = tuple[Addition, ...]


class ProxyDifferencing(InformedAttack[Found]):
    """Differences of means, with the counts that shares tell."""

    @property
    def card(self) -> Card:
        """The server alone, with two rounds."""
        return Card(
            "proxy-differencing",
            "the server takes the class proxy before a node was labelled from the one after, and has the node's own",
            "contradicts FedSpray (KDD 2024), 4.5.1: class proxies are averages, which are irreversible",
            Role.SERVER,
            Secret.STRUCTURE_FEATURE,
            Material.PROXIES,
            Reference.FEDSPRAY_ROUNDS,
            Circumstance.REPEATED_SUM,
            minimum=0.9,
            auxiliary=LAYOUT,
        )

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> Found | None:
        """Reads all rounds that were seen; None for fewer than two."""
        rounds = proxy_rows(view, public, auxiliary)
        return additions(rounds) if len(rounds) > 1 else None

    def score(self, guess: Found, truth: Truth) -> tuple[Measurement, ...]:
        """The share of added nodes whose proxy is recovered."""
        events, proxies = adders(truth), truth.extra[ADDED]
        if not events:
            return ()
        right = [_told(guess, number, client, proxies[client, number]) for number, client in events]
        found = exact_proportion(sum(right), len(right))
        finding = f"The proxies of {sum(right):,} of {len(right):,} nodes that were added are told by differences."
        metric = "proxies of added nodes"
        return (Measurement(metric, found.value, found.interval, found.n, 0.0, 0.0, 1.0, True, finding),)


class ProxyLabelChanges(InformedAttack[Found]):
    """Shares do not move with training, so all that changes in their sum is the client's that adds a node."""

    @property
    def card(self) -> Card:
        """The server alone, with sums of two rounds."""
        return Card(
            "proxy-label-changes",
            "the server counts the labels of a client that adds a node by how the sum of all clients' shares changes",
            "rational reconstruction of differences; no paper here has it",
            Role.SERVER,
            Secret.LABEL_SHARES,
            Material.PROXIES,
            Reference.FEDSPRAY_ROUNDS,
            Circumstance.REPEATED_SUM,
            minimum=0.75,
            auxiliary=LAYOUT,
        )

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> Found | None:
        """Reads the sums of all rounds that were seen; None for fewer than two."""
        rounds = proxy_rows(view, public, auxiliary)
        return additions_of_sums(rounds) if len(rounds) > 1 else None

    def score(self, guess: Found, truth: Truth) -> tuple[Measurement, ...]:
        """How often all counts of a client that adds a node are right, and its class."""
        events, counts = adders(truth), truth.extra[LABELLED]
        if not events:
            return ()
        right = [_counted(guess, number, counts[client, number - 1 : number + 1]) for number, client in events]
        found = exact_proportion(sum(right), len(right))
        finding = (
            f"{sum(right):,} of {len(right):,} times when a client adds a labelled node, the sums of all clients' "
            f"shares before and after tell how many it has of every class, and the class of the new one; not which "
            f"client it is."
        )
        metric = "labels of a client that adds one"
        return (Measurement(metric, found.value, found.interval, found.n, 0.0, 0.0, 1.0, True, finding),)


def _told(guess: Found, number: int, client: int, proxy: NDArray[np.float64]) -> bool:
    at = [each for each in guess if each.round == number and each.client in (client, SUM)]
    return any(bool(close(each.proxy, proxy)) for each in at)


def _counted(guess: Found, number: int, counts: NDArray[np.int64]) -> bool:
    before, after = counts
    return any(
        np.array_equal(each.counts, before) and (after - before)[each.kind] == 1
        for each in guess
        if each.round == number
    )
