"""Exact comparison of views that are affine in their coins, at sizes that enumeration cannot reach.

If a view is c(inputs) + coins M over F_p, with coins uniform, then over all tapes it is uniform on a coset of the row
space of M. Two such distributions are compared by linear algebra, and no tape is counted: they are the same if and only
if the row spaces are and the difference of the offsets lies in them. M is read off the protocol itself, run on the zero
tape and on every unit tape; that the view is affine is checked on random tapes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sympy import isprime

from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.errors import InputError
from fgl_secure.runtime import Party, Private, Recording, Transcript
from fgl_secure.statistics.statistical import row_echelon
from fgl_secure.testing.arms import Layout, views_of
from fgl_secure.testing.coins import CountingCoins
from fgl_secure.testing.evidence import Evidence
from fgl_secure.testing.protocol import Inputs, Protocol, Question, words
from fgl_secure.testing.vacuous import Rehearsals, judge_question, require_twin
from fgl_secure.typing import Integers

_CHECKS = 24
"""Random tapes on which affinity is checked: a view that is not affine agrees on one with probability 1/p or so."""

_LARGEST_MODULUS = 2**20
"""Sums of products of so large elements fit into 64 bits."""


class NotAffineError(InputError):
    """A view is not affine in its coins, so that linear algebra says nothing about it."""


class _GivenTapes(Coins):
    """Some tapes, all at once.

    Args:
        tapes: int64 [tapes, coins], all below the modulus.
        modulus: of every draw.
    """

    __slots__ = ("_modulus", "_tapes", "_used")

    def __init__(self, tapes: Integers, modulus: int) -> None:
        self._tapes, self._modulus, self._used = tapes, modulus, 0

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """(tapes,)."""
        return (len(self._tapes),)

    def uniform(self, modulus: int, shape: tuple[int, ...]) -> Integers:
        """The next coins of every tape."""
        if modulus != self._modulus:
            raise NotAffineError(f"coins must all lie below the field's {self._modulus}; found some below {modulus}")
        start, self._used = self._used, self._used + math.prod(shape)
        return self._tapes[:, start : self._used].reshape(len(self._tapes), *shape).copy()


@dataclass(frozen=True, slots=True, eq=False)
class _Affine:
    """A view as a function of the coins.

    Attributes:
        layout: of its coordinates.
        still: bool [coordinates], which of them no coin moves.
        constant: int64 [coordinates], those as they are, not modulo p; elements elsewhere.
        offset: int64 [coordinates], the view on the zero tape, modulo p.
        matrix: int64 [coins, coordinates].
    """

    layout: Layout
    still: NDArray[np.bool_]
    constant: Integers
    offset: Integers
    matrix: Integers


class Judge:
    """Exact total variation of views of one protocol; every input is run once, no matter which party watches.

    Args:
        protocol: over a prime field of up to 2^20 elements, handling the channel's batch_shape.
    """

    def __init__(self, protocol: Protocol) -> None:
        p = protocol.modulus
        if not (isprime(p) and p <= _LARGEST_MODULUS and protocol.batched):
            raise NotAffineError(f"modulus must be a prime up to 2^20 of a protocol that runs all tapes; found {p}")
        self._protocol, self._runs = protocol, dict[bytes, tuple[Transcript, Integers]]()
        self._spaces: dict[tuple[Party, ...], RowSpace] = {}

    def distance(self, a: Inputs, b: Inputs, coalition: tuple[Party, ...]) -> Fraction:
        """Exact total variation of a coalition's views on two inputs.

        Raises:
            NotAffineError: the view is not affine in the coins.
        """
        return self.compare(a, b, coalition)[0]

    def compare(self, a: Inputs, b: Inputs, coalition: tuple[Party, ...]) -> tuple[Fraction, int, int]:
        """The same, with the number of coins and of coordinates of the first view."""
        first, second = self.view(a, coalition), self.view(b, coalition)
        return self._apart(first, second, coalition), *first.matrix.shape

    def _apart(self, first: _Affine, second: _Affine, coalition: tuple[Party, ...]) -> Fraction:
        p = self._protocol.modulus
        if first.layout != second.layout or _constants_differ(first, second, p):
            return Fraction(1)
        same = np.array_equal(first.matrix, second.matrix)
        # That of a coalition's view; inputs move offsets and not the matrix, so that it is eliminated once.
        matrix = first.matrix if same else np.concatenate([first.matrix, second.matrix])
        both = self._spaces.get(coalition)
        if both is None or not np.array_equal(both.matrix, matrix):
            self._spaces[coalition] = both = RowSpace(matrix, self._protocol.modulus)
        if not both.holds(first.offset - second.offset):
            return Fraction(1)
        if same:
            return Fraction(0)
        ranks = [RowSpace(view.matrix, p).rank for view in (first, second)]
        return 1 - Fraction(p ** (sum(ranks) - both.rank), p ** max(ranks))  # they meet in p^(r + s - joint) views

    def view(self, inputs: Inputs, coalition: tuple[Party, ...]) -> _Affine:
        """What a coalition sees of one input."""
        key, p = inputs.tobytes(), self._protocol.modulus
        if key not in self._runs:
            self._runs[key] = self._run(inputs)
        transcript, tapes = self._runs[key]
        views = views_of(transcript, coalition, (Private.INPUT, Private.COINS))
        values = np.broadcast_to(views.values, (len(tapes), views.values.shape[1]))
        still = (values == values[0]).all(axis=0)
        constant, values = values[0], np.where(still, values % p, values)
        coins = tapes.shape[1]
        offset, matrix = values[0], (values[1 : coins + 1] - values[0]) % p
        products = _product(tapes[coins + 1 :], matrix, p)
        if ((values < 0) | (values >= p)).any() or (values[coins + 1 :] != (offset + products) % p).any():
            raise NotAffineError(f"the view of {words(coalition)} must be affine in the coins; it is not")
        return _Affine(views.layout, still, constant, offset, matrix)

    def _run(self, inputs: Inputs) -> tuple[Transcript, Integers]:
        counting, p = CountingCoins((1,)), self._protocol.modulus
        self._protocol.transcript(inputs, counting, Recording())
        coins = sum(draw.count for draw in counting.draws)
        zero, units = np.zeros((1, coins), dtype=np.int64), np.eye(coins, dtype=np.int64)
        tapes = np.concatenate([zero, units, SystemCoins().uniform(p, (_CHECKS, coins))])
        return self._protocol.transcript(inputs, _GivenTapes(tapes, p), Recording.everything()), tapes


class Judges:
    """A judge for each protocol, so that questions about one share its runs.

    Attributes:
        rehearsals: runs on fixed coins, by which a test is found to be fair.
    """

    def __init__(self) -> None:
        self._of: dict[Protocol, Judge] = {}
        self.rehearsals = Rehearsals()

    def of(self, protocol: Protocol) -> Judge:
        """The judge of a protocol."""
        if protocol not in self._of:
            self._of[protocol] = Judge(protocol)
        return self._of[protocol]


def assert_affinely_private(
    protocol: Protocol,
    inputs_a: ArrayLike,
    inputs_b: ArrayLike,
    coalition: Iterable[Party],
    *,
    broken_twin: Protocol,
    judges: Judges | None = None,
    waived: Mapping[str, str] | None = None,
) -> Evidence:
    """Proves that a coalition's joint view has the same distribution for two inputs, where it is affine in the coins.

    Args:
        protocol: what is tested, over a prime field of up to 2^20 elements from which every coin is drawn.
        inputs_a: one row for each owner; the two inputs must give the coalition equal allowed information.
        inputs_b: the same shape, with the same rows for the coalition's members.
        coalition: who pools views.
        broken_twin: the same protocol with a flaw that this check must find.
        judges: those of earlier questions about the same protocols.
        waived: rules of `docs/privacy_tests.md` that this test breaks on purpose, by name, each with a reason:
            "coalition", "trace" or "values".

    Returns:
        What was compared, with a summary in words.

    Raises:
        NotPrivateError: the distributions differ.
        VacuousTestError: those of the twin do not, or the test would pass whatever the protocol does.
        NotAffineError: linear algebra does not apply.
        InputError: for inputs that make no fair question.

    Examples:
        assert_affinely_private(masked_sum, a, b, [Party(Role.SERVER, 0)], broken_twin=one_mask_for_all)
    """
    __tracebackhide__ = True
    shared_judges = judges or Judges()

    def compare(tested: Protocol, question: Question, _sure: bool) -> Evidence:
        seen_by = shared_judges.of(tested)
        distance, coins, width = seen_by.compare(question.a, question.b, question.coalition)
        return Evidence(
            "exact privacy, by row spaces",
            str(tested),
            words(question.coalition),
            bool(distance),
            f"total variation {distance} ({float(distance):.4g}) of the joint views, affine in {coins} coins modulo "
            f"{tested.modulus}, of {width} coordinates",
            "any: all coin tapes count, by linear algebra",
            0.0,
        )

    require_twin(protocol, broken_twin)
    question = Question.about(protocol, inputs_a, inputs_b, coalition)
    return judge_question(compare, protocol, broken_twin, question, waived, shared_judges.rehearsals)


def distance(protocol: Protocol, a: Inputs, b: Inputs, coalition: tuple[Party, ...]) -> Fraction:
    """One question to a judge."""
    return Judge(protocol).distance(a, b, coalition)


class RowSpace:
    """The space that the rows of a matrix span modulo a prime, by elimination.

    Args:
        matrix: int64 [rows, columns].
        p: the prime, at most 2^20.
    """

    def __init__(self, matrix: Integers, p: int) -> None:
        self.matrix, self._p = matrix, p
        rows, self._pivots = row_echelon(matrix % p, p)
        self._rows = rows[: self.rank]

    @property
    def rank(self) -> int:
        """The dimension."""
        return len(self._pivots)

    def holds(self, vector: Integers) -> bool:
        """Whether a vector, int64 [columns], is a combination of the rows."""
        residual = vector % self._p
        return not ((residual - residual[self._pivots] @ self._rows) % self._p).any()


def _product(a: Integers, b: Integers, p: int) -> Integers:
    """Of two matrices of elements; doubles hold it exactly where it stays below 2^53, and are many times faster."""
    if a.shape[1] * p * p < 2**53:
        return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)
    return a @ b


def _constants_differ(a: _Affine, b: _Affine, p: int) -> bool:
    """Whether a coordinate that no coin moves has another value, or one that no element has where coins move it."""
    both, either = a.still & b.still, a.still | b.still
    lone = np.where(a.still, a.constant, b.constant)[either & ~both]
    return bool((a.constant[both] != b.constant[both]).any() or (lone != lone % p).any())
