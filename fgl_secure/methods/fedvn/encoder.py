"""The encoder of a graph isomorphism network (Xu et al., ICLR 2019), alone and with the virtual nodes of FedVN."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from fgl_secure.methods.fedvn.batches import GraphBatch
from fgl_secure.methods.fedvn.padding import pad, to_nodes, to_virtual
from fgl_secure.methods.fedvn.pieces import Dropout, GINLayer, VirtualUpdate, active, dropped
from fgl_secure.methods.fedvn.preset import FedVNPreset, Injection, Statistics
from fgl_secure.training.sparse_products import multiply


class Encoder(nn.Module):
    """Node embeddings.

    Args:
        inputs: features of a node, the constant one included.
        preset: widths and layers.
        virtual: whether there are virtual nodes.
        draws: of the initial weights.
    """

    def __init__(self, inputs: int, preset: FedVNPreset, *, virtual: bool, draws: torch.Generator) -> None:
        super().__init__()
        kept, hidden = preset.statistics is Statistics.TRAINING, preset.hidden
        self.input = nn.Parameter(torch.empty(hidden, inputs).uniform_(-1, 1, generator=draws) / np.sqrt(inputs - 1))
        self.layers = nn.ModuleList(GINLayer(hidden, kept=kept, draws=draws) for _ in range(preset.layers))
        updates = preset.layers - 1 if virtual else 0
        self.updates = nn.ModuleList(
            VirtualUpdate(hidden, preset.virtual_nodes, kept=kept, draws=draws) for _ in range(updates)
        )
        self._injection = preset.injection

    def forward(self, batch: GraphBatch, drop: Dropout | None = None) -> torch.Tensor:
        """Embeddings of all nodes without virtual nodes, float32 [n, hidden]."""
        h = self._first(batch)
        for number in range(1, len(self.layers)):
            h = self._layer(number, active(h, drop), batch)
        return dropped(h, drop)

    def augmented(
        self, batch: GraphBatch, virtual: torch.Tensor, scores: torch.Tensor, drop: Dropout | None = None
    ) -> torch.Tensor:
        """Embeddings of all nodes with virtual nodes (Eqs. 5 and 6), float32 [n, hidden].

        Args:
            batch: the graphs.
            virtual: Q, float32 [M, hidden].
            scores: s_vm, float32 [n, M].
            drop: dropout in training.
        """
        padded = pad(scores, batch)
        before = self._injection is Injection.INPUT
        state = virtual.expand(batch.graphs, -1, -1)
        heard = to_virtual(padded, batch.features, batch) @ self.input.T
        h = self._first_injected(batch, virtual, scores) if before else self._first(batch)
        for number in range(1, len(self.layers)):
            h = active(h, drop)
            h = h if before else h + to_nodes(padded, state, batch)
            state = dropped(self.updates[number - 1](state + heard), drop)
            if number < len(self.layers) - 1:
                heard = to_virtual(padded, h, batch)
            h = self._layer(number, h + to_nodes(padded, state, batch) if before else h, batch)
        h = dropped(h, drop)
        return h if before else h + to_nodes(padded, state, batch)

    def _layer(self, number: int, h: torch.Tensor, batch: GraphBatch) -> torch.Tensor:
        layer = self._at(number)
        found: torch.Tensor = layer(layer.first(multiply(batch.reach, batch.reach, h)))
        return found

    def _first(self, batch: GraphBatch) -> torch.Tensor:
        layer = self._at(0)
        projected = layer.first(batch.heard @ self.input.T)
        if batch.kind_of is None:
            found: torch.Tensor = layer(projected)
            return found
        each: torch.Tensor = batch.kind_of @ layer(projected, batch.kind_of.sum(dim=0))
        return each

    def _first_injected(self, batch: GraphBatch, virtual: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """The first layer of (I + A)(h + S Q), h being linear in the features: no matrix as wide as h is needed."""
        layer = self._at(0)
        plain = layer.first(batch.heard @ self.input.T)
        plain = plain if batch.kind_of is None else batch.kind_of @ plain
        reached = multiply(batch.reach, batch.reach, scores)
        found: torch.Tensor = layer(plain + reached @ (virtual @ layer.first.weight.T))
        return found

    def _at(self, number: int) -> GINLayer:
        layer = self.layers[number]
        assert isinstance(layer, GINLayer)
        return layer
