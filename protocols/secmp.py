"""Secret Message Passing as HiFGL publishes it (KDD 2024, sections 4.1.2 and 4.2, Algorithm 1, A.4).

Every silo draws mu = (alphas, betas, z) once. A source encodes its embedding h on the polynomial through
(beta_1, h), (beta_2, z_2) .. (beta_(T+1), z_(T+1)) of the *target's* silo (Eq. 4) and sends all T + 1 values at the
alphas to the target device. The target adds up what it received, its silo interpolates the sum at beta_1 and sends
it back. The z are the same for every sender, target, layer and round: that is the published scheme, and
`fgl_secure.attacks.secmp_breaks` is what follows from it.

Where the paper is silent: embeddings become field elements by `FixedPoint`; z_j is a vector as wide as the widest
layer, of which narrower layers use the first coordinates; mu is fetched once a round (Algorithm 1, lines 6 and 7).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import (
    MERSENNE_31,
    Elements,
    FixedPoint,
    LagrangeCode,
    Overflow,
    PrimeField,
    Segments,
    lagrange_matrix,
)
from fgl_secure.algebra.kernels import affine_rows
from fgl_secure.coins import distinct_elements
from fgl_secure.errors import FieldRangeError, InputError, ProtocolError
from fgl_secure.protocols.grouped_sum import Scheme, Session
from fgl_secure.protocols.secmp_claim import PUBLISHED_CLAIM
from fgl_secure.protocols.topology import Grouping, Ids, Reals, Route
from fgl_secure.runtime import (
    Channel,
    Claim,
    Delivery,
    Direction,
    Phase,
    PublicParameters,
    Step,
)

LARGEST_LAYER_BYTES = 2**33
"""Most bytes of codes that one layer may hold at once, all parties being in one process."""


LARGEST_T = 64


class MuDelivery(StrEnum):
    """Who hands mu to a source: the paper says both."""

    SILO = "silo"
    """The source asks the target's silo (4.2.3 step 1b; Algorithm 1, line 7)."""
    TARGET = "target"
    """The target device passes its silo's mu on (A.4.1, item 1)."""


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
        flat = self.z.reshape(*self.z.shape[:-2], -1)
        return np.concatenate([np.broadcast_to(points, batch + points.shape), flat], axis=-1).astype(dtype)

    @classmethod
    def from_rows(cls, rows: Elements, T: int) -> Mu:
        """Reads the wire format; the points are the same on every tape."""
        one_tape = rows.reshape(-1, *rows.shape[-2:])[0].astype(np.int64)
        z = rows[..., 2 * (T + 1) :].astype(np.int64)
        return cls(one_tape[:, : T + 1], one_tape[:, T + 1 : 2 * (T + 1)], z.reshape(*z.shape[:-1], T, -1))


