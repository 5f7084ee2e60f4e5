"""One device's parameter gradient in the clear: its label, and the row that it multiplied the weights by.

The loss of one device under soft-max and cross-entropy has the gradient p - y at the logits, which is the gradient of
the last bias: negative at the label and nowhere else (iDLG, Zhao et al. 2020). The gradient of a weight matrix is the
outer product of the device's input row and a gradient at the outputs, so that every column is the row, up to its
length. Where the bias is added to the very product, the column over the entry of the bias gradient has the length too
(Geiping et al. 2020, Prop. 3.1); a row of zeros and ones needs none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.message_passing.knowledge import CLEAR_GRADIENTS, TRAINING
from fgl_secure.attacks.message_passing.truth import MessageTruth
from fgl_secure.attacks.recovery import largest_share
from fgl_secure.runtime import Phase, PublicParameters, ReceivedRows, Role, Secret, View
from fgl_secure.statistics.metrics import exact_proportion

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]

CHUNK_BYTES = 2**24
"""Dense gradients that are laid out at once."""

RELATIVE_ERROR = 1e-5
"""Up to this distance of unit vectors a float32 row counts as recovered."""


@dataclass(frozen=True, slots=True, eq=False)
class GradientGuess:
    """What silos read from the parameter gradients of their devices.

    Attributes:
        labelled: int64 [k], party identifiers of devices with a loss of their own.
        labels: int64 [k], their labels.
        devices: for each layer int64 [r], party identifiers.
        rows: for each layer float32 [r, d_in], the rows by which these devices multiplied the weights.
    """

    labelled: Ids
    labels: Ids
    devices: Mapping[int, Ids]
    rows: Mapping[int, Floats]


class DeviceGradients(Attack[GradientGuess, MessageTruth]):
    """A silo takes a column of each weight gradient, and the one negative entry of the last bias gradient."""

    card = Card(
        "device-gradients",
        "a silo reads a device's label and input rows from its parameter gradient",
        "against HiFGL 4.1.2, item 2: gradients of devices are not private and go to the silo as they are",
        Role.SILO, Secret.PARAMETER_GRADIENT, TRAINING, CLEAR_GRADIENTS, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> GradientGuess | None:  # noqa: ARG002  # needs no parameter
        """Reads the gradients of the first round."""
        layers = _by_layer(view)
        if not layers:
            return None
        last = layers[max(layers)][-1]
        bias = np.asarray(last.payload)
        losing = bias.any(axis=1)
        read = {layer: _rows(batches[0], batches[-1]) for layer, batches in layers.items() if len(batches) > 1}
        return GradientGuess(
            last.senders[losing],
            bias[losing].argmin(axis=1).astype(np.int64),
            {layer: devices for layer, (devices, _) in read.items()},
            {layer: rows for layer, (_, rows) in read.items()},
        )

    def score(self, guess: GradientGuess, truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of labels that are right, and of rows whose direction is off by 1e-5 at most."""
        label, rows = _score_labels(guess, truth), _score_rows(guess, truth)
        return tuple(each for each in (label, rows) if each is not None)


def _by_layer(view: View) -> dict[int, list[ReceivedRows]]:
    """The first round's gradients, by layer: of the weights in the order of the parameters, then of the bias."""
    layers: dict[int, list[ReceivedRows]] = {}
    for batch in view.messages(Phase.GRADIENT, round=0):
        if len(batch.senders):
            layers.setdefault(batch.step.layer, []).append(batch)
    return layers


def _rows(weight: ReceivedRows, bias: ReceivedRows) -> tuple[Ids, Floats]:
    """The largest column of each weight gradient, with a length: devices [r] and rows [r, d_in]."""
    factors, delta = np.asarray(weight.payload), np.asarray(bias.payload)
    sent, rows = [np.empty(0, dtype=np.int64)], [np.empty((0, factors.shape[1] - delta.shape[1]), dtype=delta.dtype)]
    for chosen, dense in _dense(factors, delta.shape[1]):
        sizes = np.abs(dense).max(axis=1)
        telling = np.flatnonzero(sizes.any(axis=1))
        column = dense[telling, :, sizes[telling].argmax(axis=1)]
        sent.append(chosen[telling])
        rows.append(column / _length(dense[telling], column, delta[chosen[telling]])[:, None])
    return weight.senders[np.concatenate(sent)], np.concatenate(rows)


def _length(dense: Floats, column: Floats, delta: Floats) -> Floats:
    """Entries of the bias gradient, where those go with their columns; else the columns' largest: float32 [k]."""
    at, which = np.abs(column).argmax(axis=1), np.arange(len(column))
    across = dense[which, at]  # the largest entry of each column
    first = np.abs(across).argmax(axis=1)
    ratio = np.divide(across, delta, out=np.full_like(delta, np.nan), where=delta != 0)
    alike = np.abs(ratio - ratio[which, first, None]) <= RELATIVE_ERROR * np.abs(ratio[which, first, None])
    return np.asarray(np.where(alike.all(axis=1), delta[which, first], column[which, at]))


def _dense(factors: Floats, d_out: int) -> Iterator[tuple[Ids, Floats]]:
    """The gradients as the silo receives them, [k, d_in, d_out] of a few devices at a time."""
    d_in = factors.shape[1] - d_out
    step = max(1, CHUNK_BYTES // max(d_in * d_out * factors.itemsize, 1))
    for start in range(0, len(factors), step):
        part = factors[start : start + step]
        yield np.arange(start, start + len(part)), part[:, :d_in, None] * part[:, None, d_in:]


def _score_labels(guess: GradientGuess, truth: MessageTruth) -> Measurement | None:
    if not len(guess.labelled):
        return None
    actual = truth.labels[truth.parties.index_of(guess.labelled, Role.DEVICE)]
    hits = int((guess.labels == actual).sum())
    share = exact_proportion(hits, len(actual))
    finding = f"{hits:,} of {len(actual):,} labels are read from the sign of the last bias gradient."
    prior, random = largest_share(actual[:, None]), 1 / max(int(truth.labels.max()) + 1, 1)
    return Measurement.of_share("labels", share, finding, random=random, prior=prior)


def _score_rows(guess: GradientGuess, truth: MessageTruth) -> Measurement | None:
    hits, total, most_frequent = 0, 0, 0.0
    for layer, devices in guess.devices.items():
        if layer not in truth.rows:
            continue
        actual = truth.rows[layer][truth.parties.index_of(devices, Role.DEVICE)]
        error = np.linalg.norm(_directions(guess.rows[layer]) - _directions(actual), axis=1)
        hits += int((error <= RELATIVE_ERROR).sum())
        total += len(actual)
        most_frequent += largest_share(actual) * len(actual)
    if not total:
        return None
    share, prior = exact_proportion(hits, total), most_frequent / total
    finding = f"{hits:,} of {total:,} rows that devices multiply the weights by are read, up to their length."
    return Measurement.of_share("input rows", share, finding, prior=prior)


def _directions(rows: Floats) -> NDArray[np.float64]:
    """Rows [k, d] at length 1, those of zeros as they are."""
    length = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1)
