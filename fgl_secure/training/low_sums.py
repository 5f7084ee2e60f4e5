"""Sums for the server of numbers at few bits, as one silo takes part in them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.quantization import LowPrecision
from fgl_secure.protocols.precision import Rounding
from fgl_secure.protocols.topology import SERVER
from fgl_secure.runtime import Step
from fgl_secure.training.calls import Array, Ask, Call, Ids, Reals, Setting
from fgl_secure.training.ranges import shrunk
from fgl_secure.training.rounding import Parts, StepCoins


class LowSums:
    """One silo's part in sums under a scheme with a precision.

    A sum that tells nothing else finds the range of each part; then the numbers are rounded at random, right on
    average, to multiples of a unit that leaves no bit of theirs unused. Where errors are fed back, what a number is
    rounded by is added to it in the same sum of the next round, which is a sum of training; it stays with the silo.

    Args:
        setting: what the silo knows, its key for rounding among it.
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._errors: dict[str, Reals] = {}

    def __call__(
        self,
        values: Reals,
        whole: Ids,
        most: int,
        of: Parts,
        steps: tuple[Step, Step],
        ask: Ask,
        *,
        mean: bool = False,
        output: str | None = None,
        exponents: Ids | int = 0,
    ) -> tuple[Reals, Ids]:
        """Sums of numbers and of integers beside them; or means, of which the first integer is the weight.

        Args:
            values: float64 [P], times their weight.
            whole: int64 [c], summed exactly.
            most: largest magnitude of one of these.
            of: the parts of the values.
            steps: of the sum that finds ranges, and of the numbers' own.
            ask: makes calls.
            mean: whether the server tells sums over the sum of the weights, and not that one.
            output: see `Call`.
            exponents: int64 [P], the values are divided by 2^exponents already; so errors that are kept are, too.

        Returns:
            float64 [P], and int64 [c], or [c - 1] beside means.

        Raises:
            InputError: a value is not finite; nothing was sent.
            FieldRangeError: a value is beyond its bound, or an integer.
        """
        scheme, key, (first, second) = self._setting.schemes[SERVER], self._setting.rounding_key, steps
        modulus, bits = scheme.modulus, scheme.precision
        assert modulus is not None, "schemes with a precision find ranges"
        assert bits is not None, "it is asked for under them only"
        feedback, name = scheme.rounding is Rounding.ERROR_FEEDBACK and not second.evaluation, str(second.part)
        values = values + shrunk(self._kept(name, len(values)), exponents) if feedback else values
        levels = of.levels(modulus)
        reached = levels.encode(of.magnitudes(values), StepCoins(key, first))
        told: NDArray[np.bool_] = ask(Call(SERVER, first, reached, least=1))
        bounds = of.bounds(levels.reached(told, range(len(of.lengths))))
        numbers = LowPrecision(bits, of.lengths, bounds, len(whole), most)
        row, errors = numbers.encode(values, whole, StepCoins(key, second))
        if feedback:
            self._errors[name] = shrunk(errors, np.negative(exponents))
        parts = (len(values),) if mean else ()
        call = Call(SERVER, second, row, numbers.largest, numbers=numbers, parts=parts, output=output)
        found: Reals = ask(call)
        at = len(values)
        return found[:at] * np.repeat(numbers.units, numbers.lengths), found[at:].astype(np.int64)

    def _kept(self, name: str, size: int) -> Reals:
        found = self._errors.get(name)
        return np.zeros(size) if found is None or len(found) != size else found

    def state(self) -> dict[str, Array]:
        """The errors that are kept, by name of their sum; secret."""
        return dict(self._errors)

    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken."""
        self._errors = dict(state)
