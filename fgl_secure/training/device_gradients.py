"""Parameter gradients of single devices: how they are collected, and how they go to a silo in the clear, as published.

A device's gradient of a weight matrix is a sum of outer products, one for each row that it multiplied with the matrix:
of that row, and of the gradient that came back. Matrices are laid out only where a message has to be one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fgl_secure.protocols.coded_products import Product
from fgl_secure.runtime import Channel, Phase, Role, Step
from fgl_secure.training.backbones import MessageLayer
from fgl_secure.training.server_sums import FLOAT_BYTES

Floats = NDArray[np.float32]
Sizes = tuple[tuple[int, int], ...]
"""Layer and entries of each parameter of a model, in its order."""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceFactors:
    """The gradients of one parameter, of the devices of one silo.

    Attributes:
        layer: of the model.
        left: float32 [t, m, d_in], the t rows that each device multiplied with a matrix; for a bias the number 1.
        right: float32 [t, m, d_out], the gradients of each device's products, or of what the bias was added to.
        is_bias: whether the parameter is a bias.
        static: whether the rows on the left never change, as the number 1 of a bias.
        left_bits: behind the binary point of static rows on the left, where everybody knows; see `Product`.
    """

    layer: int
    left: Floats
    right: Floats
    is_bias: bool
    static: bool = False
    left_bits: int | None = None

    @property
    def product(self) -> Product:
        """The shape of the gradient as a sum of products."""
        return Product(len(self.left), self.left.shape[2], self.right.shape[2], self.static, self.left_bits)


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
        static: whether the rows on the left never change, as the number 1 of a bias.
        left_bits: behind the binary point of static rows on the left, where everybody knows; see `Product`.
    """

    layer: int
    left: tuple[Floats, ...]
    right: tuple[Floats, ...]
    order: NDArray[np.int64]
    is_bias: bool
    static: bool = False
    left_bits: int | None = None

    @property
    def height(self) -> int:
        """Rows of the parameter; 1 for a bias."""
        return int(self.left[0].shape[2])

    @property
    def width(self) -> int:
        """Columns of the parameter."""
        return int(self.right[0].shape[2])

    @property
    def product(self) -> Product:
        """The shape of the gradient as a sum of products."""
        return Product(len(self.left[0]), self.height, self.width, self.static, self.left_bits)

    @property
    def payload(self) -> Floats:
        """float32 [n, t (d_in + d_out)]: the factors of each product side by side, which give the dense gradient."""
        sides = (self.right,) if self.is_bias else (self.left, self.right)
        terms, devices = range(self.right[0].shape[0]), np.argsort(self.order)
        width = len(terms) * sum(side[0].shape[2] for side in sides)
        out, column = np.empty((len(devices), width), dtype=np.float32), 0
        for t, side in ((t, side) for t in terms for side in sides):
            row, columns = 0, slice(column, column + side[0].shape[2])
            for part in side:
                out[devices[row : row + part.shape[1]], columns] = part[t]
                row += part.shape[1]
            column = columns.stop
        out.flags.writeable = False  # a recording keeps it as it is, which may be gigabytes
        return out

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
        alone: whether weights get their gradients from sums of what is collected, and from nowhere else.

    Attributes:
        collects: whether it does; where gradients are counted and not looked at, it need not.
    """

    def __init__(self, layers: nn.ModuleList, *, alone: bool = False) -> None:
        self.collects = True
        self._found: dict[int, list[tuple[torch.Tensor | None, torch.Tensor]]] = {}
        self._unchanging: list[tuple[torch.Tensor, int | None]] = []
        self._order = [(number, p) for number, layer in enumerate(layers) for p in layer.parameters()]
        for layer in layers:
            for part in layer.modules():  # a layer may be made of others
                if isinstance(part, MessageLayer):
                    part.watch, part.watched_alone = self._watch, alone

    def _watch(self, parameter: nn.Parameter, left: torch.Tensor | None, product: torch.Tensor) -> None:
        if self.collects and product.requires_grad:
            product.register_hook(partial(self._note, id(parameter), left))  # type: ignore[no-untyped-call]

    def _note(self, parameter: int, left: torch.Tensor | None, right: torch.Tensor) -> None:
        self._found.setdefault(parameter, []).append((left, right.detach()))

    def unchanging(self, rows: torch.Tensor, bits: int | None = None) -> None:
        """Notes that these rows [m, d_in] never change, and how many bits they have behind the point, where known."""
        self._unchanging.append((rows, bits))

    def take(self) -> tuple[DeviceFactors, ...]:
        """The factors of every parameter, in the order of the model.

        What was collected is forgotten. Products of one row are one: their gradients are added up.
        """
        found, self._found = self._found, {}
        still = {_place(rows): bits for rows, bits in self._unchanging}
        return tuple(_factors(layer, found[id(parameter)], still) for layer, parameter in self._order)

    @property
    def sizes(self) -> Sizes:
        """The layer and the number of entries of every parameter."""
        return tuple((layer, parameter.numel()) for layer, parameter in self._order)

    def put(self, gradients: list[NDArray[np.float64]]) -> None:
        """Replaces the gradients of the model by sums that arrived: one flat array a parameter."""
        for (_, parameter), arrived in zip(self._order, gradients, strict=True):
            own = torch.from_numpy(arrived.reshape(parameter.shape))
            parameter.grad = own.to(dtype=parameter.dtype, device=parameter.device)


def _place(rows: torch.Tensor) -> object:
    return rows.data_ptr(), rows.shape  # a leaf has the numbers of what it was cut from


def _factors(
    layer: int, found: list[tuple[torch.Tensor | None, torch.Tensor]], still: dict[object, int | None]
) -> DeviceFactors:
    products: dict[object, tuple[torch.Tensor | None, torch.Tensor]] = {}
    for left, right in found:
        row = None if left is None else _place(left)
        earlier = products.get(row)
        products[row] = (left, right if earlier is None else earlier[1] + right)
    rights = _stacked([_array(right) for _, right in products.values()])
    lefts = [_array(left) for left, _ in products.values() if left is not None]
    ones = np.ones((*rights.shape[:2], 1), dtype=np.float32)
    known = {**still, None: 0}  # the ones of a bias never change
    bits = [known[row] for row in products if row in known]
    static = len(bits) == len(products)
    left_bits = max((each for each in bits if each is not None), default=0) if static and None not in bits else None
    return DeviceFactors(layer, _stacked(lefts) if lefts else ones, rights, not lefts, static, left_bits)


def gathered(silos: Sequence[tuple[DeviceFactors, ...]], order: NDArray[np.int64]) -> list[Factors]:
    """The factors of all devices, by parameter, from those of each silo; `order` as in `Factors`."""
    found = []
    for parts in zip(*silos, strict=True):
        first, sides = parts[0], (tuple(p.left for p in parts), tuple(p.right for p in parts))
        found.append(Factors(first.layer, *sides, order, first.is_bias, first.static, first.left_bits))
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
