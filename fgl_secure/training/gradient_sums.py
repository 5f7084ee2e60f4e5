"""Parameter gradients of single devices: how they are collected, and how they go to their silo.

A device's gradient of a weight matrix is a sum of outer products, one for each row that it multiplied with the matrix:
of that row, and of the gradient that came back. Matrices are laid out only where a message has to be one. Gradients go
in plaintext, as published, or under a scheme by which the silo learns their sum alone: dense, or as coded products.
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
from fgl_secure.algebra.checks import check_bits
from fgl_secure.algebra.kernels import rounded_outer_sums
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.protocols.coded_products import (
    FactorParts,
    OuterProduct,
    ProductCode,
    ProductCollective,
    ProductLayout,
    SumsProducts,
)
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import MEMBERS, Grouping, Topology
from fgl_secure.runtime import Channel, Directory, Phase, Role, Step
from fgl_secure.training.backbones import MessageLayer

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
        left_bits: behind the binary point of static rows on the left, where every party knows; see `OuterProduct`.
    """

    layer: int
    left: Floats
    right: Floats
    is_bias: bool
    static: bool = False
    left_bits: int | None = None

    @property
    def product(self) -> OuterProduct:
        """The shape of the gradient as a sum of products."""
        return OuterProduct(len(self.left), self.left.shape[2], self.right.shape[2], self.static, self.left_bits)


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
        left_bits: behind the binary point of static rows on the left, where every party knows; see `OuterProduct`.
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
    def product(self) -> OuterProduct:
        """The shape of the gradient as a sum of products."""
        return OuterProduct(len(self.left[0]), self.height, self.width, self.static, self.left_bits)

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
        self._operands: dict[int, list[tuple[torch.Tensor | None, torch.Tensor]]] = {}
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
        self._operands.setdefault(parameter, []).append((left, right.detach()))

    def unchanging(self, rows: torch.Tensor, bits: int | None = None) -> None:
        """Notes that these rows [m, d_in] never change, and how many bits they have behind the point, where known."""
        self._unchanging.append((rows, bits))

    def take(self) -> tuple[DeviceFactors, ...]:
        """The factors of every parameter, in the order of the model.

        What was collected is forgotten. Products of one row are one: their gradients are added up.

        Raises:
            InputError: a layer used a parameter in another way than by `MessageLayer.project` and `shift`.
        """
        result, self._operands = self._operands, {}
        layer = next((number for number, parameter in self._order if id(parameter) not in result), None)
        if layer is not None:
            raise InputError(
                "backbone must use every parameter by MessageLayer.project or shift, of which gradients per device are "
                f"summed, and hold no nn.Linear; found another use in layer {layer}"
            )
        still = {_place(rows): bits for rows, bits in self._unchanging}
        return tuple(_factors(layer, result[id(parameter)], still) for layer, parameter in self._order)

    @property
    def sizes(self) -> Sizes:
        """The layer and the number of entries of every parameter."""
        return tuple((layer, parameter.numel()) for layer, parameter in self._order)

    def put(self, gradients: list[NDArray[np.float64]]) -> None:
        """Replaces the gradients of the model by sums that arrived: one flat array a parameter."""
        for (_, parameter), arrived in zip(self._order, gradients, strict=True):
            gradient = torch.from_numpy(arrived.reshape(parameter.shape))
            parameter.grad = gradient.to(dtype=parameter.dtype, device=parameter.device)


def _place(rows: torch.Tensor) -> object:
    return rows.data_ptr(), rows.shape  # a leaf has the numbers of what it was cut from


def _factors(
    layer: int, result: list[tuple[torch.Tensor | None, torch.Tensor]], still: dict[object, int | None]
) -> DeviceFactors:
    products: dict[object, tuple[torch.Tensor | None, torch.Tensor]] = {}
    for left, right in result:
        row = None if left is None else _place(left)
        earlier = products.get(row)
        products[row] = (left, right if earlier is None else earlier[1] + right)
    rights = _stack([_array(right) for _, right in products.values()])
    lefts = [_array(left) for left, _ in products.values() if left is not None]
    ones = np.ones((*rights.shape[:2], 1), dtype=np.float32)
    known = {**still, None: 0}  # the ones of a bias never change
    bits = [known[row] for row in products if row in known]
    static = len(bits) == len(products)
    left_bits = max((item for item in bits if item is not None), default=0) if static and None not in bits else None
    return DeviceFactors(layer, _stack(lefts) if lefts else ones, rights, not lefts, static, left_bits)


