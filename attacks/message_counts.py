"""How many messages a device sends is how many neighbours it has; nobody needs to open one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, Material, Measurement, Reference
from fgl_secure.attacks.recovery import largest_share
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import Direction, Phase, PublicParameters, ReceivedRows, Role, Secret, View
from fgl_secure.statistics.metrics import clustered_proportion

Ids = NDArray[np.int64]

ONE_A_NEIGHBOUR = (
    Phase.PARAMETER_REQUEST, Phase.VALUES, Phase.CODES, Phase.SHARE_HEADERS, Phase.SHARE_SEEDS, Phase.SHARES,
    Phase.SEALED,
)  # fmt: skip
"""Messages of which a device may send one for each neighbour and step."""


@dataclass(frozen=True, slots=True, eq=False)
class CountedMessages:
    """Numbers of neighbours that observers infer from numbers of messages.

    Attributes:
        observers: int64 [k], index of each observer within its role.
        devices: int64 [k], party identifiers of the senders.
        counts: int64 [k], messages in one step.
        local: whether the messages are for devices of the observing silo alone, else for all neighbours.
    """

    observers: Ids
    devices: Ids
    counts: Ids
    local: bool


class _Counting(Attack[CountedMessages]):
    """What both observers do with the messages that pass through their hands, payload or not."""

    def infer(self, view: View, public: PublicParameters) -> CountedMessages | None:  # noqa: ARG002  # needs no parameter
        """Counts each device's messages in the first forward step; the largest batch of a step decides."""
        batches = [rows for rows in view.received if _by_neighbour(rows, view)]
        if not batches:
            return None
        first = min((batch.step.round, batch.step.layer) for batch in batches)
        here = [batch for batch in batches if (batch.step.round, batch.step.layer) == first]
        keys, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        for batch in here:
            found = np.unique(batch.observers * len(view.parties) + batch.senders, return_counts=True)
            keys, counts = np.append(keys, found[0]), np.append(counts, found[1])
        unique, place = np.unique(keys, return_inverse=True)
        most = np.zeros(len(unique), dtype=np.int64)
        np.maximum.at(most, place, counts)
        local = self.card.observer is Role.SILO and all(batch.phase is not Phase.SEALED for batch in here)
        return CountedMessages(unique // len(view.parties), unique % len(view.parties), most, local)

    def score(self, guess: CountedMessages, truth: Truth) -> tuple[Measurement, ...]:
        """The share of observed devices whose number of neighbours is right; the prior is the most frequent number."""
        device, silo = truth.parties.index_of(guess.devices, Role.DEVICE), truth.silo_of[truth.edges[1]]
        into = np.zeros((len(truth.silo_of), int(truth.silo_of.max()) + 1), dtype=np.int64)
        np.add.at(into, (truth.edges[0], silo), 1)
        actual = into[device, guess.observers] if guess.local else into[device].sum(axis=1)
        right = guess.counts == actual
        share = clustered_proportion(right, device, seed=0)
        where = "in the silo" if guess.local else "in all"
        finding = f"{int(right.sum()):,} of {len(right):,} numbers of neighbours {where} are told by counting messages."
        prior, random = largest_share(actual[:, None]), 1 / max(int(actual.max(initial=1)), 1)
        return (Measurement("degrees", share.value, share.interval, share.n, random, prior, 1.0, True, finding),)


class MessageCountsAtSilo(_Counting):
    """A silo counts what each device asks of it: a request for coding parameters for every neighbour in the silo."""

    @property
    def card(self) -> Card:
        """Every silo alone."""
        return Card(
            "message-counts-silo",
            "a silo counts each device's messages in one step: its neighbours among the silo's devices",
            "on HiFGL 4.2.3, step 1b: one request for every message",
            Role.SILO,
            Secret.DEGREE,
            Material.TRAINING,
            Reference.SECMP,
        )


class MessageCountsAtRelay(_Counting):
    """A relay counts each device's messages under whatever tags: its neighbours."""

    @property
    def card(self) -> Card:
        """Every relay alone."""
        return Card(
            "message-counts-relay",
            "a relay counts each device's messages in one step: its neighbours",
            "what every scheme with relays gives away that does not pad",
            Role.RELAY,
            Secret.DEGREE,
            Material.TRAINING,
            Reference.TAGS,
        )


def _by_neighbour(rows: ReceivedRows, view: View) -> bool:
    """Whether rows come from devices, in a layer's forward step of training, and may be one a neighbour."""
    step = rows.step
    of_layer = step.direction is Direction.FORWARD and not step.evaluation and step.layer >= 0
    if rows.phase not in ONE_A_NEIGHBOUR or not of_layer:
        return False
    devices = view.parties.ids(Role.DEVICE)
    return bool(len(rows.senders)) and bool(np.isin(rows.senders, devices).all())
