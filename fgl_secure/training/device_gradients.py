"""Parameter gradients on their way from devices to their silo: in the clear, as published, or as grouped sums.

A device's gradient of a weight matrix is a sum of outer products, one for each row that it multiplied with the matrix:
of that row, and of the gradient that came back. Devices send the dense matrix; this module keeps the factors and lays
matrices out only where a message has to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fgl_secure.algebra import FixedPoint, Segments
from fgl_secure.algebra.kernels import rounded_outer_sums
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import MEMBERS, Grouping, Topology
from fgl_secure.runtime import Channel, Directory, MessageBatch, Phase, Role, Step
from fgl_secure.training.backbones import MessageLayer
from fgl_secure.training.server_sums import FLOAT_BYTES

Floats = NDArray[np.float32]
Sizes = tuple[tuple[int, int], ...]
"""Layer and entries of each parameter of a model, in its order."""

KEPT_OF_MEMBERS = (Phase.SHARE_SUMS, Phase.COUNTS)
"""What is recorded of sums of devices' rows for their silos: what the silos get; the rest is too large."""

LARGEST_PART = 2**22
"""Most elements of gradients that one step of a scheme sums: wider gradients go in several parts."""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceFactors:
    """The gradients of one parameter, of the devices of one silo.

    Attributes:
        layer: of the model.
        left: float32 [t, m, d_in], the t rows that each device multiplied with a matrix; for a bias the number 1.
        right: float32 [t, m, d_out], the gradients of each device's products, or of what the bias was added to.
        is_bias: whether the parameter is a bias.
    """

    layer: int
    left: Floats
    right: Floats
    is_bias: bool


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """The gradients of one parameter, of all devices, silo by silo.

    Attributes:
        layer: of the model.
        left: for each silo float32 [t, n_s, d_in], the t rows that each device multiplied with a matrix; for a bias
            the number 1.
        right: for each silo float32 [t, n_s, d_out], the gradients of each device's products, or of what the bias
            was added to.
        order: int64 [n], the position of each device when silos stand one after the other.
        is_bias: whether the parameter is a bias.
    """

    layer: int
    left: tuple[Floats, ...]
    right: tuple[Floats, ...]
    order: NDArray[np.int64]
    is_bias: bool

    @property
    def height(self) -> int:
        """Rows of the parameter; 1 for a bias."""
        return int(self.left[0].shape[2])

    @property
    def width(self) -> int:
        """Columns of the parameter."""
        return int(self.right[0].shape[2])

    @property
    def payload(self) -> Floats:
        """float32 [n, t (d_in + d_out)]: the factors of each product side by side, which give the dense gradient."""
        terms = range(self.right[0].shape[0])
        sides = (self.right,) if self.is_bias else (self.left, self.right)
        return np.concatenate([np.concatenate([part[t] for part in side]) for t in terms for side in sides], axis=1)[
            self.order
        ]

    def dense(self, start: int, stop: int) -> Floats:
        """float32 [n, (stop - start) * d_out]: rows start .. stop - 1 of every device's matrix."""
        parts = []
        for left, right in zip(self.left, self.right, strict=True):
            matrix = left[0, :, start:stop, None] * right[0, :, None, :]
            for row, gradient in zip(left[1:], right[1:], strict=True):
                matrix += row[:, start:stop, None] * gradient[:, None, :]
            parts.append(matrix.reshape(len(matrix), -1))
        return np.concatenate(parts)[self.order]


