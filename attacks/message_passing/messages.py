"""What messages show without decoding: values and gradients in plaintext, counts, and who sends to whom.

The loss of one device under soft-max and cross-entropy has the gradient p - y at the logits, which is the gradient of
the last bias: negative at the label and nowhere else (iDLG, Zhao et al. 2020). The gradient of a weight matrix is the
outer product of the device's input row and a gradient at the outputs, so that every column is the row, up to its
length. Where the bias is added to the very product, the column over the entry of the bias gradient has the length too
(Geiping et al. 2020, Prop. 3.1); a row of zeros and ones needs none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.edge_claims import ClaimedEdges
from fgl_secure.attacks.message_passing.codes import RowReader
from fgl_secure.attacks.message_passing.knowledge import (
    CLEAR_GRADIENTS,
    FRESH_TAGS,
    PLAINTEXT,
    SECMP,
    SILO_PATH,
    TRAINING,
)
from fgl_secure.attacks.recovery import Recovered, RecoveredRows, largest_share, share_of_numbers, share_right
from fgl_secure.attacks.truth import MessageTruth, foreign_neighbours
from fgl_secure.runtime import Direction, Phase, PublicParameters, ReceivedRows, Role, Secret, View
from fgl_secure.statistics.metrics import clustered_advantage, node_block_proportion
from fgl_secure.typing import Ids


class _ClearValues(RowReader):
    """A device takes every value that it receives in plaintext for what it is."""

    card = Card(
        "clear-values",
        "a device reads the embeddings and gradients that reach it in the clear",
        "what every protocol is measured against",
        Role.DEVICE, Secret.EMBEDDING, TRAINING, PLAINTEXT, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> Recovered | None:  # noqa: ARG002  # needs no parameter
        """Reads every message of values; None where there are none."""
        result = [RecoveredRows(b.step, b.senders, np.asarray(b.payload)) for b in view.messages(Phase.VALUES)]
        return tuple(result) or None


ONE_A_NEIGHBOUR = (
    Phase.PARAMETER_REQUEST, Phase.VALUES, Phase.CODES, Phase.CIRCUITS, Phase.SHARES,
    Phase.SEALED,
)  # fmt: skip
"""Messages of which a device may send one for each neighbour and step."""


@dataclass(frozen=True, slots=True, eq=False)
class _CountedMessages:
    """Numbers of neighbours that observers infer from numbers of messages."""

    observers: Ids  # int64 [k], index of each observer within its role
    devices: Ids  # int64 [k], party identifiers of the senders
    counts: Ids  # int64 [k], messages in one step
    local: bool  # whether the messages are for devices of the observing silo alone, else for all neighbours


@dataclass(frozen=True, slots=True)
class _MessageCounting(Attack[_CountedMessages, MessageTruth]):
    """Observers count each device's messages in one step, payload or not."""

    card: Card = field()  # no default: the base class has a property of that name

    def infer(self, view: View, public: PublicParameters) -> _CountedMessages | None:  # noqa: ARG002  # needs no parameter
        batches = [rows for rows in view.received if _by_neighbour(rows, view)]
        if not batches:
            return None
        first = min((batch.step.round, batch.step.layer) for batch in batches)
        first_batches = [batch for batch in batches if (batch.step.round, batch.step.layer) == first]
        keys, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        for batch in first_batches:
            result = np.unique(batch.observers * len(view.parties) + batch.senders, return_counts=True)
            keys, counts = np.append(keys, result[0]), np.append(counts, result[1])
        unique, place = np.unique(keys, return_inverse=True)
        most = np.zeros(len(unique), dtype=np.int64)
        np.maximum.at(most, place, counts)
        carried = {Phase.SEALED, Phase.CIRCUITS}
        local = self.card.observer is Role.SILO and not any(batch.phase in carried for batch in first_batches)
        return _CountedMessages(unique // len(view.parties), unique % len(view.parties), most, local)

    def score(self, guess: _CountedMessages, truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of observed devices whose number of neighbours is right; the prior is the most frequent number."""
        device, silo = truth.parties.index_of(guess.devices, Role.DEVICE), truth.silo_of[truth.edges[1]]
        into = np.zeros((len(truth.silo_of), int(truth.silo_of.max()) + 1), dtype=np.int64)
        np.add.at(into, (truth.edges[0], silo), 1)
        actual = into[device, guess.observers] if guess.local else into[device].sum(axis=1)
        whose = "in the silo" if guess.local else "that devices send to"
        text = f"numbers of neighbours {whose} are told by counting messages."
        return (share_of_numbers("degrees", guess.counts, actual, device, text),)


def _by_neighbour(rows: ReceivedRows, view: View) -> bool:
    """Whether rows come from devices, in a layer's forward step of training, and may be one a neighbour."""
    step = rows.step
    of_layer = step.direction is Direction.FORWARD and not step.evaluation and step.layer >= 0
    if rows.phase not in ONE_A_NEIGHBOUR or not of_layer:
        return False
    devices = view.parties.ids(Role.DEVICE)
    return bool(len(rows.senders)) and bool(np.isin(rows.senders, devices).all())


@dataclass(frozen=True, slots=True, eq=False)
class _NamedDevices:
    """Foreign devices that silos believe to be neighbours of their own."""

    silos: Ids  # int64 [k], silo indices
    devices: Ids  # int64 [k], party identifiers


class _VisibleDevices(Attack[_NamedDevices, MessageTruth]):
    """A silo notes every foreign device that sends it anything: it must have a neighbour among the silo's devices."""

    card = Card(
        "visible-devices",
        "a silo lists the foreign devices that talk to it: neighbours of its own devices",
        "against HiFGL 5.1: 0 % of eps_p (A.1, Eq. 6)",
        Role.SILO, Secret.FOREIGN_NODE, TRAINING, SILO_PATH, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> _NamedDevices | None:  # noqa: ARG002  # needs no parameter
        own_devices = view.own("own devices")
        if not own_devices:
            return None
        parties, devices = len(view.parties), view.parties.ids(Role.DEVICE)
        own_pairs = own_devices[0].owners * parties + own_devices[0].values
        pairs = np.empty(0, dtype=np.int64)
        ends = {(id(item.senders), id(item.receivers)): (item.senders, item.receivers) for item in view.received}
        for senders, receivers in ends.values():
            pairs = np.union1d(pairs, receivers * parties + senders)
        pairs = np.setdiff1d(pairs, own_pairs)
        pairs = pairs[np.isin(pairs % parties, devices)]
        return _NamedDevices(view.parties.index_of(pairs // parties, Role.SILO), pairs % parties)

    def score(self, guess: _NamedDevices, truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of devices that a foreign silo sees (vis_node), and the advantage over pairs (device, silo).

        A device counts as seen only by silos that name no device wrongly: what stands in a message is certain, and
        where most devices are on a boundary, naming some at random would be right most of the time.
        """
        actual = foreign_neighbours(truth)
        named_devices = np.zeros_like(actual)
        named_devices[truth.parties.index_of(guess.devices, Role.DEVICE), guess.silos] = True
        return (_share_seen(named_devices, actual), _advantage_over_pairs(named_devices, actual, truth.silo_of))


def _share_seen(named_devices: NDArray[np.bool_], actual: NDArray[np.bool_]) -> Measurement:
    certain = ~(named_devices & ~actual).any(axis=0)
    visible: NDArray[np.bool_] = np.asarray((named_devices & certain).any(axis=1))
    text = "devices are known by name to a silo that is not theirs."
    return share_right("vis_node", visible, None, text, reachable=float(actual.any(axis=1).mean()))


def _advantage_over_pairs(named_devices: NDArray[np.bool_], actual: NDArray[np.bool_], silo_of: Ids) -> Measurement:
    foreign = np.ones_like(actual)
    foreign[np.arange(len(silo_of)), silo_of] = False
    positive, negative = actual & foreign, ~actual & foreign
    result, false_pairs = int((named_devices & positive).sum()), int((named_devices & negative).sum())
    device = np.broadcast_to(np.arange(len(silo_of))[:, None], foreign.shape)
    gain = clustered_advantage(named_devices[foreign], positive[foreign], device[foreign], seed=0)
    finding = (
        f"Of {int(positive.sum()):,} pairs of a device and a foreign silo with a neighbour of it, {result:,} are "
        f"known to the silo, with {false_pairs:,} false ones."
    )
    return Measurement.of_advantage("advantage", gain, false_pairs / max(int(negative.sum()), 1), finding)


class _VisibleEdges(Attack[ClaimedEdges, MessageTruth]):
    """A silo reads both ends of an edge off a message that names its sender and whom it is for."""

    card = Card(
        "visible-edges",
        "a silo reads cross-silo edges off messages that name both ends",
        "on HiFGL 4.1.1: cross-silo edges are known to their two devices only",
        Role.SILO, Secret.CROSS_EDGE, TRAINING, SILO_PATH, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> ClaimedEdges | None:  # noqa: ARG002  # needs no parameter
        if not view.own("own devices"):
            return None
        batches = view.messages(Phase.ADDRESSES, round=0, layer=0)
        nothing = np.empty(0, dtype=np.int64)
        sources = np.concatenate([nothing, *(batch.senders for batch in batches)])
        targets = np.concatenate([nothing, *(np.asarray(batch.payload)[:, 0].astype(np.int64) for batch in batches)])
        return ClaimedEdges(sources, targets)

    def score(self, guess: ClaimedEdges, truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of cross-silo edges that a silo sees (vis_edge); chance is the density of such edges.

        As for devices, silos that name an edge wrongly know none for certain.
        """
        devices = len(truth.silo_of)
        crossing = truth.edges[:, truth.silo_of[truth.edges[0]] != truth.silo_of[truth.edges[1]]]
        source, target = (truth.parties.index_of(ids, Role.DEVICE) for ids in (guess.sources, guess.targets))
        named_edges, actual = source * devices + target, truth.edges[0] * devices + truth.edges[1]
        certain = bool(np.isin(named_edges, actual).all())
        hit = np.isin(crossing[0] * devices + crossing[1], named_edges) & certain
        share = node_block_proportion(hit, crossing, devices, seed=0)
        density = crossing.shape[1] / max(devices * (devices - 1), 1)
        finding = (
            f"{int(hit.sum()):,} of {len(hit):,} cross-silo messages show a silo both of their ends."
            if len(named_edges)
            else "No message to a silo names both ends of an edge, so there was nothing to read."
        )
        return (
            Measurement.of_share(
                "vis_edge", share, finding, random=density, prior=density, context=not len(named_edges)
            ),
        )


Floats = NDArray[np.float32]

CHUNK_BYTES = 2**24
"""Dense gradients that are laid out at once."""

RELATIVE_ERROR = 1e-5
"""Up to this distance of unit vectors a float32 row counts as recovered."""


@dataclass(frozen=True, slots=True, eq=False)
class _GradientGuess:
    """What silos read from the parameter gradients of their devices."""

    labelled: Ids  # int64 [k], party identifiers of devices with a loss of their own
    labels: Ids  # int64 [k], their labels
    devices: Mapping[int, Ids]  # for each layer int64 [r], party identifiers
    # for each layer float32 [r, d_in], the rows by which these devices multiplied the weights
    rows: Mapping[int, Floats]


class _DeviceGradients(Attack[_GradientGuess, MessageTruth]):
    """A silo takes a column of each weight gradient, and the one negative entry of the last bias gradient."""

    card = Card(
        "device-gradients",
        "a silo reads a device's label and input rows from its parameter gradient",
        "against HiFGL 4.1.2, item 2: gradients of devices are not private and go to the silo as they are",
        Role.SILO, Secret.PARAMETER_GRADIENT, TRAINING, CLEAR_GRADIENTS, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> _GradientGuess | None:  # noqa: ARG002  # needs no parameter
        # The first round's gradients, by layer: of the weights in the order of the parameters, then of the bias.
        layers: dict[int, list[ReceivedRows]] = {}
        for batch in view.messages(Phase.GRADIENT, round=0):
            if len(batch.senders):
                layers.setdefault(batch.step.layer, []).append(batch)
        if not layers:
            return None
        last = layers[max(layers)][-1]
        bias = np.asarray(last.payload)
        has_loss = bias.any(axis=1)
        read = {layer: _rows(batches[0], batches[-1]) for layer, batches in layers.items() if len(batches) > 1}
        return _GradientGuess(
            last.senders[has_loss],
            bias[has_loss].argmin(axis=1).astype(np.int64),
            {layer: devices for layer, (devices, _) in read.items()},
            {layer: rows for layer, (_, rows) in read.items()},
        )

    def score(self, guess: _GradientGuess, truth: MessageTruth) -> tuple[Measurement, ...]:
        label, rows = _score_labels(guess, truth), _score_rows(guess, truth)
        return tuple(item for item in (label, rows) if item is not None)


def _rows(weight: ReceivedRows, bias: ReceivedRows) -> tuple[Ids, Floats]:
    """The largest column of each weight gradient, with a length: devices [r] and rows [r, d_in]."""
    factors, delta = np.asarray(weight.payload), np.asarray(bias.payload)
    senders, rows = [np.empty(0, dtype=np.int64)], [np.empty((0, factors.shape[1] - delta.shape[1]), dtype=delta.dtype)]
    for columns, dense in _dense(factors, delta.shape[1]):
        sizes = np.abs(dense).max(axis=1)
        telling = np.flatnonzero(sizes.any(axis=1))
        column = dense[telling, :, sizes[telling].argmax(axis=1)]
        senders.append(columns[telling])
        rows.append(column / _length(dense[telling], column, delta[columns[telling]])[:, None])
    return weight.senders[np.concatenate(senders)], np.concatenate(rows)


def _length(dense: Floats, column: Floats, delta: Floats) -> Floats:
    """Entries of the bias gradient, where those go with their columns; else the columns' largest: float32 [k]."""
    index, ids = np.abs(column).argmax(axis=1), np.arange(len(column))
    across = dense[ids, index]  # the largest entry of each column
    first = np.abs(across).argmax(axis=1)
    ratio = np.divide(across, delta, out=np.full_like(delta, np.nan), where=delta != 0)
    alike = np.abs(ratio - ratio[ids, first, None]) <= RELATIVE_ERROR * np.abs(ratio[ids, first, None])
    return np.asarray(np.where(alike.all(axis=1), delta[ids, first], column[ids, index]))


def _dense(factors: Floats, d_out: int) -> Iterator[tuple[Ids, Floats]]:
    """The gradients as the silo receives them, [k, d_in, d_out] of a few devices at a time."""
    d_in = factors.shape[1] - d_out
    step = max(1, CHUNK_BYTES // max(d_in * d_out * factors.itemsize, 1))
    for start in range(0, len(factors), step):
        part = factors[start : start + step]
        yield np.arange(start, start + len(part)), part[:, :d_in, None] * part[:, None, d_in:]


def _score_labels(guess: _GradientGuess, truth: MessageTruth) -> Measurement | None:
    if not len(guess.labelled):
        return None
    actual = truth.labels[truth.parties.index_of(guess.labelled, Role.DEVICE)]
    prior, random = largest_share(actual[:, None]), 1 / max(int(truth.labels.max()) + 1, 1)
    text = "labels are read from the sign of the last bias gradient."
    return share_right("labels", guess.labels == actual, None, text, random=random, prior=prior)


def _score_rows(guess: _GradientGuess, truth: MessageTruth) -> Measurement | None:
    right, most_frequent = [np.zeros(0, dtype=np.bool_)], 0.0
    for layer, devices in guess.devices.items():
        if layer in truth.rows:
            actual = truth.rows[layer][truth.parties.index_of(devices, Role.DEVICE)]
            error = np.linalg.norm(_directions(guess.rows[layer]) - _directions(actual), axis=1)
            right.append(error <= RELATIVE_ERROR)
            most_frequent += largest_share(actual) * len(actual)
    hit = np.concatenate(right)
    text = "rows that devices multiply the weights by are read, up to their length."
    return share_right("input rows", hit, None, text, prior=most_frequent / len(hit)) if len(hit) else None


def _directions(rows: Floats) -> NDArray[np.float64]:
    """Rows [k, d] at length 1, those of zeros as they are."""
    length = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1)


ATTACKS: tuple[Attack[Any, Any], ...] = (
    _ClearValues(),
    _VisibleDevices(),
    _VisibleEdges(),
    _DeviceGradients(),
    _MessageCounting(Card(
        "message-counts-silo",
        "a silo counts each device's messages in one step: its neighbours among the silo's devices",
        "on HiFGL 4.2.3, step 1b: one request for every message",
        Role.SILO, Secret.DEGREE, TRAINING, SECMP, truth=MessageTruth,
    )),
    _MessageCounting(Card(
        "message-counts-relay",
        "a relay counts each device's messages in one step: its neighbours",
        "what every scheme with relays gives away that does not pad",
        Role.RELAY, Secret.DEGREE, TRAINING, FRESH_TAGS, truth=MessageTruth,
    )),
)  # fmt: skip
