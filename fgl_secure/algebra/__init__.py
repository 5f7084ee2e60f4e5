"""Finite-field arithmetic, fixed point and Lagrange coding."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fgl_secure.algebra.lagrange import Decoded, LagrangeCode, lagrange_matrix
    from fgl_secure.algebra.prime_field import Elements, PrimeField
    from fgl_secure.algebra.quantization import UNWEIGHTED, FixedPoint, Overflow, Weighing
    from fgl_secure.algebra.reduction import MERSENNE_31, MERSENNE_61
    from fgl_secure.algebra.segments import Segments

_PLACES = MappingProxyType({
    "lagrange": ("Decoded", "LagrangeCode", "lagrange_matrix"),
    "prime_field": ("Elements", "PrimeField"),
    "quantization": ("UNWEIGHTED", "FixedPoint", "Overflow", "Weighing"),
    "reduction": ("MERSENNE_31", "MERSENNE_61"),
    "segments": ("Segments",),
})  # fmt: skip

__all__ = [
    "MERSENNE_31",
    "MERSENNE_61",
    "UNWEIGHTED",
    "Decoded",
    "Elements",
    "FixedPoint",
    "LagrangeCode",
    "Overflow",
    "PrimeField",
    "Segments",
    "Weighing",
    "lagrange_matrix",
]


def __getattr__(name: str) -> object:
    """Loads a part when it is asked for: some take torch, which who compiles the loops (`ahead`) does without."""
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
