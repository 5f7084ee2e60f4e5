"""Lagrange coded computing over a prime field (Yu et al. 2019, AISTATS, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.prime_field import Elements, PrimeField
from fgl_secure.coins import Coins
from fgl_secure.errors import FieldRangeError, InputError


def lagrange_matrix(field: PrimeField, nodes: Sequence[int], at: Sequence[int]) -> NDArray[np.int64]:
    """Values of the Lagrange basis polynomials on `nodes` at other points.

    Entry [i, j] is the product over k != j of (at_i - node_k) / (node_j - node_k): the row that turns values at the
    nodes into the value at `at_i`.

    Returns:
        int64 [len(at), len(nodes)].
    """
    p = field.modulus
    matrix = np.empty((len(at), len(nodes)), dtype=np.int64)
    for j, node in enumerate(nodes):
        others = [other for k, other in enumerate(nodes) if k != j]
        denominator = 1
        for other in others:
            denominator = denominator * (node - other) % p
        scale = pow(denominator, -1, p)
        for i, x in enumerate(at):
            value = scale
            for other in others:
                value = value * (x - other) % p
            matrix[i, j] = value
    return matrix


@dataclass(frozen=True, slots=True)
class LagrangeCode:
    """K data blocks and T masks on a polynomial, evaluated for N workers.

    The polynomial of degree K + T - 1 takes the blocks at betas[:K] and the masks at betas[K:]; worker i gets its
    value at alphas[i]. With masks that are uniform, secret and used once, any T shares are independent of the blocks
    (T-privacy); with masks shared between encodings they are not.

    Attributes:
        field: the field of blocks, masks and shares.
        K: data blocks.
        T: masks, the most workers that may collude.
        N: workers.
        alphas: N distinct points of the workers; 1 + K + T onwards unless given.
        betas: K + T distinct points of blocks and masks; 1 .. K + T unless given. No alpha may be a beta, or that
            worker's share would be a block.
    """

    field: PrimeField
    K: int
    T: int
    N: int
    alphas: tuple[int, ...] = ()
    betas: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.K < 1 or self.T < 0 or self.N < 1:
            raise InputError(f"K >= 1, T >= 0 and N >= 1 are needed; found K={self.K}, T={self.T}, N={self.N}")
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

    def encode(self, blocks: Elements, coins: Coins) -> Elements:
        """Encodes with masks drawn for this encoding alone.

        Args:
            blocks: elements [K, ...].
            coins: where the masks come from.

        Returns:
            Elements [*coins.batch_shape, N, ...].
        """
        self._check_blocks(blocks, self.K, "blocks")
        masks = coins.uniform(self.field.modulus, (self.T, *blocks.shape[1:]))
        return self.encode_with_masks(blocks, masks)

    def encode_with_masks(self, blocks: Elements, masks: NDArray[np.int64]) -> Elements:
        """Encodes with masks that the caller vouches for: uniform, secret and never used before or after.

        Args:
            blocks: elements [K, ...].
            masks: elements [*batch, T, ...].

        Returns:
            Elements [*batch, N, ...].
        """
        self._check_blocks(blocks, self.K, "blocks")
        batch = masks.shape[: masks.ndim - blocks.ndim]
        data = np.broadcast_to(blocks, (*batch, *blocks.shape))
        return self.field.combine(self.encoding_matrix, np.concatenate([data, masks], axis=len(batch)), axis=len(batch))

    def decode(self, shares: Elements, workers: Sequence[int], *, degree: int = 1) -> Elements:
        """Interpolates the blocks of a polynomial computation from the shares of some workers.

        Args:
            shares: elements [m, ...], one row a worker.
            workers: the m distinct worker indices, 0 .. N - 1, in the order of the rows.
            degree: total degree of what the workers computed.

        Returns:
            Elements [K, ...].

        Raises:
            InputError: fewer shares than `recovery_threshold(degree)`, or worker indices repeated or unknown.
        """
        self._check_blocks(shares, len(workers), "shares")
        if len(set(workers)) != len(workers) or not all(0 <= worker < self.N for worker in workers):
            raise InputError(f"workers must be distinct indices in 0..{self.N - 1}; found {list(workers)}")
        needed = self.recovery_threshold(degree)
        if len(workers) < needed:
            raise InputError(f"shares must number at least {needed} for degree {degree}; found {len(workers)}")
        nodes = [self.alphas[worker] for worker in workers[:needed]]
        return self.field.combine(lagrange_matrix(self.field, nodes, self.betas[: self.K]), shares[:needed])

    @staticmethod
    def _check_blocks(array: Elements, rows: int, name: str) -> None:
        if array.ndim < 1 or len(array) != rows:
            raise InputError(f"{name} must have {rows} rows on the first axis; found shape {list(array.shape)}")
