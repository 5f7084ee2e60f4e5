"""Which classes each client has labelled nodes of: a class that is missing has no share and no proxy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Auxiliary, Card, InformedAttack, Material, Measurement, Reference
from fgl_secure.attacks.proxy_rows import LABELLED, proxy_rows
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import exact_proportion

Ids = NDArray[np.int64]

LAYOUT = "where the parts of a summand lie"


@dataclass(frozen=True, slots=True, eq=False)
class ClassPresence:
    """What is there in the first round that was seen.

    Attributes:
        round: the training round.
        clients: int64 [k], indices of silos; [SUM] where only the sum is seen.
        present: bool [k, C].
    """

    round: int
    clients: Ids
    present: NDArray[np.bool_]

    @property
    def summed(self) -> bool:
        """Whether it speaks of all clients together."""
        return bool((self.clients < 0).any())


class ProxyClasses(InformedAttack[ClassPresence]):
    """A share or a proxy that is not zero."""

    @property
    def card(self) -> Card:
        """The server alone, with summands or their sum."""
        return Card(
            "proxy-classes",
            "the server sees which classes a client has labelled nodes of: others come with zeros",
            "contradicts what FedSpray (KDD 2024, 4.5.1) expects of averages",
            Role.SERVER,
            Secret.CLASS_PRESENCE,
            Material.PROXIES,
            Reference.FEDSPRAY,
            auxiliary=LAYOUT,
        )

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> ClassPresence | None:
        """Reads the first round that was seen."""
        rounds = proxy_rows(view, public, auxiliary)
        return ClassPresence(rounds[0].round, rounds[0].clients, rounds[0].present) if rounds else None

    def score(self, guess: ClassPresence, truth: Truth) -> tuple[Measurement, ...]:
        """The share of pairs of a client and a class that are right.

        From the sum a class that is there is guessed of every client. The prior is to know of each class whether most
        clients have it.
        """
        actual = truth.extra[LABELLED][:, guess.round] > 0
        clients = np.arange(len(actual)) if guess.summed else guess.clients
        right = np.broadcast_to(guess.present, (len(clients), actual.shape[1])) == actual[clients]
        found = exact_proportion(int(right.sum()), right.size)
        has = actual.mean(axis=0)
        prior = float(np.maximum(has, 1 - has).mean())
        missing = int((~guess.present).sum())
        if guess.summed:
            finding = (
                f"The sum tells that {missing:,} of {len(has):,} classes are labelled by nobody; guessing the others "
                f"of every client is right {int(right.sum()):,} of {right.size:,} times."
            )
        else:
            finding = (
                f"Whether a client has labelled nodes of a class is read right {int(right.sum()):,} of {right.size:,} "
                f"times; {missing:,} times there are none."
            )
        metric = "classes of clients"
        return (Measurement(metric, found.value, found.interval, found.n, 0.5, prior, 1.0, True, finding),)
