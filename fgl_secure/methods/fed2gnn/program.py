"""Fed2GNN (Algorithms 1 and 2) as one client runs it: sums over trees, trees from sums, and averaging of models.

A client's trees grow one level after the other, from sums alone (Fed2GNN, Algorithm 2). A level is decoded into single
nodes, or one node with the mean of the level stands for all of it (the last layer of the paper's trees, "a single
node", and every layer below the decoded ones here). A node that stands for n others is joined to its father with
weight n, which for linear propagation of sums is what n nodes of one degree would do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.coins import Coins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.decoder import Decoder, Neighbourhoods, own_neighbourhoods
from fgl_secure.methods.fed2gnn.grouping import (
    OwnPairs,
    agreed_neighbours,
    between_clients,
    check_undirected,
    sampled_neighbours,
)
from fgl_secure.methods.fed2gnn.hop_sums import HopSums, ReceivedSums, RowRange, exchange_hops
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset, LatentPreset
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme, least_group
from fgl_secure.protocols.topology import NEIGHBOURS
from fgl_secure.runtime import Channel, Step
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.dropout import CoinDropout
from fgl_secure.training.job import Job, Task
from fgl_secure.training.node_models import (
    APART,
    AveragedRounds,
    Learner,
    LocalSteps,
    Matrix,
    NodeModel,
    PerceptronModel,
    Propagation,
    Surroundings,
    backbone_of,
    degree_weights,
    make_model,
)
from fgl_secure.training.parties import Between, check_parties, note_own_graph
from fgl_secure.training.server_sums import FRACTION_BITS
from fgl_secure.training.silo import Facts, Silo
from fgl_secure.typing import Array, Floats, Ids

UNKNOWN = -1
"""The node of a position that was decoded."""


@dataclass(frozen=True, slots=True, eq=False)
class TreeLevel:
    """Positions in one layer of a client's trees.

    Attributes:
        parent: int64 [b], the place of each father in the level above; -1 for roots.
        value: float64 [b, w], rows as they are exchanged.
        below: float64 [b, r, w], sums over the next r layers of the subtree of each position.
        children: float64 [b], numbers of children.
        neighbours: float64 [b], numbers of neighbours, father included.
        count: float64 [b], for how many nodes a position stands.
        node: int64 [b], which node it is, where that is known.
        father: int64 [b], which node its father is, likewise.
    """

    parent: Ids
    value: Floats
    below: Floats
    children: Floats
    neighbours: Floats
    count: Floats
    node: Ids
    father: Ids

    @property
    def size(self) -> int:
        """Positions b."""
        return len(self.parent)


class Children(ABC):
    """Where the nodes of a level come from.

    Attributes:
        longest: largest norm of a row. A sum over n rows is no longer than n such: that bounds n from below, where
            predictions of n go wrong far down a tree.
    """

    longest: float = float("inf")

    @abstractmethod
    def single(self, level: TreeLevel) -> TreeLevel:
        """The children of all positions of a level, one by one."""

    @abstractmethod
    def degrees(self, elements: Floats) -> Floats:
        """Numbers of other neighbours of nodes with rows and first sums, float64 [b, at least 1, w] to [b]."""

    def mean(self, level: TreeLevel) -> TreeLevel:
        """One child for each position that has any: the mean of its children."""
        parent = np.flatnonzero(level.children > 0)
        least = np.linalg.norm(level.below[parent, 0], axis=1) / self.longest
        count = np.maximum(np.rint(level.children[parent]), np.maximum(np.ceil(least), 1))
        elements = level.below[parent] / count[:, None, None]
        children = self.degrees(elements)
        unknown = np.full(len(parent), UNKNOWN, dtype=np.int64)
        return TreeLevel(
            parent, elements[:, 0], elements[:, 1:], children, children + 1, count, unknown, level.node[parent]
        )


class DecodedChildren(Children):
    """What a client's decoders make of sums.

    Args:
        decoders: by the number of parts that they decode.
        most: d, most children.
        usual: number of other neighbours of a node of which no sum is known.
        nodes: of the whole graph, which bounds predicted numbers of neighbours.
        longest: largest norm of a row.
    """

    def __init__(
        self, decoders: Mapping[int, Decoder], most: int, usual: float, nodes: int, longest: float = float("inf")
    ) -> None:
        self._decoders, self._most, self._usual, self._nodes, self.longest = decoders, most, usual, nodes, longest

    def single(self, level: TreeLevel) -> TreeLevel:
        """Decodes as many children as are known or predicted; beyond d, each stands for more than one node."""
        decoder = self._decoders[level.below.shape[1]]
        counts = np.clip(np.rint(level.children).astype(np.int64), 0, self._most)
        above = np.flatnonzero(counts)
        elements = decoder.decode(level.below[above], counts[above])
        parent = np.repeat(above, counts[above])
        children = self.degrees(elements)
        unknown = np.full(len(parent), UNKNOWN, dtype=np.int64)
        count = np.maximum(level.children[parent] / counts[parent], 1)
        value, below = elements[:, 0] / count[:, None], elements[:, 1:] / count[:, None, None]
        return TreeLevel(parent, value, below, children, children + 1, count, unknown, level.node[parent])

    def degrees(self, elements: Floats) -> Floats:
        """As the degree predictor believes; the usual number where there is no sum to look at, or no predictor."""
        if elements.shape[1] < 2 or not self._decoders:  # a row and a sum
            return np.full(len(elements), self._usual)
        return self._decoders[max(self._decoders)].degrees(elements, self._nodes)


@dataclass(frozen=True, slots=True, eq=False)
class CompletedGraph:
    """The local graph of a client, and positions of trees.

    Attributes:
        rows: float64 [t, w], features; the client's own nodes come first.
        source: int64 [m], edges in both directions.
        target: int64 [m].
        count: float64 [m], for how many nodes the source stands, as seen from the target.
        neighbours: float64 [t], numbers of neighbours in the whole graph, as known or predicted.
    """

    rows: Floats
    source: Ids
    target: Ids
    count: Floats
    neighbours: Floats

    def state(self) -> dict[str, Array]:
        """All of it, as arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def surroundings(self, kind: Propagation, device: torch.device | None = None) -> Surroundings:
        """As a model computes on it."""
        weights = degree_weights(self.source, self.target, self.count, self.neighbours, kind)
        return Surroundings(Matrix(sparse.csr_array(self.rows), device), Matrix(weights, device))