@dataclass(frozen=True, slots=True)
class SecretMessagePassing(Scheme):
    """The published scheme.

    Attributes:
        field: the paper says 11 elements (4.1.2, footnote 2); the default is 2^31 - 1, in which sums stay exact.
        T: masks, and the number of codes less one; 2 T + 2 distinct points must fit the field.
        bound: largest magnitude of one value, in the values' own unit.
        fraction_bits: bits behind the binary point; None takes as many as the largest sum allows.
        overflow: REFUSE, or WRAP to run a field that is too small, as published.
        delivery: who hands mu to a source.
        points: interpolation points of every silo; None lets each silo draw its own.
    """

    field: PrimeField = PrimeField()
    T: int = 1
    bound: float = 16.0
    fraction_bits: int | None = None
    overflow: Overflow = Overflow.REFUSE
    delivery: MuDelivery = MuDelivery.SILO
    points: Points | None = None

    def __post_init__(self) -> None:
        if self.field.modulus > MERSENNE_31:
            raise FieldRangeError(
                f"field must have at most 2^31 - 1 elements, so that a product fits 64 bits; found {self.field.modulus}"
            )
        if self.T < 1:
            raise InputError(f"T must be at least 1; found {self.T}")
        needed = 2 * self.T + 2
        if needed > self.field.modulus:
            raise FieldRangeError(
                f"T={self.T} needs 2 T + 2 = {needed} distinct points; the field has {self.field.modulus} "
                f"elements, enough for T <= {(self.field.modulus - 2) // 2}"
            )
        if self.T > LARGEST_T:
            raise InputError(f"T must be at most {LARGEST_T}, a message carries T + 1 codes; found {self.T}")
        if self.points is not None:
            LagrangeCode(self.field, 1, self.T, self.T + 1, self.points.alphas, self.points.betas)

    @property
    def name(self) -> str:
        """`secmp`, with the parameters that differ from the default in brackets."""
        default = SecretMessagePassing()
        extras = [
            f"p={self.field.modulus}" if self.field != default.field else "",
            f"T={self.T}" if default.T != self.T else "",
            f"mu={self.delivery}" if self.delivery is not default.delivery else "",
        ]
        named = ",".join(extra for extra in extras if extra)
        return f"secmp[{named}]" if named else "secmp"

    @property
    def claim(self) -> Claim:
        """The paper's own claims."""
        return PUBLISHED_CLAIM

    @property
    def variants(self) -> tuple[Scheme, ...]:
        """The paper's field of 11 elements, and the other reading of who hands out mu."""
        other = MuDelivery.TARGET if self.delivery is MuDelivery.SILO else MuDelivery.SILO
        small = replace(self, field=PrimeField(11), T=min(self.T, 4), bound=1.0, fraction_bits=0, points=None,
                        overflow=Overflow.WRAP)  # fmt: skip
        return (small, replace(self, delivery=other))

    @property
    def minimum_group(self) -> int:
        """1: the paper sums over single neighbours too (4.2.3, last paragraph)."""
        return 1

    def gradient_scheme(self, members: int) -> None:  # whatever the silo's size
        """None: the paper holds gradients not to be private and sends them to the silo as they are (4.3)."""

    @property
    def relays(self) -> int:
        """None."""
        return 0

    @property
    def public(self) -> PublicParameters:
        """Field and T, as printed in the paper."""
        return PublicParameters(self.field.modulus, self.T)

    def fixed_point(self, terms: int) -> FixedPoint:
        """The map into the field for sums of up to `terms` embeddings.

        Raises:
            FieldRangeError: the field cannot hold such sums and wrapping was not asked for.
        """
        if self.overflow is Overflow.WRAP or self.fraction_bits is not None:
            return FixedPoint(self.field, self.bound, self.fraction_bits or 0, terms, self.overflow)
        return FixedPoint.for_sums(self.field, bound=self.bound, terms=terms)

    def open(self, channel: Channel, grouping: Grouping, width: int) -> Session:
        """Lets every silo draw its mu; nothing is sent yet."""
        terms = max(grouping.largest_group, grouping.reversed().largest_group, 1)
        self._check_size(len(grouping.source), width)
        return _SecmpSession(self, channel, grouping, self.fixed_point(terms), width)

    def _check_size(self, messages: int, width: int) -> None:
        size = messages * (self.T + 1) * width * self.field.dtype.itemsize
        if size > LARGEST_LAYER_BYTES:
            raise InputError(
                f"T must leave the codes of a layer below {LARGEST_LAYER_BYTES:,} bytes; found T={self.T}, which needs "
                f"{size:,} for {messages:,} messages of {width} coordinates"
            )


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


