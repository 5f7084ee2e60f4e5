"""The model that FedVN's server averages, and the edge generator that stays with its client (section 4.2)."""

from __future__ import annotations

import torch
from torch import nn

from fgl_secure.methods.fedvn.batches import GraphBatch
from fgl_secure.methods.fedvn.encoder import Encoder
from fgl_secure.methods.fedvn.pieces import Dropout, Linear, active
from fgl_secure.methods.fedvn.preset import FedVNPreset
from fgl_secure.training.sparse_products import multiply


class GraphModel(nn.Module):
    """The model theta that the server averages: encoder, mean pooling, and a head of two layers.

    Args:
        inputs: features of a node, the constant one included.
        outputs: classes, or 1 for a value.
        preset: widths and layers.
        virtual: whether there are virtual nodes.
        draws: of the initial weights.
    """

    def __init__(
        self, inputs: int, outputs: int, preset: FedVNPreset, *, virtual: bool, draws: torch.Generator
    ) -> None:
        super().__init__()
        self.encoder = Encoder(inputs, preset, virtual=virtual, draws=draws)
        self.hidden = Linear(preset.hidden, preset.hidden, draws)
        self.output = Linear(preset.hidden, outputs, draws)

    def forward(self, batch: GraphBatch, drop: Dropout | None = None) -> torch.Tensor:
        """Outputs of all graphs without virtual nodes, float32 [b, outputs]."""
        return self._head(self.encoder(batch, drop), batch, drop)

    def augmented(
        self, batch: GraphBatch, virtual: torch.Tensor, scores: torch.Tensor, drop: Dropout | None = None
    ) -> torch.Tensor:
        """Outputs of all graphs with virtual nodes; arguments as for the encoder."""
        return self._head(self.encoder.augmented(batch, virtual, scores, drop), batch, drop)

    def _head(self, nodes: torch.Tensor, batch: GraphBatch, drop: Dropout | None) -> torch.Tensor:
        pooled = multiply(batch.mean, batch.spread, nodes)
        found: torch.Tensor = self.output(active(self.hidden(pooled), drop))
        return found


class EdgeGenerator(nn.Module):
    """A client's own generator g of edges to virtual nodes (section 4.2); it never leaves its client.

    Args:
        inputs: features of a node, the constant one included.
        preset: widths, layers and M.
        draws: of the initial weights.
    """

    def __init__(self, inputs: int, preset: FedVNPreset, draws: torch.Generator) -> None:
        super().__init__()
        self.encoder = Encoder(inputs, preset, virtual=False, draws=draws)
        self.hidden = Linear(preset.hidden, preset.hidden, draws)
        self.output = Linear(preset.hidden, preset.virtual_nodes, draws)

    def forward(self, batch: GraphBatch, drop: Dropout | None = None) -> torch.Tensor:
        """Scores s_vm in (0, 1), float32 [n, M]."""
        return torch.sigmoid(self.output(active(self.hidden(self.encoder(batch, drop)), drop)))
