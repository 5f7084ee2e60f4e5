"""What parties keep to themselves, by family of attacks: for scoring and for nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Truth
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, within_silos
from fgl_secure.runtime import Directory, Phase, PrivateBatch, Role, Step, Transcript
from fgl_secure.typing import Floats, Ids

PSEUDONYMS = "pseudonyms of groups"
"""Name of what owners of sums draw: what relays call their groups."""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTruth(Truth):
    """Secrets of devices.

    Attributes:
        silo_of: int64 [n], the silo index of each device.
        edges: int64 [2, m], source above target, device indices, of messages that were sent.
        tags: int64 [k, 3], a device, and the pseudonym of its group at relays.
    """

    silo_of: Ids
    edges: Ids
    tags: Ids = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64), kw_only=True)

    NUMBERS: ClassVar[tuple[str, ...]] = ("edges",)
    """Fields, or mappings to values, of device indices."""
    ROWS: ClassVar[tuple[str, ...]] = ()
    """Fields, or mappings to values, of one row a device."""

    def permute(self, seed: int) -> Self:
        """The devices of each silo shuffled among themselves."""
        swap = within_silos(self.silo_of, seed)
        moved = {name: _each(getattr(self, name), lambda numbers: swap[numbers]) for name in self.NUMBERS}
        moved |= {name: _each(getattr(self, name), lambda rows: rows[swap]) for name in self.ROWS}
        return replace(self, **moved)


def _each(value: Any, change: Any) -> Any:
    """A change of an array, or of all values of a mapping."""
    return {key: change(item) for key, item in value.items()} if isinstance(value, Mapping) else change(value)


@dataclass(frozen=True, slots=True, eq=False)
class MessageTruth(DeviceTruth):
    """What devices sent to their neighbours.

    Attributes:
        parties: numbering of the parties.
        embeddings: for each step, what each device sent, [n, d] as it entered the scheme.
        labels: int64 [n], the label of each device; -1 for none.
        rows: for each layer, [n, d], the row by which each device multiplied the weights.
    """

    parties: Directory
    embeddings: Mapping[Step, NDArray[Any]]
    labels: Ids
    rows: Mapping[int, NDArray[Any]] = field(default_factory=dict)

    ROWS: ClassVar[tuple[str, ...]] = ("embeddings", "labels", "rows")

    @classmethod
    def of(cls, transcript: Transcript, graph: FederatedGraph) -> MessageTruth:
        """Gathers the truth of a recorded run on a graph, the one whose edges carried the messages.

        Raises:
            InputError: the transcript does not hold one input row a device.
        """
        rest = (sent_rows(transcript), graph.labels, _input_rows(transcript))
        return cls(graph.silo_of, graph.edges, transcript.parties, *rest, tags=group_tags(transcript))


@dataclass(frozen=True, slots=True, eq=False)
class StructureTruth(DeviceTruth):
    """The secrets of a graph whose structure clients share.

    Attributes:
        parties: numbering of the parties.
        labels: int64 [n], the label of each device; -1 for none.
        labelled: bool [n], the devices whose labels train the model.
        identity: int64 [n], which device an outsider's list calls by each index.
        embeddings: for each step, [n, d], what enters the sums.
    """

    parties: Directory
    labels: Ids
    labelled: NDArray[np.bool_]
    identity: Ids
    embeddings: Mapping[Step, NDArray[Any]] = field(default_factory=dict)

    ROWS: ClassVar[tuple[str, ...]] = ("labels", "labelled", "identity", "embeddings")

    @classmethod
    def of(
        cls, parties: Directory, graph: FederatedGraph, embeddings: Mapping[Step, NDArray[Any]] | None = None
    ) -> StructureTruth:
        """The truth of a graph whose nodes an outsider's list calls by their own index.

        Args:
            parties: numbering of the parties.
            graph: who has what.
            embeddings: what enters the sums, by step; nothing unless given.
        """
        nodes = np.arange(graph.num_devices, dtype=np.int64)
        rest = (graph.labels, graph.train_mask.copy(), nodes, embeddings or {})
        return cls(graph.silo_of, graph.edges, parties, *rest)


@dataclass(frozen=True, slots=True, eq=False)
class TreeTruth(DeviceTruth):
    """The secrets of clients that sum features hop by hop: float [n, d], what each node puts into the first hop."""

    features: NDArray[Any]

    ROWS: ClassVar[tuple[str, ...]] = ("features",)


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
class GradientTruth(DeviceTruth):
    """What gradients were taken over.

    Attributes:
        labels: int64 [n], the label of each device; -1 for none.
        features: float [n, d], the features of each device.
        batches: what each client took its gradient over, by round and client, those present that took part.
        entering: by name of each first weight, float [n, d_in], the row by which it is multiplied for each node; what
            `Candidates.entering` gives for the true features and edges.
        fields: by index of the client, int64 [m], the device behind each row of the receptive field that attackers may
            know the shape of, the batch first.
    """

    labels: Ids
    features: NDArray[Any]
    batches: tuple[ClientBatch, ...] = ()
    entering: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    fields: Mapping[int, Ids] = field(default_factory=dict)

    NUMBERS: ClassVar[tuple[str, ...]] = ("edges", "fields")
    ROWS: ClassVar[tuple[str, ...]] = ("labels", "features", "entering")

    @classmethod
    def of(cls, graph: FederatedGraph) -> GradientTruth:
        """The truth of a graph over which no party has taken a gradient yet."""
        return cls(graph.silo_of, graph.edges, graph.labels, graph.features)

    def permute(self, seed: int) -> GradientTruth:
        """The devices of each silo shuffled among themselves, in batches too."""
        swap, moved = within_silos(self.silo_of, seed), DeviceTruth.permute(self, seed)
        batches = [replace(batch, nodes=swap[batch.nodes], receptive=swap[batch.receptive]) for batch in self.batches]
        return replace(moved, batches=tuple(batches))


@dataclass(frozen=True, slots=True, eq=False)
class UpdateTruth(Truth):
    """What each client put into sums: by round, float64 [clients, P], rows of NaN where a client took no part."""

    updates: Mapping[int, NDArray[Any]]

    def permute(self, seed: int) -> UpdateTruth:  # noqa: ARG002  # clients move on by one
        """Every client's updates at the next client."""
        return UpdateTruth(_each(self.updates, shift_rows))


