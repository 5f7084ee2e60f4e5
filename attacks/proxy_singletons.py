"""The proxy of a node that is a client's only labelled one of its class: the class proxy is a mean of one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Auxiliary, Card, InformedAttack, Material, Measurement, Reference
from fgl_secure.attacks.proxy_classes import LAYOUT
from fgl_secure.attacks.proxy_counts import counts_of
from fgl_secure.attacks.proxy_rows import LABELLED, SINGLES, close, proxy_rows
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import advantage, exact_proportion

Ids = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class SingleProxies:
    """Class proxies, and which of them are one node's.

    Attributes:
        round: the training round.
        clients: int64 [k], indices of silos; [SUM] where only the sum is seen.
        single: bool [k, C], where the counts behind the shares say one; nowhere in a sum.
        proxies: float64 [k, C, d], NaN where there are none.
    """

    round: int
    clients: Ids
    single: Bools
    proxies: NDArray[np.float64]

    @property
    def summed(self) -> bool:
        """Whether it speaks of all clients together."""
        return bool((self.clients < 0).any())


class ProxySingletons(InformedAttack[SingleProxies]):
    """Divides by the share, and counts."""

    @property
    def card(self) -> Card:
        """The server alone, with summands or their sum."""
        return Card(
            "proxy-singletons",
            "the server reads the structure proxy of a node that is its client's only labelled one of a class",
            "contradicts FedSpray (KDD 2024), 4.5.1: class proxies are averages, which are irreversible",
            Role.SERVER,
            Secret.STRUCTURE_FEATURE,
            Material.PROXIES,
            Reference.FEDSPRAY,
            minimum=0.9,
            auxiliary=LAYOUT,
        )

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> SingleProxies | None:
        """Reads the first round that was seen."""
        rounds = proxy_rows(view, public, auxiliary)
        if not rounds:
            return None
        first = rounds[0]
        return SingleProxies(first.round, first.clients, counts_of(first) == 1, first.proxies)

    def score(self, guess: SingleProxies, truth: Truth) -> tuple[Measurement, ...]:
        """How well single nodes are told from several, and the share of single nodes' proxies that are read.

        From the sum nothing is told apart, and each class's mean over all clients is tried. Nothing is measured where
        nobody has a single node.
        """
        counts, proxies = truth.extra[LABELLED][:, guess.round], truth.extra[SINGLES][:, guess.round]
        clients = np.arange(len(counts)) if guess.summed else guess.clients
        single, several = counts[clients] == 1, counts[clients] > 1
        if not single.any():
            return ()
        read = np.broadcast_to(guess.proxies, (len(clients), *guess.proxies.shape[1:]))
        right = int((close(read, proxies[clients]) & single).sum())
        found = exact_proportion(right, int(single.sum()))
        whence = "off the sum, where nobody else has the class" if guess.summed else "exactly"
        finding = f"The proxies of {right:,} of {found.n:,} nodes that are single in their class are read {whence}."
        metric = "proxies of single nodes"
        recovered = Measurement(metric, found.value, found.interval, found.n, 0.0, 0.0, 1.0, True, finding)
        return (recovered,) if guess.summed else (recovered, _recognised(guess.single, single, several))


def _recognised(claimed: Bools, single: Bools, several: Bools) -> Measurement:
    hits, alarms = int((claimed & single).sum()), int((claimed & several).sum())
    found = advantage(hits, int(single.sum()), alarms, int(several.sum()))
    finding = (
        f"{hits:,} of {int(single.sum()):,} single nodes are recognised by their share, and {alarms:,} of "
        f"{int(several.sum()):,} larger classes are taken for one."
    )
    return Measurement("single nodes told", found.value, found.interval, found.n, 0.0, 0.0, 1.0, False, finding)
