"""Small graphs with features that tell classes, and short runs on them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, load, partition, random_split
from fgl_secure.methods.fed2gnn.decoder import walk_sums
from fgl_secure.methods.fed2gnn.hop_sums import hop_sums
from fgl_secure.methods.fed2gnn.preset import DecoderPreset, Fed2GNNPreset, LatentPreset, fed2gnn_preset
from fgl_secure.methods.fed2gnn.program import UNKNOWN, Children, Fed2GNNClient, TreeLevel, clients_of, sent_values
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.scheme import Scheme as ServerScheme
from fgl_secure.protocols.topology import NEIGHBOURS, SERVER
from fgl_secure.runtime import Channel, Recording
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.node_models import backbone_of
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.typing import Floats

QUICK = Fed2GNNPreset(
    "honest",
    epochs=4,
    decoder=DecoderPreset(epochs=3, width=16, coordinates=8),
    latent=LatentPreset(width=16, epochs=2),
)
PLAIN = replace(QUICK, latent=None, dropout=0.0, neighbours=10_000)
"""Without anything that is drawn anew where a graph has other nodes."""


def hurried_preset(name: str, dataset: str, backbone: str = "gcn") -> Fed2GNNPreset:
    """The preset of a name, with five passes of each decoder in the place of up to two hundred."""
    found = fed2gnn_preset(name, dataset, backbone)
    return replace(found, decoder=replace(found.decoder, epochs=5))


def some_digits(nodes: int = 300, clients: int = 4, name: str = "random") -> FederatedGraph:
    """The digits that come first, among clients."""
    whole = load("digits")
    inside = (whole.edges < nodes).all(axis=0)
    graph = Graph.from_arrays("some digits", whole.features[:nodes], whole.labels[:nodes], whole.edges[:, inside])
    masks = random_split(nodes, 0, (0.4, 0.3, 0.3))
    return FederatedGraph.from_assignment(graph, partition(name, graph, clients, 0), masks, name)


def channel_of(graph: FederatedGraph, scheme: Scheme | None = None, recording: Recording | None = None) -> Channel:
    return Channel(hierarchy_of(graph, (scheme or Plaintext()).helpers), SimulationCoins(0), recording)


def train(
    graph: FederatedGraph,
    preset: Fed2GNNPreset = QUICK,
    scheme: Scheme | None = None,
    updates: ServerScheme | None = None,
    *,
    backbone: str = "gcn",
    children: Callable[[Fed2GNNClient], Children] | None = None,
    recording: Recording | None = None,
    seed: int = 0,
) -> TrainingResult:
    scheme = scheme or Plaintext()
    channel = channel_of(graph, scheme, recording)
    schemes = {NEIGHBOURS: scheme, SERVER: updates or Plaintext()}

    class Client(Fed2GNNClient):
        def children(self) -> Children:
            return super().children() if children is None else children(self)

    return clients_of(graph, schemes, preset, backbone=backbone, kind=Client, seed=seed).train(channel)


def true_children(
    graph: FederatedGraph, preset: Fed2GNNPreset, backbone: str = "gcn"
) -> Callable[[Fed2GNNClient], Children]:
    """The true nodes in place of decoded ones, of features as they are: what no client knows."""
    degree = graph.in_degree.astype(np.float64)
    values = sent_values(graph.features.astype(np.float64), degree, backbone_of(backbone).propagation)
    mu = hop_sums(graph, values, preset.hops, Plaintext(), channel_of(graph)).mu[: preset.hops - 1]
    return lambda client: TrueOfClient(TrueChildren(graph, values, mu, client.had.usual), client.silo.nodes)


def relabelled(graph: FederatedGraph, client_of: np.ndarray) -> FederatedGraph:
    """The same graph among other clients."""
    return replace(graph, silo_of=client_of)


class TrueChildren(Children):
    """The children that are there: what no client knows, for comparison.

    Args:
        graph: who has what, with the edges of neighbours that are asked for.
        values: float64 [n, w], rows as they are exchanged.
        mu: float64 [K - 1, n, w], sums over walks.
        usual: as in `DecodedChildren`.
    """

    def __init__(self, graph: FederatedGraph, values: Floats, mu: Floats, usual: float) -> None:
        self._graph, self._usual = graph, usual
        source, target = graph.edges
        self._child, n = source, graph.num_devices
        self._elements = walk_sums(np.stack([target, source]), values, mu)
        self._first = np.searchsorted(target, np.arange(n + 1))
        self._degree = graph.in_degree.astype(np.float64)

    def single(self, level: TreeLevel) -> TreeLevel:
        """Looks the neighbours up: of roots those at other clients, of other nodes all but the father."""
        counts = np.diff(self._first)[level.node]
        parent = np.repeat(np.arange(level.size), counts)
        edge = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts - self._first[level.node], counts)
        node = self._child[edge]
        silo = self._graph.silo_of
        root = level.father[parent] == UNKNOWN
        kept = np.where(root, silo[node] != silo[level.node[parent]], node != level.father[parent])
        parent, edge, node = parent[kept], edge[kept], node[kept]
        elements = self._elements[edge][:, : level.below.shape[1]]
        neighbours = self._degree[node]
        ones = np.ones(len(node))
        return TreeLevel(
            parent, elements[:, 0], elements[:, 1:], neighbours - 1, neighbours, ones, node, level.node[parent]
        )

    def degrees(self, elements: Floats) -> Floats:
        """The usual number: no true node is the mean of others."""
        return np.full(len(elements), self._usual)


class TrueOfClient(Children):
    """True nodes by their numbers in the whole graph, of roots that go by their places at their client."""

    def __init__(self, whole: TrueChildren, members: np.ndarray) -> None:
        self._whole, self._members = whole, members

    def single(self, level: TreeLevel) -> TreeLevel:
        roots = (level.father == UNKNOWN).all()
        return self._whole.single(replace(level, node=self._members[level.node]) if roots else level)

    def degrees(self, elements: np.ndarray) -> np.ndarray:
        return self._whole.degrees(elements)
