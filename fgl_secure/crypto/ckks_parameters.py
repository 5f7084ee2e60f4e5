"""Parameters of CKKS for sums of integers, a proved bound of the error of such a sum, and the packing of vectors.

Only additions are asked for, so one prime q is enough: without a special prime SEAL cannot even make relinearisation or
Galois keys. Integers are encoded in the N coefficients and not in N / 2 slots. Times a power of two they are integer
coefficients already, so encoding and decoding are exact, and the noise that a receiver can see doesn't depend on terms.
A coefficient carries several entries, as digits, where sums are small.

What is left is encryption noise. SEAL encrypts with the public key (-(a s + e), a) as (p0 u + e0, p1 u + e1), which
leaves sum(e0) + s sum(e1) - e sum(u) after K terms (Cheon, Kim, Kim, Song, ASIACRYPT 2017, Lemma 1). s and u are
ternary of variance w = 2/3, errors centred binomial of variance v = 21/2 (deviation 3.24; the standard asks for 3.2);
both are strictly sub-Gaussian. Given s, a coefficient of s sum(e1) is sub-Gaussian of variance K v |s|^2, and
E exp(c s_i^2) <= (1 - 2 c w)^(-1/2) for each of N coefficients; the same holds of e sum(u). So the moment generating
function of a coefficient of the noise is at most (1 - K v w t^2)^(-N) exp(K v t^2 / 2), from which `Chain.noise` is
Chernoff's bound. Its deviation is sqrt(K v (2 N w + 1)).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.typing import Integers

TAIL_BITS = 70
"""A coefficient's noise is beyond its bound with probability below 2^-70: below 2^-40 in a vector of 2^30."""
ERROR_VARIANCE, TERNARY_VARIANCE = 21 / 2, 2 / 3
EXACT = 0.5
"""Below this error rounding is exact."""
OVERHEAD_BYTES = 256
"""More than headers, SEAL's metadata and what its compression adds to a ciphertext that it can't compress."""
MOST_TERMS = 2**20
SECURITY_BITS = {2048: {128: 54, 192: 37, 256: 29}, 4096: {128: 109, 192: 75, 256: 58}}
"""Most bits of q by degree and security level (Homomorphic Encryption Standard, 2018, ternary secret)."""
_LAYOUT = struct.Struct(">IBIQB")
PARAMETER_BYTES = _LAYOUT.size


