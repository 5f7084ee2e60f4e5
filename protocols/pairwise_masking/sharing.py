"""Mask secrets shared among a client's neighbours: Shamir's scheme, as Lagrange coding with one data row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, LagrangeCode, PrimeField
from fgl_secure.algebra.interpolation import values_at
from fgl_secure.coins import Coins

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]

AT_ONCE = 1024
"""Secrets that are opened together: their shares are copied side by side."""


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
        self, shares: Elements, there: Flags, circles: Ids, owners: Ids, coins: Coins | None
    ) -> dict[int, Elements]:
        """The secrets of some owners, all at one time.

        A polynomial through the first shares that as many others agree with as `open` would leave uncorrected is the
        one that `open` finds: two of them would differ at more points. So holders whose shares disagree are asked last
        in a second go, and only what is left then is searched for errors, one owner at a time.

        Args:
            shares: elements [*batch, n, k, w], by owner and place of the holder in its circle.
            there: bool [n, k], which are there; `needed` of each owner at least.
            circles: int64 [n, k], holders, by owner.
            owners: int64 [m], whose secrets are wanted.
            coins: see `open`.

        Returns:
            Elements [*batch, w], by owner.

        Raises:
            NotEnoughShares: a secret has fewer shares than it needs.
            TooManyErrors: shares contradict each other.
        """
        found: dict[int, Elements] = {}
        left, wrong = np.asarray(owners, dtype=np.int64), np.zeros(self.clients, dtype=np.bool_)
        for _ in range(2):
            parts = [left[start : start + AT_ONCE] for start in range(0, len(left), AT_ONCE)]
            after = [self._open_agreeing(shares, there, circles, part, wrong, found, coins) for part in parts]
            left = np.concatenate([left[:0], *after])
        for owner in left.tolist():
            rows = np.compress(there[owner], shares[..., owner, :, :], axis=-2)
            found[owner] = self.open(np.moveaxis(rows, -2, 0), circles[owner, there[owner]].tolist(), coins)
        return found

    def _open_agreeing(
        self,
        shares: Elements,
        there: Flags,
        circles: Ids,
        owners: Ids,
        wrong: Flags,
        found: dict[int, Elements],
        coins: Coins | None,
    ) -> Ids:
        """Opens what enough shares agree on; the owners that are left.

        Args:
            shares: see `open_each`.
            there: see `open_each`.
            circles: see `open_each`.
            owners: see `open_each`.
            wrong: bool [n], holders that are asked last; those whose shares disagree are noted.
            found: takes what is opened.
            coins: see `open`.
        """
        counts = there[owners].sum(axis=1)
        short, owners, counts = (
            owners[counts < self.needed],
            owners[counts >= self.needed],
            counts[counts >= self.needed],
        )
        order = np.argsort(2 * ~there[owners] + wrong[circles[owners]], axis=1, kind="stable")
        holders = np.take_along_axis(circles[owners], order, axis=1)
        picked = shares.reshape(-1, *shares.shape[-3:])[:, owners[:, None], order]
        values = np.moveaxis(picked, 0, 2).reshape(*order.shape, -1)
        self.field.elements(values)  # raises where they are none
        opened, off = values_at(self.field, self._points[holders], counts, values, self.needed, self._secret)
        most = np.zeros_like(counts) if coins is None else (counts - self.needed) // 2
        agreed = off.sum(axis=1) <= most
        wrong[holders[agreed[:, None] & off]] = True
        for at in np.flatnonzero(agreed).tolist():
            found[int(owners[at])] = opened[at].reshape(*shares.shape[:-3], shares.shape[-1])
        return np.concatenate([short, owners[~agreed]])
