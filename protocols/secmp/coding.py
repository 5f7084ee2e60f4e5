"""The parties' work in Secret Message Passing as pure functions: mu, codes, sums of codes, decoding."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, PrimeField, Segments, lagrange_matrix
from fgl_secure.algebra.kernels import affine_rows

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Points:
    """Interpolation points of one silo: T + 1 alphas and T + 1 betas, all distinct."""

    alphas: tuple[int, ...]
    betas: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Mu:
    """Coding parameters of S silos, one row a silo.

    Attributes:
        alphas: int64 [S, T + 1].
        betas: int64 [S, T + 1].
        z: int64 [*batch, S, T, width].
    """

    alphas: Ids
    betas: Ids
    z: Ids

    def rows(self, dtype: np.dtype[np.signedinteger]) -> Elements:
        """The wire format: [*batch, S, 2 (T + 1) + T * width], alphas, betas, then z."""
        batch = self.z.shape[:-3]
        points = np.concatenate([self.alphas, self.betas], axis=1)
        flat = self.z.reshape(*self.z.shape[:-2], math.prod(self.z.shape[-2:]))
        return np.concatenate([np.broadcast_to(points, batch + points.shape), flat], axis=-1).astype(dtype)

    @classmethod
    def from_rows(cls, rows: Elements, T: int) -> Mu:
        """Reads the wire format; the points are the same on every tape."""
        one_tape = rows[(0,) * (rows.ndim - 2)].astype(np.int64)
        flat = rows[..., 2 * (T + 1) :].astype(np.int64)
        z = flat.reshape(*flat.shape[:-1], T, flat.shape[-1] // T)
        return cls(one_tape[:, : T + 1], one_tape[:, T + 1 : 2 * (T + 1)], z)


def source_encode(field: PrimeField, h: Elements, mu: Mu, row_of: Ids, silo_of: Ids) -> Elements:
    """A source's role, for many messages at once: T + 1 codes of each message's embedding (Eq. 4).

    Args:
        field: the field.
        h: elements [n, d], embeddings.
        mu: coding parameters of the silos, with masks at least d wide.
        row_of: int64 [m], the embedding of each message.
        silo_of: int64 [m], the silo of each message's target.

    Returns:
        Elements [*batch, m, T + 1, d].
    """
    U = np.stack([lagrange_matrix(field, b, a) for a, b in zip(mu.alphas.tolist(), mu.betas.tolist(), strict=True)])
    z = mu.z[..., : h.shape[1]]
    batch = z.shape[:-3]
    masks = np.zeros((*batch, *U.shape[:2], h.shape[1]), dtype=np.int64)
    for j in range(z.shape[-2]):
        masks = (masks + U[:, :, 1 + j, None] * z[..., j : j + 1, :]) % field.modulus
    codes = np.empty((int(np.prod(batch, dtype=int)), len(row_of), U.shape[1], h.shape[1]), dtype=field.dtype)
    affine_rows(U[:, :, 0].copy(), masks.reshape(-1, *masks.shape[-3:]), h, row_of, silo_of, field.modulus, codes)
    return codes.reshape(*batch, *codes.shape[1:])


def target_aggregate(field: PrimeField, codes: Elements, segments: Segments, batch_axes: int = 0) -> Elements:
    """A target's role: the sum of the codes it received, [*batch, m, T + 1, d] to [*batch, g, T + 1, d]."""
    return field.grouped_sums(codes, segments, batch_axes=batch_axes)


def silo_decode(field: PrimeField, aggregates: Elements, mu: Mu, silo_of: Ids) -> Elements:
    """A silo's role: the interpolated polynomial of each aggregate at beta_1.

    Args:
        field: the field.
        aggregates: elements [*batch, g, T + 1, d].
        mu: coding parameters of the silos.
        silo_of: int64 [g], the silo that decodes each.

    Returns:
        Elements [*batch, g, d].
    """
    weights = np.stack(
        [lagrange_matrix(field, a, b[:1])[0] for a, b in zip(mu.alphas.tolist(), mu.betas.tolist(), strict=True)]
    )
    total = np.zeros((*aggregates.shape[:-2], aggregates.shape[-1]), dtype=np.int64)
    for t in range(aggregates.shape[-2]):
        total = (total + weights[silo_of, t, None] * aggregates[..., t, :]) % field.modulus
    return total.astype(field.dtype)
