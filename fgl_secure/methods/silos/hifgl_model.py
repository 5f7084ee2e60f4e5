"""The model of one silo of HiFGL (KDD 2024, 4.1), layer by layer: what is between two messages, and its gradients.

A pass stops wherever a sum is awaited, maybe in one process to go on in another. So no graph of operations is kept:
a layer's inputs are, and it is computed again when its gradients are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from fgl_secure.methods.silos.optimiser_state import flat, overwrite, remembered, remind, unflatten
from fgl_secure.methods.silos.parcels import Array, Arrays, under, within
from fgl_secure.methods.silos.share import SiloShare
from fgl_secure.training.backbones import LAYERS, PUBLISHED_LAYERS, Degrees, MessageLayer, make_layers
from fgl_secure.training.presets import Federation, Preset

Rows = NDArray[np.float32]
Gradient = NDArray[np.float32]


class SiloModel:
    """The model, its optimiser and its coins.

    Args:
        share: what the silo holds.
        preset: how to train.
        backbone: "gcn" or "sage".
        seed: of the initial weights and of dropout; the same everywhere.
        summed: int64 [m], messages in the sum of each device.
    """

    def __init__(self, share: SiloShare, preset: Preset, backbone: str, seed: int, summed: NDArray[np.int64]) -> None:
        self._share, self._preset = share, preset
        self.widths = preset.widths(share.facts.features, share.facts.classes)
        make = (PUBLISHED_LAYERS if preset.published_aggregation else LAYERS)[backbone]
        self._layers = make_layers(make, self.widths, seed)
        self._optimiser = torch.optim.Adam(self._layers.parameters(), lr=preset.learning_rate)
        self._steps = 0
        self._coins = torch.Generator().manual_seed(seed)
        target_inside = share.inside[1]
        heard = np.bincount(share.local(share.edges[1, target_inside]), minlength=len(share.nodes))
        full = torch.from_numpy(heard.astype(np.float32)[:, None])
        self._degrees = Degrees(full, full, torch.from_numpy(summed.astype(np.float32)[:, None]))

    @property
    def parameters(self) -> list[torch.Tensor]:
        """All of them, layer by layer."""
        return list(self._layers.parameters())

    @property
    def size(self) -> int:
        """Numbers of all parameters."""
        return sum(parameter.numel() for parameter in self.parameters)

    @property
    def averaged(self) -> list[torch.Tensor]:
        """Those that the silos average after a step."""
        depth = len(self._layers)
        kept = {Federation.FEDAVG: depth, Federation.FEDPROX: depth, Federation.FEDPER: depth - 1}
        return list(self._layers[: kept.get(self._preset.federation, 0)].parameters())

    def message(self, layer: int, h: Rows) -> Rows:
        """What devices send in a layer, from their inputs [m, d_in]; features alone where sums of these are kept."""
        with torch.no_grad():
            return self._message(layer, torch.tensor(h)).numpy()

    def _message(self, layer: int, h: torch.Tensor) -> torch.Tensor:
        part = self._part(layer)
        return part.raw_message(h, self._degrees) if self._is_static(layer) else part.message(h, self._degrees)

    def output(self, layer: int, h: Rows, sums: Rows, dropped: Rows) -> Rows:
        """What devices make of their inputs and of the sums that they got."""
        with torch.no_grad():
            return self._output(layer, torch.tensor(h), torch.tensor(sums), torch.tensor(dropped)).numpy()

    def _output(self, layer: int, h: torch.Tensor, sums: torch.Tensor, dropped: torch.Tensor) -> torch.Tensor:
        part = self._part(layer)
        arrived = part.project(sums, part.message_weight) if self._is_static(layer) else sums
        out = part.update(h, arrived, self._degrees)
        if layer == len(self._layers) - 1:
            return out
        out = torch.relu(out)
        return out * dropped / (1 - self._preset.dropout) if dropped.numel() else out

    def dropped(self, layer: int) -> Rows:
        """Fresh coins for the outputs of a layer: 1 for a unit that is kept, 0 for one that is not; empty without."""
        rate = self._preset.dropout
        if not rate or layer == len(self._layers) - 1:
            return np.empty((0, 0), dtype=np.float32)
        drawn = [torch.rand((size, self.widths[layer + 1]), generator=self._coins) for size in self._share.facts.sizes]
        return (drawn[self._share.silo] >= rate).float().numpy()

    def loss(self, logits: Rows) -> tuple[float, Rows]:
        """The loss summed over own training devices, and its gradient by the logits [m, classes]."""
        scores = torch.tensor(logits).requires_grad_()
        training = torch.from_numpy(np.array(self._share.train))
        labels = torch.from_numpy(np.array(self._share.labels))
        total = functional.cross_entropy(scores[training], labels[training], reduction="sum")
        (gradient,) = torch.autograd.grad(total, [scores])
        return float(total.detach()), gradient.numpy()

    def output_gradients(self, layer: int, h: Rows, sums: Rows, dropped: Rows, of: Rows) -> tuple[Rows, Rows, Gradient]:
        """Gradients by inputs, by sums and by all parameters, of a layer whose outputs have the gradient `of`."""
        inputs, arrived = torch.tensor(h).requires_grad_(), torch.tensor(sums).requires_grad_()
        out = self._output(layer, inputs, arrived, torch.tensor(dropped))
        (by_inputs, by_sums), by_parameters = self._gradients(out, of, [inputs, arrived])
        return by_inputs, by_sums, by_parameters

    def message_gradients(self, layer: int, h: Rows, of: Rows) -> tuple[Rows, Gradient]:
        """Gradients by inputs and by all parameters, of a layer whose messages have the gradient `of`."""
        inputs = torch.tensor(h).requires_grad_()
        (by_inputs,), by_parameters = self._gradients(self._message(layer, inputs), of, [inputs])
        return by_inputs, by_parameters

    def _gradients(self, out: torch.Tensor, of: Rows, by: Sequence[torch.Tensor]) -> tuple[list[Rows], Gradient]:
        leaves = [*by, *self.parameters]
        found = torch.autograd.grad(out, leaves, torch.tensor(of), allow_unused=True)
        dense = [torch.zeros_like(leaf) if g is None else g for g, leaf in zip(found, leaves, strict=True)]
        return [gradient.numpy() for gradient in dense[: len(by)]], flat(dense[len(by) :])

    def step(self, gradient: Array) -> None:
        """One step of the silo's own optimiser on a gradient of all parameters, and of the learning rate."""
        for parameter, part in zip(self.parameters, unflatten(gradient, self.parameters), strict=True):
            parameter.grad = part
        self._optimiser.step()
        self._steps += 1
        if self._steps % self._preset.decay_every == 0:
            self._optimiser.param_groups[0]["lr"] *= self._preset.decay

    def is_last(self, layer: int) -> bool:
        """Whether a layer's outputs are the logits."""
        return layer == len(self._layers) - 1

    def _is_static(self, layer: int) -> bool:
        return layer == 0 and self._preset.static_first_layer

    def _part(self, layer: int) -> MessageLayer:
        part = self._layers[layer]
        assert isinstance(part, MessageLayer)
        return part

    def state(self) -> dict[str, Array]:
        """Parameters, what the optimiser remembers, its rate, and where dropout's coins are."""
        rate = self._optimiser.param_groups[0]["lr"]
        return {
            "values": flat(self.parameters),
            "rate": np.array([rate, self._steps], dtype=np.float64),
            "coins": self._coins.get_state().numpy(),
            **under("optimiser", remembered(self._optimiser)),
        }

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        overwrite(self.parameters, state["values"])
        remind(self._optimiser, within("optimiser", state))
        self._optimiser.param_groups[0]["lr"], self._steps = float(state["rate"][0]), int(state["rate"][1])
        self._coins.set_state(torch.from_numpy(state["coins"].copy()))
