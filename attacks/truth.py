"""The secrets of a run, for scoring and for nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import Directory, Phase, PrivateBatch, Role, Step, Transcript

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ClientBatch:
    """What one client took its gradient over in one round.

    Attributes:
        round: the training round.
        client: index of the silo.
        nodes: int64 [b], device indices of the labelled nodes of the batch, each once.
        receptive: int64 [r], device indices of all nodes at which the gradient of the first layer's outputs can be
            non-zero: those at most (layers of parameters - 1) hops from the batch in the client's own graph, the
            batch included. With one layer, and under SGC, that is the batch itself.
    """

    round: int
    client: int
    nodes: Ids
    receptive: Ids


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """What the parties of a run kept to themselves.

    Attributes:
        parties: numbering of the parties.
        silo_of: int64 [n], the silo index of each device.
        edges: int64 [2, m], source above target, device indices, of messages that were sent.
        embeddings: for each step, what each device sent, [n, d] as it entered the scheme.
        labels: int64 [n], the label of each device.
        rows: for each layer, [n, d], the row by which each device multiplied the weights.
        labelled: bool [n], the devices whose labels train the model.
        identity: int64 [n], which device an outsider's list calls by each index.
        batches: what each client took its gradient over, by round and client, those present that took part.
        entering: by name of each first weight, float [n, d_in], the row by which it is multiplied for each node; what
            `Candidates.entering` gives for the true features and edges.
        updates: by round, float [clients, P], what each client put in; rows of NaN where it took no part.
        features: float [n, d], the features of each device.
        fields: by index of the client, int64 [m], the device behind each row of the receptive field that attackers may
            know the shape of, the batch first.
        extra: by name, what else is secret, one row a client, or a class where it is about all clients together.
    """

    parties: Directory
    silo_of: Ids
    edges: Ids
    embeddings: Mapping[Step, NDArray[Any]]
    labels: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    rows: Mapping[int, NDArray[Any]] = field(default_factory=dict)
    labelled: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    identity: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    batches: tuple[ClientBatch, ...] = ()
    entering: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    updates: Mapping[int, NDArray[Any]] = field(default_factory=dict)
    features: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))
    fields: Mapping[int, Ids] = field(default_factory=dict)
    extra: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def of_graph(cls, parties: Directory, graph: FederatedGraph) -> Truth:
        """What a graph alone makes secret: edges, labels, who is labelled and who is who."""
        everyone = np.arange(graph.num_devices, dtype=np.int64)
        labelled = graph.train_mask.copy()
        return cls(
            parties,
            graph.silo_of,
            graph.edges,
            {},
            graph.labels,
            labelled=labelled,
            identity=everyone,
            features=graph.features,
        )

    @classmethod
    def of(cls, transcript: Transcript, graph: FederatedGraph) -> Truth:
        """Gathers the truth of a recorded run on a graph (the one whose edges carried the messages).

        The secrets of a step are the rows that were noted first: a scheme inside another one notes what it is handed,
        which may have noise on it already.
        """
        devices = transcript.parties.ids(Role.DEVICE)
        first: dict[Step, PrivateBatch] = {}
        for batch in transcript.secrets():
            first.setdefault(batch.step, batch)
        if not all(np.array_equal(batch.owners, devices) for batch in first.values()):
            raise InputError("transcript must hold one input row a device, in the order of the devices")
        embeddings = {step: batch.values.copy() for step, batch in first.items()}
        rows = _input_rows(transcript)
        return cls(transcript.parties, graph.silo_of, graph.edges, embeddings, graph.labels, rows)

    def permuted(self, seed: int) -> Truth:
        """The same truth with the devices of each silo shuffled among themselves: the null control's truth.

        The shuffle is one cycle through the silo, so that no device keeps its own secret (but one alone in its silo).
        Clients' updates, and what else there is, move on by one row.
        """
        swap = np.arange(len(self.silo_of))
        rng = np.random.default_rng(seed)
        for silo in range(int(self.silo_of.max()) + 1):
            members = np.flatnonzero(self.silo_of == silo)
            cycle = rng.permutation(members)
            swap[cycle] = np.roll(cycle, 1)
        embeddings = {step: rows[swap] for step, rows in self.embeddings.items()}
        rows = {layer: values[swap] for layer, values in self.rows.items()}
        labels = self.labels[swap] if len(self.labels) else self.labels
        labelled = self.labelled[swap] if len(self.labelled) else self.labelled
        identity = self.identity[swap] if len(self.identity) else self.identity
        batches = tuple(
            replace(batch, nodes=swap[batch.nodes], receptive=swap[batch.receptive]) for batch in self.batches
        )
        entering = {name: values[swap] for name, values in self.entering.items()}
        updates = {number: np.roll(values, 1, axis=0) for number, values in self.updates.items()}
        return replace(
            self,
            edges=swap[self.edges],
            embeddings=embeddings,
            labels=labels,
            rows=rows,
            labelled=labelled,
            identity=identity,
            batches=batches,
            entering=entering,
            updates=updates,
            features=self.features[swap] if len(self.features) else self.features,
            fields={client: swap[members] for client, members in self.fields.items()},
            extra={name: np.roll(values, 1, axis=0) for name, values in self.extra.items()},
        )

    @property
    def crosses_silos(self) -> NDArray[np.bool_]:
        """Bool [m]: whether the ends of each edge are in different silos."""
        source, target = self.silo_of[self.edges]
        return np.asarray(source != target)

    @property
    def foreign_neighbours(self) -> NDArray[np.bool_]:
        """Bool [n, silos]: whether a device has an edge to or from a device of that silo, its own left out."""
        silos = int(self.silo_of.max()) + 1
        touches = np.zeros((len(self.silo_of), silos), dtype=np.bool_)
        for a, b in (self.edges, self.edges[::-1]):
            touches[a, self.silo_of[b]] = True
        touches[np.arange(len(self.silo_of)), self.silo_of] = False
        return touches

    @property
    def only_source(self) -> Ids:
        """int64 [n]: the one device that sends to a device, or -1 where there are none or several."""
        counts = np.bincount(self.edges[1], minlength=len(self.silo_of))
        sources = np.full(len(self.silo_of), -1, dtype=np.int64)
        sources[self.edges[1]] = self.edges[0]
        return np.where(counts == 1, sources, -1)


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
