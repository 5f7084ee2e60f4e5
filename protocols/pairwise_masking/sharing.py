"""Mask secrets shared among a client's neighbours: Shamir's scheme, as Lagrange coding with one data row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, LagrangeCode, PrimeField
from fgl_secure.coins import Coins

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Sharing:
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
        shares = self.field.combine_two(self._matrix[holders], first, coins, axis=secrets.ndim - 1)
        return np.asarray(shares, dtype=np.int64)

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
        self, shares: Elements, there: Flags, circles: Ids, owners: Sequence[int], coins: Coins | None
    ) -> dict[int, Elements]:
        """The secrets of some owners; those with the same holders at one time.

        Args:
            shares: elements [*batch, n, k, w], by owner and place of the holder in its circle.
            there: bool [n, k], which are there.
            circles: int64 [n, k], holders, by owner.
            owners: whose secrets are wanted.
            coins: see `open`.

        Returns:
            Elements [*batch, w], by owner.

        Raises:
            NotEnoughShares: a secret has fewer shares than it needs.
            TooManyErrors: shares contradict each other.
        """
        alike: dict[tuple[int, ...], list[int]] = {}
        for owner in owners:
            alike.setdefault(tuple(circles[owner, there[owner]].tolist()), []).append(owner)
        found: dict[int, Elements] = {}
        for holders, same in alike.items():
            rows = np.stack([np.compress(there[owner], shares[..., owner, :, :], axis=-2) for owner in same], axis=-3)
            opened = self.open(np.moveaxis(rows, -2, 0), list(holders), coins)
            found.update((owner, opened[..., at, :]) for at, owner in enumerate(same))
        return found