@dataclass(frozen=True, slots=True)
class Chain:
    """Degree and modulus.

    Attributes:
        degree: N, of the ring Z[X] / (X^N + 1).
        bits: of the prime q.
    """

    degree: int
    bits: int

    @property
    def least_modulus(self) -> int:
        """A lower bound of q: SEAL takes the largest prime of that size that is 1 modulo 2 N."""
        return int(2**self.bits - 2 ** (self.bits - 20))

    @property
    def security(self) -> int:
        """Bits of security: 128, 192 or 256."""
        return max(level for level, most in SECURITY_BITS[self.degree].items() if self.bits <= most)

    @property
    def ciphertext_bytes(self) -> int:
        """The most that one ciphertext takes: two polynomials of N words, and what is around them."""
        return 2 * self.degree * 8 + OVERHEAD_BYTES

    def deviation(self, terms: int) -> float:
        """Standard deviation of a coefficient of a sum's noise."""
        return math.sqrt(terms * ERROR_VARIANCE * (2 * self.degree * TERNARY_VARIANCE + 1))

    def noise(self, terms: int) -> float:
        """The largest noise of a coefficient of a sum, except for a probability of 2^-TAIL_BITS."""
        exponent = (TAIL_BITS + 1) * math.log(2)  # a factor of 2 for both signs
        t = math.sqrt(2 * exponent) / self.deviation(terms)  # the best t of a Gaussian; any t gives a bound
        spread = terms * ERROR_VARIANCE * t * t
        return (exponent - self.degree * math.log1p(-spread * TERNARY_VARIANCE) + spread / 2) / t

    def scale(self, magnitude: int) -> int:
        """The largest power of two times which coefficients up to a magnitude, noise added, stay within q / 2."""
        room = self.least_modulus // (2 * (magnitude + 1))
        return 1 << room.bit_length() >> 1

    def limit(self, terms: int, precision: float) -> int:
        """The largest magnitude of a coefficient of a sum whose error is below a precision; 0 where there is none."""
        least_scale = 1 << math.ceil(math.log2(self.noise(terms) / precision))
        return max(0, self.least_modulus // (2 * least_scale) - 1)


CHAINS = (Chain(4096, 60), Chain(2048, 54))
"""In the order in which they are taken where ciphertexts are equally large."""


def limit(terms: int, precision: float = EXACT) -> int:
    """The largest magnitude that a sum of up to `terms` terms may reach with an error below `precision`."""
    _check_terms(terms)
    return max(chain.limit(terms, precision) for chain in CHAINS)


def _check_terms(terms: int) -> None:
    if not 1 <= terms <= MOST_TERMS:
        raise InputError(f"terms must lie in 1..{MOST_TERMS:,}; found {terms:,}")


@dataclass(frozen=True, slots=True)
class Parameters:
    """All that both ends of a sum agree on; `for_sums` chooses it.

    Attributes:
        chain: degree and modulus.
        terms: most terms of a sum.
        bound: largest magnitude of one entry of a term.
        digits: entries that one coefficient carries.
    """

    chain: Chain
    terms: int
    bound: int
    digits: int = 1

    def __post_init__(self) -> None:
        _check_terms(self.terms)
        if self.chain not in CHAINS:
            raise InputError(f"chain must be one of {CHAINS}; found {self.chain}")
        if self.bound < 1 or self.digits < 1:
            raise InputError(f"bound and digits must be at least 1; found {self.bound:,} and {self.digits}")
        most = self.chain.limit(self.terms, EXACT)
        if not self.magnitude <= most:
            raise FieldRangeError(
                f"bound must satisfy ((2 * terms * bound + 1)^digits - 1) / 2 <= {most:,} for an error below 1/2 at "
                f"N = {self.chain.degree}; found terms = {self.terms:,}, bound = {self.bound:,}, digits = {self.digits}"
            )

    @classmethod
    def for_sums(cls, terms: int, bound: int, *, length: int | None = None, precision: float = EXACT) -> Parameters:
        """The parameters whose ciphertexts are smallest.

        Args:
            terms: most terms of a sum.
            bound: largest magnitude of one entry of a term.
            length: entries of a vector; None stands for many.
            precision: absolute error that the sum must stay below before it is rounded, up to 1/2.

        Raises:
            FieldRangeError: no chain holds `terms * bound`.
        """
        if bound < 1 or not 0 < precision <= EXACT:
            raise InputError(f"bound must be at least 1 and precision in (0, 1/2]; found {bound:,} and {precision}")
        most = limit(terms, precision)
        if terms * bound > most:
            raise FieldRangeError(
                f"bound must satisfy terms * bound <= {most:,} for an error below {precision}; found {terms:,} * "
                f"{bound:,} = {terms * bound:,}"
            )
        candidates = [
            cls(chain, terms, bound, digits)
            for chain in CHAINS
            if (digits := _digits(terms * bound, chain.limit(terms, precision)))
        ]
        return min(candidates, key=lambda one: one._bytes(length))

    @property
    def radix(self) -> int:
        """Values that one entry of a sum can take."""
        return 2 * self.terms * self.bound + 1

    @property
    def magnitude(self) -> int:
        """The largest magnitude of a coefficient of a sum, before scaling: that of `digits` balanced digits."""
        return int((self.radix**self.digits - 1) // 2)

    @property
    def scale(self) -> int:
        """What coefficients are multiplied with: a power of two."""
        return self.chain.scale(self.magnitude)

    @property
    def noise(self) -> int:
        """The bound of a sum's noise, below half the scale."""
        return math.floor(self.chain.noise(self.terms))

    @property
    def error(self) -> float:
        """The stated bound of the absolute error of a sum before rounding, below 1/2."""
        return self.chain.noise(self.terms) / self.scale

    @property
    def security(self) -> int:
        """Bits of security by the Homomorphic Encryption Standard."""
        return self.chain.security

    @property
    def entries(self) -> int:
        """Entries that one ciphertext carries."""
        return self.chain.degree * self.digits

    def ciphertexts(self, length: int) -> int:
        """Ciphertexts that a vector takes."""
        return -(-length // self.entries)

    def to_bytes(self) -> bytes:
        """A form of fixed length."""
        return _LAYOUT.pack(self.chain.degree, self.chain.bits, self.terms, self.bound, self.digits)

    @classmethod
    def from_bytes(cls, data: bytes) -> Parameters:
        """From that form, with all checks.

        Raises:
            InputError: it has another length, or parameters that no party may choose.
        """
        if len(data) != PARAMETER_BYTES:
            raise InputError(f"parameters must have {PARAMETER_BYTES} bytes; found {len(data)}")
        degree, bits, terms, bound, digits = _LAYOUT.unpack(data)
        return cls(Chain(degree, bits), terms, bound, digits)

    def _bytes(self, length: int | None) -> float:
        """Of a vector's ciphertexts, or of one entry where the length isn't known."""
        ciphertext_bytes = self.chain.ciphertext_bytes
        return ciphertext_bytes / self.entries if length is None else ciphertext_bytes * self.ciphertexts(length)


def _digits(magnitude: int, most: int) -> int:
    """How many balanced digits of sums up to a magnitude stay within `most`."""
    digits, radix = 0, 2 * magnitude + 1
    while (radix ** (digits + 1) - 1) // 2 <= most:
        digits += 1
    return digits


def checked_vector(vector: NDArray[Any], bound: int) -> Integers:
    """The vector as int64, whatever its dtype.

    Raises:
        InputError: it is empty, of another shape or dtype, or has an entry that is NaN, infinite or no integer.
        FieldRangeError: an entry's magnitude is beyond the bound. No message tells an entry.
    """
    if vector.ndim != 1 or not len(vector) or vector.dtype.kind not in "iuf":
        raise InputError(
            f"vector must be one or more integers or whole floats; found {vector.dtype} {list(vector.shape)}"
        )
    if not np.isfinite(vector).all():
        raise InputError("vector must hold finite numbers; at least one entry is NaN or infinite")
    if vector.dtype.kind == "f" and (vector != np.rint(vector)).any():
        raise InputError("vector must hold integers; at least one entry is none")
    if int(vector.max()) > bound or -int(vector.min()) > bound:
        raise FieldRangeError(f"vector must have magnitude up to bound = {bound:,}; at least one entry is beyond it")
    return vector.astype(np.int64)


def pack(vector: Integers, parameters: Parameters) -> Integers:
    """int64 [ciphertexts, N]: unscaled coefficients of the entries from first to last, then zeros."""
    padded = np.zeros(parameters.ciphertexts(len(vector)) * parameters.entries, dtype=np.int64)
    padded[: len(vector)] = vector
    powers = np.array([parameters.radix**digit for digit in range(parameters.digits)], dtype=np.int64)
    digits = padded.reshape(-1, parameters.digits, parameters.chain.degree)
    coefficients: Integers = (digits * powers[:, None]).sum(axis=1)
    return coefficients


def unpack(coefficients: Integers, length: int, parameters: Parameters) -> Integers:
    """int64 [length]: the entries of sums.

    Args:
        coefficients: int64 [ciphertexts, N], unscaled and without noise.
        length: entries of the vector.
        parameters: those that the terms were packed with.
    """
    left, radix, half = coefficients.copy(), parameters.radix, parameters.radix // 2
    entries = np.empty((len(left), parameters.digits, parameters.chain.degree), dtype=np.int64)
    for digit in range(parameters.digits):
        entries[:, digit] = (left + half) % radix - half
        left = (left - entries[:, digit]) // radix
    return entries.reshape(-1)[:length]
