"""What FedSpray is compared with in its Table 2: the same networks alone, with means of them, or as FedStar has them.

FedStar has layers of its own (GIN); FedSpray's Table 2 has it with three other networks and does not say how. Here
[x, s] goes into every layer where x alone does (FedStar, AAAI 2023, section 4.3). The encoder begins alike at all
clients and is averaged; the rest is personal.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fgl_reproduction.methods.fedstar.structure import StructureEncoder, structure_rows
from fgl_reproduction.methods.gcfl.clusters import ClusterRule, Clusters
from fgl_secure.errors import UnknownNameError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedspray.client import ChosenRounds, adam, choose_rounds, drawn_network
from fgl_secure.methods.fedspray.networks import (
    NETWORKS,
    ClassNetwork,
    MakeNetwork,
    Product,
    ProxyAffine,
    Subgraph,
    draw_weights,
)
from fgl_secure.methods.fedspray.preset import FedSprayPreset
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job
from fgl_secure.training.loop import COUNTS, Figures, share_of
from fgl_secure.training.parameters import flat, optimiser_state, overwrite, remind
from fgl_secure.training.server_sums import FRACTION_BITS
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array


class FeaturePerceptron(ClassNetwork):
    """Two layers that look at features alone: what section 3.1 compares with.

    Args:
        features: input width.
        hidden: width between the layers.
        classes: output width.
    """

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.first = ProxyAffine(features, hidden)
        self.second = ProxyAffine(hidden, classes)

    def scores(self, subgraph: Subgraph) -> torch.Tensor:
        """relu(X W_1 + b_1) W_2 + b_2."""
        h = functional.relu(subgraph.features(self.first.weight) + self.first.bias)
        scores: torch.Tensor = self.second(h)
        return scores


KNOWN: Mapping[str, MakeNetwork] = {**NETWORKS, "mlp": FeaturePerceptron}
"""Networks of baselines by name."""


WALKS = DEGREES = 16
"""Columns of structure features, as in FedStar's public code."""


class StructuredNetwork(ClassNetwork):
    """A network of two layers, or of two hops and one map, beside a structure encoder.

    Args:
        backbone: "gcn", "sgc" or "sage".
        widths: of features, hidden layer and output.
        rows: float32 [m, WALKS + DEGREES], structure features of the client's nodes.

    Attributes:
        structure: the structure encoder.
    """

    rows: torch.Tensor

    def __init__(self, backbone: str, widths: tuple[int, int, int], rows: torch.Tensor) -> None:
        super().__init__()
        if backbone not in COUPLED:
            raise UnknownNameError("backbone", backbone, COUPLED)
        features, hidden, classes = widths
        self.register_buffer("rows", rows, persistent=False)
        self._backbone, layers = backbone, 1 if backbone == "sgc" else 2
        self.structure = StructureEncoder(WALKS + DEGREES, hidden, layers - 1, torch.Generator())
        ends = [(features, classes)] if layers == 1 else [(features, hidden), (hidden, classes)]
        self.layers = nn.ModuleList(ProxyAffine(inputs, outputs) for inputs, outputs in ends)
        self.told = nn.ParameterList(nn.Parameter(torch.zeros(hidden, outputs)) for _, outputs in ends)
        own = ends if backbone == "sage" else []
        self.own = nn.ParameterList(nn.Parameter(torch.zeros(inputs + hidden, outputs)) for inputs, outputs in own)

    def scores(self, subgraph: Subgraph) -> torch.Tensor:
        """Layer by layer, with ReLU between them."""
        encoded = self.structure(self.rows, _ConvolutionOperator(subgraph.convolution))
        h = self._layer(0, subgraph.features, encoded[0], subgraph)
        if len(self.layers) == 1:
            return h
        hidden = functional.relu(h)
        return self._layer(1, lambda weight: hidden @ weight, encoded[1], subgraph)

    def _layer(self, number: int, rows: Product, s: torch.Tensor, subgraph: Subgraph) -> torch.Tensor:
        layer = self.layers[number]
        assert isinstance(layer, ProxyAffine)
        sent: torch.Tensor = rows(layer.weight) + s @ self.told[number]
        if self._backbone == "sage":
            index = len(layer.weight)
            kept: torch.Tensor = rows(self.own[number][:index]) + s @ self.own[number][index:]
            return subgraph.neighbour_mean(sent) + kept + layer.bias
        once = subgraph.convolution(sent)
        return (subgraph.convolution(once) if self._backbone == "sgc" else once) + layer.bias


