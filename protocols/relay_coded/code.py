"""What each role of the relay-coded scheme computes, as pure functions of what that role holds and received.

Shamir's scheme with the secret at 0 (Lagrange coding with K = 1 and beta_1 = 0): the polynomial of degree T through
(0, q), (1, r_1) .. (T, r_T) has its value at i for relay i. The first T values are masks, which a relay expands from a
key or a seed; only the values for the others travel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, PrimeField, Segments, lagrange_matrix
from fgl_secure.algebra.interpolation import Word
from fgl_secure.algebra.kernels import masked_rows
from fgl_secure.coins import Coins
from fgl_secure.protocols.relay_coded.wire import places_among
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


def relay_sums(field: PrimeField, shares: Elements, by_tag: Segments, batch_axes: int = 0) -> Elements:
    """A relay's role: the sum of the shares under each tag, [*batch, k, d] to [*batch, tags, d]."""
    return field.grouped_sums(shares, by_tag, batch_axes=batch_axes)


def added_up(
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
    totals, several = np.zeros((groups, width), dtype=field.dtype), max(AT_ONCE // width, 1)
    for start in range(0, len(group_of), several):
        some = slice(start, start + several)
        by_group = Segments.by_group(group_of[some].astype(np.int64, copy=False), groups)
        totals = field.add(totals, field.grouped_sums(shares(some), by_group))
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
    blocks, wrong = word.decode((0,), coins)
    return np.asarray(blocks).reshape(sums.shape[1:]), tuple(wrong)


def grouped_by_tag(tags: Ids) -> tuple[Ids, Segments]:
    """Which rows bear the same tag.

    Args:
        tags: int64 [k, 2].

    Returns:
        The distinct tags, int64 [t, 2] in ascending order, and the rows of each.
    """
    order = np.argsort(tags[:, 0])
    changes, first = (_changes(tags[order, word]) for word in (1, 0))  # one word of all tags at a time
    if (changes & ~first).any():  # two tags share a word: by accident once in 2^63 pairs
        order = np.lexsort((tags[:, 1], tags[:, 0]))
        changes, first = (_changes(tags[order, word]) for word in (1, 0))
    new = np.flatnonzero(changes | first)
    starts = np.append(new, len(order)).astype(np.int64)
    return tags[order[new]], Segments(order, starts)


def _changes(words: Ids) -> NDArray[np.bool_]:
    """Bool [k]: which words differ from the one before; the first does."""
    found = np.ones(len(words), dtype=np.bool_)
    np.not_equal(words[1:], words[:-1], out=found[1:])
    return found


def find_tags(wanted: Ids, known: Ids) -> Ids:
    """int64 [k]: the position of each wanted tag [k, 2] among known ones [t, 2] in ascending order, or -1."""
    if not len(known):
        return np.full(len(wanted), -1, dtype=np.int64)
    if np.array_equal(wanted, known):
        return np.arange(len(known))
    first = known[:, 0]
    place = np.minimum(places_among(wanted[:, 0], first), len(known) - 1)
    while True:  # steps over tags with the same first word
        ahead = (known[place, 0] == wanted[:, 0]) & (known[place, 1] < wanted[:, 1])
        ahead &= np.append(first[1:] == first[:-1], False)[place]
        if not ahead.any():
            break
        place = place + ahead
    return np.where((known[place] == wanted).all(axis=1), place, -1)
