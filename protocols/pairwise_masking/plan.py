"""What every party of pairwise masking knows, who masks with whom in which step, and what honest clients check.

The aggregator asks every client for one share of each of the others (Bonawitz et al. 2017, figure 4, round 4): of the
self mask of those whose vectors are in the sum, of the mask key of those that dropped out. An aggregator with both for
one client unmasks its vector; a check in `MaskingClients` keeps that from an aggregator that lies.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, LagrangeCode, PrimeField
from fgl_secure.algebra.interpolation import values_at
from fgl_secure.coins import Coins
from fgl_secure.crypto.cryptography import Context
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.crypto.streams import FieldStream, ModularRing
from fgl_secure.protocols.pairwise_masking.graph import Neighbours, local_threshold
from fgl_secure.protocols.secagg.terms import SumPlan
from fgl_secure.protocols.stepwise import step_bytes
from fgl_secure.runtime import Step
from fgl_secure.typing import Flags, Ids

AT_ONCE = 1024
"""Secrets that are opened together: their shares are copied side by side."""


@dataclass(frozen=True)
class SecretSharing:
    """Shamir's scheme for the secrets of n clients; client v holds the share at the v-th point of every secret.

    Attributes:
        field: of secrets and shares.
        clients: n.
        needed: shares that open a secret; one fewer tell nothing.
    """

    field: PrimeField
    clients: int
    needed: int

    @cached_property
    def code(self) -> LagrangeCode:
        """The code; raises `FieldRangeError` for a field with fewer than n + needed elements."""
        return LagrangeCode(self.field, 1, self.needed - 1, self.clients)

    @cached_property
    def _matrix(self) -> NDArray[np.int64]:
        return self.code.encoding_matrix

    @cached_property
    def _points(self) -> Ids:
        return np.array(self.code.alphas, dtype=np.int64)

    @property
    def _secret(self) -> int:
        """The point at which a polynomial has the secret."""
        return self.code.betas[0]

    def share(self, secrets: Elements, coins: Elements, holders: Ids) -> Elements:
        """Shares for some holders.

        Args:
            secrets: elements [*batch, w].
            coins: [*batch, needed - 1, w], fresh and uniform.
            holders: int64 [k], clients.

        Returns:
            Elements [*batch, k, w].
        """
        first = np.expand_dims(secrets, -2)
        shares = self.field.combine_elements(self._matrix[holders], first, coins, axis=secrets.ndim - 1)
        return shares.astype(np.int64, copy=False)

    def open(self, shares: Elements, holders: Sequence[int], coins: Coins | None) -> Elements:
        """Secrets from the shares of some holders, wrong ones corrected as far as there are more than needed.

        Args:
            shares: elements [holders, ...].
            holders: whose they are, at least `needed`.
            coins: for locating errors; they never change the answer. None corrects nothing and notices all the more.

        Raises:
            TooManyErrors: shares contradict each other and the wrong ones cannot be told.
        """
        errors = 0 if coins is None else (len(holders) - self.needed) // 2
        decoded = self.code.decode(shares, holders, max_errors=errors, coins=coins)
        return np.asarray(decoded.blocks[0], dtype=np.int64)

    def open_each(
        self, shares: Elements, has_share: Flags, circles: Ids, owners: Ids, coins: Coins | None
    ) -> dict[int, Elements]:
        """The secrets of some owners, all at one time.

        A polynomial through the first shares that as many others agree with as `open` would leave uncorrected is the
        one that `open` finds: two of them would differ at more points. So holders whose shares disagree are asked last
        in a second go, and only what is left then is searched for errors, one owner at a time.

        Args:
            shares: elements [*batch, n, k, w], by owner and place of the holder in its circle.
            has_share: bool [n, k], which are there; `needed` of each owner at least.
            circles: int64 [n, k], holders, by owner.
            owners: int64 [m], whose secrets are wanted.
            coins: see `open`.

        Returns:
            Elements [*batch, w], by owner.

        Raises:
            NotEnoughShares: a secret has fewer shares than it needs.
            TooManyErrors: shares contradict each other.
        """
        result: dict[int, Elements] = {}
        left, errors = np.asarray(owners, dtype=np.int64), np.zeros(self.clients, dtype=np.bool_)
        for _ in range(2):
            parts = [left[start : start + AT_ONCE] for start in range(0, len(left), AT_ONCE)]
            after = [self._open_agreeing(shares, has_share, circles, part, errors, result, coins) for part in parts]
            left = np.concatenate([left[:0], *after])
        for owner in left.tolist():
            rows = np.compress(has_share[owner], shares[..., owner, :, :], axis=-2)
            result[owner] = self.open(np.moveaxis(rows, -2, 0), circles[owner, has_share[owner]].tolist(), coins)
        return result

    def _open_agreeing(
        self,
        shares: Elements,
        has_share: Flags,
        circles: Ids,
        owners: Ids,
        errors: Flags,
        result: dict[int, Elements],
        coins: Coins | None,
    ) -> Ids:
        """Opens what enough shares agree on; the owners that are left.

        Args:
            shares: see `open_each`.
            has_share: see `open_each`.
            circles: see `open_each`.
            owners: see `open_each`.
            errors: bool [n], holders that are asked last; those whose shares disagree are noted.
            result: takes what is opened.
            coins: see `open`.
        """
        counts = has_share[owners].sum(axis=1)
        short, owners, counts = (
            owners[counts < self.needed],
            owners[counts >= self.needed],
            counts[counts >= self.needed],
        )
        order = np.argsort(2 * ~has_share[owners] + errors[circles[owners]], axis=1, kind="stable")
        holders = np.take_along_axis(circles[owners], order, axis=1)
        picked = shares.reshape(-1, *shares.shape[-3:])[:, owners[:, None], order]
        values = np.moveaxis(picked, 0, 2).reshape(*order.shape, -1)
        self.field.elements(values)  # raises where they are none
        opened, deviates = values_at(self.field, self._points[holders], counts, values, self.needed, self._secret)
        most = np.zeros_like(counts) if coins is None else (counts - self.needed) // 2
        agreed = deviates.sum(axis=1) <= most
        errors[holders[agreed[:, None] & deviates]] = True
        for index in np.flatnonzero(agreed).tolist():
            result[int(owners[index])] = opened[index].reshape(*shares.shape[:-3], shares.shape[-1])
        return np.concatenate([short, owners[~agreed]])


class UnmaskRequest(IntEnum):
    """What the aggregator may ask about one sender; the sum of both is what no party may ask."""

    NOTHING = 0
    SELF_MASK = 1
    MASK_KEY = 2


LABEL = b"fgl-secure pairwise-masking/v3"

_NUMBERS = struct.Struct(">QQQ")
_RING = struct.Struct(">Q")
_KEPT = 4


@dataclass(frozen=True, eq=False)
class NeighbourGraph:
    """Who masks with whom in one step, and who holds shares of whose secrets.

    Attributes:
        neighbours: int64 [n, k], the neighbours of each client, ascending.
        closed_neighbours: int64 [n, k + 1], the neighbours and the client itself, ascending.
        self_index: int64 [n], the place of each client in its own circle.
        initiates: bool [n, k], for which of its neighbours a client wraps a secret; the others do so for it.
    """

    neighbours: Ids
    closed_neighbours: Ids
    self_index: Ids
    initiates: Flags

    @classmethod
    def of(cls, graph: Neighbours, order: Ids) -> NeighbourGraph:
        """Of a graph.

        Args:
            graph: who is whose neighbour.
            order: int64 [n], a ring: every party leads those that follow within half of it, so (k + 1) // 2 at most.
        """
        n = len(graph.table)
        clients = np.arange(n)[:, None]
        circles = np.sort(np.concatenate([graph.table, clients], axis=1), axis=1)
        place = np.argsort(order)
        ahead = 2 * ((place[graph.table] - place[:, None]) % n)
        leads = (ahead < n) | ((ahead == n) & (clients < graph.table))
        return cls(graph.table, circles, (circles < clients).sum(axis=1), leads)

    @cached_property
    def leading(self) -> Ids:
        """Which of those that it leads a neighbour is, where it is one: int64 [n, k]."""
        return np.cumsum(self.initiates, axis=1) - 1

    @cached_property
    def following(self) -> Ids:
        """Which of those that lead it a neighbour is, where it is one: int64 [n, k]."""
        return np.cumsum(~self.initiates, axis=1) - 1

    @cached_property
    def reverse_index(self) -> Ids:
        """At which place a client stands among the neighbours of its j-th neighbour: int64 [n, k], for servers."""
        return _places(self.neighbours)

    @cached_property
    def closed_reverse_index(self) -> Ids:
        """The same in circles: int64 [n, k + 1]."""
        return _places(self.closed_neighbours)

    def others(self, client: int) -> NDArray[np.bool_]:
        """Bool [k + 1], which places in a client's circle are not its own."""
        return np.asarray(np.arange(self.closed_neighbours.shape[1]) != self.self_index[client])


