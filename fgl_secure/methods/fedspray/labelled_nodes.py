"""Labelled nodes with their structure proxies, by round: what is secret, and what clients make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.proxies.knowledge import ProxySlices
from fgl_secure.attacks.truth import ProxyTruth
from fgl_secure.methods.fedspray.alignment import ProxyLayout, shares_of
from fgl_secure.methods.fedspray.client import FedSpray
from fgl_secure.typing import Floats, Ids


@dataclass(frozen=True, slots=True, eq=False)
class LabelledNodes:
    """The labelled nodes of one round.

    Attributes:
        nodes: int64 [m], device indices.
        clients: int64 [m].
        classes: int64 [m].
        proxies: float64 [m, d], at the end of the round.
    """

    nodes: Ids
    clients: Ids
    classes: Ids
    proxies: Floats

    @classmethod
    def of(cls, clients: Sequence[FedSpray]) -> LabelledNodes:
        """Those of clients after their last round."""
        held = [client.silo for client in clients]
        return cls(
            np.concatenate([silo.nodes[silo.train] for silo in held]),
            np.repeat(np.arange(len(held)), [int(silo.train.sum()) for silo in held]),
            np.concatenate([silo.labels[silo.train] for silo in held]),
            np.concatenate([client.proxies.detach().cpu().numpy().astype(np.float64) for client in clients]),
        )

    def among(self, chosen: NDArray[np.bool_]) -> LabelledNodes:
        """Some of them: bool [m]."""
        return LabelledNodes(self.nodes[chosen], self.clients[chosen], self.classes[chosen], self.proxies[chosen])

    def counts(self, clients: int, classes: int) -> Ids:
        """How many each client has of each class, int64 [K, C]."""
        found = np.zeros((clients, classes), dtype=np.int64)
        np.add.at(found, (self.clients, self.classes), 1)
        return found

    def sums(self, clients: int, classes: int) -> Floats:
        """The sum of their proxies by client and class, float64 [K, C, d]."""
        found = np.zeros((clients, classes, self.proxies.shape[1]))
        np.add.at(found, (self.clients, self.classes), self.proxies)
        return found


def summands(held: LabelledNodes, layout: ProxyLayout, clients: int, grid: int | None = None) -> Floats:
    """What clients send in a round whose encoder is all zeros: float64 [K, layout.length], all of one weight.

    Args:
        held: the labelled nodes of the round.
        layout: of a summand.
        clients: how many there are.
        grid: shares are multiples of one over this; None for exact ones.
    """
    rows = np.zeros((clients, layout.length))
    counts = held.counts(clients, layout.classes)
    shares = np.stack([shares_of(each, grid) for each in counts])
    means = held.sums(clients, layout.classes) / np.maximum(counts, 1)[..., None]
    rows[:, layout.weight] = 1 / clients
    rows[:, layout.proxies] = (shares[..., None] * means).reshape(clients, -1)
    rows[:, layout.shares] = shares
    return rows


def slices_of(layout: ProxyLayout, first: LabelledNodes, clients: int, grid: int | None) -> ProxySlices:
    """The layout as attacks know it, with how many labelled nodes clients have in the first round."""
    labelled = np.bincount(first.clients, minlength=clients).tolist()
    return ProxySlices(layout.parameters, layout.classes, layout.width, tuple(labelled), grid)


def proxy_truth(rounds: Sequence[LabelledNodes], clients: int, classes: int) -> ProxyTruth:
    """The truth of rounds 0, 1 and so on.

    Args:
        rounds: labelled nodes of each round.
        clients: how many there are.
        classes: how many there are.
    """
    counts = np.stack([held.counts(clients, classes) for held in rounds], axis=1)
    sums = np.stack([held.sums(clients, classes) for held in rounds], axis=1)
    singles = np.where(counts[..., None] == 1, sums, np.nan)
    return ProxyTruth(counts, singles, _added(rounds, clients), counts.sum(axis=2))


def _added(rounds: Sequence[LabelledNodes], clients: int) -> Floats:
    """float64 [K, R, d]: NaN where a client adds no node, or several."""
    found = np.full((clients, len(rounds), rounds[0].proxies.shape[1]), np.nan)
    for number in range(1, len(rounds)):
        new = ~np.isin(rounds[number].nodes, rounds[number - 1].nodes)
        for client in range(clients):
            rows = np.flatnonzero(new & (rounds[number].clients == client))
            if len(rows) == 1:
                found[client, number] = rounds[number].proxies[rows[0]]
    return found
