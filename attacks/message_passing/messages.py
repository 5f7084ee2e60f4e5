"""What messages show without decoding: values in the clear, counts, and who sends to whom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.message_passing.knowledge import FRESH_TAGS, PLAINTEXT, SECMP, SILO_PATH, TRAINING
from fgl_secure.attacks.message_passing.truth import MessageTruth
from fgl_secure.attacks.recovery import RecoveredRows, largest_share, score_recovered_rows
from fgl_secure.attacks.truth import foreign_neighbours
from fgl_secure.runtime import Direction, Phase, PublicParameters, ReceivedRows, Role, Secret, View
from fgl_secure.statistics.metrics import (
    clustered_advantage,
    clustered_proportion,
    exact_proportion,
    node_block_proportion,
)

Ids = NDArray[np.int64]


class ClearValues(Attack[tuple[RecoveredRows, ...], MessageTruth]):
    """A device takes every value that it receives in the clear for what it is."""

    card = Card(
        "clear-values",
        "a device reads the embeddings and gradients that reach it in the clear",
        "what every protocol is measured against",
        Role.DEVICE, Secret.EMBEDDING, TRAINING, PLAINTEXT, truth=MessageTruth,
    )  # fmt: skip

    def infer(
        self,
        view: View,
        public: PublicParameters,  # noqa: ARG002  # needs no parameter
    ) -> tuple[RecoveredRows, ...] | None:
        """Reads every message of values; None where there are none."""
        found = [RecoveredRows(b.step, b.senders, np.asarray(b.payload)) for b in view.messages(Phase.VALUES)]
        return tuple(found) or None

    def score(self, guess: tuple[RecoveredRows, ...], truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of rows that are exact, see `score_recovered_rows`."""
        return score_recovered_rows(guess, truth)


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


class _Counting(Attack[CountedMessages, MessageTruth]):
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

    def score(self, guess: CountedMessages, truth: MessageTruth) -> tuple[Measurement, ...]:
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
        return (Measurement.of_share("degrees", share, finding, random=random, prior=prior),)


class MessageCountsAtSilo(_Counting):
    """A silo counts what each device asks of it: a request for coding parameters for every neighbour in the silo."""

    card = Card(
        "message-counts-silo",
        "a silo counts each device's messages in one step: its neighbours among the silo's devices",
        "on HiFGL 4.2.3, step 1b: one request for every message",
        Role.SILO, Secret.DEGREE, TRAINING, SECMP, truth=MessageTruth,
    )  # fmt: skip


class MessageCountsAtRelay(_Counting):
    """A relay counts each device's messages under whatever tags: its neighbours."""

    card = Card(
        "message-counts-relay",
        "a relay counts each device's messages in one step: its neighbours",
        "what every scheme with relays gives away that does not pad",
        Role.RELAY, Secret.DEGREE, TRAINING, FRESH_TAGS, truth=MessageTruth,
    )  # fmt: skip


def _by_neighbour(rows: ReceivedRows, view: View) -> bool:
    """Whether rows come from devices, in a layer's forward step of training, and may be one a neighbour."""
    step = rows.step
    of_layer = step.direction is Direction.FORWARD and not step.evaluation and step.layer >= 0
    if rows.phase not in ONE_A_NEIGHBOUR or not of_layer:
        return False
    devices = view.parties.ids(Role.DEVICE)
    return bool(len(rows.senders)) and bool(np.isin(rows.senders, devices).all())


@dataclass(frozen=True, slots=True, eq=False)
class NamedDevices:
    """Foreign devices that silos believe to be neighbours of their own.

    Attributes:
        silos: int64 [k], silo indices.
        devices: int64 [k], party identifiers.
    """

    silos: Ids
    devices: Ids


@dataclass(frozen=True, slots=True, eq=False)
class NamedEdges:
    """Edges that silos read off their messages: int64 [k] each, party identifiers."""

    sources: Ids
    targets: Ids


