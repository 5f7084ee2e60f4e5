"""What FedVN (AAAI 2025) is compared with in its Tables 1 and 2, by the names there: its program without virtual nodes.

FedProx (Li et al. 2020) holds clients near the server's model, Ditto (Li et al. 2021) models of their own; FedBN (Li et
al. 2021) keeps scale and shift of batch normalisation at home; GCFL+ (Xie et al. 2021) has a mean of models for each
cluster of clients; FedStar (Tan et al. 2023) has layers that hear an encoder of structure, which alone is averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fgl_reproduction.methods.fedstar.structure import StructureEncoder, structure_rows
from fgl_reproduction.methods.gcfl.clusters import ClusterRule, Clusters
from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.methods.fedvn.batches import GraphBatch, GraphStore
from fgl_secure.methods.fedvn.models import (
    BatchNorm,
    GeneratorDropout,
    GraphEncoder,
    GraphModel,
    Linear,
    NormalisedGINLayer,
    active,
    apply_dropout,
    descend,
    task_loss,
)
from fgl_secure.methods.fedvn.preset import FedVNPreset, GlobalScore, Statistics
from fgl_secure.methods.fedvn.program import UNIT, ClientGraphs, FedVNClient
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.parameters import flat, overwrite
from fgl_secure.training.server_sums import FRACTION_BITS
from fgl_secure.training.sparse_products import multiply
from fgl_secure.typing import Array, Ids

Floats = NDArray[np.float32]
Weights = tuple[torch.Tensor, ...]

OWN = 1
"""Tells draws for personal models from those for the common one."""
WALKS = DEGREES = 16
"""Columns of structure features, as in FedStar's public code."""
AT_ONCE = 16
"""Graphs whose structure features are computed together."""


