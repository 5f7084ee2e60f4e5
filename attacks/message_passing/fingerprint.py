"""Taking sums of static 0/1 rows apart: by the weights of the rows, or by a public dictionary.

Taking a sum of weighted 0/1 rows apart by the weights, which only whole numbers of neighbours can have.

HiFGL's Eq. 2 sums x_v / sqrt(d_v). A coordinate of the sum is a sum of some of the k numbers 1 / sqrt(d_v): in
ascending order, the first value is one of them, and every later value is either a sum of those found so far or the
next one. k distinct numbers found give k feature rows, from one sum and its number of terms: no coding is touched.

Finding the terms of a sum in a public dictionary: words of a neighbour are words of the sum.

If rows are 0/1 (or non-negative) and sparse, every word of a neighbour shows up in the sum, and hardly any other row of
the dictionary has all of its words there. The weights of the sum do not matter, and neither does how it was computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, InformedAttack, Measurement
from fgl_secure.attacks.edge_claims import ClaimedEdges, score_claimed_edges
from fgl_secure.attacks.message_passing.knowledge import SECMP_STATIC, STATIC_ROWS, PublicRows
from fgl_secure.attacks.message_passing.sums import SeenSums, seen_sums
from fgl_secure.attacks.recovery import ClaimedTerms, score_claimed_terms
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.runtime import Circumstance, Directory, PublicParameters, Role, Secret, View
from fgl_secure.typing import Ids

MOST_TERMS = 14
"""Neighbours that are told apart at most; 2^14 subset sums are looked through."""

REAL_BITS = 32
"""Bits behind the binary point to which sums of real numbers are read."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The numbers that the weight of a neighbour can be: round(2^f / sqrt(d)) for d = 1 .. most."""

    scale: float  # 2^f
    most: int  # largest degree
    tolerance: int  # how far a sum of rounded numbers may be off

    def degree(self, value: int) -> int:
        """The degree whose weight a value is, or 0."""
        degree = round((self.scale / value) ** 2)
        if not 1 <= degree <= self.most:
            return 0
        return degree if abs(int(np.floor(self.scale / np.sqrt(degree) + 0.5)) - value) <= self.tolerance else 0


def _unmix(values: Ids, terms: int, weights: Weights) -> tuple[list[int], Ids] | None:
    """Explains the values of a sum by as many weights as it has terms, in one way only.

    Args:
        values: int64 [u], the different values of the coordinates, ascending, none zero.
        terms: number of rows in the sum.
        weights: what a weight can be.

    Returns:
        The weights, ascending, and int64 [u], for each value which of them it sums as a bit mask; None where no or
        more than one explanation is left.
    """
    result: list[int] = []
    sums = np.zeros(1, dtype=np.int64)
    for value in values.tolist():
        if (np.abs(sums - value) <= weights.tolerance).any():
            continue
        if len(result) == terms or not weights.degree(value):
            return None
        result.append(value)
        sums = np.concatenate([sums, sums + value])
    if len(result) != terms:
        return None
    near = np.abs(sums - values[:, None]) <= weights.tolerance
    return (result, near.argmax(axis=1)) if (near.sum(axis=1) == 1).all() else None


@dataclass(frozen=True, slots=True)
class _Fingerprint(Attack[ClaimedTerms, MessageTruth]):
    """Observers take apart the first sums that they have: no scheme that hands out exact sums prevents it."""

    card: Card = field()  # no default: the base class has a property of that name

    def infer(self, view: View, public: PublicParameters) -> ClaimedTerms | None:
        sums = seen_sums(view, public, self.card.observer)
        if not sums:
            return None
        most = max(view.parties.counts[Role.DEVICE] - 1, 1)
        if sums[0].values.dtype.kind == "f":
            return _separate_terms(sums[0], Weights(2.0**REAL_BITS, most, MOST_TERMS))
        exact = public.fraction_bits
        return None if exact is None else _separate_terms(sums[0], Weights(2.0**exact, most, 0))

    def score(self, guess: ClaimedTerms, truth: MessageTruth) -> tuple[Measurement, ...]:
        return score_claimed_terms(guess, truth)


def _separate_terms(sums: SeenSums, weights: Weights) -> ClaimedTerms:
    real = sums.values.dtype.kind == "f"
    targets, rows = [], [np.empty((0, sums.values.shape[1]), dtype=sums.values.dtype)]
    for index in np.flatnonzero((sums.terms > 0) & (sums.terms <= MOST_TERMS)).tolist():
        values = np.rint(sums.values[index] * weights.scale).astype(np.int64) if real else sums.values[index]
        nonzero = np.flatnonzero(values)
        different, place = np.unique(values[nonzero].astype(np.int64), return_inverse=True)
        explained = _unmix(different, int(sums.terms[index]), weights)
        if explained is None:
            continue
        result, masks = explained
        item = np.array([1 / np.sqrt(weights.degree(v)) if real else v for v in result], dtype=sums.values.dtype)
        row = np.zeros((len(result), len(values)), dtype=sums.values.dtype)
        row[:, nonzero] = item[:, None] * ((masks[place] >> np.arange(len(result))[:, None]) & 1)
        targets += [int(sums.targets[index])] * len(result)
        rows.append(row)
    return ClaimedTerms(sums.step, np.array(targets, dtype=np.int64), np.concatenate(rows))


DICTIONARY = "a public list of all devices' feature rows"