class VisibleDevices(Attack[NamedDevices, MessageTruth]):
    """A silo notes every foreign device that sends it anything: it must have a neighbour among the silo's devices."""

    card = Card(
        "visible-devices",
        "a silo lists the foreign devices that talk to it: neighbours of its own devices",
        "against HiFGL 5.1: 0 % of eps_p (A.1, Eq. 6)",
        Role.SILO, Secret.FOREIGN_NODE, TRAINING, SILO_PATH, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> NamedDevices | None:  # noqa: ARG002  # needs no parameter
        """Lists, for every silo, the devices outside it that sent it anything."""
        own = view.own("own devices")
        if not own:
            return None
        parties, devices = len(view.parties), view.parties.ids(Role.DEVICE)
        mine = own[0].owners * parties + own[0].values
        pairs = np.empty(0, dtype=np.int64)
        ends = {(id(each.senders), id(each.receivers)): (each.senders, each.receivers) for each in view.received}
        for senders, receivers in ends.values():
            pairs = np.union1d(pairs, receivers * parties + senders)
        pairs = np.setdiff1d(pairs, mine)
        pairs = pairs[np.isin(pairs % parties, devices)]
        return NamedDevices(view.parties.index_of(pairs // parties, Role.SILO), pairs % parties)

    def score(self, guess: NamedDevices, truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of devices that a foreign silo sees (vis_node), and the advantage over pairs (device, silo).

        A device counts as seen only by silos that name no device wrongly: what stands in a message is certain, and
        where most devices are on a boundary, naming some at random would be right most of the time.
        """
        actual = foreign_neighbours(truth)
        named = np.zeros_like(actual)
        named[truth.parties.index_of(guess.devices, Role.DEVICE), guess.silos] = True
        return (_share_seen(named, actual), _advantage_over_pairs(named, actual, truth.silo_of))


def _share_seen(named: NDArray[np.bool_], actual: NDArray[np.bool_]) -> Measurement:
    certain = ~(named & ~actual).any(axis=0)
    seen: NDArray[np.bool_] = np.asarray((named & certain).any(axis=1))
    share = exact_proportion(int(seen.sum()), len(seen))
    finding = f"{int(seen.sum()):,} of {len(seen):,} devices are known by name to a silo that is not theirs."
    reachable = float(actual.any(axis=1).mean())
    return Measurement.of_share("vis_node", share, finding, reachable=reachable)


def _advantage_over_pairs(named: NDArray[np.bool_], actual: NDArray[np.bool_], silo_of: Ids) -> Measurement:
    foreign = np.ones_like(actual)
    foreign[np.arange(len(silo_of)), silo_of] = False
    positive, negative = actual & foreign, ~actual & foreign
    found, wrong = int((named & positive).sum()), int((named & negative).sum())
    device = np.broadcast_to(np.arange(len(silo_of))[:, None], foreign.shape)
    gain = clustered_advantage(named[foreign], positive[foreign], device[foreign], seed=0)
    finding = (
        f"Of {int(positive.sum()):,} pairs of a device and a foreign silo with a neighbour of it, {found:,} are "
        f"known to the silo, with {wrong:,} false ones."
    )
    return Measurement.of_advantage("advantage", gain, wrong / max(int(negative.sum()), 1), finding)


class VisibleEdges(Attack[NamedEdges, MessageTruth]):
    """A silo reads both ends of an edge off a message that names its sender and whom it is for."""

    card = Card(
        "visible-edges",
        "a silo reads cross-silo edges off messages that name both ends",
        "on HiFGL 4.1.1: cross-silo edges are known to their two devices only",
        Role.SILO, Secret.CROSS_EDGE, TRAINING, SILO_PATH, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> NamedEdges | None:  # noqa: ARG002  # needs no parameter
        """Lists the edges of the first layer that messages to a silo spell out."""
        if not view.own("own devices"):
            return None
        batches = view.messages(Phase.ADDRESSES, round=0, layer=0)
        nothing = np.empty(0, dtype=np.int64)
        sources = np.concatenate([nothing, *(batch.senders for batch in batches)])
        targets = np.concatenate([nothing, *(np.asarray(batch.payload)[:, 0].astype(np.int64) for batch in batches)])
        return NamedEdges(sources, targets)

    def score(self, guess: NamedEdges, truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of cross-silo edges that a silo sees (vis_edge); chance is the density of such edges.

        As for devices, silos that name an edge wrongly know none for certain.
        """
        devices = len(truth.silo_of)
        crossing = truth.edges[:, truth.silo_of[truth.edges[0]] != truth.silo_of[truth.edges[1]]]
        source, target = (truth.parties.index_of(ids, Role.DEVICE) for ids in (guess.sources, guess.targets))
        named, there = source * devices + target, truth.edges[0] * devices + truth.edges[1]
        certain = bool(np.isin(named, there).all())
        hit = np.isin(crossing[0] * devices + crossing[1], named) & certain
        share = node_block_proportion(hit, crossing, devices, seed=0)
        density = crossing.shape[1] / max(devices * (devices - 1), 1)
        finding = (
            f"{int(hit.sum()):,} of {len(hit):,} cross-silo messages show a silo both of their ends."
            if len(named)
            else "No message to a silo names both ends of an edge, so there was nothing to read."
        )
        return (
            Measurement.of_share("vis_edge", share, finding, random=density, prior=density, context=not len(named)),
        )
