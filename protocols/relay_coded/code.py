"""What each role of the relay-coded scheme computes, as pure functions of what that role holds and received.

Shamir's scheme with the secret at 0 (Lagrange coding with K = 1 and beta_1 = 0): the polynomial of degree T through
(0, q), (1, r_1) .. (T, r_T) has its value at i for relay i. The first T values are masks, which a relay expands from a
key or a seed; only the values for the others travel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fgl_secure.algebra import Elements, PrimeField, Segments, lagrange_matrix
from fgl_secure.algebra.interpolation import Word
from fgl_secure.algebra.kernels import masked_rows
from fgl_secure.coins import Coins
from fgl_secure.runtime.transcript import Numbers
from fgl_secure.typing import Ids

LAID_OUT_UP_TO = 2**25
"""Numbers that the messages of one step may have together, if their shares are to be laid out at one time."""
AT_ONCE = 2**20
"""Numbers of those that are laid out together elsewhere, which a cache holds."""


def source_shares(
    field: PrimeField, T: int, points: Sequence[int], q: Elements, row_of: Numbers, masks: Sequence[Elements]
) -> Elements:
    """A source's role, for many messages at once: the shares of those relays that cannot expand theirs.

    Args:
        field: the field.
        T: masks of each message.
        points: s points of the relays, none of them in 0 .. T.
        q: elements [n, d], encoded rows.
        row_of: integers [m], the row of each message.
        masks: T arrays of elements [*batch, m, d]: uniform, secret and never used before.

    Returns:
        Elements [s, *batch, m, d].
    """
    weights = lagrange_matrix(field, tuple(range(T + 1)), tuple(points))
    weights = np.where(weights > field.modulus // 2, weights - field.modulus, weights)  # small ones need no reduction
    batch, shape = masks[0].shape[:-2], masks[0].shape[-2:]
    flat, row_of = tuple(mask.reshape(-1, *shape) for mask in masks), row_of.astype(np.int64, copy=False)
    out = np.empty((len(points), *flat[0].shape), dtype=field.dtype)
    for weight, share in zip(weights, out, strict=True):
        masked_rows(weight, q, row_of, flat, field.modulus, share)
    return out.reshape(len(points), *batch, *shape)


def relay_sums(field: PrimeField, shares: Elements, by_group: Segments, batch_axes: int = 0) -> Elements:
    """A relay's role: the sum of the shares of each group, [*batch, k, d] to [*batch, groups, d]."""
    return field.grouped_sums(shares, by_group, batch_axes=batch_axes)


def sum_in_chunks(
    field: PrimeField, shares: Callable[[slice], Elements], group_of: Numbers, groups: int, width: int
) -> Elements:
    """The same sums of shares that are not laid out together: elements [groups, width].

    Args:
        field: the field.
        shares: of some of the messages, in their order: elements [k, width].
        group_of: integers [m], the sum that each message goes into.
        groups: how many there are.
        width: coordinates of a share.
    """
    totals, chunk_size = np.zeros((groups, width), dtype=field.dtype), max(AT_ONCE // width, 1)
    for start in range(0, len(group_of), chunk_size):
        chunk = slice(start, start + chunk_size)
        by_group = Segments.by_group(group_of[chunk].astype(np.int64, copy=False), groups)
        totals = field.add(totals, field.grouped_sums(shares(chunk), by_group))
    return totals


def sum_sorted(
    field: PrimeField, shares: Callable[[slice], Elements], group_of: Ids, groups: int, width: int
) -> Elements:
    """The same sums of shares that come group by group: elements [groups, width]; `group_of` is ascending."""
    totals, chunk_size = np.zeros((groups, width), dtype=field.dtype), max(AT_ONCE // width, 1)
    for start in range(0, len(group_of), chunk_size):
        chunk = slice(start, min(start + chunk_size, len(group_of)))
        chunk_groups = group_of[chunk]
        first, last = int(chunk_groups[0]), int(chunk_groups[-1]) + 1
        starts = np.searchsorted(chunk_groups, np.arange(first, last + 1)).astype(np.int64)
        part = field.grouped_sums(shares(chunk), Segments(np.arange(len(chunk_groups)), starts))
        earlier = totals[first].copy()  # of circuits of this group in the piece before
        totals[first:last] = part
        totals[first] = field.add(earlier, part[0])
    return totals


def is_laid_out(shape: tuple[int, int], tapes: tuple[int, ...] = ()) -> bool:
    """Whether shares of so many numbers are laid out together; always where all tapes run at once."""
    return bool(tapes) or shape[0] * shape[1] <= LAID_OUT_UP_TO


def target_decode(
    field: PrimeField, T: int, points: Sequence[int], sums: Elements, coins: Coins
) -> tuple[Elements, tuple[int, ...]]:
    """A target's role: the value at 0 of the polynomial through the relays' sums, correcting wrong ones.

    With m relays up to (m - T - 1) // 2 wrong ones are corrected and named, and more of them noticed.

    Args:
        field: the field.
        T: degree of the polynomial.
        points: the points of the m relays that answered.
        sums: elements [m, ...].
        coins: for the random combination in which errors are located; they never change the answer.

    Returns:
        Elements [...], and the positions of the relays whose sums are wrong.

    Raises:
        TooManyErrors: the sums lie on no such polynomial and the wrong ones cannot be told.
    """
    flat = np.ascontiguousarray(sums).reshape(len(points), -1)
    word = Word(field, tuple(points), flat, T + 1, (len(points) - T - 1) // 2)
    blocks, errors = word.decode((0,), coins)
    return np.asarray(blocks).reshape(sums.shape[1:]), tuple(errors)
