"""Parameter gradients on their way from devices to their silo: in the clear, as published, or as grouped sums.

A device's gradient of a weight matrix is a sum of outer products, one for each row that it multiplied with the matrix:
of that row, and of the gradient that came back. Devices send the dense matrix; this module keeps the factors and lays
matrices out only where a message has to be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fgl_secure.algebra import FixedPoint
from fgl_secure.algebra.kernels import rounded_outer_sums
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import MEMBERS, Grouping, Topology
from fgl_secure.runtime import Channel, Directory, MessageBatch, Phase, Role, Step
from fgl_secure.training.backbones import MessageLayer
from fgl_secure.training.server_sums import FLOAT_BYTES

Floats = NDArray[np.float32]

LARGEST_PART = 2**22
"""Most elements of gradients that one step of a scheme sums: wider gradients go in several parts."""


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
        self._order = [(number, id(p)) for number, layer in enumerate(layers) for p in layer.parameters()]
        for layer in layers:
            assert isinstance(layer, MessageLayer)
            layer.watch = self._watch

    def _watch(self, parameter: nn.Parameter, left: torch.Tensor | None, product: torch.Tensor) -> None:
        if self.collects and product.requires_grad:
            product.register_hook(partial(self._note, id(parameter), left))  # type: ignore[no-untyped-call]

    def _note(self, parameter: int, left: torch.Tensor | None, right: torch.Tensor) -> None:
        self._found.setdefault(parameter, []).append((left, right.detach()))

    def take(self) -> list[tuple[int, Floats | None, Floats]]:
        """Layer, left [t, n, d_in] and right [t, n, d_out] factors of every parameter, in the order of the model.

        What was collected is forgotten. Products of one row are one: their gradients are added up.
        """
        found, self._found = self._found, {}
        taken = []
        for layer, parameter in self._order:
            products: dict[int, tuple[torch.Tensor | None, torch.Tensor]] = {}
            for left, right in found[parameter]:
                earlier = products.get(id(left))
                products[id(left)] = (left, right if earlier is None else earlier[1] + right)
            lefts = [_array(left) for left, _ in products.values() if left is not None]
            rights = _stacked([_array(right) for _, right in products.values()])
            taken.append((layer, _stacked(lefts) if lefts else None, rights))
        return taken


def gathered(collectors: list[Collector], order: NDArray[np.int64]) -> list[Factors]:
    """The factors of all devices, by parameter; `order` as in `Factors`."""
    found = []
    for parts in zip(*(collector.take() for collector in collectors), strict=True):
        rights = tuple(right for _, _, right in parts)
        lefts = tuple(
            np.ones((*right.shape[:2], 1), dtype=np.float32) if left is None else left for _, left, right in parts
        )
        found.append(Factors(parts[0][0], lefts, rights, order, parts[0][1] is None))
    return found


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
        layers: the model of a silo.
    """

    def __init__(self, channel: Channel, silo_of: NDArray[np.int64], layers: nn.ModuleList) -> None:
        self._channel = channel
        own = [(number, p) for number, layer in enumerate(layers) for p in layer.parameters()]
        self._sizes = [(number, FLOAT_BYTES * p.numel()) for number, p in own]
        self._devices = channel.parties.ids(Role.DEVICE)
        self._silos = channel.parties.ids(Role.SILO)[silo_of]

    def looks_at(self, step: Step) -> bool:
        """Whether gradients of a step are recorded, and not counted alone."""
        return self._channel.recording.keeps(step)

    def send(self, factors: list[Factors], step: Step) -> None:
        """One message a device and parameter, sized as the dense gradient."""
        for each, (layer, size) in zip(factors, self._sizes, strict=True):
            now = replace(step, layer=layer)
            self._channel.send(Phase.GRADIENT, now, self._devices, self._silos, each.payload, wire_bytes=size)

    def count(self, step: Step) -> None:
        """The same messages where nobody looks at them."""
        for layer, size in self._sizes:
            self._channel.send_sizes(Phase.GRADIENT, replace(step, layer=layer), self._devices, self._silos, size)


def gradient_sums(parties: Directory, silo_of: NDArray[np.int64]) -> Topology:
    """Sums of devices' gradients for their silos: a part of a gradient of each device in a step.

    Args:
        parties: of the run.
        silo_of: int64 [n], the silo of each device.
    """
    devices, silos = parties.ids(Role.DEVICE), parties.ids(Role.SILO)
    grouping = Grouping(devices, silos, np.arange(len(devices)), silo_of, silos[silo_of], silos)
    return Topology(MEMBERS, grouping, max(LARGEST_PART // len(devices), 1))


def sums_gradients(scheme: Scheme, topology: Topology) -> bool:
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
        self._quiet = channel.keeping_only(Phase.SHARE_SUMS, Phase.COUNTS)
        self._silos = channel.parties.counts[Role.SILO]
        topology = gradient_sums(channel.parties, silo_of)
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
        totals = np.zeros((self._silos, factors.height, factors.width), dtype=np.int64)
        for silo, (left, right) in enumerate(zip(factors.left, factors.right, strict=True)):
            self._check_range(left, right)
            if self._answered[silo]:
                rounded_outer_sums(left, right, 2.0**self._fixed.fraction_bits, totals[silo])
        return self._fixed.decode(totals.reshape(self._silos, -1) % self._fixed.field.modulus)

    def _check_range(self, left: Floats, right: Floats) -> None:
        """Refuses what the scheme would refuse, or might: elements are bounded by the factors' largest."""
        bounds = np.abs(left).max(axis=2, initial=0) * np.abs(right).max(axis=2, initial=0)
        self._fixed.encode(bounds.sum(axis=0))


def _condensed(batches: list[MessageBatch]) -> list[MessageBatch]:
    """The sizes of batches, those alike as one: parts of a gradient are many, and differ in the last one at most."""
    counted: dict[tuple[Phase, int, bytes, bytes], list[MessageBatch]] = {}
    for batch in batches:
        alike = (batch.phase, batch.item_bytes, batch.senders.tobytes(), batch.receivers.tobytes())
        counted.setdefault(alike, []).append(batch)
    return [replace(same[0], fields=None, repeats=len(same)) for same in counted.values()]