@dataclass(frozen=True, slots=True, eq=False)
class ProxyTruth(Truth):
    """Labelled nodes and their proxies, by client k and round t.

    Attributes:
        labelled: int64 [K, R, C], how many labelled nodes of each class a client has.
        singles: float64 [K, R, C, d], the proxy of the one node of each class that has a single one, else NaN.
        added: float64 [K, R, d], the proxy of the node that a client counts from that round on; NaN where there is
            none, or several.
        sizes: int64 [K, R], how many labelled nodes a client has. The null control leaves it: it says when there is
            something to find, not what.
    """

    labelled: Ids
    singles: Floats
    added: Floats
    sizes: Ids

    def permute(self, seed: int) -> ProxyTruth:  # noqa: ARG002  # clients move on by one
        """Every client's nodes at the next client."""
        return ProxyTruth(shift_rows(self.labelled), shift_rows(self.singles), shift_rows(self.added), self.sizes)


@dataclass(frozen=True, slots=True, eq=False)
class VirtualNodeTruth(Truth):
    """Whose summands are whose, and how often labels occur.

    Attributes:
        clients: int64 [K], which client each summand of a round is from, by its place in the record.
        label_shares: float64 [K, C], how often each label occurs among a client's training graphs; None where graphs
            have values in place of labels.
        population: float64 [C], how often each label occurs among all training graphs; None likewise. The null control
            moves labels on.
    """

    clients: Ids
    label_shares: Floats | None = None
    population: Floats | None = None

    def permute(self, seed: int) -> VirtualNodeTruth:  # noqa: ARG002  # clients and labels move on by one
        """Every client's secrets at the next client, and every label's share at the next label."""
        secrets = (self.clients, self.label_shares, self.population)
        return VirtualNodeTruth(*(None if secret is None else shift_rows(secret) for secret in secrets))  # type: ignore[arg-type]  # clients are there


def shift_rows(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows of clients or classes, each at the next one."""
    return np.roll(rows, 1, axis=0)


def sent_rows(transcript: Transcript) -> dict[Step, NDArray[Any]]:
    """The rows [n, d] that devices put in, by step.

    The secrets of a step are the rows that were noted first: a scheme inside another one notes what it is handed, which
    may have noise on it already.

    Raises:
        InputError: the rows of a step are not one a device.
    """
    devices = transcript.parties.ids(Role.DEVICE)
    first: dict[Step, PrivateBatch] = {}
    for batch in transcript.secrets():
        first.setdefault(batch.step, batch)
    if not all(np.array_equal(batch.owners, devices) for batch in first.values()):
        raise InputError("transcript must hold one input row a device, in the order of the devices")
    return {step: batch.values.copy() for step, batch in first.items()}


def group_tags(transcript: Transcript) -> Ids:
    """The pseudonyms of groups, each with the device whose it is: its owner, or the one at its place at a silo."""
    batches = [b for b in transcript.private if b.name == PSEUDONYMS]
    if not batches:
        return np.empty((0, 3), dtype=np.int64)
    devices = transcript.parties.ids(Role.DEVICE)
    of_each = [b.owners - devices[0] if np.isin(b.owners, devices).all() else np.arange(len(b.owners)) for b in batches]
    tagged = np.column_stack([np.concatenate(of_each), np.concatenate([b.values for b in batches])])
    tags: Ids = np.unique(tagged, axis=0)
    return tags


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


def crosses_silos(truth: DeviceTruth) -> NDArray[np.bool_]:
    """Bool [m]: whether the ends of each edge are in different silos."""
    source, target = truth.silo_of[truth.edges]
    return np.asarray(source != target)


def neighbours_by_silo(truth: DeviceTruth) -> Ids:
    """int64 [n, s], neighbours of each device in each silo; 0 in its own."""
    (sources, targets), silo_of = truth.edges, truth.silo_of
    counts = np.zeros((len(silo_of), int(silo_of.max()) + 1), dtype=np.int64)
    np.add.at(counts, (targets, silo_of[sources]), 1)
    counts[np.arange(len(silo_of)), silo_of] = 0
    return counts


def foreign_neighbours(truth: DeviceTruth) -> NDArray[np.bool_]:
    """Bool [n, silos]: whether a device has an edge to or from a device of that silo, its own left out."""
    silos = int(truth.silo_of.max()) + 1
    touches = np.zeros((len(truth.silo_of), silos), dtype=np.bool_)
    for a, b in (truth.edges, truth.edges[::-1]):
        touches[a, truth.silo_of[b]] = True
    touches[np.arange(len(truth.silo_of)), truth.silo_of] = False
    return touches
