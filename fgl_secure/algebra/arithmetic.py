"""What every kind of array must be able to do; `PrimeField` picks the kind that it was given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.segments import Segments


def element_dtype(modulus: int) -> np.dtype[np.signedinteger[Any]]:
    """The smallest signed type that holds modulus - 1."""
    return np.dtype(np.min_scalar_type(-modulus))


class Arithmetic(ABC):
    """Arithmetic modulo a prime on one kind of array (numpy on the CPU, torch on any device).

    Inputs are integers of any signed dtype and stand for their remainders unless a method says elements; results are
    elements in the field's dtype, of the same kind and on the same device. All kinds agree bit for bit.
    """

    @abstractmethod
    def integers(self, values: Any, like: Any) -> Any:
        """Values as an integer array of this kind, on the device of `like`; other dtypes raise `InputError`."""

    @abstractmethod
    def extremes(self, array: Any) -> tuple[int, int]:
        """Least and greatest value of a non-empty array, as python integers."""

    @abstractmethod
    def all_elements(self, array: Any, modulus: int) -> bool:
        """Whether every value lies in 0 .. modulus - 1."""

    @abstractmethod
    def narrowed(self, array: Any, modulus: int) -> Any:
        """The same elements in the field's dtype; no copy where it is that already."""

    @abstractmethod
    def reduce(self, a: Any, modulus: int) -> Any:
        """Remainders."""

    @abstractmethod
    def add(self, a: Any, b: Any, modulus: int) -> Any:
        """Sums, with broadcasting."""

    @abstractmethod
    def subtract(self, a: Any, b: Any, modulus: int) -> Any:
        """Differences, with broadcasting."""

    @abstractmethod
    def multiply(self, a: Any, b: Any, modulus: int) -> Any:
        """Products, with broadcasting."""

    @abstractmethod
    def invert(self, a: Any, modulus: int) -> Any:
        """Inverses; 0 for 0."""

    @abstractmethod
    def combine(self, matrix: NDArray[np.int64], first: Any, second: Any, modulus: int) -> Any:
        """Multiplies elements [r, c1 + c2] by first [b or 1, c1, L] on top of second [b or 1, c2, L]: [b, r, L].

        Returns:
            None where first or second hold anything but elements.
        """

    @abstractmethod
    def interpolate(
        self, matrix: NDArray[np.int64], rows: Any, used: list[int], checked: list[int], modulus: int
    ) -> tuple[Any, int]:
        """Multiplies elements [n + e, c] by the c used ones of rows [m, L], which hold elements.

        Returns:
            The first n rows of the product, [n, L], and the first column at which one of the e others differs from
            its row in `checked`; L where none does.
        """

    @abstractmethod
    def dot(self, rows: Any, weights: Any, modulus: int) -> Any:
        """Elements rows [m, L] times weights [L]: [m]."""

    @abstractmethod
    def grouped_sums(self, values: Any, segments: Segments, modulus: int) -> Any:
        """Sums of the rows of each segment: values [b, m, w] to [b, s, w]."""

    @abstractmethod
    def encode_fixed(self, values: Any, scale: float, most: float, modulus: int) -> Any:
        """round(values * scale), halves away from zero; `most` is below 2^62.

        Returns:
            None where a value is no number, or |value * scale| is beyond `most`.
        """

    @abstractmethod
    def decode_fixed(self, elements: Any, scale: float, modulus: int) -> Any:
        """Representatives of least magnitude, divided by scale: float64."""

    @abstractmethod
    def largest_magnitude(self, values: Any) -> float:
        """The largest magnitude of real values, 0 for none; NaN where one is NaN."""
