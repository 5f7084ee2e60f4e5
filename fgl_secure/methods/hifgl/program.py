"""HiFGL (KDD 2024): node classification over devices, silos and a server, as a program of grouped sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.device_gradients import (
    ClearGradients,
    Collector,
    SummedGradients,
    gathered,
    gradient_sums,
    sums_gradients,
)
from fgl_secure.methods.hifgl.hierarchy import HierarchyTraffic, SiloModels, note_membership
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import NEIGHBOURS, Grouping, Topology
from fgl_secure.runtime import Channel, Direction, Step
from fgl_secure.training.backbones import LAYERS, PUBLISHED_LAYERS, Degrees, MessageLayer, make_layers
from fgl_secure.training.grouped_sum import GroupedSum
from fgl_secure.training.parties import neighbour_sums
from fgl_secure.training.presets import Preset, Selection


class HiFGL:
    """One federated model in training.

    Args:
        graph: who has what.
        scheme: how neighbourhood sums are computed.
        channel: between the parties of `hierarchy_of(graph, scheme.helpers)`.
        preset: how to train.
        backbone: "gcn" or "sage".
        seed: of the initial weights and of dropout; coins come from the channel.
        device: where model compute runs.
    """

    def __init__(
        self,
        graph: FederatedGraph,
        scheme: Scheme,
        channel: Channel,
        preset: Preset,
        *,
        backbone: str = "gcn",
        seed: int = 0,
        device: torch.device | None = None,
    ) -> None:
        if backbone not in LAYERS:
            raise UnknownNameError("backbone", backbone, tuple(LAYERS))
        self._device = device or torch.device("cpu")
        self._preset = preset
        heard = graph.restricted_to_split() if preset.split_restricted else graph
        widths = preset.widths(graph.graph.num_features, graph.num_classes)
        make = (PUBLISHED_LAYERS if preset.published_aggregation else LAYERS)[backbone]
        self._silos = SiloModels(make_layers(make, widths, seed), graph.num_silos, preset, self._device)
        sums = neighbour_sums(heard)
        widest = max(widths if preset.static_first_layer else widths[1:])
        self._sum = GroupedSum(Collective(scheme, Topology(NEIGHBOURS, sums, widest), channel))
        self._static: torch.Tensor | None = None
        note_membership(channel, graph.silo_of)
        by_selection = {Selection.VALIDATION: graph.validation_mask, Selection.TEST: graph.test_mask}
        scored = np.flatnonzero(by_selection[preset.selection])
        self._traffic = HierarchyTraffic(channel, graph.silo_of, self._silos.bytes, scored)
        self._place(graph, heard, scheme.answered(sums))
        self._collectors = [Collector(model) for model in self._silos.models]
        self._clear = ClearGradients(channel, graph.silo_of, self._silos.models[0])
        hidden = sums_gradients(scheme, gradient_sums(channel.parties, graph.silo_of))
        self._summed = SummedGradients(scheme, channel, graph.silo_of) if hidden else None
        self._dropout = torch.Generator(device=self._device).manual_seed(seed)

    def _place(self, graph: FederatedGraph, heard: FederatedGraph, answered: Grouping) -> None:
        def column(degree: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(degree.astype(np.float32)[:, None]).to(self._device)

        members = [torch.from_numpy(graph.devices_of(silo)) for silo in range(graph.num_silos)]
        self._members = [member.to(self._device) for member in members]
        self._node_order = torch.argsort(torch.cat(members)).to(self._device)
        features, labels = torch.tensor(graph.features), torch.tensor(graph.labels)
        summed = np.bincount(answered.target, minlength=graph.num_devices)
        degrees = Degrees(column(graph.in_degree), column(heard.in_degree), column(summed))
        self._degrees = [degrees.of(member) for member in self._members]
        self._features = [features[member].to(self._device) for member in members]
        self._labels = labels.to(self._device)
        self._training = torch.tensor(graph.train_mask).to(self._device)
        self._training_per_silo = [int(graph.train_mask[graph.devices_of(k)].sum()) for k in range(graph.num_silos)]

    def round(self, number: int) -> tuple[float, torch.Tensor]:
        """One round: forward, loss on every training device, backward, a step of every silo, federation.

        Args:
            number: of the round, from 0.

        Returns:
            The mean training loss, and the logits [n, classes] of the models *before* the step.
        """
        step = Step(number)
        self._traffic.models_down(step)
        for collector in self._collectors:
            collector.collects = self._summed is not None or self._clear.looks_at(step)
        logits = self._forward(number, training=True)
        losses = functional.cross_entropy(logits[self._training], self._labels[self._training], reduction="sum")
        judged = self._predict(number) if self._preset.dropout else logits.detach()
        self._traffic.scores_up(step)
        losses.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._gradients_up(step)
        self._traffic.models_up(step)
        self._silos.step(self._training_per_silo)
        return float(losses.detach()) / sum(self._training_per_silo), judged

    def _gradients_up(self, step: Step) -> None:
        """Every device's gradient to its silo: summed by the scheme, or in the clear."""
        if self._summed is None and not self._clear.looks_at(step):
            self._clear.count(step)
            return
        factors = gathered(self._collectors, self._node_order.cpu().numpy())
        if self._summed is None:
            self._clear.send(factors, step)
        else:
            self._silos.set_gradients(self._summed.sums(factors, step))

    def evaluate(self, number: int) -> torch.Tensor:
        """Hands out the current models and scores them: logits [n, classes], for the messages of one forward pass."""
        self._traffic.models_down(Step(number))
        logits = self._predict(number)
        self._traffic.scores_up(Step(number))
        return logits

    def _predict(self, number: int) -> torch.Tensor:
        with torch.no_grad():
            return self._forward(number, training=False)

    def _forward(self, number: int, *, training: bool) -> torch.Tensor:
        h, depth = self._features, len(self._silos.models[0])
        for layer in range(depth):
            local = [self._layer(silo, layer) for silo in range(len(h))]
            sums = self._sums(local, h, Step(number, layer, evaluation=not training))
            h = [part.update(own, s, d) for part, own, s, d in zip(local, h, sums, self._degrees, strict=True)]
            if layer < depth - 1:
                h = [self._activate(own, training=training) for own in h]
        return torch.cat(h)[self._node_order]

    def _sums(self, local: list[MessageLayer], h: list[torch.Tensor], step: Step) -> list[torch.Tensor]:
        """What each silo's devices get of their neighbours in one layer, [n_s, d_out] a silo."""
        if step.layer == 0 and self._preset.static_first_layer:
            rows = self._static_sums(local, h)
            return [
                part.project(rows[member], part.message_weight)
                for part, member in zip(local, self._members, strict=True)
            ]
        sent = [part.message(own, d) for part, own, d in zip(local, h, self._degrees, strict=True)]
        sums = self._sum(torch.cat(sent)[self._node_order], step)
        return [sums[member] for member in self._members]

    def _static_sums(self, local: list[MessageLayer], features: list[torch.Tensor]) -> torch.Tensor:
        """The sums of the neighbours' scaled features [n, d_in], exchanged when first asked for and kept."""
        if self._static is None:
            raw = [part.raw_message(own, d) for part, own, d in zip(local, features, self._degrees, strict=True)]
            self._static = self._sum(torch.cat(raw)[self._node_order], Step(0, 0)).detach()
        return self._static

    def _layer(self, silo: int, layer: int) -> MessageLayer:
        part = self._silos.models[silo][layer]
        assert isinstance(part, MessageLayer)
        return part

    def _activate(self, h: torch.Tensor, *, training: bool) -> torch.Tensor:
        h, rate = torch.relu(h), self._preset.dropout
        if not (training and rate):
            return h
        kept = torch.rand(h.shape, generator=self._dropout, device=h.device) >= rate
        return h * kept / (1 - rate)


def exchange(
    graph: FederatedGraph,
    scheme: Scheme,
    channel: Channel,
    values: NDArray[np.floating[Any]],
    *,
    both_ways: bool = False,
) -> NDArray[np.float64]:
    """Every device sends one row to each of its neighbours and gets the sum of what it was sent.

    Args:
        graph: who is whose neighbour, and in which silo.
        scheme: how the sums are computed.
        channel: between the parties of `hierarchy_of(graph, scheme.helpers)`.
        values: [n, d], the row of each device.
        both_ways: whether the rows also travel along the reversed edges, as gradients do.

    Returns:
        float64 [n, d], the sums of the forward pass.
    """
    if values.ndim != 2 or len(values) != graph.num_devices:
        raise InputError(f"values must be [{graph.num_devices}, d]; found {list(values.shape)}")
    note_membership(channel, graph.silo_of)
    session = Collective(scheme, Topology(NEIGHBOURS, neighbour_sums(graph), values.shape[1]), channel)
    sums = session.sum(values, Step(0, 0))
    if both_ways:
        session.sum(values, Step(0, 0, Direction.BACKWARD))
    return sums
