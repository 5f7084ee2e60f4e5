"""Sums of products at work in one process, step after step: the machines of all parties over a channel that records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.protocols.coded_products.encoding import EncodedFactors, FactorParts, ProductCode
from fgl_secure.protocols.coded_products.parties import ProductDevices, ProductSilos
from fgl_secure.protocols.coded_products.plan import ProductLayout
from fgl_secure.protocols.coded_products.scheme import SumsProducts
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Channel, Role, Step, simulate
from fgl_secure.runtime.messages import SESSION_BYTES
from fgl_secure.runtime.transcript import SECRETS
from fgl_secure.typing import Integers

Floats = NDArray[np.floating]


class ProductCollective:
    """Sums over members of products of their rows, under one scheme.

    Args:
        scheme: how they are computed.
        topology: of members.
        layout: what is multiplied.
        channel: between all parties; carries and records the messages, and gives the coins.

    Attributes:
        code: how real factors become integers; `ProductCode.of` is that of each product.
        shared: whether static factors were shared, by a step before.

    Raises:
        InputError: the scheme does not fit the parties of the channel.
        FieldRangeError: no fields hold the sums.
    """

    def __init__(self, scheme: SumsProducts, topology: Topology, layout: ProductLayout, channel: Channel) -> None:
        scheme.check_serves(topology)
        relays = channel.parties.ids(Role.RELAY)[: scheme.helpers[Role.RELAY]]
        topology = replace(topology, helpers=relays)
        self._topology, self._layout, self._channel = topology, layout, channel
        self.code: ProductCode = scheme.product_code(topology, layout)
        self._machines = scheme.product_machines(topology, layout, bytes(SESSION_BYTES), channel)
        self._static: dict[int, bytes] = {}
        self._largest: dict[int, NDArray[np.float64]] = {}
        self.shared = False

    def sum(
        self, lefts: Sequence[Floats | FactorParts | None], rights: Sequence[Floats | FactorParts], step: Step
    ) -> list[NDArray[np.float64]]:
        """Computes the sums of one step.

        Args:
            lefts: for each product float [terms, n, height], in the order of the topology's rows, whole or in parts;
                None for a static one that was shared.
            rights: for each product float [terms, n, width].
            step: when; no two sums may have the same.

        Returns:
            For each product float64 [g, height, width]; zero where a sum is not computed.

        Raises:
            InputError: a factor has another shape, or changed where it is static.
            FieldRangeError: an entry, or the product of two of one device, is beyond its bound; nothing was sent.
            ProtocolError: the step was summed before, too few relays answer, or more of them lie than can be told.
        """
        one, other = (
            [None if left is None else _in_parts(left) for left in lefts],
            [_in_parts(right) for right in rights],
        )
        static = self._check(one, other)
        rows = EncodedFactors(self.code, self._layout, one, other, static=not self.shared, shared=self._largest)
        result = self._sum(rows, step, static, rows.largest_lefts)
        sums = zip(self._layout.products, self._layout.split(result), strict=True)
        return [self.code.of(product).decode(item) for product, item in sums]

    def sum_units(self, lefts: Sequence[Integers | None], rights: Sequence[Integers], step: Step) -> Integers:
        """The same of integers [terms, n, height or width], int64 or int32: int64 [*tapes, g, entries].

        Args:
            lefts: None for a static one that was shared before.
            rights: all of them.
            step: when.

        Raises:
            InputError: a left factor is missing.
            FieldRangeError: one, or the product of two of one device, is larger than the code has any.
        """
        for n, left in enumerate(lefts):
            if left is None and n not in self._largest:
                raise InputError(f"left factors must be given until they are shared; found none in product {n}")
        # of static ones those that were shared are multiplied, whatever is given
        ones = [_largest_units(left) if left is not None and n not in self._largest else self._largest[n]
                for n, left in enumerate(lefts)]  # fmt: skip
        others = [_largest_units(right) for right in rights]
        for n, (product, one, other) in enumerate(zip(self._layout.products, ones, others, strict=True)):
            code = self.code.of(product)
            for side, quantizer, item in zip(("left", "right"), (code.left, code.right), (one, other), strict=True):
                result = int(item.max(initial=0))
                if result > quantizer.largest:
                    raise FieldRangeError(f"{side} factors must not exceed {quantizer.largest} units; found {result}")
            code.check_products(one, other, n)
        return self._sum(self._layout.rows(lefts, rights, static=not self.shared), step, {}, ones)

    def _sum(
        self,
        rows: Integers | EncodedFactors,
        step: Step,
        static: Mapping[int, bytes],
        largest: Sequence[NDArray[np.float64]],
    ) -> Integers:
        """Sums what devices share; digests and largest magnitudes of static factors are kept with what is shared."""
        if self._channel.recording.keeps(step):
            self._channel.note_inputs(SECRETS, step, self._topology.grouping.row_owner, np.asarray(rows))
        for machine in self._machines:
            if isinstance(machine, ProductDevices):
                machine.begin(step, rows)
            else:
                machine.begin(step)
        del rows
        if not self.shared:
            self._largest = {n: item for n, item in enumerate(largest) if self._layout.products[n].static}
        self.shared, self._static = True, {**self._static, **static}
        simulate(self._machines, self._channel)
        (silos,) = (machine for machine in self._machines if isinstance(machine, ProductSilos))
        assert silos.sums is not None, "it is left with sums, or without a way on"
        return silos.sums

    def _check(self, lefts: Sequence[FactorParts | None], rights: Sequence[FactorParts]) -> dict[int, bytes]:
        """Raises unless factors are as they must be; digests of static ones that are given, by product."""
        rows, digests = len(self._topology.grouping.row_owner), dict[int, bytes]()
        for n, (product, left, right) in enumerate(zip(self._layout.products, lefts, rights, strict=True)):
            for side, result, width in (("left", left, product.height), ("right", right, product.width)):
                known = result is None and product.static and self.shared
                if not known and (result is None or result.shape != (product.terms, rows, width)):
                    what = None if result is None else list(result.shape)
                    raise InputError(
                        f"{side} factors must be {[product.terms, rows, width]}; found {what} in product {n}"
                    )
            if product.static and left is not None:
                digests[n] = left.digest()
                if self._static.get(n, digests[n]) != digests[n]:
                    raise InputError(f"left factors of product {n} must be the same in every step; they have changed")
        return digests


def _in_parts(factor: Floats | FactorParts) -> FactorParts:
    return factor if isinstance(factor, FactorParts) else FactorParts((factor,))


def _largest_units(factor: Integers) -> NDArray[np.float64]:
    """Float64 [n], the largest magnitude of each device's integers [terms, n, d]."""
    least, most = factor.min(axis=(0, 2)), factor.max(axis=(0, 2))
    units = np.maximum(most.astype(np.float64), -least.astype(np.float64))  # the least int32 has no counterpart
    return np.asarray(units)