class Collector:
    """Collects the factors of one silo's model while its gradients are computed.

    Args:
        layers: the model.

    Attributes:
        collects: whether it does; where gradients are counted and not looked at, it need not.
    """

    def __init__(self, layers: nn.ModuleList) -> None:
        self.collects = True
        self._found: dict[int, list[tuple[torch.Tensor | None, torch.Tensor]]] = {}
        self._order = [(number, p) for number, layer in enumerate(layers) for p in layer.parameters()]
        for layer in layers:
            for part in layer.modules():  # a layer may be made of others
                if isinstance(part, MessageLayer):
                    part.watch = self._watch

    def _watch(self, parameter: nn.Parameter, left: torch.Tensor | None, product: torch.Tensor) -> None:
        if self.collects and product.requires_grad:
            product.register_hook(partial(self._note, id(parameter), left))  # type: ignore[no-untyped-call]

    def _note(self, parameter: int, left: torch.Tensor | None, right: torch.Tensor) -> None:
        self._found.setdefault(parameter, []).append((left, right.detach()))

    def take(self) -> tuple[DeviceFactors, ...]:
        """The factors of every parameter, in the order of the model.

        What was collected is forgotten. Products of one row are one: their gradients are added up.
        """
        found, self._found = self._found, {}
        return tuple(_factors(layer, found[id(parameter)]) for layer, parameter in self._order)

    @property
    def sizes(self) -> Sizes:
        """The layer and the number of entries of every parameter."""
        return tuple((layer, parameter.numel()) for layer, parameter in self._order)

    def put(self, gradients: list[NDArray[np.float64]]) -> None:
        """Replaces the gradients of the model by sums that arrived: one flat array a parameter."""
        for (_, parameter), arrived in zip(self._order, gradients, strict=True):
            own = torch.from_numpy(arrived.reshape(parameter.shape))
            parameter.grad = own.to(dtype=parameter.dtype, device=parameter.device)


def _factors(layer: int, found: list[tuple[torch.Tensor | None, torch.Tensor]]) -> DeviceFactors:
    products: dict[object, tuple[torch.Tensor | None, torch.Tensor]] = {}
    for left, right in found:
        row = None if left is None else (left.data_ptr(), left.shape)  # a leaf has the numbers of what it was cut from
        earlier = products.get(row)
        products[row] = (left, right if earlier is None else earlier[1] + right)
    rights = _stacked([_array(right) for _, right in products.values()])
    lefts = [_array(left) for left, _ in products.values() if left is not None]
    ones = np.ones((*rights.shape[:2], 1), dtype=np.float32)
    return DeviceFactors(layer, _stacked(lefts) if lefts else ones, rights, not lefts)


def gathered(silos: Sequence[tuple[DeviceFactors, ...]], order: NDArray[np.int64]) -> list[Factors]:
    """The factors of all devices, by parameter, from those of each silo; `order` as in `Factors`."""
    return [
        Factors(parts[0].layer, tuple(p.left for p in parts), tuple(p.right for p in parts), order, parts[0].is_bias)
        for parts in zip(*silos, strict=True)
    ]


def _array(tensor: torch.Tensor) -> Floats:
    return np.ascontiguousarray(tensor.detach().cpu().numpy(), dtype=np.float32)


def _stacked(arrays: list[Floats]) -> Floats:
    """Arrays behind a new first axis; one alone is not copied."""
    return arrays[0][None] if len(arrays) == 1 else np.stack(arrays)


class ClearGradients:
    """Every device sends its gradient to its silo in the clear: HiFGL holds gradients not to be private (4.3).

    Args:
        channel: between devices and silos.
        silo_of: int64 [n], the silo of each device.
    """

    def __init__(self, channel: Channel, silo_of: NDArray[np.int64]) -> None:
        self._channel = channel
        self._devices = channel.parties.ids(Role.DEVICE)
        self._silos = channel.parties.ids(Role.SILO)[silo_of]

    def looks_at(self, step: Step) -> bool:
        """Whether gradients of a step are recorded, and not counted alone."""
        return self._channel.recording.keeps(step)

    def send(self, factors: list[Factors], step: Step) -> None:
        """One message a device and parameter, sized as the dense gradient."""
        for each in factors:
            now, size = replace(step, layer=each.layer), FLOAT_BYTES * each.height * each.width
            self._channel.send(Phase.GRADIENT, now, self._devices, self._silos, each.payload, wire_bytes=size)

    def count(self, sizes: Sizes, step: Step) -> None:
        """The same messages where nobody looks at them."""
        for layer, entries in sizes:
            now, size = replace(step, layer=layer), FLOAT_BYTES * entries
            self._channel.send_sizes(Phase.GRADIENT, now, self._devices, self._silos, size)