def sent_values(features: Floats, neighbours: Floats, kind: Propagation) -> Floats:
    """What is summed in the exchange: x / sqrt(|N| + 1) for symmetric propagation (Appendix A), x for the mean."""
    scale = np.sqrt(neighbours + 1) if kind is Propagation.SYMMETRIC else np.ones(len(features))
    result: Floats = features / scale[:, None]
    return result


def roots_of(graph: FederatedGraph, client: int, values: Floats, sums: HopSums, foreign: Ids) -> TreeLevel:
    """The first level of a client's trees: its own nodes.

    Args:
        graph: who has what.
        client: which.
        values: float64 [n, w], as they are exchanged.
        sums: of Protocol 1.
        foreign: int64 [n], neighbours at other clients over which each node heard sums.
    """
    devices = graph.devices_of(client)
    local = np.bincount(graph.edges[1, ~graph.crosses_silos], minlength=graph.num_devices)[devices]
    return TreeLevel(
        parent=np.full(len(devices), UNKNOWN, dtype=np.int64),
        value=values[devices],
        below=sums.f[:, devices].transpose(1, 0, 2),
        children=foreign[devices].astype(np.float64),
        neighbours=(local + foreign[devices]).astype(np.float64),
        count=np.ones(len(devices)),
        node=devices,
        father=np.full(len(devices), UNKNOWN, dtype=np.int64),
    )


def complete(
    graph: FederatedGraph, client: int, roots: TreeLevel, children: Children, decoded: int, kind: Propagation
) -> CompletedGraph:
    """Hangs the trees on the local graph.

    Args:
        graph: who has what.
        client: whose graph.
        roots: its own nodes; they have sums over K layers.
        children: where further levels come from.
        decoded: levels of single nodes, from 0 to K; one node a father stands for each level below.
        kind: of propagation, by which rows are scaled.
    """
    hops = roots.below.shape[1]
    if not 0 <= decoded <= hops:
        raise InputError(f"decoded must be in 0..{hops} levels, the current sums; found {decoded}")
    levels = [roots]
    for depth in range(hops):
        levels.append(children.single(levels[-1]) if depth < decoded else children.mean(levels[-1]))
    start = np.cumsum([0, *(level.size for level in levels)])
    devices = graph.devices_of(client)
    inside = graph.edges[:, (graph.silo_of[graph.edges] == client).all(axis=0)]
    source, target = np.searchsorted(devices, inside)
    child = np.arange(start[1], start[-1])
    father = np.concatenate([above + level.parent for above, level in zip(start, levels[1:], strict=False)])
    ones = np.ones(len(child))
    neighbours = np.concatenate([level.neighbours for level in levels])
    values = np.concatenate([level.value for level in levels])
    scale = np.sqrt(neighbours + 1) if kind is Propagation.SYMMETRIC else np.ones(len(values))
    return CompletedGraph(
        rows=values * scale[:, None],
        source=np.concatenate([source, child, father]),
        target=np.concatenate([target, father, child]),
        count=np.concatenate([np.ones(len(source)), *(level.count for level in levels[1:]), ones]),
        neighbours=neighbours,
    )


