"""What all parties of Secret Message Passing know before a message is sent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from fgl_secure.algebra import Elements, PrimeField, Segments, lagrange_matrix
from fgl_secure.algebra.kernels import canonical, compile_parallel, multiply
from fgl_secure.protocols.stepwise import SumTerms
from fgl_secure.protocols.topology import Route
from fgl_secure.runtime import Direction, Step
from fgl_secure.threads import Thread, range_of
from fgl_secure.typing import Array, Ids


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


@compile_parallel
def _affine_rows(
    scale: Array, offset: Array, rows: Array, row_of: Array, group_of: Array, modulus: int, out: Array, thread: Thread
) -> None:
    """out[b, e, t, k] = scale[group, t] * rows[row, k] + offset[b, group, t, k], row and group those of message e."""
    batch, messages, shares, width = out.shape
    for e in range_of(messages, thread):
        row, group = row_of[e], group_of[e]
        for b in range(batch):
            for t in range(shares):
                factor = np.int64(scale[group, t])
                for k in range(width):
                    product = multiply(factor, np.int64(rows[row, k]), modulus)
                    out[b, e, t, k] = canonical(product + np.int64(offset[b, group, t, k]), modulus)


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
    _affine_rows(U[:, :, 0].copy(), masks.reshape(-1, *masks.shape[-3:]), h, row_of, silo_of, field.modulus, codes)
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


DIRECTIONS = (Direction.FORWARD, Direction.BACKWARD)
NEVER = -1


class MuDelivery(StrEnum):
    """Who hands mu to a source: the paper says both."""

    SILO = "silo"
    """The source asks the target's silo (4.2.3 step 1b; Algorithm 1, line 7)."""
    TARGET = "target"
    """The target device passes its silo's mu on (A.4.1, item 1)."""


@dataclass(frozen=True, slots=True, eq=False)
class SecMPSetting:
    """Parameters and routes.

    Attributes:
        field: of the codes.
        T: masks.
        delivery: who hands mu to a source.
        terms: who sends what to whom; rows are no wider than masks are drawn.
        routes: every message of both passes.
        silos: int64 [S], ascending identifiers of all silos.
        shared: whether both passes use the same ordered pairs of parties, so that mu is where the other needs it.
    """

    field: PrimeField
    T: int
    delivery: MuDelivery
    terms: SumTerms
    routes: dict[Direction, Route]
    silos: Ids
    shared: bool

    @classmethod
    def of(cls, field: PrimeField, T: int, delivery: MuDelivery, terms: SumTerms) -> SecMPSetting:
        """Works out routes and silos."""
        g = terms.topology.grouping
        routes = Route.both_ways(g)
        silos = np.unique(np.concatenate([g.row_custodian, g.group_custodian]))
        return cls(field, T, delivery, terms, routes, silos, _same_messages(*routes.values()))

    @property
    def width(self) -> int:
        """Coordinates that masks are drawn for."""
        return self.terms.topology.width

    @property
    def tapes(self) -> tuple[int, ...]:
        """Leading axes of every field."""
        return self.terms.tapes

    @property
    def points(self) -> int:
        """Interpolation points of a silo: T + 1 alphas and T + 1 betas."""
        return 2 * self.T + 2

    @property
    def mu_width(self) -> int:
        """Elements of one silo's mu on the wire."""
        return self.points + self.T * self.width

    def slot(self, step: Step) -> int:
        """Which of two places the mu of a pass is kept in."""
        return 0 if self.shared else DIRECTIONS.index(step.direction)

    def is_empty(self, step: Step) -> bool:
        """Whether no party sends anything."""
        return not len(self.routes[step.direction].senders)


def _same_messages(forward: Route, backward: Route) -> bool:
    highest = 1 + max((int(ids.max()) for ids in (forward.senders, forward.receivers) if len(ids)), default=0)
    pairs = [np.unique(route.senders * highest + route.receivers) for route in (forward, backward)]
    return bool(np.array_equal(pairs[0], pairs[1]))
