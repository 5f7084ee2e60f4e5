"""Runs that attacks on message passing read, what attackers know besides, and what they are scored against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Measurement, Truth
from fgl_secure.attacks.recovery import Recovered, score_recovered_rows
from fgl_secure.attacks.truth import sent_rows
from fgl_secure.graph import FederatedGraph, within_silos
from fgl_secure.runtime import Directory, Phase, Role, Step, Transcript, View

TRAINING = "neighbour sums in training"
"""Scenario: embeddings and gradients of a training run."""

SMALL_FEATURES = "neighbour sums of 0/1 features in a small field"
"""Scenario: one exchange of features in a field small enough for brute force."""

STATIC_ROWS = "one release of static features"
"""Scenario: 0/1 features, each row divided by the root of its device's degree, summed once (HiFGL, Eq. 2)."""

DROP_OUTS = "static rows summed with drop-outs"
"""Scenario: the same rows summed in several rounds, in which devices take part or not."""

SILENCE = "neighbour sums in which one or two devices fall silent"
"""Scenario: sums in which no message of one device, or of two, reaches a relay."""

DEVIATION = "neighbour sums with devices that deviate"
"""Scenario: an exchange in which devices hand something else to be decoded than what the protocol says."""

PLAINTEXT = "plaintext"
SECMP = "secmp"
SMALL_FIELD = "secmp in the field of 11 elements"
SILO_PATH = "plaintext by way of the silos"
SECMP_STATIC = "secmp, one release of static features"
SECMP_DROP_OUTS = "secmp with drop-outs"
SECMP_DEVIATING = "secmp with devices that deviate"
CLEAR_GRADIENTS = "parameter gradients of single devices in the clear"
UNMASKED_SHARES = "shares without masks"
SHARED_MASKS = "shares under one mask for all senders"
FRESH_TAGS = "messages under fresh tags, at relays that see who sends"
OWN_SILOS = "messages of unnamed devices, which their own silos hand to relays"
SILENT_SENDERS = "messages of unnamed devices, one or two of which fall silent"
"""Controls, as HiFGL makes them."""


@dataclass(frozen=True, slots=True, eq=False)
class PublicRows:
    """A public list of rows, as a directory of papers or of profiles would have them.

    Attributes:
        rows: [n, d], a row for each device, by device index.
    """

    rows: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class SilentDevices:
    """Which devices fall silent in which round, as their silos and the network see it.

    Attributes:
        by_round: int64 [rounds, 2], party identifiers; NOT_SILENT in the place of each that there is not.
    """

    by_round: NDArray[np.int64]


NOT_SILENT = -1


Ids = NDArray[np.int64]

LABELS = "labels of sums"
"""Name of what owners of sums work out: the first label of each of their sums, at every relay."""


def by_fetch(tags: Ids, view: View, relay: int, step: Step) -> Ids:
    """What stands for the sum that each message is in: the first label of the fetch that names its own, or its tag.

    Args:
        tags: int64 [m, 2], tags or labels of messages.
        view: of relays.
        relay: party identifier; it takes into account what itself was asked for alone.
        step: when.
    """
    fetches = [batch for batch in view.messages(Phase.FETCH) if batch.step == step]
    named = [np.asarray(batch["opening"])[batch.receivers == relay] for batch in fetches]
    groups = {tuple(label): group[0] for each in named for group in each.tolist() for label in group}
    found = [groups.get(tuple(tag), tag) for tag in tags.tolist()]
    return np.array(found, dtype=np.int64).reshape(-1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class MessageTruth(Truth):
    """What devices sent to their neighbours.

    Attributes:
        parties: numbering of the parties.
        silo_of: int64 [n], the silo index of each device.
        edges: int64 [2, m], source above target, device indices, of messages that were sent.
        embeddings: for each step, what each device sent, [n, d] as it entered the scheme.
        labels: int64 [n], the label of each device.
        rows: for each layer, [n, d], the row by which each device multiplied the weights.
        tags: int64 [k, 3], a device, and a tag that it gave its neighbours, or what stands for one at a relay.
    """

    parties: Directory
    silo_of: Ids
    edges: Ids
    embeddings: Mapping[Step, NDArray[Any]]
    labels: Ids
    rows: Mapping[int, NDArray[Any]] = field(default_factory=dict)
    tags: Ids = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64))

    @classmethod
    def of(cls, transcript: Transcript, graph: FederatedGraph) -> MessageTruth:
        """Gathers the truth of a recorded run on a graph, the one whose edges carried the messages.

        Raises:
            InputError: the transcript does not hold one input row a device.
        """
        rows, layers = sent_rows(transcript), _input_rows(transcript)
        tags = _tags(transcript)
        return cls(transcript.parties, graph.silo_of, graph.edges, rows, graph.labels, layers, tags)

    def permuted(self, seed: int) -> MessageTruth:
        """The devices of each silo shuffled among themselves."""
        swap = within_silos(self.silo_of, seed)
        return replace(
            self,
            edges=swap[self.edges],
            embeddings={step: rows[swap] for step, rows in self.embeddings.items()},
            labels=self.labels[swap],
            rows={layer: values[swap] for layer, values in self.rows.items()},
        )


def _tags(transcript: Transcript) -> Ids:
    """The tags of the first step, each from the device whose it is: others hand it on under a ticket."""
    labels = [b for b in transcript.private if b.name == LABELS]
    if labels:
        owners, words = transcript.parties.index_of(labels[0].owners, Role.DEVICE), labels[0].values
        relays = words.shape[1]
        return np.column_stack([np.repeat(owners, relays), words.reshape(-1, 2)])
    batches = [b for b in transcript.messages if b.phase is Phase.TAGS and b.fields is not None]
    first = [b for b in batches if b.step == batches[0].step and "ticket" not in b.fields]  # type: ignore[operator]
    if not first:
        return np.empty((0, 3), dtype=np.int64)
    owners = np.concatenate([transcript.parties.index_of(b.senders, Role.DEVICE) for b in first])
    found: Ids = np.unique(np.column_stack([owners, np.concatenate([b["tag"] for b in first])]), axis=0)
    return found


def _input_rows(transcript: Transcript) -> dict[int, NDArray[Any]]:
    """The rows of the first round that devices multiplied each layer's first weights by.

    Gradients of weights are recorded as two factors, of which the first is that row; biases come last in a layer.
    """
    layers: dict[int, list[NDArray[Any]]] = {}
    for batch in transcript.messages:
        if batch.phase is Phase.GRADIENT and batch.step.round == 0 and batch.payload is not None:
            layers.setdefault(batch.step.layer, []).append(batch.payload)
    return {
        layer: parts[0][:, : parts[0].shape[1] - parts[-1].shape[1]].copy()
        for layer, parts in layers.items()
        if len(parts) > 1
    }


class RowReader(Attack[Recovered, MessageTruth]):
    """An attack that says what rows were sent, and by which devices."""

    def score(self, guess: Recovered, truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of rows that are exact, see `score_recovered_rows`."""
        return score_recovered_rows(guess, truth)