def find_contained(sums: NDArray[Any], dictionary: NDArray[Any]) -> tuple[Ids, Ids]:
    """Which rows of a dictionary have all of their non-zero columns in a sum: int64 [c] sums and rows.

    Rows without any non-zero column are in no sum.

    Args:
        sums: [k, d].
        dictionary: [n, d].
    """
    rows, absent = _bits(dictionary != 0), _bits(sums == 0)
    nonzero_columns = np.flatnonzero(rows.any(axis=0)).astype(np.int64)
    totals_found, subsets = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for index in range(len(sums)):
        left = nonzero_columns
        for words, without in zip(rows, absent[:, index], strict=True):
            left = left[words[left] & without == 0]
            if not len(left):
                break
        totals_found.append(np.full(len(left), index, dtype=np.int64))
        subsets.append(left)
    return np.concatenate(totals_found), np.concatenate(subsets)


def _bits(flags: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Bool [n, d] as uint64 [ceil(d / 64), n], a bit a column."""
    columns = flags.shape[1]
    padded = np.pad(flags, ((0, 0), (0, -columns % 64)))
    return np.ascontiguousarray(np.packbits(np.ascontiguousarray(padded), axis=1).view(np.uint64).T)


@dataclass(frozen=True, slots=True)
class _Containment(InformedAttack[ClaimedEdges, PublicRows, MessageTruth]):
    """Observers claim an edge from every device whose row is in a sum that they have.

    A device knows the addresses of its neighbours anyway. That it finds their public rows is what it learns where
    addresses are pseudonyms, as HiFGL has it (4.2.3: senders are anonymous to receivers).
    """

    card: Card = field()  # no default: the base class has a property of that name

    def infer_with(self, view: View, public: PublicParameters, known: PublicRows) -> ClaimedEdges | None:
        sums = seen_sums(view, public, self.card.observer)
        if not sums:
            return None
        where, subsets = find_contained(sums[0].values, known.rows)
        targets, sources = sums[0].targets[where], view.parties.ids(Role.DEVICE)[subsets]
        others = sources != targets
        return ClaimedEdges(sources[others], targets[others])

    def guess_without(self, guess: ClaimedEdges, known: PublicRows, parties: Directory) -> ClaimedEdges:
        """Claims as many edges, messages both ways between the rows of the list that are most alike."""
        # The pairs of rows [n, d] with the largest cosines, so many at most: lower and higher index, int64 [k] each.
        rows = known.rows
        most = guess.number // 2
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        unit = np.asarray(rows, dtype=np.float64) / np.where(lengths > 0, lengths, 1)
        best, pairs = np.empty(0), np.empty((2, 0), dtype=np.int64)
        step = max(1, PAIRS_AT_ONCE // max(len(unit), 1))
        for start in range(0, len(unit), step):
            cosines = unit[start : start + step] @ unit.T
            above = np.arange(len(unit)) > np.arange(start, start + len(cosines))[:, None]
            if most and len(best) == most:  # of equal ones those that come first are kept
                above &= cosines > best[-1]
            lower, higher = np.nonzero(above)
            best = np.concatenate([best, cosines[lower, higher]])
            pairs = np.concatenate([pairs, np.stack([lower + start, higher])], axis=1)
            remaining = np.argsort(-best, kind="stable")[:most]
            best, pairs = best[remaining], pairs[:, remaining]
        (first, second) = pairs[0], pairs[1]
        devices = parties.ids(Role.DEVICE)
        return ClaimedEdges(devices[np.concatenate([first, second])], devices[np.concatenate([second, first])])

    def score(self, guess: ClaimedEdges, truth: MessageTruth) -> tuple[Measurement, ...]:
        return score_claimed_edges(guess, truth, crossing=self.card.observer is Role.SILO)


PAIRS_AT_ONCE = 4_000_000
"""Cosines that are laid out together."""


ATTACKS: tuple[Attack[Any, Any], ...] = (
    _Fingerprint(Card(
        "fingerprint-silo",
        "a silo takes the decoded sums of 0/1 features apart by the weights 1 / sqrt(degree)",
        "against HiFGL 4.2.3 step 2: the silo decodes sums and cannot know the embedding of a neighbour",
        Role.SILO, Secret.EMBEDDING, STATIC_ROWS, SECMP_STATIC, Circumstance.SPARSE_SUM, truth=MessageTruth,
    )),
    _Fingerprint(Card(
        "fingerprint-device",
        "a device takes its sum of 0/1 features apart by the weights 1 / sqrt(degree)",
        "on HiFGL 4.2.1, Eq. 2: exact sums of rows weighted by the sender's degree",
        Role.DEVICE, Secret.EMBEDDING, STATIC_ROWS, SECMP_STATIC, Circumstance.SPARSE_SUM, truth=MessageTruth,
    )),
    _Containment(Card(
        "containment-silo",
        "a silo finds foreign neighbours in a public list of feature rows: their words are in a decoded sum",
        "against HiFGL 4.1.1 and 5.1: cross-silo edges are known to their two devices only",
        Role.SILO, Secret.CROSS_EDGE, STATIC_ROWS, SECMP_STATIC, Circumstance.SPARSE_SUM, auxiliary=DICTIONARY,
        truth=MessageTruth, knowledge=PublicRows,
    )),
    _Containment(Card(
        "containment-device",
        "a device finds its neighbours in a public list of feature rows: their words are in its sum",
        "on HiFGL 4.2.1: exact sums of sparse rows, whatever the coding",
        Role.DEVICE, Secret.CROSS_EDGE, STATIC_ROWS, SECMP_STATIC, Circumstance.SPARSE_SUM, auxiliary=DICTIONARY,
        truth=MessageTruth, knowledge=PublicRows,
    )),
)  # fmt: skip