COUPLED = ("gcn", "sgc", "sage")


class _ConvolutionOperator:
    """A product as an operator."""

    def __init__(self, product: Product) -> None:
        self._product = product

    def __matmul__(self, values: torch.Tensor) -> torch.Tensor:
        return self._product(values)


def structured_network(backbone: str, silo: Silo, preset: FedSprayPreset, draws: torch.Generator) -> StructuredNetwork:
    """A client's fresh network, on the CPU, from coins that draw those of all clients one after the other.

    Raises:
        UnknownNameError: there is no such backbone.
    """
    rows = torch.from_numpy(structure_rows(len(silo.nodes), silo.alone.edges, WALKS, DEGREES))
    network = StructuredNetwork(backbone, (silo.facts.features, preset.hidden, silo.facts.classes), rows)
    draw_weights(network, draws, preset.uniform_weights)
    common = [item.detach().clone() for item in network.structure.parameters()]
    for _ in range(silo.silo):
        draw_weights(network, draws, preset.uniform_weights)
    with torch.no_grad():
        for parameter, value in zip(network.structure.parameters(), common, strict=True):
            parameter.copy_(value)
    return network


class Baseline(StrEnum):
    """What clients have in common; the value is what tables call it."""

    LOCAL = "Local"
    """Nothing: every client trains a network of its own."""
    FEDAVG = "FedAvg"
    """One network, averaged by numbers of nodes after the local epochs of a round (McMahan et al. 2017)."""
    GCFL = "GCFL"
    """A mean of networks for each cluster of clients, split as GCFL+ does it (Xie et al. 2021)."""
    FEDSTAR = "FedStar"
    """An encoder of structure beside each network, which alone is averaged (Tan et al. 2023)."""


class PlainClient(ChosenRounds):
    """A network that learns from labels alone.

    Args:
        comm: the collectives of the run.
        preset: rate and local epochs.
        baseline: what clients have in common; one network for all is that of client 0 at the start.
        backbone: "gcn", "sgc" or "sage".
        seed: of initial weights.
        device: where model compute runs.
    """

    def __init__(
        self,
        comm: Collectives,
        preset: FedSprayPreset,
        baseline: Baseline,
        *,
        backbone: str = "gcn",
        seed: int = 0,
        device: torch.device | None = None,
    ) -> None:
        place, draws = device or torch.device("cpu"), torch.Generator().manual_seed(seed)
        super().__init__(comm, preset, place)
        self._averaged: list[torch.Tensor] = []
        if baseline is Baseline.FEDSTAR:
            structured = structured_network(backbone, comm.silo, preset, draws)
            self._averaged = list(structured.structure.parameters())
            self.network: ClassNetwork = structured.to(place)
        else:
            alone = baseline is Baseline.LOCAL
            silo = comm.silo.silo if alone else 0
            self.network = drawn_network(backbone, comm.silo.facts, preset, draws, silo, KNOWN).to(place)
            self._averaged = [] if alone else list(self.network.parameters())
        self._parameters = list(self.network.parameters())
        self._steps = adam(self.network, preset.learning_rate)

    @property
    def own_minority(self) -> float:
        """The accuracy over this client's minority nodes, which no other party is told; NaN without any."""
        return float(share_of(self._scores.own[COUNTS:]))

    def train(self, number: int) -> Figures:
        """Scores the network, trains it, and takes the mean of all where there is one."""
        self._predict()
        loss = self._train()
        return self._average(loss, number) if self._averaged else self.sum_parts(loss)[1]

    def _average(self, loss: float, number: int) -> Figures:  # noqa: ARG002  # every round is alike
        weight = len(self.silo.nodes) / self.silo.facts.nodes
        part = weight * flat(self._averaged).astype(np.float64)
        (mean,), figures = self.sum_parts(loss, [part], np.array([weight]))
        overwrite(self._averaged, mean)
        return figures

    def judge(self, number: int) -> Figures:  # noqa: ARG002  # whenever it is
        """Scores the network as it is."""
        self._predict()
        return self.sum_parts(0.0)[1]

    def _predict(self) -> None:
        with torch.no_grad():
            self.predictions = self.network.scores(self.subgraph)

    def _train(self) -> float:
        """The local epochs of a round; the loss before the last step."""
        labelled, labels = self.subgraph.labelled, self.subgraph.labelled_labels
        loss = torch.empty(0)
        for _ in range(self.preset.local_epochs):
            self._steps.zero_grad()
            loss = functional.cross_entropy(self.network.scores(self.subgraph)[labelled], labels)
            loss.backward()  # type: ignore[no-untyped-call]
            self._steps.step()
        return loss.item()

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, and the parameters after the last round."""
        return {**super().report, "theta": flat(self._parameters)}

    def state(self) -> dict[str, Array]:
        """Parameters, and what the optimiser remembers."""
        return {**super().state(), "values": flat(self._parameters), **under("optimiser", optimiser_state(self._steps))}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        overwrite(self._parameters, state["values"])
        remind(self._steps, within("optimiser", state))


PUBLISHED = ClusterRule(least=1)
"""The defaults of GCFL+'s public code; FedSpray does not say what it took."""


