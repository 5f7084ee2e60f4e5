"""The model of FedStar on one client's graph: an own encoder of features beside a shared one of structure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from fgl_secure.methods.fedstar.preset import FedStarPreset
from fgl_secure.methods.fedstar.structure import Affine, StructureEncoder, structure_rows
from fgl_secure.training.dropout import Dropout
from fgl_secure.training.node_models import Matrix, NodeModel, Propagation, Surroundings, degree_weights


@dataclass(frozen=True, slots=True, eq=False)
class StructuredGraph(Surroundings):
    """A graph with what is known of its nodes from edges alone.

    Attributes:
        structure: float32 [n, walks + degrees].
        sums: [n, n], A + I.
    """

    structure: torch.Tensor
    sums: Matrix

    @classmethod
    def of(
        cls, features: NDArray[np.float32], edges: NDArray[np.int64], preset: FedStarPreset, device: torch.device
    ) -> StructuredGraph:
        """The graph of features float32 [n, d] and edges int64 [2, m], sources above targets."""
        (source, target), count = edges, len(features)
        ones = np.ones(len(source))
        degree = np.bincount(target, minlength=count).astype(np.float64)
        adjacency = sparse.csr_array((ones, (target, source)), shape=(count, count))
        return cls(
            Matrix(sparse.csr_array(features), device),
            Matrix(degree_weights(source, target, ones, degree, Propagation.SYMMETRIC), device),
            torch.from_numpy(structure_rows(count, edges, preset.walks, preset.degrees)).to(device),
            Matrix(sparse.csr_array(adjacency + sparse.eye_array(count)), device),
        )


class FedStarModel(NodeModel):
    """Graph isomorphism layers on [features, structure], with a structure encoder beside them (section 4.3).

    Layer l has x_l = relu(MLP((A + I) [x_(l-1), s_(l-1)])), with dropout, where s_l is the encoder's; a linear map of
    the last [x, s] goes through a layer with ReLU and dropout, and one that scores classes. Published is the same for
    whole graphs, with the sum over the nodes of a graph ahead of the last two layers.

    Args:
        features: columns of the features.
        classes: of the nodes.
        preset: widths and layers.
        common: draws the initial structure encoder, the same for all clients.
        own: draws all else.

    Attributes:
        structure: the structure encoder.
    """

    def __init__(
        self, features: int, classes: int, preset: FedStarPreset, common: torch.Generator, own: torch.Generator
    ) -> None:
        super().__init__()
        hidden, layers = preset.hidden, preset.layers
        self.structure = StructureEncoder(preset.walks + preset.degrees, hidden, layers, common)
        self.first = Affine(features, hidden, own)
        self.inner = nn.ModuleList(Affine(2 * hidden, hidden, own) for _ in range(layers))
        self.outer = nn.ModuleList(Affine(hidden, hidden, own) for _ in range(layers))
        self.joint = Affine(2 * hidden, hidden, own)
        self.last = Affine(hidden, hidden, own)
        self.scores = Affine(hidden, classes, own)

    @property
    def shared(self) -> list[torch.Tensor]:
        """The structure encoder, and nothing that was learnt on features: the map of its inputs comes first."""
        return list(self.structure.parameters())

    def forward(self, graph: Surroundings, dropout: Dropout) -> torch.Tensor:
        """The scores, float [n, classes]."""
        assert isinstance(graph, StructuredGraph)
        x, encoded = self.first(graph.rows), self.structure(graph.structure, graph.neighbours)
        for inner, outer, s in zip(self.inner, self.outer, encoded, strict=False):
            x = outer(torch.relu(inner(graph.sums @ torch.cat([x, s], dim=1))))
            x = dropout(torch.relu(x), training=self.training)
        joint = self.joint(torch.cat([x, encoded[-1]], dim=1))
        found: torch.Tensor = self.scores(dropout(torch.relu(self.last(joint)), training=self.training))
        return found