class WithoutGenerators(FedVNClient):
    """FedVN whose ties are all 1, so that virtual nodes do the same, and one is as good as many (6.3)."""

    def __init__(self, comm: Collectives, graphs: ClientGraphs, preset: FedVNPreset, **more: Any) -> None:
        super().__init__(comm, graphs, replace(preset, global_score=GlobalScore.FIXED), **more)

    def train_generator(self) -> None:
        """There is none."""

    def link_nodes(self, batch: GraphBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """To all nodes alike."""
        return self.virtual, batch.features.new_ones(len(batch.features), self.preset.virtual_nodes)


class AveragedParameters(StrEnum):
    """Which parameters of the model the server averages."""

    ALL = "all"
    ALL_BUT_NORMS = "all but norms"
    """Scale and shift of batch normalisation stay with their client."""
    NOTHING = "nothing"


class FedVNAveraging(FedVNClient):
    """One client without virtual nodes: federated averaging, and what differs from it by a term or a part.

    Args:
        comm: the collectives of the run.
        held: what it has.
        preset: how it is trained.
        shared: what the server averages.
        proximal: mu of FedProx.
        pull: lambda of Ditto, whose client predicts with a model of its own; None where there is none.
        more: as for `FedVNClient`.
    """

    def __init__(
        self,
        comm: Collectives,
        graphs: ClientGraphs,
        preset: FedVNPreset,
        *,
        shared: AveragedParameters = AveragedParameters.ALL,
        proximal: float = 0.0,
        pull: float | None = None,
        seed: int = 0,
        device: torch.device | None = None,
    ) -> None:
        super().__init__(comm, graphs, replace(preset, global_score=GlobalScore.FIXED), seed=seed, device=device)
        self._seed, self._proximal, self._pull = seed, proximal, pull
        self.model = self.first_model(torch.Generator().manual_seed(seed)).to(self.virtual.device)
        self.shared = list(shared_parameters(self.model, shared))
        self.personal = None if pull is None else deepcopy(self.model)

    def first_model(self, draws: torch.Generator) -> GraphModel:
        """The model that all clients start from."""
        encoder = GraphEncoder(self.store.width, self.preset, virtual=False, draws=draws, bonds=self.held.bonds)
        return GraphModel(encoder, self.held.outputs, self.preset.hidden, draws)

    @property
    def predicting(self) -> tuple[GraphModel, ...]:
        """The client's own model, if there is one, or that of all."""
        return (self.personal or self.model,)

    def outputs(self, batch: GraphBatch, drop: GeneratorDropout | None = None) -> torch.Tensor:
        """What is predicted of graphs."""
        result: torch.Tensor = self.predicting[0](batch, drop)
        return result

    def link_nodes(self, batch: GraphBatch) -> None:
        """There are no virtual nodes."""

    def train_generator(self) -> None:
        """There is none; Ditto's own model takes its epochs near the one that the round begins with.

        Draws of batches and dropout begin anew in each round, so that those of the common model stay.
        """
        if self.personal is not None and self._pull is not None:
            draws = np.random.default_rng([self._seed, self.silo.silo, len(self.losses), OWN])
            self._train_local(self.personal, self._pull, draws, GeneratorDropout(self.preset.dropout, draws))

    def train_model(self) -> float:
        """The mean loss over the training graphs in the last epoch."""
        return self._train_local(self.model, self._proximal, self.draws, self.drop)

    def _train_local(self, model: GraphModel, mu: float, draws: np.random.Generator, drop: GeneratorDropout) -> float:
        """Trains a model with the term (mu / 2) |w - w_server|^2; the mean loss in the last epoch."""
        weights, common = tuple(model.parameters()), copy_parameters(self.model.parameters())
        total = 0.0
        for _ in range(self.preset.local_epochs):
            total = 0.0
            for batch in self.batches(draws.permutation(self.training)):
                loss = task_loss(model(batch, drop), batch.targets)
                gradients = add_proximal(torch.autograd.grad(loss, weights), weights, common, mu)
                descend(weights, gradients, self.preset.learning_rate)
                total += float(loss.detach()) * batch.graphs
        return total / len(self.training)

    @property
    def values(self) -> list[torch.Tensor]:
        """The client's own model, too."""
        return [*super().values, *(() if self.personal is None else self.personal.parameters())]


def copy_parameters(parameters: Iterable[torch.Tensor]) -> Weights:
    """As they are now."""
    return tuple(parameter.detach().clone() for parameter in parameters)


def add_proximal(gradients: Weights, weights: Weights, anchors: Weights, mu: float) -> Weights:
    """The gradients with that of (mu / 2) |w - w_server|^2 added."""
    return tuple(
        gradient + mu * (weight.detach() - anchor)
        for gradient, weight, anchor in zip(gradients, weights, anchors, strict=True)
    )


def shared_parameters(model: GraphModel, shared: AveragedParameters) -> tuple[nn.Parameter, ...]:
    """The parameters of a model that the server averages."""
    if shared is AveragedParameters.NOTHING:
        return ()
    norms = (
        [part for part in model.modules() if isinstance(part, BatchNorm)]
        if shared is AveragedParameters.ALL_BUT_NORMS
        else []
    )
    remaining = {id(parameter) for part in norms for parameter in part.parameters()}
    return tuple(parameter for parameter in model.parameters() if id(parameter) not in remaining)


PUBLISHED = ClusterRule(least=1)
"""The defaults of GCFL+'s public code; FedVN does not say what it took."""


class ClusteredFedVN(FedVNAveraging):
    """One client whose model is the mean of its cluster's: see GCFL+.

    Norms are of how far models went in a round, and a split holds from the next round on.

    Args:
        given: as for `FedVNAveraging`.
        rule: when a cluster splits.

    Attributes:
        clusters: who averages with whom.
    """

    def __init__(self, *given: Any, rule: ClusterRule = PUBLISHED, **more: Any) -> None:
        super().__init__(*given, **more)
        self.clusters = Clusters(self.silo.facts.silos, rule)
        self.kept["means"] = flat(self.shared)[None]

    def average(self, loss: float) -> float:
        """The mean model of the own cluster, weighted by training graphs; and clusters are split."""
        silo, clusters, before = self.silo.silo, self.clusters, self.kept["means"]
        own, cluster = flat(self.shared).astype(np.float64), int(clusters.of[silo])
        weight = len(self.training) / self.held.graphs
        mine = weight * (np.arange(clusters.count) == cluster)
        parts = [*(own * item for item in mine), np.array([weight * loss / UNIT])]
        (*means, told), _ = self.comm.ratios(parts, np.append(mine, weight), grid=self.comm.grid(FRACTION_BITS))
        norms = np.zeros(len(clusters.of))
        norms[silo] = np.linalg.norm(own - before[cluster])
        with self.comm.evaluation():
            all_norms, _ = self.comm.server(norms, grid=self.comm.grid(FRACTION_BITS))
        result, of = np.stack(means).astype(np.float32), clusters.of.copy()
        clusters.see(len(self.losses), all_norms, np.linalg.norm(result - before, axis=1))
        _, first = np.unique(clusters.of, return_index=True)
        self.kept["means"] = result[of[first]]
        overwrite(self.shared, result[cluster])
        return float(told[0]) * UNIT

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


class FedStarOnGraphs(FedVNAveraging):
    """One client of FedStar.

    Args:
        comm: the collectives of the run.
        held: what it has.
        preset: how it is trained.
        blind: whether the encoder of structure is given edges alone, and zeros for return chances and degrees.
        more: as for `FedVNClient`.
    """

    def __init__(
        self, comm: Collectives, graphs: ClientGraphs, preset: FedVNPreset, *, blind: bool = False, **more: Any
    ) -> None:
        super().__init__(comm, graphs, preset, **more)
        assert isinstance(self.model.encoder, StructuredEncoder)
        self.store = StructuredStore(graphs.own, self.virtual.device, graphs.types, blind=blind)
        self.shared = list(self.model.encoder.structure.parameters())

    def first_model(self, draws: torch.Generator) -> GraphModel:
        """With FedStar's layers."""
        encoder = StructuredEncoder(self.store.width, self.preset, draws)
        return GraphModel(encoder, self.held.outputs, self.preset.hidden, draws)


@dataclass(frozen=True, slots=True, eq=False)
class StructuredBatch(GraphBatch):
    """Graphs with what FedStar's encoder of structure is given.

    Attributes:
        structure: float32 [n, WALKS + DEGREES], structure features.
        convolution: CSR [n, n], D^-1/2 (I + A) D^-1/2 with D the row sums of I + A.
    """

    structure: torch.Tensor
    convolution: torch.Tensor


class StructuredStore(GraphStore):
    """All graphs of a set with their structure features.

    Args:
        sets: the graphs.
        given: as for `GraphStore`.
        blind: whether structure features are zeros.
    """

    def __init__(self, sets: GraphSet, *given: Any, blind: bool = False) -> None:
        super().__init__(sets, *given)
        self._starts_of, self._rows = sets.node_starts, np.zeros((len(sets.features), WALKS + DEGREES), np.float32)
        if not blind:
            self._rows = structure_of(sets)

    def batch(self, ids: Ids) -> StructuredBatch:
        """The graphs of these numbers, at least one, in this order."""
        plain, starts = super().batch(ids), self._starts_of
        rows = np.concatenate([self._rows[starts[item] : starts[item + 1]] for item in ids])
        pointers, columns = plain.reach.crow_indices(), plain.reach.col_indices()
        lengths = pointers.diff()
        root = (1 / lengths.double().sqrt()).float()
        scaled = root.repeat_interleave(lengths) * root[columns]
        convolution = torch.sparse_csr_tensor(pointers, columns, scaled, size=plain.reach.shape, check_invariants=False)
        given = {item.name: getattr(plain, item.name) for item in fields(GraphBatch)}
        structure = torch.from_numpy(rows).to(plain.features.device)
        return StructuredBatch(**given, structure=structure, convolution=convolution)


def structure_of(sets: GraphSet) -> Floats:
    """Structure features of all nodes, a few graphs at a time: walks of one graph never leave it."""
    parts = [np.empty((0, WALKS + DEGREES), dtype=np.float32)]
    for first in range(0, sets.num_graphs, AT_ONCE):
        last = min(first + AT_ONCE, sets.num_graphs)
        begin, end = sets.node_starts[[first, last]]
        edges = sets.edges[:, sets.edge_starts[first] : sets.edge_starts[last]] - begin
        parts.append(structure_rows(int(end - begin), edges, WALKS, DEGREES))
    return np.concatenate(parts)


class StructuredEncoder(nn.Module):
    """Node embeddings of FedStar: layers that hear features and what a structure encoder makes of the layer before.

    The layers are those of the other lines of the table, except for their input.

    Args:
        inputs: features of a node, the constant one included.
        preset: widths and layers.
        draws: of the initial weights.

    Attributes:
        structure: the structure encoder.
    """

    def __init__(self, inputs: int, preset: FedVNPreset, draws: torch.Generator) -> None:
        super().__init__()
        kept, hidden = preset.statistics is Statistics.TRAINING, preset.hidden
        self.input = nn.Parameter(torch.empty(hidden, inputs).uniform_(-1, 1, generator=draws) / np.sqrt(inputs - 1))
        self.structure = StructureEncoder(WALKS + DEGREES, hidden, preset.layers, draws)
        self.layers = nn.ModuleList(
            NormalisedGINLayer(hidden, tracked=kept, draws=draws, inputs=2 * hidden) for _ in range(preset.layers)
        )
        self.joint = Linear(2 * hidden, hidden, draws)

    def forward(self, batch: StructuredBatch, drop: GeneratorDropout | None = None) -> torch.Tensor:
        """Embeddings of all nodes, float32 [n, hidden]."""
        encoded = self.structure(batch.structure, _Symmetric(batch.convolution))
        h = batch.features @ self.input.T
        for number, (layer, s) in enumerate(zip(self.layers, encoded, strict=False)):
            assert isinstance(layer, NormalisedGINLayer)
            told = torch.cat([active(h, drop) if number else h, s], dim=1)
            h = layer(layer.first(multiply(batch.reach, batch.reach, told)))
        result: torch.Tensor = self.joint(torch.cat([apply_dropout(h, drop), encoded[-1]], dim=1))
        return result


class _Symmetric:
    """The product with a symmetric CSR matrix, differentiable."""

    def __init__(self, matrix: torch.Tensor) -> None:
        self._matrix = matrix

    def __matmul__(self, values: torch.Tensor) -> torch.Tensor:
        return multiply(self._matrix, self._matrix, values)


FEDVN, WITHOUT_GENERATORS = "FedVN", "FedVN without edge generators"
FEDAVG, DITTO, FEDSTAR = "FedAvg", "Ditto", "FedStar"
BLIND_FEDSTAR = "FedStar without structure features"
"""FedVN's table prints of FedStar on Motif (basis) what it reaches without them (reproduction/docs/fedstar.md)."""

PROGRAMS: Mapping[str, Callable[..., FedVNClient]] = MappingProxyType({
    "Self-training": partial(FedVNAveraging, shared=AveragedParameters.NOTHING),
    FEDAVG: FedVNAveraging,
    "FedProx": partial(FedVNAveraging, proximal=0.01),
    "FedBN": partial(FedVNAveraging, shared=AveragedParameters.ALL_BUT_NORMS),
    DITTO: partial(FedVNAveraging, pull=0.1),
    "GCFL+": ClusteredFedVN,
    FEDSTAR: FedStarOnGraphs,
    BLIND_FEDSTAR: partial(FedStarOnGraphs, blind=True),
    FEDVN: FedVNClient,
    WITHOUT_GENERATORS: WithoutGenerators,
})  # fmt: skip
"""What makes a client, by what the tables call the line."""
