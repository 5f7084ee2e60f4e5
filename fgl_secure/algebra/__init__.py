"""Finite-field arithmetic, fixed point and Lagrange coding."""

from __future__ import annotations

from fgl_secure.algebra.fixed_point import FixedPoint, Overflow
from fgl_secure.algebra.lagrange import LagrangeCode, lagrange_matrix
from fgl_secure.algebra.prime_field import MERSENNE_31, Elements, PrimeField
from fgl_secure.algebra.segments import Segments

__all__ = [
    "MERSENNE_31",
    "Elements",
    "FixedPoint",
    "LagrangeCode",
    "Overflow",
    "PrimeField",
    "Segments",
    "lagrange_matrix",
]
