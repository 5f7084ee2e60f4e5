"""FedSpray's networks as FedStar couples them: each layer hears a structure encoder beside features.

FedStar has layers of its own (GIN); FedSpray's Table 2 has it with three other networks and does not say how. Here
[x, s] goes into every layer where x alone does (FedStar, AAAI 2023, section 4.3). The encoder begins alike at all
clients and is averaged; the rest is personal.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from fgl_reproduction.methods.fedstar.structure import StructureEncoder, structure_rows
from fgl_secure.errors import UnknownNameError
from fgl_secure.methods.fedspray.networks import Affine, Network, draw_weights
from fgl_secure.methods.fedspray.preset import FedSprayPreset
from fgl_secure.methods.fedspray.subgraph import Product, Subgraph
from fgl_secure.training.silo import Silo

WALKS = DEGREES = 16
"""Columns of structure features, as in FedStar's public code."""


class StructuredNetwork(Network):
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
        self.layers = nn.ModuleList(Affine(inputs, outputs) for inputs, outputs in ends)
        self.told = nn.ParameterList(nn.Parameter(torch.zeros(hidden, outputs)) for _, outputs in ends)
        own = ends if backbone == "sage" else []
        self.own = nn.ParameterList(nn.Parameter(torch.zeros(inputs + hidden, outputs)) for inputs, outputs in own)

    def scores(self, subgraph: Subgraph) -> torch.Tensor:
        """Layer by layer, with ReLU between them."""
        encoded = self.structure(self.rows, _Convolution(subgraph.convolution))
        h = self._layer(0, subgraph.features, encoded[0], subgraph)
        if len(self.layers) == 1:
            return h
        hidden = functional.relu(h)
        return self._layer(1, lambda weight: hidden @ weight, encoded[1], subgraph)

    def _layer(self, number: int, rows: Product, s: torch.Tensor, subgraph: Subgraph) -> torch.Tensor:
        layer = self.layers[number]
        assert isinstance(layer, Affine)
        sent: torch.Tensor = rows(layer.weight) + s @ self.told[number]
        if self._backbone == "sage":
            at = len(layer.weight)
            kept: torch.Tensor = rows(self.own[number][:at]) + s @ self.own[number][at:]
            return subgraph.neighbour_mean(sent) + kept + layer.bias
        once = subgraph.convolution(sent)
        return (subgraph.convolution(once) if self._backbone == "sgc" else once) + layer.bias


COUPLED = ("gcn", "sgc", "sage")


class _Convolution:
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
    common = [each.detach().clone() for each in network.structure.parameters()]
    for _ in range(silo.silo):
        draw_weights(network, draws, preset.uniform_weights)
    with torch.no_grad():
        for parameter, value in zip(network.structure.parameters(), common, strict=True):
            parameter.copy_(value)
    return network
