"""Finite-field arithmetic, fixed point and Lagrange coding."""

from __future__ import annotations

from fgl_secure.algebra.kernels import MERSENNE_31, MERSENNE_61
from fgl_secure.algebra.lagrange import DecodingResult, LagrangeCode, lagrange_matrix
from fgl_secure.algebra.prime_field import Elements, PrimeField, Segments
from fgl_secure.algebra.quantization import UNWEIGHTED, FixedPoint, Overflow, Weighing

__all__ = [
    "MERSENNE_31",
    "MERSENNE_61",
    "UNWEIGHTED",
    "DecodingResult",
    "Elements",
    "FixedPoint",
    "LagrangeCode",
    "Overflow",
    "PrimeField",
    "Segments",
    "Weighing",
    "lagrange_matrix",
]