class _SecmpSession(Session):
    def __init__(
        self, scheme: SecretMessagePassing, channel: Channel, grouping: Grouping, fixed: FixedPoint, width: int
    ) -> None:
        self._scheme, self._channel, self._fixed = scheme, channel, fixed
        self._routes = Route.both_ways(grouping)
        self._silos = np.unique(np.concatenate([grouping.row_custodian, grouping.group_custodian]))
        self._mu = self._draw_mu(width)
        self._held: dict[Direction, tuple[int, Mu]] = {}
        self._symmetric = _same_messages(*self._routes.values())

    def sum(self, values: Reals, step: Step) -> NDArray[np.float64]:
        field, send = self._scheme.field, self._channel.send
        route = self._routes[step.direction]
        way, silo_of_group = route.way, np.searchsorted(self._silos, route.way.group_custodian)
        route.check_values(values)
        if values.shape[1] > self._mu.z.shape[-1]:
            raise InputError(
                f"values must not be wider than the {self._mu.z.shape[-1]} coordinates that the masks were drawn for; "
                f"found {values.shape[1]}"
            )
        h = self._fixed.encode(values)
        self._channel.note_inputs("values", step, way.row_owner, h)
        if not len(way.source):
            return np.zeros((*self._channel.batch_shape, len(way.group_owner), values.shape[1]))
        mu = self._fetched_mu(route, step)
        codes = source_encode(field, h, mu, way.source, silo_of_group[way.target])
        received = send(Phase.CODES, step, route.senders, route.receivers, codes)
        batch_axes = len(self._channel.batch_shape)
        aggregates = target_aggregate(field, received.payload, route.arrived(received), batch_axes)
        asking = np.unique(way.target)  # a device without neighbours has nothing to decode
        devices, silos = way.group_owner[asking], way.group_custodian[asking]
        to_decode = send(Phase.AGGREGATE, step, devices, silos, np.take(aggregates, asking, axis=batch_axes))
        answered = asking if to_decode.rows is None else asking[to_decode.rows]
        decoded = silo_decode(field, to_decode.payload, self._mu, silo_of_group[answered])
        sums = send(Phase.DECODED, step, to_decode.receivers, to_decode.senders, decoded)
        out = np.zeros((*self._channel.batch_shape, len(way.group_owner), values.shape[1]))
        out[..., answered if sums.rows is None else answered[sums.rows], :] = self._fixed.decode(sums.payload)
        return out

    def _draw_mu(self, width: int) -> Mu:
        T, modulus = self._scheme.T, self._scheme.field.modulus
        points = np.array([self._points() for _ in self._silos], dtype=np.int64).reshape(len(self._silos), 2 * T + 2)
        self._channel.note_coins("alphas and betas", self._silos, points)
        z = self._channel.draw("z", self._silos, modulus, (T, width))
        return Mu(points[:, : T + 1], points[:, T + 1 :], z)

    def _points(self) -> Ids:
        fixed = self._scheme.points
        if fixed is not None:
            return np.array([*fixed.alphas, *fixed.betas], dtype=np.int64)
        return distinct_elements(self._channel.coins, self._scheme.field.modulus, 2 * self._scheme.T + 2)

    def _fetched_mu(self, route: Route, step: Step) -> Mu:
        """The mu of the targets' silos as the sources received it, once a round for each set of messages."""
        pairs = Direction.FORWARD if self._symmetric else step.direction
        if pairs not in self._held or self._held[pairs][0] != step.round:
            self._held[pairs] = (step.round, self._fetch_mu(route, step))
        return self._held[pairs][1]

    def _fetch_mu(self, route: Route, step: Step) -> Mu:
        way = route.way
        rows = self._mu.rows(self._scheme.field.dtype)
        silo_of_group = np.searchsorted(self._silos, way.group_custodian)
        if self._scheme.delivery is MuDelivery.SILO:
            self._ask_silos(route, step)
            senders = route.custodians
        else:
            served = np.unique(way.target)
            self._send_mu(rows, silo_of_group[served], way.group_custodian[served], way.group_owner[served], step)
            senders = route.receivers
        silos = silo_of_group[way.target]
        received = self._send_mu(rows, silos, senders, route.senders, step)
        # All copies of one silo's mu are alike, so the first that arrived stands for all.
        present, first = np.unique(silos, return_index=True)
        return self._mu_of(present, np.take(received, first, axis=len(self._channel.batch_shape)))

    def _ask_silos(self, route: Route, step: Step) -> None:
        empty = np.empty((*self._channel.batch_shape, len(route.senders), 0), dtype=np.int8)
        delivery = self._channel.send(Phase.PARAMETER_REQUEST, step, route.senders, route.custodians, empty)
        _check_all_arrived(delivery, route.senders, route.custodians, step)

    def _send_mu(self, rows: Elements, silos: Ids, senders: Ids, receivers: Ids, step: Step) -> Elements:
        payload = np.take(rows, silos, axis=len(self._channel.batch_shape))
        delivery = self._channel.send(Phase.PARAMETERS, step, senders, receivers, payload)
        _check_all_arrived(delivery, senders, receivers, step)
        return delivery.payload

    def _mu_of(self, present: Ids, rows: Elements) -> Mu:
        """Received parameters in the slots of their silos; silos that nobody asked stay zero."""
        batch_axes = len(self._channel.batch_shape)
        table = np.zeros((*rows.shape[:batch_axes], len(self._silos), rows.shape[-1]), dtype=rows.dtype)
        table[..., present, :] = rows
        absent = np.setdiff1d(np.arange(len(self._silos)), present)
        table[..., absent, : 2 * self._scheme.T + 2] = np.arange(2 * self._scheme.T + 2)
        return Mu.from_rows(table, self._scheme.T)


def _check_all_arrived(delivery: Delivery, senders: Ids, receivers: Ids, step: Step) -> None:
    """Raises when a request or an answer got lost: the published scheme has no way on without mu."""
    if delivery.rows is not None and len(delivery.rows) < len(senders):
        lost = int(np.setdiff1d(np.arange(len(senders)), delivery.rows)[0])
        raise ProtocolError(
            f"a source cannot encode: the message about coding parameters from party {senders[lost]} to party "
            f"{receivers[lost]} in round {step.round} did not arrive"
        )


def _same_messages(forward: Route, backward: Route) -> bool:
    """Whether the backward pass uses the same ordered pairs of parties, so that mu is already where it is needed."""
    highest = 1 + max((int(ids.max()) for ids in (forward.senders, forward.receivers) if len(ids)), default=0)
    pairs = [np.unique(route.senders * highest + route.receivers) for route in (forward, backward)]
    return bool(np.array_equal(pairs[0], pairs[1]))
