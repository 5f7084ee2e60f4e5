"""Fed2GNN (Algorithms 1 and 2) as one client runs it: sums over trees, trees from sums, and averaging of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
from fgl_secure.methods.fed2gnn.hop_sums import ReceivedSums, RowRange, exchange_hops
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset, LatentPreset
from fgl_secure.methods.fed2gnn.trees import Children, CompletedGraph, DecodedChildren, complete, roots_of, sent_values
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme, least_group
from fgl_secure.protocols.topology import NEIGHBOURS
from fgl_secure.runtime import Channel, Step
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.averaging import APART, AveragedRounds, Learner, LocalSteps
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.dropout import CoinDropout
from fgl_secure.training.job import Job, Task
from fgl_secure.training.node_models import Matrix, NodeModel, PerceptronModel, Surroundings, backbone_of, make_model
from fgl_secure.training.parties import Between, check_parties, note_own_graph
from fgl_secure.training.server_sums import FRACTION_BITS
from fgl_secure.training.silo import Facts, Silo
from fgl_secure.typing import Floats

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


def learn_latent(talk: Collectives, preset: LatentPreset, *, seed: int, device: torch.device) -> Reals:
    """Averages the perceptron, then finds the scale from the mean square of a coordinate over all nodes.

    Args:
        talk: sums over clients; one a round, and one more.
        preset: how to train.
        seed: of initial weights and dropout.
        device: where model compute runs.

    Returns:
        float32 [features, width], what every client multiplies its features with; mapped rows have the root mean
        square of the preset over all nodes.

    Raises:
        InputError: all features are zero, so that there is nothing to map.
    """
    silo, facts = talk.silo, talk.silo.facts
    model = PerceptronModel((facts.features, preset.width, facts.classes), torch.Generator().manual_seed(seed))
    local = LocalSteps(preset.learning_rate, preset.weight_decay)
    dropout = _Together(preset.dropout, seed, silo)
    learner = Learner(talk, model, local, dropout, device)
    alone = sparse.csr_array((len(silo.nodes), len(silo.nodes)), dtype=np.float64)
    graph = Surroundings(Matrix(sparse.csr_array(silo.features), device), Matrix(alone, device))
    for _ in range(preset.epochs):
        learner.step(graph)
    matrix = model.first.detach().cpu().numpy()
    squares = (project_features(silo.features, matrix).astype(np.float64) ** 2).mean(axis=1)
    share = np.array([squares.sum() / facts.nodes])
    square = float(talk.server(share, grid=talk.grid(FRACTION_BITS))[0][0])
    if not square > 0:
        raise InputError("features must not all be mapped to zero; found nothing else")
    scaled: Reals = (matrix * (preset.scale / np.sqrt(square))).astype(np.float32)
    return scaled


TINY = 1e-12


class Fed2GNNClient(AveragedRounds):
    """One client of Fed2GNN.

    Args:
        talk: the collectives of the run; clients add up beforehand what goes to one node.
        preset: how to train.
        backbone: "gcn", "sage" or "dagnn".
        seed: of initial weights, dropout and decoders.
        device: where model compute runs; the CPU by default.
        rows: how large rows may get; None sends them as they are.

    Attributes:
        had: what the client has after the exchange.
        heard: float64 [K, m, w], the sums as they arrived, in the process that the exchange ended in.
    """

    had: ReceivedSums
    heard: Floats

    def __init__(
        self,
        talk: Collectives,
        preset: Fed2GNNPreset,
        *,
        backbone: str = "gcn",
        seed: int = 0,
        device: torch.device | None = None,
        rows: RowRange | None = None,
    ) -> None:
        model = model_of(backbone, talk.silo.facts, preset, seed)
        super().__init__(talk, preset, model, seed=seed, device=device)
        self.preset = preset
        self._kind, self._rows = backbone_of(backbone).propagation, rows

    def begin(self) -> None:
        """All that is said before the first round: the latent map, sums over trees, and decoders of all clients."""
        features, latent = self.silo.features, self.preset.latent
        if latent is not None:
            features = project_features(features, learn_latent(self.talk, latent, seed=self.seed, device=self.device))
        graph, foreign = self.silo.alone, OwnPairs.of(self.silo, self.talk.summed_edges).foreign
        degree = (graph.in_degree + foreign).astype(np.float64)
        values = sent_values(features.astype(np.float64), degree, self._kind)
        sums, self.heard = exchange_hops(self.talk, graph, values, self.preset.hops, self._rows)
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
            there is in the clear.
        preset: how to train.
        backbone: "gcn", "sage" or "dagnn".
        seed: of sampled neighbours, initial weights, dropout and decoders.
        device: where model compute runs; the CPU by default.
        kind: makes a client's program, as `Fed2GNNClient` does.
    """
    check_undirected(graph)
    scheme = schemes.get(NEIGHBOURS, Plaintext())
    rows = row_range(preset, scheme)

    def make(talk: Collectives, _coins: Coins) -> Fed2GNNClient:
        return kind(talk, preset, backbone=backbone, seed=seed, device=device, rows=rows)

    def settle(channel: Channel) -> Between:
        check_parties(graph, schemes, channel)
        note_own_graph(channel, graph)
        neighbours = agreed_neighbours(graph, channel, preset.neighbours, seed, Step(0))
        return between_clients(neighbours, channel, None, least_group(scheme))

    width = graph.graph.num_features if preset.latent is None else preset.latent.width
    task = Task(make, {NEIGHBOURS: scheme, **schemes}, preset.epochs, width, between=True)
    return Job(task, graph, sampled_neighbours(graph, preset.neighbours, seed), settle)