Reals = NDArray[np.float32]


class _Together(CoinDropout):
    """What all clients drop is drawn from one seed, client by client, and each takes its own."""

    def __init__(self, rate: float, seed: int, silo: Silo) -> None:
        super().__init__(rate, seed)
        self._sizes, self._own = silo.facts.sizes, silo.silo

    def __call__(self, hidden: torch.Tensor, *, training: bool) -> torch.Tensor:
        if not (training and self._rate):
            return hidden
        shapes = [(size, hidden.shape[1]) for size in self._sizes]
        draws = [torch.rand(shape, generator=self._coins) for shape in shapes]
        return hidden * (draws[self._own].to(hidden.device) >= self._rate) / (1 - self._rate)


def project_features(features: Reals, matrix: Reals) -> Reals:
    """Rows [n, features] to float32 [n, width]."""
    result: Reals = (sparse.csr_array(features) @ matrix).astype(np.float32)
    return result


def learn_latent(comm: Collectives, preset: LatentPreset, *, seed: int, device: torch.device) -> Reals:
    """Averages the perceptron, then finds the scale from the mean square of a coordinate over all nodes.

    Args:
        comm: sums over clients; one a round, and one more.
        preset: how to train.
        seed: of initial weights and dropout.
        device: where model compute runs.

    Returns:
        float32 [features, width], what every client multiplies its features with; mapped rows have the root mean
        square of the preset over all nodes.

    Raises:
        InputError: all features are zero, so that there is nothing to map.
    """
    silo, facts = comm.silo, comm.silo.facts
    model = PerceptronModel((facts.features, preset.width, facts.classes), torch.Generator().manual_seed(seed))
    local = LocalSteps(preset.learning_rate, preset.weight_decay)
    dropout = _Together(preset.dropout, seed, silo)
    learner = Learner(comm, model, local, dropout, device)
    alone = sparse.csr_array((len(silo.nodes), len(silo.nodes)), dtype=np.float64)
    graph = Surroundings(Matrix(sparse.csr_array(silo.features), device), Matrix(alone, device))
    for _ in range(preset.epochs):
        learner.step(graph)
    matrix = model.first.detach().cpu().numpy()
    squares = (project_features(silo.features, matrix).astype(np.float64) ** 2).mean(axis=1)
    share = np.array([squares.sum() / facts.nodes])
    square = float(comm.server(share, grid=comm.grid(FRACTION_BITS))[0][0])
    if not square > 0:
        raise InputError("features must not all be mapped to zero; found nothing else")
    scaled: Reals = (matrix * (preset.scale / np.sqrt(square))).astype(np.float32)
    return scaled


TINY = 1e-12