def gather_factors(silos: Sequence[tuple[DeviceFactors, ...]], order: NDArray[np.int64]) -> list[Factors]:
    """The factors of all devices, by parameter, from those of each silo; `order` as in `Factors`."""
    result = []
    for parts in zip(*silos, strict=True):
        first, sides = parts[0], (tuple(p.left for p in parts), tuple(p.right for p in parts))
        result.append(Factors(first.layer, *sides, order, first.is_bias, first.static, first.left_bits))
    return result


def _array(tensor: torch.Tensor) -> Floats:
    return np.ascontiguousarray(tensor.detach().cpu().numpy(), dtype=np.float32)


def _stack(arrays: list[Floats]) -> Floats:
    """Arrays behind a new first axis; one alone is not copied."""
    return arrays[0][None] if len(arrays) == 1 else np.stack(arrays)


_KEPT_OF_MEMBERS = (Phase.SHARE_SUMS, Phase.PRODUCT_SHARES)
"""What is recorded of sums of devices' rows for their silos: what the silos get; the rest is too large."""

LARGEST_PART = 2**22
"""Most elements of gradients that one step of a scheme sums: wider gradients go in several parts."""


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
    """Whether gradients go in under a scheme, and not in plaintext: it serves them, and over a field."""
    return scheme.refuses(topology) is None and scheme.encoding(topology) is not None


