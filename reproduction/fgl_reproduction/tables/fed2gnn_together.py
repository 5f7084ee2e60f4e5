"""One decoder for all clients (App. E.2), which they train by federated averaging.

The paper compares such decoders with those that each client trains for itself, and does not say how they are trained.
Here every client takes one pass over its own neighbourhoods, and then all take the mean of their networks, weighted by
how many neighbourhoods these have. Networks that are averaged must work in one space, so its directions come from the
sum of all clients' second moments. The server learns sums over the clients, as in every other round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fgl_secure.methods.fed2gnn.decoder import Coordinates, Decoder, Neighbourhoods, directions
from fgl_secure.methods.fed2gnn.preset import DecoderPreset
from fgl_secure.methods.fed2gnn.program import Fed2GNNClient
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.parameters import flat, overwrite
from fgl_secure.training.server_sums import FRACTION_BITS
from fgl_secure.typing import Floats

UNIT = 1024.0
"""What moments are sent in, of parts that were divided by their mean magnitude."""


@dataclass(frozen=True, slots=True)
class JointDecoding:
    """How the clients of a run train one decoder.

    Attributes:
        comm: sums over clients.
        seed: of the initial weights, one for all.
        growth: by how much a part of an element may be larger than the one before it.
    """

    comm: Collectives
    seed: int
    growth: float

    def coordinates(self, data: Neighbourhoods, most: int, device: torch.device) -> Coordinates:
        """The directions in which the neighbours of all clients' nodes differ most; the same for every client.

        Args:
            data: the client's own neighbourhoods.
            most: directions of a part, at most.
            device: where networks are.
        """
        parts, width = data.elements.shape[1:]
        elements, size = self._magnitudes(data)
        if not elements:
            basis = np.stack([directions(np.zeros((width, width)), most)] * parts)
            return Coordinates.on(basis, np.zeros((parts, basis.shape[2])), np.ones(parts), device)
        apart = data.deviations() / size[:, None]
        spread = self._mean(np.einsum("ekv,ekw->kvw", apart, apart), elements)
        basis = np.stack([directions(part, most) for part in spread])
        inside = np.einsum("ekw,kwr->ekr", data.elements / size[:, None], basis)
        centre = self._mean(inside.sum(axis=0), elements)
        squares = self._mean(((inside - centre) ** 2).sum(axis=(0, 2)), elements) / basis.shape[2]
        return Coordinates.on(basis, centre * size[:, None], squares * size**2, device)

    def average(self, parameters: Sequence[torch.Tensor], sets: int) -> None:
        """Sets parameters to their means over the clients, each weighted by its number of neighbourhoods.

        Where no client has any, they stay as they are.
        """
        weight = sets / self.comm.silo.facts.nodes
        row = np.append(weight * flat(parameters).astype(np.float64), weight)
        sums = self._sum(row, [parameter.numel() for parameter in parameters])
        if sums[-1]:
            overwrite(parameters, (sums[:-1] / sums[-1]).astype(np.float32))

    def _magnitudes(self, data: Neighbourhoods) -> tuple[float, Floats]:
        """How many elements all clients have, as a share of the nodes, and the mean magnitude of each part, [K].

        A part that is zero everywhere counts as 1 large.
        """
        nodes, grown = self.comm.silo.facts.nodes, self.growth ** np.arange(data.elements.shape[1])
        result = np.abs(data.elements).mean(axis=2).sum(axis=0) / grown
        *magnitudes, elements = self._sum(np.append(result, len(data.elements)) / nodes)
        size = np.array(magnitudes, dtype=np.float64) * grown / (elements or 1.0)
        return float(elements), np.where(size > 0, size, 1.0)

    def _mean(self, sums: Floats, elements: float) -> Floats:
        """What all clients' sums over elements are an element."""
        share = UNIT * elements * self.comm.silo.facts.nodes
        return self._sum(sums.ravel() / share).reshape(sums.shape) * UNIT

    def _sum(self, row: Floats, parts: Sequence[int] = ()) -> Floats:
        return self.comm.server(row, grid=self.comm.grid(FRACTION_BITS), parts=parts)[0]


class TogetherDecoder(Decoder):
    """A decoder of all clients.

    Args:
        data: the client's neighbourhoods.
        most: d, largest set.
        preset: how it is built and trained.
        seed: of batches; initial weights are drawn with that of `together`.
        device: where it is.
        together: how it is trained with all other clients.
    """

    def __init__(
        self,
        data: Neighbourhoods,
        most: int,
        preset: DecoderPreset,
        seed: int,
        device: torch.device,
        together: JointDecoding,
    ) -> None:
        self._together, self._batches = together, seed
        super().__init__(data, most, preset, together.seed, device)

    def space(self, data: Neighbourhoods, most: int, device: torch.device) -> Coordinates:
        """That of all clients' neighbourhoods."""
        return self._together.coordinates(data, most, device)

    def train(self, data: Neighbourhoods, preset: DecoderPreset) -> None:
        """Passes over the client's neighbourhoods, a mean after each."""
        self.coins.manual_seed(self._batches)
        super().train(data, preset)

    def on_pass(self, data: Neighbourhoods) -> None:
        """Takes the mean."""
        self._together.average([*self.separator.parameters(), *self.predictor.parameters()], len(data.first))


class TogetherClient(Fed2GNNClient):
    """One client of Fed2GNN whose decoders are all clients'."""

    def begin(self) -> None:
        """Decoders are trained before the first round, for sums are taken meanwhile."""
        super().begin()
        self.hang_trees()

    def decoder(self, data: Neighbourhoods, seed: int) -> Decoder:
        """One for all clients and sets of as many parts."""
        preset, parts = self.preset, data.elements.shape[1]
        together = JointDecoding(self.comm, self.seed + parts, preset.row_growth)
        return TogetherDecoder(data, preset.neighbours, preset.decoder, seed, self.device, together)
