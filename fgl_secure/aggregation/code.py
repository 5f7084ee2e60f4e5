"""The interface of what writes mappings as vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from fgl_secure.aggregation.layout import Layout
from fgl_secure.aggregation.rounding import Integers


class Code(Protocol):
    """A way to write mappings as vectors that are added up."""

    @property
    def layout(self) -> Layout:
        """Of the mappings."""

    @property
    def bounds(self) -> Mapping[str, float]:
        """Largest magnitude of a float, by tensor, where there is one."""

    @property
    def fraction_bits(self) -> Mapping[str, int]:
        """Bits behind the binary point, by float tensor."""

    @property
    def bound(self) -> int:
        """Largest magnitude of an entry of a vector."""

    def encode(self, mapping: Mapping[str, Any], weight: float = 1) -> Integers:
        """The vector of a mapping, int64 [P + 1]."""

    def decode(self, total: Integers) -> dict[str, Any]:
        """The weighted mean, from the sum of the vectors, int64 [P + 1]."""

    def errors(self, total: Integers, clients: int) -> dict[str, float]:
        """The stated bound of the error of what `decode` gives, by tensor, for a sum of so many vectors."""