class SummedGradients:
    """Devices' gradients as grouped sums with their silo as the group: the silo learns the sum alone.

    Every device masks the numbers of its dense gradients, d h for a layer; see `_CodedGradients`.

    Args:
        scheme: how sums are computed.
        channel: between the parties of the hierarchy and the relays.
        silo_of: int64 [n], the silo of each device.
    """

    def __init__(self, scheme: Scheme, channel: Channel, silo_of: NDArray[np.int64]) -> None:
        self._scheme, self._topology = scheme, member_sums(channel.parties, silo_of)
        self._quiet = channel.keeping_only(*_KEPT_OF_MEMBERS)
        self._session = Collective(scheme, self._topology, self._quiet)

    def sums(self, factors: Sequence[Factors], step: Step) -> list[NDArray[np.float64]]:
        """The sum over each silo's devices: float64 [silos, elements of the parameter], zero for a silo too small."""
        part, sums = 0, []
        for factor in factors:
            done = []
            tall = max(self._topology.width // factor.width, 1)
            for start in range(0, factor.height, tall):
                dense = factor.dense(start, min(start + tall, factor.height))
                done.append(self._session.sum(dense, Step(step.round, -1, part=part)))
                part += 1
            sums.append(np.concatenate(done, axis=1))
        return sums

    def sum(self, rows: NDArray[np.floating[Any]], step: Step) -> NDArray[np.float64]:
        """The sum over each silo's devices of other rows [n, d], float64 [silos, d], under the same keys."""
        return self._session.sum(rows, replace(step, evaluation=True))  # so that no step is a gradient's


class _CodedGradients(SummedGradients):
    """Devices' gradients as coded products: d + h numbers of a device for a layer, and the silo learns the sum alone.

    Rows that never change are shared once, as are the ones that gradients of biases are products with. Other rows are
    summed as in `SummedGradients`.
    """

    _products: ProductCollective | None = None

    def sums(self, factors: Sequence[Factors], step: Step) -> list[NDArray[np.float64]]:
        """As `SummedGradients.sums` does."""
        together, widths = _with_biases_together(factors)
        if self._products is None:
            assert isinstance(self._scheme, SumsProducts), "see gradient_sums"
            layout = ProductLayout(tuple(item.product for item in together))
            self._products = ProductCollective(self._scheme, self._topology, layout, self._quiet)
        shared = self._products.shared
        lefts = [None if item.static and shared else FactorParts(item.left, item.order) for item in together]
        try:
            sums = self._products.sum(
                lefts, [FactorParts(item.right, item.order) for item in together], Step(step.round, -1)
            )
        except FieldRangeError as error:
            raise FieldRangeError(f'{error}; or take gradients="dense"') from error
        flat = iter(total.reshape(len(total), -1) for total in sums[: len(sums) - bool(widths)])
        biases = iter(np.split(sums[-1][:, 0], np.cumsum(widths)[:-1], axis=1) if widths else ())
        return [next(biases if item.is_bias else flat) for item in factors]


def _with_biases_together(factors: Sequence[Factors]) -> tuple[list[Factors], list[int]]:
    """The factors of weights, then those of all biases side by side as one product; and how wide each bias is."""
    weights, biases = ([item for item in factors if item.is_bias is bias] for bias in (False, True))
    if not biases:
        return weights, []
    rights = tuple(np.concatenate(parts, axis=2) for parts in zip(*(item.right for item in biases), strict=True))
    return [*weights, replace(biases[0], right=rights)], [item.width for item in biases]


def gradient_sums(scheme: Scheme, channel: Channel, silo_of: NDArray[np.int64]) -> SummedGradients:
    """What sums gradients under a scheme of members."""
    return (_CodedGradients if isinstance(scheme, SumsProducts) else SummedGradients)(scheme, channel, silo_of)


def _rounded_sums(fixed: FixedPoint, left: Floats, right: Floats, *, answered: bool) -> NDArray[np.float64]:
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
    assert fixed.field is not None, "the scheme's map is into a field"
    fixed.encode(bounds.sum(axis=0))
    total = np.zeros((left.shape[2], right.shape[2]), dtype=np.int64)
    if answered:
        rounded_outer_sums(left, right, 2.0**fixed.fraction_bits, total)
    return fixed.decode(total.reshape(-1) % fixed.field.modulus)


def _rounded_products(
    code: ProductCode, left: Floats, right: Floats, *, answered: bool, number: int = 0
) -> NDArray[np.float64]:
    """The same, float64 flat, as coded products have it.

    Args:
        code: how factors become integers.
        left: float32 [t, m, d_in], see `DeviceFactors`.
        right: float32 [t, m, d_out].
        answered: whether the scheme computes a sum over so many devices; 0 if not.
        number: of the product, for messages.

    Raises:
        FieldRangeError: a factor, or the product of two entries of one device, is beyond its bound.
    """
    one, other = code.left.encode(left).astype(np.float64), code.right.encode(right).astype(np.float64)
    lefts, rights = (np.abs(item).max(axis=(0, 2), initial=0) for item in (one, other))
    code.check_products(lefts, rights, number)
    exact = np.matmul(one.swapaxes(1, 2), other).sum(axis=0)  # below 2^53, as products are bounded
    return code.decode((exact * answered).astype(np.int64).reshape(-1))


class HostedMembers:
    """Sums over the devices of a silo that hosts them, to the bits that a scheme between them and the silo gives.

    Args:
        scheme: what would sum; None leaves rows in plaintext.
        sizes: devices of each silo.
        silo: whose these are.
    """

    def __init__(self, scheme: Scheme | None, sizes: tuple[int, ...], silo: int) -> None:
        self._parties = Directory.hierarchy(len(sizes), sum(sizes))
        self._silo_of = np.repeat(np.arange(len(sizes)), sizes)
        topology = member_sums(self._parties, self._silo_of)
        self._scheme = scheme if scheme is not None and sums_members(scheme, topology) else None
        self._looked_at = set[int]()
        self._answered = self._scheme is None or bool(
            (self._scheme.answered_grouping(topology.grouping).target == silo).any()
        )

    @property
    def sums_gradients(self) -> bool:
        """Whether gradients of single devices are wanted, for their sums."""
        return self._scheme is not None

    def sum(self, rows: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """The sum of the devices' rows [m, d]."""
        fixed = self._encoding(rows.shape[1])
        if fixed is None:
            return np.asarray(rows.sum(axis=0, dtype=np.float64))
        assert fixed.field is not None, "only schemes over a field sum rows of devices"
        together = Segments.by_group(np.zeros(len(rows), dtype=np.int64), 1)
        total = fixed.field.grouped_sums(fixed.encode(rows.astype(np.float64)), together)[0]
        return np.asarray(fixed.decode(total * self._answered))

    def gradients(self, factors: Sequence[DeviceFactors]) -> list[NDArray[np.float64]] | None:
        """The sums of gradients, parameter by parameter; None where they are in plaintext.

        Raises:
            InputError: a row has more bits behind the binary point than every party is told.
            FieldRangeError: a factor, or the product of two entries of one device, is beyond its bound.
        """
        fixed = self._encoding(None)
        if fixed is None:
            return None
        code = self._product_code(factors)
        for number, item in enumerate(factors if code is not None else ()):
            if item.left_bits is not None and number not in self._looked_at:  # it never changes
                check_bits(item.left, item.left_bits, f"left factors of product {number}")
                self._looked_at.add(number)
        return [
            _rounded_sums(fixed, item.left, item.right, answered=self._answered)
            if code is None
            else _rounded_products(code.of(item.product), item.left, item.right, answered=self._answered, number=number)
            for number, item in enumerate(factors)
        ]

    def _product_code(self, factors: Sequence[DeviceFactors]) -> ProductCode | None:
        if not isinstance(self._scheme, SumsProducts):
            return None
        layout = ProductLayout(tuple(factor.product for factor in factors))
        return self._scheme.product_code(member_sums(self._parties, self._silo_of), layout)

    def _encoding(self, width: int | None) -> FixedPoint | None:
        if self._scheme is None:
            return None
        fixed = self._scheme.encoding(member_sums(self._parties, self._silo_of, width))
        assert isinstance(fixed, FixedPoint), "only schemes over a field sum rows of devices"
        return fixed
