"""The secrets of devices that sum what their neighbours send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Truth
from fgl_secure.attacks.message_passing.knowledge import LABELS
from fgl_secure.attacks.truth import sent_rows
from fgl_secure.graph import FederatedGraph, within_silos
from fgl_secure.runtime import Directory, Phase, Role, Step, Transcript
from fgl_secure.typing import Ids


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