class ClusteredClient(PlainClient):
    """One client whose network is the mean of its cluster's: see `fgl_reproduction.methods.gcfl.program`.

    Norms are of how far networks went in a round, and a split holds from the next round on.

    Args:
        given: as for `PlainClient`.
        rule: when a cluster splits.

    Attributes:
        clusters: who averages with whom.
    """

    def __init__(self, *given: Any, rule: ClusterRule = PUBLISHED, **more: Any) -> None:
        super().__init__(*given, **more)
        self.clusters = Clusters(self.silo.facts.silos, rule)
        self.kept["means"] = flat(self._averaged)[None]

    def _average(self, loss: float, number: int) -> Figures:
        """The mean network of the own cluster, weighted by nodes; and clusters are split."""
        silo, clusters, before = self.silo.silo, self.clusters, self.kept["means"]
        own, cluster = flat(self._averaged).astype(np.float64), int(clusters.of[silo])
        mine = len(self.silo.nodes) / self.silo.facts.nodes * (np.arange(clusters.count) == cluster)
        means, figures = self.sum_parts(loss, [own * item for item in mine], mine)
        norms = np.zeros(len(clusters.of))
        norms[silo] = np.linalg.norm(own - before[cluster])
        with self.comm.evaluation():
            told, _ = self.comm.server(norms, grid=self.comm.grid(FRACTION_BITS))
        result, of = np.stack(means).astype(np.float32), clusters.of.copy()
        clusters.see(number, told, np.linalg.norm(result - before, axis=1))
        _, first = np.unique(clusters.of, return_index=True)
        self.kept["means"] = result[of[first]]
        overwrite(self._averaged, result[cluster])
        return figures

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, and which cluster each client is in after the last round."""
        return {**super().report, "clusters": self.clusters.of.copy()}

    def state(self) -> dict[str, Array]:
        """The clusters, too."""
        return {**super().state(), **under("clusters", self.clusters.state())}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        self.clusters.restore(within("clusters", state))


def plain_clients(
    baseline: Baseline,
    graph: FederatedGraph,
    scheme: Scheme,
    preset: FedSprayPreset,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
) -> Job:
    """The clients of a baseline; arguments as for `clients_of`."""
    kind = ClusteredClient if baseline is Baseline.GCFL else PlainClient
    return choose_rounds(
        graph, scheme, preset, lambda comm, _: kind(comm, preset, baseline, backbone=backbone, seed=seed, device=device)
    )
