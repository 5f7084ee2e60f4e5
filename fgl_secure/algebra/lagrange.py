"""Lagrange coded computing over a prime field (Yu et al. 2019, AISTATS, section 3), with all four parameters.

K data blocks, T colluding workers who learn nothing, S stragglers who don't answer, A adversaries who answer wrongly:
decoding needs (K + T - 1) degree + 1 + 2 A of the N shares, whichever they are, so N = that + S.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.interpolation import Word, lagrange_matrix, vanishing_matrix
from fgl_secure.algebra.prime_field import Elements, ElementsT, PrimeField
from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.errors import FieldRangeError, InputError, NotEnoughShares

__all__ = ["DecodingResult", "LagrangeCode", "lagrange_matrix"]


@dataclass(frozen=True, slots=True, eq=False)
class DecodingResult(Generic[ElementsT]):
    """What decoding found.

    Attributes:
        blocks: elements [K, ...], of the kind and on the device of the shares.
        faulty: the workers, in ascending order, whose shares are wrong at one coordinate or more.
    """

    blocks: ElementsT
    faulty: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LagrangeCode:
    """K data blocks and T masks on a polynomial, evaluated for N workers.

    The polynomial of degree K + T - 1 takes the blocks at betas[:K] and the masks at betas[K:]; worker i gets its
    value at alphas[i]. With masks that are uniform, secret and used once, any T shares are independent of the blocks
    (T-privacy); with masks shared between encodings they are not.

    Attributes:
        field: the field of blocks, masks and shares; 2^31 - 1 unless given.
        K: data blocks.
        T: masks, the most workers that may collude.
        N: workers.
        alphas: N distinct points of the workers; 1 + K + T onwards unless given.
        betas: K + T distinct points of blocks and masks; 1 .. K + T unless given. No alpha may be a beta, or that
            worker's share would be a block.

    Examples:
        >>> import numpy as np
        >>> code = LagrangeCode(K=2, T=1, N=9)
        >>> shares = code.encode(np.array([[3, 4], [5, 6]]))
        >>> squares = code.field.multiply(shares, shares)  # by the workers, each its own
        >>> code.decode(squares[:5], workers=range(5), degree=2).blocks.tolist()
        [[9, 16], [25, 36]]
    """

    field: PrimeField = dataclasses.field(default_factory=PrimeField)
    K: int = 1
    T: int = 0
    N: int = 0
    alphas: tuple[int, ...] = ()
    betas: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        are_integers = all(isinstance(item, int | np.integer) for item in (self.K, self.T, self.N))
        if not are_integers or self.K < 1 or self.T < 0 or self.N < 1:
            raise InputError(f"K, T and N must be integers of at least 1, 0, 1; found {self.K}, {self.T}, {self.N}")
        needed, p = self.K + self.T + self.N, self.field.modulus
        if needed > p:
            raise FieldRangeError(f"T={self.T} needs K + T + N = {needed} distinct points; the field has {p} elements")
        first = self.K + self.T + 1
        object.__setattr__(self, "betas", self.betas or tuple(range(1, first)))
        object.__setattr__(self, "alphas", self.alphas or tuple(x % p for x in range(first, first + self.N)))
        self._check_points()

    def _check_points(self) -> None:
        if len(self.alphas) != self.N or len(self.betas) != self.K + self.T:
            raise InputError(
                f"alphas and betas must number N={self.N} and K + T = {self.K + self.T}; "
                f"found {len(self.alphas)} and {len(self.betas)}"
            )
        points = [*self.alphas, *self.betas]
        if not all(0 <= point < self.field.modulus for point in points):
            raise FieldRangeError(f"alphas and betas must lie in 0..{self.field.modulus - 1}")
        if len(set(points)) != len(points):
            raise InputError("alphas and betas must be distinct, and no alpha may be a beta")

    def recovery_threshold(self, degree: int = 1) -> int:
        """Shares that determine a polynomial computation of that degree: (K + T - 1) * degree + 1 (Theorem 1)."""
        return (self.K + self.T - 1) * degree + 1

    @property
    def encoding_matrix(self) -> NDArray[np.int64]:
        """int64 [N, K + T]: shares are this matrix times blocks and masks (the paper's U, transposed)."""
        return lagrange_matrix(self.field, self.betas, self.alphas)

    def encode(self, blocks: ElementsT, coins: Coins | None = None) -> ElementsT:
        """Encodes with masks drawn for this encoding alone.

        Args:
            blocks: elements [K, ...], an array (one of galois, too) or a tensor.
            coins: where the masks come from; the operating system's unless given.

        Returns:
            Elements [*coins.batch_shape, N, ...].
        """
        _check_rows(blocks, self.K, "blocks")
        masks = (coins or SystemCoins()).uniform(self.field.modulus, (self.T, *blocks.shape[1:]))
        return self.encode_with_masks(blocks, masks)

    def encode_with_masks(self, blocks: ElementsT, masks: ElementsT | NDArray[np.int64]) -> ElementsT:
        """Encodes with masks that the caller vouches for: uniform, secret and never used before or after.

        Args:
            blocks: elements [K, ...], an array or a tensor.
            masks: elements [*batch, T, ...].

        Returns:
            Elements [*batch, N, ...].

        Raises:
            FieldRangeError: a block or a mask is no element of the field.
        """
        _check_rows(blocks, self.K, "blocks")
        axis = masks.ndim - blocks.ndim
        data = blocks.reshape(*[1] * axis, *blocks.shape)
        return self.field.combine_elements(self.encoding_matrix, data, masks, axis=axis)

    def decode(
        self,
        shares: ElementsT,
        workers: Sequence[int],
        *,
        degree: int = 1,
        max_errors: int = 0,
        coins: Coins | None = None,
    ) -> DecodingResult[ElementsT]:
        """Interpolates the blocks of a polynomial computation from the shares of some workers, correcting wrong ones.

        With at most `max_errors` wrong workers the answer is right and `faulty` names exactly those, with certainty
        and over every field. With more, up to m - threshold - max_errors of them (m - threshold where max_errors is 0)
        are always noticed; beyond that the shares may be those of other blocks, and no party can tell. All shares
        beyond the threshold serve as checks.

        Args:
            shares: elements [m, ...], one row a worker; an array or a tensor.
            workers: the m distinct worker indices, 0 .. N - 1, in the order of the rows.
            degree: total degree of what the workers computed.
            max_errors: A, the most workers whose shares may be wrong.
            coins: coins of the random combination in which errors are located; the operating system's unless given.
                They change how long it takes, never the answer.

        Returns:
            Blocks [K, ...] and the wrong workers.

        Raises:
            NotEnoughShares: fewer shares than `recovery_threshold(degree)` + 2 max_errors.
            TooManyErrors: more than max_errors workers are wrong.
            InputError: worker indices repeated or unknown, or shares of another number than workers.
            FieldRangeError: a share is no element of the field.
        """
        self._check_request(workers, degree, max_errors)
        _check_rows(shares, len(workers), "shares")
        if not self.field.contains(shares):
            raise FieldRangeError(f"shares must be elements, 0..{self.field.modulus - 1}; found others")
        alphas = tuple(self.alphas[worker] for worker in workers)
        flat = shares.reshape(len(workers), math.prod(shares.shape[1:]))
        word = Word(self.field, alphas, flat, self.recovery_threshold(degree), max_errors)
        blocks, errors = word.decode(self.betas[: self.K], coins or SystemCoins())
        return DecodingResult(blocks.reshape(self.K, *shares.shape[1:]), tuple(sorted(workers[i] for i in errors)))

    def zero_shares(self, coins: Coins, shape: tuple[int, ...], *, degree: int) -> Elements:
        """Shares of zero at the degree of a computation, to be added to what the workers computed before decoding.

        The polynomial is uniform among those of degree (K + T - 1) degree that vanish at betas[:K]. Added to the
        workers' results it leaves the decoded blocks as they are and makes the decoder's raw view a uniform sharing
        of them. Without it the shares of a product tell more than the product: for K = 1 whether a factor is zero, for
        K >= 2 more than that. A party that deals these shares must not decode; shares that several parties deal may be
        added up, and one honest dealer is enough.

        Args:
            coins: where the polynomial comes from; one draw serves one decoding.
            shape: shape of one block.
            degree: total degree of what the workers computed.

        Returns:
            Elements [*coins.batch_shape, N, *shape], a numpy array (`PrimeField.add` also adds it to a tensor).
        """
        _check_degree(degree)
        free = self.recovery_threshold(degree) - self.K
        coefficients = coins.uniform(self.field.modulus, (free, *shape))
        matrix = vanishing_matrix(self.field, self.betas[: self.K], self.alphas, free)
        return self.field.combine(matrix, coefficients, axis=coefficients.ndim - len(shape) - 1)

    def _check_request(self, workers: Sequence[int], degree: int, max_errors: int) -> None:
        _check_degree(degree)
        if max_errors < 0:
            raise InputError(f"max_errors must be at least 0; found {max_errors}")
        if len(set(workers)) != len(workers) or not all(0 <= worker < self.N for worker in workers):
            raise InputError(f"workers must be distinct indices in 0..{self.N - 1}; found {list(workers)}")
        needed = self.recovery_threshold(degree) + 2 * max_errors
        if len(workers) < needed:
            correcting = f" with {max_errors} errors" if max_errors else ""
            raise NotEnoughShares(
                f"shares must number at least {needed} for degree {degree}{correcting}; found {len(workers)}"
            )


def _check_rows(array: Any, rows: int, name: str) -> None:
    if not hasattr(array, "ndim"):
        raise InputError(f"{name} must be an array or a tensor; found {type(array).__name__}")
    if array.ndim < 1 or len(array) != rows:
        raise InputError(f"{name} must have {rows} rows on the first axis; found shape {list(array.shape)}")


def _check_degree(degree: int) -> None:
    if not isinstance(degree, int | np.integer) or degree < 1:
        raise InputError(f"degree must be an integer of at least 1; found {degree!r}")