def member_sums(parties: Directory, silo_of: NDArray[np.int64], width: int | None = None) -> Topology:
    """Sums of a row of each device for their silos.

    Args:
        parties: of the run.
        silo_of: int64 [n], the silo of each device.
        width: most entries of a row; as many as a part of a gradient has unless given.
    """
    devices, silos = parties.ids(Role.DEVICE), parties.ids(Role.SILO)
    grouping = Grouping(devices, silos, np.arange(len(devices)), silo_of, silos[silo_of], silos)
    return Topology(MEMBERS, grouping, width or max(LARGEST_PART // len(devices), 1))


def sums_members(scheme: Scheme, topology: Topology) -> bool:
    """Whether gradients go in under a scheme, and not in the clear: it serves them, and over a field."""
    return scheme.refuses(topology) is None and scheme.encoding(topology) is not None


class SummedGradients:
    """Devices' gradients as grouped sums with their silo as the group: the silo learns the sum alone.

    Rounds whose payloads are kept, and the first round in any case, run the scheme on dense gradients. Laying out the
    masks of every device's whole model takes seconds a round in one process, and they cancel exactly; so other rounds
    add up the same rounded elements without them, to the same bits, and count the messages that the first round sent.

    Args:
        scheme: how sums are computed.
        channel: between the parties of the hierarchy and the relays.
        silo_of: int64 [n], the silo of each device.
    """

    def __init__(self, scheme: Scheme, channel: Channel, silo_of: NDArray[np.int64]) -> None:
        self._channel = channel
        self._quiet = channel.keeping_only(*KEPT_OF_MEMBERS)
        self._silos = channel.parties.counts[Role.SILO]
        topology = member_sums(channel.parties, silo_of)
        fixed = scheme.encoding(topology)
        assert isinstance(fixed, FixedPoint), "only schemes over a field sum gradients"
        self._fixed, self._part = fixed, topology.width
        self._session = Collective(scheme, topology, self._quiet)
        self._answered = np.bincount(scheme.answered(topology.grouping).target, minlength=self._silos) > 0
        self._sent: list[MessageBatch] = []

    def sums(self, factors: list[Factors], step: Step) -> list[NDArray[np.float64]]:
        """The sum over each silo's devices: float64 [silos, elements of the parameter], zero for a silo too small."""
        if not self._sent or self._channel.recording.keeps(step):
            return self._through_the_scheme(factors, step)
        for batch in self._sent:
            now, ends = replace(batch.step, round=step.round), (batch.senders, batch.receivers)
            self._channel.send_sizes(batch.phase, now, *ends, batch.item_bytes, batch.repeats)
        return [self._without_masks(each) for each in factors]

    def sum(self, rows: NDArray[np.floating[Any]], step: Step) -> NDArray[np.float64]:
        """The sum over each silo's devices of other rows [n, d], float64 [silos, d], under the same keys."""
        return self._session.sum(rows, replace(step, evaluation=True))  # so that no step is a gradient's

    def _through_the_scheme(self, factors: list[Factors], step: Step) -> list[NDArray[np.float64]]:
        before, part, sums = len(self._channel.transcript.messages), 0, []
        for each in factors:
            done = []
            tall = max(self._part // each.width, 1)
            for start in range(0, each.height, tall):
                dense = each.dense(start, min(start + tall, each.height))
                done.append(self._session.sum(dense, Step(step.round, -1, part=part)))
                part += 1
            sums.append(np.concatenate(done, axis=1))
        messages = self._channel.transcript.messages[before:]
        self._sent = _condensed([batch for batch in messages if batch.phase is not Phase.KEYS])
        return sums

    def _without_masks(self, factors: Factors) -> NDArray[np.float64]:
        parts = zip(factors.left, factors.right, self._answered.tolist(), strict=True)
        return np.stack([rounded_sums(self._fixed, left, right, answered=answered) for left, right, answered in parts])


def rounded_sums(fixed: FixedPoint, left: Floats, right: Floats, *, answered: bool) -> NDArray[np.float64]:
    """The sum over a silo's devices of their gradients of a parameter, float64 flat, as a scheme over a field has it.

    Args:
        fixed: the scheme's map into its field.
        left: float32 [t, m, d_in], see `DeviceFactors`.
        right: float32 [t, m, d_out].
        answered: whether the scheme computes a sum over so many devices; 0 if not.

    Raises:
        InputError: the scheme would refuse a gradient, or might: elements are bounded by the factors' largest.
    """
    bounds = np.abs(left).max(axis=2, initial=0) * np.abs(right).max(axis=2, initial=0)
    fixed.encode(bounds.sum(axis=0))
    total = np.zeros((left.shape[2], right.shape[2]), dtype=np.int64)
    if answered:
        rounded_outer_sums(left, right, 2.0**fixed.fraction_bits, total)
    return fixed.decode(total.reshape(-1) % fixed.field.modulus)


class HostedMembers:
    """Sums over the devices of a silo that hosts them, to the bits that a scheme between them and the silo gives.

    Args:
        scheme: what would sum; None leaves rows in the clear.
        sizes: devices of each silo.
        silo: whose these are.
    """

    def __init__(self, scheme: Scheme | None, sizes: tuple[int, ...], silo: int) -> None:
        self._parties = Directory.hierarchy(len(sizes), sum(sizes))
        self._silo_of = np.repeat(np.arange(len(sizes)), sizes)
        topology = member_sums(self._parties, self._silo_of)
        self._scheme = scheme if scheme is not None and sums_members(scheme, topology) else None
        self._answered = self._scheme is None or bool((self._scheme.answered(topology.grouping).target == silo).any())

    @property
    def sums_gradients(self) -> bool:
        """Whether gradients of single devices are wanted, for their sums."""
        return self._scheme is not None

    def sum(self, rows: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """The sum of the devices' rows [m, d]."""
        fixed = self._encoding(rows.shape[1])
        if fixed is None:
            return np.asarray(rows.sum(axis=0, dtype=np.float64))
        together = Segments.by_group(np.zeros(len(rows), dtype=np.int64), 1)
        total = fixed.field.grouped_sums(fixed.encode(rows.astype(np.float64)), together)[0]
        return np.asarray(fixed.decode(total * self._answered))

    def gradients(self, factors: Sequence[DeviceFactors]) -> list[NDArray[np.float64]] | None:
        """The sums of gradients, parameter by parameter; None where they are in the clear."""
        fixed = self._encoding(None)
        if fixed is None:
            return None
        return [rounded_sums(fixed, each.left, each.right, answered=self._answered) for each in factors]

    def _encoding(self, width: int | None) -> FixedPoint | None:
        if self._scheme is None:
            return None
        fixed = self._scheme.encoding(member_sums(self._parties, self._silo_of, width))
        assert isinstance(fixed, FixedPoint), "only schemes over a field sum rows of devices"
        return fixed


def _condensed(batches: list[MessageBatch]) -> list[MessageBatch]:
    """The sizes of batches, those alike as one: parts of a gradient are many, and differ in the last one at most."""
    counted: dict[tuple[Phase, int, bytes, bytes], list[MessageBatch]] = {}
    for batch in batches:
        alike = (batch.phase, batch.item_bytes, batch.senders.tobytes(), batch.receivers.tobytes())
        counted.setdefault(alike, []).append(batch)
    return [replace(same[0], fields=None, repeats=len(same)) for same in counted.values()]
