"""HiFGL's hierarchy (section 4.1): devices compute, silos optimise their own models, the server averages them."""

from __future__ import annotations

import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fgl_secure.runtime import Channel, Phase, Role, Step
from fgl_secure.training.presets import Federation, Preset
from fgl_secure.training.server_sums import FLOAT_BYTES


def note_membership(channel: Channel, silo_of: NDArray[np.int64]) -> None:
    """Records what every silo knows from the start: the identities of its own devices (Definition of 4.1.2).

    Args:
        channel: between the parties of the hierarchy.
        silo_of: int64 [n], the silo of each device.
    """
    owners = channel.parties.ids(Role.SILO)[silo_of]
    channel.note_inputs("own devices", Step(0), owners, channel.parties.ids(Role.DEVICE))


class SiloModels:
    """The local models of all silos. Adam moves every parameter by itself, so one optimiser steps all of them.

    Args:
        layers: the initial model, the same for every silo.
        silos: how many silos.
        preset: rate, decay and how the models become one.
        device: where the models live.
    """

    def __init__(self, layers: nn.ModuleList, silos: int, preset: Preset, device: torch.device) -> None:
        self.models = [copy.deepcopy(layers).to(device) for _ in range(silos)]
        self._federation, self._proximal = preset.federation, preset.proximal
        self._parameters = [list(model.parameters()) for model in self.models]
        self._averaged = [list(self._averaged_part(model).parameters()) for model in self.models]
        everything = [parameter for own in self._parameters for parameter in own]
        self._optimiser = torch.optim.Adam(everything, lr=preset.learning_rate, foreach=True)
        self._schedule = torch.optim.lr_scheduler.StepLR(self._optimiser, preset.decay_every, preset.decay)
        self._keep_global()

    @property
    def bytes(self) -> int:
        """Size of one model on the wire, in bytes of float32."""
        return sum(parameter.numel() for parameter in self._parameters[0]) * FLOAT_BYTES

    def set_gradients(self, sums: list[NDArray[np.float64]]) -> None:
        """Replaces the gradients of all silos by sums that arrived: for each parameter float64 [silos, elements]."""
        for silo, parameters in enumerate(self._parameters):
            for parameter, arrived in zip(parameters, sums, strict=True):
                own = torch.from_numpy(arrived[silo].reshape(parameter.shape))
                parameter.grad = own.to(dtype=parameter.dtype, device=parameter.device)

    def step(self, devices_with_loss: list[int]) -> None:
        """One local step of every silo on the mean gradient of its devices, then federation.

        Args:
            devices_with_loss: for each silo, over how many devices its gradient is the mean (4.1.2, item 2).
        """
        for parameters, count in zip(self._parameters, devices_with_loss, strict=True):
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.grad /= count
        if self._federation is Federation.SHARED:
            self._average([[p.grad for p in own if p.grad is not None] for own in self._parameters])
        if self._federation is Federation.FEDPROX:
            self._pull_to_global()
        self._optimiser.step()
        self._optimiser.zero_grad()
        self._schedule.step()
        self._average([[p.data for p in own] for own in self._averaged])
        self._keep_global()

    def _averaged_part(self, model: nn.ModuleList) -> nn.ModuleList:
        """The layers whose parameters the server averages."""
        layers = len(model)
        averaged = {Federation.FEDAVG: layers, Federation.FEDPROX: layers, Federation.FEDPER: layers - 1}
        return model[: averaged.get(self._federation, 0)]

    def _keep_global(self) -> None:
        """Keeps the model that the server sends; only FedProx looks back at it."""
        if self._federation is Federation.FEDPROX:
            self._global = [parameter.detach().clone() for parameter in self._parameters[0]]

    def _pull_to_global(self) -> None:
        """Adds the gradient of FedProx's proximal term, mu (w - w_global): zero at the first step of a round."""
        for parameters in self._parameters:
            for parameter, sent in zip(parameters, self._global, strict=True):
                if parameter.grad is not None:
                    parameter.grad += self._proximal * (parameter.detach() - sent)

    @staticmethod
    def _average(tensors: list[list[torch.Tensor]]) -> None:
        """Replaces each tensor by its plain mean over the silos (4.3)."""
        for same in zip(*tensors, strict=True):
            mean = torch.stack(same).mean(dim=0)
            for tensor in same:
                tensor.copy_(mean)


class HierarchyTraffic:
    """Sizes of what travels up and down the hierarchy in one round; the values are never laid out message by message.

    Args:
        channel: records the sizes.
        silo_of: int64 [n], the silo of each device.
        model_bytes: size of one model.
        scored: int64 [k], the devices whose predictions are counted to choose a round.
    """

    def __init__(
        self, channel: Channel, silo_of: NDArray[np.int64], model_bytes: int, scored: NDArray[np.int64]
    ) -> None:
        self._channel, self._model_bytes = channel, model_bytes
        self._devices = channel.parties.ids(Role.DEVICE)
        self._silos = channel.parties.ids(Role.SILO)
        self._silo_of_device = self._silos[silo_of]
        self._scored, self._silo_of_scored = self._devices[scored], self._silo_of_device[scored]
        self._server = np.full(len(self._silos), channel.parties.ids(Role.SERVER)[0])

    def models_down(self, step: Step) -> None:
        """Server to silos, silos to devices."""
        self._channel.send_sizes(Phase.MODEL, step, self._server, self._silos, self._model_bytes)
        self._channel.send_sizes(Phase.MODEL, step, self._silo_of_device, self._devices, self._model_bytes)

    def models_up(self, step: Step) -> None:
        """Every silo's model to the server."""
        self._channel.send_sizes(Phase.MODEL, step, self._silos, self._server, self._model_bytes)

    def scores_up(self, step: Step) -> None:
        """One byte a scored device to its silo, two 32-bit counts a silo to the server."""
        self._channel.send_sizes(Phase.CORRECT, step, self._scored, self._silo_of_scored, 1)
        self._channel.send_sizes(Phase.CORRECT, step, self._silos, self._server, 8)