class Fed2GNNClient(AveragedRounds):
    """One client of Fed2GNN.

    Args:
        comm: the collectives of the run; clients add up beforehand what goes to one node.
        preset: how to train.
        backbone: "gcn", "sage" or "dagnn".
        seed: of initial weights, dropout and decoders.
        device: where model compute runs; the CPU by default.
        rows: how large rows may get; None sends them as they are.

    Attributes:
        had: what the client has after the exchange.
        received_sums: float64 [K, m, w], the sums as they arrived, in the process that the exchange ended in.
    """

    had: ReceivedSums
    received_sums: Floats

    def __init__(
        self,
        comm: Collectives,
        preset: Fed2GNNPreset,
        *,
        backbone: str = "gcn",
        seed: int = 0,
        device: torch.device | None = None,
        rows: RowRange | None = None,
    ) -> None:
        model = model_of(backbone, comm.silo.facts, preset, seed)
        super().__init__(comm, preset, model, seed=seed, device=device)
        self.preset = preset
        self._kind, self._rows = backbone_of(backbone).propagation, rows

    def begin(self) -> None:
        """All that is said before the first round: the latent map, sums over trees, and decoders of all clients."""
        features, latent = self.silo.features, self.preset.latent
        if latent is not None:
            features = project_features(features, learn_latent(self.comm, latent, seed=self.seed, device=self.device))
        graph, foreign = self.silo.alone, OwnPairs.of(self.silo, self.comm.summed_edges).foreign
        degree = (graph.in_degree + foreign).astype(np.float64)
        values = sent_values(features.astype(np.float64), degree, self._kind)
        sums, self.received_sums = exchange_hops(self.comm, graph, values, self.preset.hops, self._rows)
        self.had = ReceivedSums(graph, values, sums, foreign)
        self.kept = under("had", self.had.state())

    def surroundings(self) -> Surroundings:
        """Hangs trees on the client's own graph; the first time they are found out."""
        if "tree/rows" not in self.kept:
            self.hang_trees()
        return CompletedGraph(**within("tree", self.kept)).surroundings(self._kind, self.device)

    def hang_trees(self) -> None:
        """Finds the trees out."""
        had, preset = self.had, self.preset
        roots = roots_of(had.graph, 0, had.values, had.sums, had.foreign)
        tree = complete(had.graph, 0, roots, self.children(), preset.decoded_levels, self._kind)
        self.kept = under("tree", tree.state())

    def children(self) -> Children:
        """Where trees come from: decoders, trained on the client's own nodes."""
        had, preset, number = self.had, self.preset, self.silo.silo
        decoders: dict[int, Decoder] = {}
        for parts in range(preset.hops, preset.hops - preset.decoded_levels, -1):
            if preset.shared_decoder and decoders:
                decoders[parts] = decoders[preset.hops]  # phi_1 serves all levels (4.3)
                continue
            mu = had.sums.mu[: parts - 1]
            data = own_neighbourhoods(had.graph, 0, had.values, mu, had.neighbours, preset.neighbours, self.seed)
            decoders[parts] = self.decoder(data, self.seed + APART * (1 + number + self.silo.facts.silos * parts))
        longest = max(float(np.linalg.norm(had.values, axis=1).max()), TINY)
        return DecodedChildren(decoders, preset.neighbours, had.usual, self.silo.facts.nodes, longest)

    def decoder(self, data: Neighbourhoods, seed: int) -> Decoder:
        """A trained decoder."""
        return Decoder(data, self.preset.neighbours, self.preset.decoder, seed, self.device)

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        if "had/values" in self.kept:
            self.had = ReceivedSums.restore(self.silo.alone, within("had", self.kept))


def model_of(backbone: str, facts: Facts, preset: Fed2GNNPreset, seed: int) -> NodeModel:
    """The model that a preset trains, on features as they are or on the latent map.

    Args:
        backbone: "gcn", "sage" or "dagnn".
        facts: of the graph.
        preset: how to train.
        seed: of the initial weights.
    """
    width = facts.features if preset.latent is None else preset.latent.width
    return make_model(backbone, (width, preset.hidden, facts.classes), preset.hops, seed)


def row_range(preset: Fed2GNNPreset, scheme: Scheme) -> RowRange | None:
    """How large rows may get, where a scheme wants to know."""
    return None if scheme.fixed_point(1) is None else RowRange(preset.row_range, preset.row_growth).under(scheme)


def clients_of(
    graph: FederatedGraph,
    schemes: Mapping[str, Scheme],
    preset: Fed2GNNPreset,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
    kind: Callable[..., Fed2GNNClient] = Fed2GNNClient,
) -> Job:
    """The clients: they settle who asks whom, exchange sums over trees, rebuild these, and train on completed graphs.

    Args:
        graph: who has what; every edge in both directions.
        schemes: of "neighbours", sums of hops, and of "server", models and the map to the latent space; what is not
            there is in plaintext.
        preset: how to train.
        backbone: "gcn", "sage" or "dagnn".
        seed: of sampled neighbours, initial weights, dropout and decoders.
        device: where model compute runs; the CPU by default.
        kind: makes a client's program, as `Fed2GNNClient` does.
    """
    check_undirected(graph)
    scheme = schemes.get(NEIGHBOURS, Plaintext())
    rows = row_range(preset, scheme)

    def make(comm: Collectives, _coins: Coins) -> Fed2GNNClient:
        return kind(comm, preset, backbone=backbone, seed=seed, device=device, rows=rows)

    def settle(channel: Channel) -> Between:
        check_parties(graph, schemes, channel)
        note_own_graph(channel, graph)
        neighbours = agreed_neighbours(graph, channel, preset.neighbours, seed, Step(0))
        return between_clients(neighbours, channel, None, least_group(scheme))

    width = graph.graph.num_features if preset.latent is None else preset.latent.width
    task = Task(make, {NEIGHBOURS: scheme, **schemes}, preset.epochs, width, between=True)
    return Job(task, graph, sampled_neighbours(graph, preset.neighbours, seed), settle)
