"""Orders of many random numbers, in little more time than sorting them takes, and where numbers stand among others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]

WORD_BITS = 64
"""Of a word that is sorted: the highest bits of a number, and behind them its place. At most 64; tests take fewer."""

FEW = 512
"""Numbers that are looked up as they stand: to put so few in order takes longer."""

_SIGN = np.uint64(1 << 63)


def order_of(numbers: Ids) -> Ids:
    """The places of numbers int64 [m] in ascending order, int64 [m]; equal ones stay in their order.

    numpy sorts words several at a time, but moves places beside them one at a time: so a place goes into the word. Of
    random numbers the bits before it tell nearly all apart (of 2^18 all but a pair in two thousand sorts, of 2^24 some
    hundred pairs); what they don't tell is compared.
    """
    keys = numbers.view(np.uint64) ^ _SIGN  # negative ones come first
    if not len(keys):
        return keys.view(np.int64)
    place_bits = (len(keys) - 1).bit_length()
    untold = max(int(np.bitwise_or.reduce(keys ^ keys[0])).bit_length() + place_bits - WORD_BITS, 0)
    words = keys >> np.uint64(untold)
    words <<= np.uint64(place_bits)  # what is lost is the same in all
    words |= np.arange(len(keys), dtype=np.uint64)
    words.sort()
    order: Ids = (words & np.uint64((1 << place_bits) - 1)).view(np.int64)
    if untold:
        _settle(order, words >> np.uint64(place_bits), numbers)
    return order


def _settle(order: Ids, told: NDArray[np.uint64], numbers: Ids) -> None:
    """Puts numbers in order that what was told of them, uint64 [m] and ascending, does not tell apart."""
    alike = told[1:] == told[:-1]
    if alike.any():
        some = np.flatnonzero(np.append(alike, False) | np.append(False, alike))
        order[some] = order[some][np.argsort(numbers[order[some]], kind="stable")]


def places_among(wanted: Ids, known: Ids) -> Ids:
    """Where numbers int64 [m] stand among known ones int64 [k] that ascend, or would: int64 [m], 0 to k.

    Numbers that ascend are found in a third of the time, as what is read of the known ones for one is at hand for the
    next.
    """
    if len(wanted) <= FEW or bool((wanted[1:] >= wanted[:-1]).all()):
        return np.searchsorted(known, wanted)
    order = order_of(wanted)
    places = np.empty(len(wanted), dtype=np.int64)
    places[order] = np.searchsorted(known, wanted[order])
    return places
