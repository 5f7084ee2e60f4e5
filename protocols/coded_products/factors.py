"""Factors of products where they lie, and what devices share of them, encoded some devices at a time when it is sent.

Features of many devices fill much of the memory there is, so nothing here makes a second copy of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.quantization import Quantizer, largest_magnitude
from fgl_secure.protocols.coded_products.code import Layout, ProductCode

Floats = NDArray[np.floating[Any]]
Ids = NDArray[np.int64]


class Parts:
    """One factor of all devices, in parts that stay where they are.

    Args:
        parts: float [terms, m, d], of some devices each, of n in all.
        order: int64 [n], the position of each device when parts stand one after the other; as they stand unless given.
    """

    __slots__ = ("_ends", "_order", "_parts", "shape")

    def __init__(self, parts: Sequence[Floats], order: Ids | None = None) -> None:
        self._parts, self._ends = tuple(parts), np.cumsum([0, *(part.shape[1] for part in parts)]).tolist()
        self._order = np.arange(self._ends[-1]) if order is None else order
        self.shape = (parts[0].shape[0], len(self._order), parts[0].shape[2])

    @property
    def largest(self) -> float:
        """The largest magnitude; NaN where there is one."""
        found = [largest_magnitude(part) for part in self._parts]
        return float(np.max(found))

    def digest(self) -> bytes:
        """Of what must not change, and may be too large to be kept for that."""
        hashed = sha256(self._order.tobytes())
        for part in self._parts:
            hashed.update(np.ascontiguousarray(part).data)
        return hashed.digest()

    def encode(self, quantizer: Quantizer, largest: float, devices: Ids, out: NDArray[np.signedinteger[Any]]) -> None:
        """Encodes the rows of some devices.

        Args:
            quantizer: of the factor.
            largest: magnitude of all of it, see `largest`.
            devices: int64 [k].
            out: integers [k, terms, d], where they go.
        """
        places = self._order[devices]
        for part, first, last in zip(self._parts, self._ends, self._ends[1:], strict=False):
            here = np.flatnonzero((places >= first) & (places < last))
            if len(here):
                rows = part[:, places[here] - first]
                out[here] = np.swapaxes(quantizer.encode(rows, narrow=True, largest=largest), 0, 1)


class Encoded:
    """What devices share in one step, [n, static + fresh] or [n, fresh]; an array of integers where one is asked for.

    Args:
        code: how factors become integers.
        layout: the products.
        lefts: for each product its left factor; None for a static one that is not shared again.
        rights: for each product its right factor.
        static: whether with what is shared once.

    Attributes:
        shape: (n, numbers of a device).
        dtype: int32 where all units fit, else int64.

    Raises:
        InputError: a number is NaN or infinite.
        FieldRangeError: one is beyond its bound.
    """

    __slots__ = ("_sides", "dtype", "shape")

    def __init__(
        self, code: ProductCode, layout: Layout, lefts: Sequence[Parts | None], rights: Sequence[Parts], *, static: bool
    ) -> None:
        ordered = layout.in_order([(code.left, left) for left in lefts], [(code.right, right) for right in rights],
                                  static=static)  # fmt: skip
        found = [(quantizer, factor) for quantizer, factor in ordered if factor is not None]
        self._sides = [(quantizer, factor, factor.largest) for quantizer, factor in found]
        for quantizer, _, largest in self._sides:
            quantizer.encode(np.empty(0), largest=largest)  # refuses what does not fit before anything is shared
        narrow = max(code.left.largest, code.right.largest) < 2**31
        self.dtype = np.dtype(np.int32 if narrow else np.int64)
        self.shape = (rights[0].shape[1], sum(factor.shape[0] * factor.shape[2] for _, factor in found))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, devices: Ids) -> NDArray[np.signedinteger[Any]]:
        """The rows of some devices [k]: integers [k, numbers of a device]."""
        out, start = np.empty((len(devices), self.shape[1]), dtype=self.dtype), 0
        for quantizer, factor, largest in self._sides:
            terms, _, width = factor.shape
            stop = start + terms * width
            factor.encode(quantizer, largest, devices, out[:, start:stop].reshape(len(devices), terms, width))
            start = stop
        return out

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:  # made anew each time
        return self[np.arange(len(self))].astype(dtype or self.dtype, copy=False)