def _places(table: Ids) -> Ids:
    """At which place of row table[u, j] u stands: int64 like the table, which is a symmetric graph's."""
    n, k = table.shape
    clients = np.arange(n)[:, None]
    ascending = (clients * n + table).ravel()
    return np.asarray(np.searchsorted(ascending, table * n + clients) - table * k)


@dataclass(frozen=True, slots=True, eq=False)
class MaskingPlan(SumPlan):
    """The public side of all sums of one topology.

    Attributes:
        field: of shares.
        degree: neighbours of each client.
        words: elements that hold one secret.
        keys: how clients agree on keys.
        ring: of masked vectors; the field unless given.
    """

    label: ClassVar[bytes] = LABEL

    field: PrimeField
    degree: int
    words: int
    keys: KeyAgreement = KeyAgreement.X25519
    ring: ModularRing | None = None
    _circles: dict[tuple[Step, bytes], NeighbourGraph] = dataclasses.field(default_factory=dict, repr=False)
    _sharing: list[SecretSharing] = dataclasses.field(default_factory=list, repr=False)

    @property
    def required_shares(self) -> int:
        """Shares that open a secret, and equal votes that a client asks for, its own included."""
        return local_threshold(self.terms.n, self.degree, self.terms.threshold)

    @property
    def sealed_elements(self) -> int:
        """Elements that one client seals for another: shares of both secrets, and of its veto where it may have one."""
        return 2 * self.words + int(self.terms.veto)

    @property
    def sharing(self) -> SecretSharing:
        """How secrets are shared."""
        if not self._sharing:
            self._sharing.append(SecretSharing(self.field, self.terms.n, self.required_shares))
        return self._sharing[0]

    @property
    def agreed_bytes(self) -> bytes:
        """See `SumPlan.agreed_bytes`."""
        numbers = _NUMBERS.pack(self.field.modulus, self.degree, self.required_shares)
        ring = b"" if self.ring is None else _RING.pack(self.ring.modulus)
        return numbers + self.keys.encode() + ring

    @property
    def max_initiated(self) -> int:
        """Most neighbours that a client leads, or is led by."""
        return (self.degree + 1) // 2

    @property
    def sparse(self) -> bool:
        """Whether each client masks with a few neighbours, and not with every party."""
        return self.degree < self.terms.n - 1

    def circles(self, step: Step, seed: bytes = b"") -> NeighbourGraph:
        """Who masks with whom in a step.

        Args:
            step: of the sum.
            seed: of a sparse graph, as a `Draw` gives it; what it is does not matter where every party masks with
                every party.
        """
        when = (step, seed) if self.sparse else (Step(0), b"")
        if when not in self._circles:
            while len(self._circles) >= _KEPT:
                self._circles.pop(next(iter(self._circles)), None)
            order = self.ring_order(step, seed) if self.sparse else np.arange(self.terms.n)
            graph = Neighbours.ring(order, self.degree) if self.sparse else Neighbours.complete(self.terms.n)
            self._circles[when] = NeighbourGraph.of(graph, order)
        return self._circles[when]

    def ring_order(self, step: Step, seed: bytes) -> Ids:
        """Who stands at each place of the ring: int64 [n], in the order of uniform draws from a key stream."""
        key = hashlib.sha256(LABEL + b"ring" + self.terms.session + step_bytes(step) + seed).digest()
        return np.argsort(FieldStream(key).uniform(2**63, self.terms.n), kind="stable").astype(np.int64)

    def context(self, step: Step, seed: bytes = b"") -> Context:
        """What keys of one sum are bound to; with a seed, those of clients, which share a graph."""
        return Context(LABEL, self.terms.session + seed, step_bytes(step), step)
