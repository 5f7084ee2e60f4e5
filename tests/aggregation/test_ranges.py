"""Ranges by a secure maximum: right, and nothing else in the sum."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.aggregation import sums
from fgl_secure.aggregation.layout import TensorLayout
from fgl_secure.aggregation.sums import HEADROOM_BITS, STEP, ZERO_BOUND, RangeLevels
from fgl_secure.algebra import MERSENNE_61
from fgl_secure.coins import SimulationCoins, TapeCoins
from fgl_secure.errors import FieldRangeError, InputError, ProtocolError
from tests.error_codes import about

HEADROOM = 2.0**HEADROOM_BITS


def found(mappings: Sequence[dict[str, Any]], modulus: int = MERSENNE_61) -> dict[str, float]:
    levels, coins = RangeLevels(TensorLayout.of(mappings[0]), modulus), SimulationCoins(1)
    total = sum(levels.encode(mapping, coins).astype(object) for mapping in mappings) % modulus
    assert isinstance(total, np.ndarray)
    return levels.bounds(total.astype(np.int64))


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=2, max_size=4))
def test_the_range_holds_all_numbers_and_is_not_much_larger(values: list[float]) -> None:
    """The bound is at least the largest magnitude times the headroom, and less than 2^STEP times that."""
    bound = found([{"w": np.array([value], dtype=np.float32)} for value in values])["w"]
    largest = max(map(abs, values))
    if largest == 0:
        assert bound == ZERO_BOUND * HEADROOM
    elif largest > 2.0**sums.LOWEST:
        assert largest * HEADROOM <= bound < largest * HEADROOM * 2**STEP


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_extremes_of_every_type_have_a_range(dtype: torch.dtype) -> None:
    """The smallest and the largest number of a type lie within the range that is found for them."""
    largest = 2.0**1023 if dtype is torch.float64 else torch.finfo(dtype).max
    for value in (largest, torch.finfo(dtype).smallest_normal, 0.0):
        mapping = {"w": torch.tensor([value], dtype=dtype)}
        assert float(mapping["w"].double().abs()) <= found([mapping, mapping])["w"] < float("inf")


def test_a_level_above_one_that_nobody_reaches_is_noticed() -> None:
    """Who reaches a level reaches all below it, so that a gap is no maximum: a broken vector, which is refused."""
    mapping = {"w": np.array([1.0, 3.0])}
    levels = RangeLevels(TensorLayout.of(mapping), MERSENNE_61)
    total = levels.encode(mapping, SimulationCoins(1))
    assert levels.bounds(total)["w"] == 4 * HEADROOM
    total[-1] = 7
    with pytest.raises(ProtocolError, check=about("levels under 'w'")):
        levels.bounds(total)


def test_a_range_that_was_outgrown_leaves_twice_the_headroom() -> None:
    """What has exceeded its range gets twice as many bits to grow by; a range that nobody has exceeded stays."""
    mapping = {"u": np.array([1.0]), "w": np.array([100.0])}
    levels = RangeLevels(TensorLayout.of(mapping), MERSENNE_61, {"u": 16.0, "w": 64.0})
    assert levels.exceeds_range(mapping)
    assert levels.bounds(levels.encode(mapping, SimulationCoins(1))) == {"u": 16.0, "w": 256 * HEADROOM**2}


def test_integers_take_no_levels() -> None:
    """Only floats have levels; a mapping of integers needs no sum."""
    assert RangeLevels(TensorLayout.of({"n": np.ones(3, int), "m": np.ones(1, bool)}), 11).length == 0


def few_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "_exponents", lambda *_: [0, 2])  # one more for all


def views(levels: RangeLevels, mappings: Sequence[dict[str, Any]], coins: TapeCoins) -> Counter[tuple[int, ...]]:
    """How often each total comes up over all coin tapes."""
    total = sum(levels.encode(mapping, coins) for mapping in mappings) % levels.modulus
    assert isinstance(total, np.ndarray)
    return Counter(map(tuple, total.tolist()))


@pytest.mark.parametrize("modulus", [3, 5, 7])
def test_the_sum_depends_on_the_maximum_alone(monkeypatch: pytest.MonkeyPatch, modulus: int) -> None:
    """Over all coin tapes the total is distributed alike whoever holds the maximum, and whether one does or both."""
    few_levels(monkeypatch)
    one, other, both = (
        [{"w": np.array([a], float)}, {"w": np.array([b], float)}] for a, b in ((3, 0.1), (0, 3), (2, 4))
    )
    levels = RangeLevels(TensorLayout.of(one[0]), modulus)
    counted = [views(levels, case, TapeCoins(modulus, 4)) for case in (one, other, both)]
    assert counted[0] == counted[1] == counted[2]
    lower = views(levels, [_float({"w": np.array([v])}) for v in (0.5, 0)], TapeCoins(modulus, 4))
    assert lower != counted[0]  # it does tell the maximum


@pytest.mark.parametrize("modulus", [3, 5, 7])
def test_a_one_instead_of_a_random_element_is_told_apart(monkeypatch: pytest.MonkeyPatch, modulus: int) -> None:
    """The broken twin that marks levels with 1 tells how many clients reach the maximum."""
    few_levels(monkeypatch)

    def marked(self: RangeLevels, mapping: dict[str, Any], coins: TapeCoins) -> NDArray[np.int64]:
        drawn = coins.uniform(self.modulus, (self.length,))
        return np.broadcast_to(np.abs(mapping["w"]).max() > np.array([0.0, 1.0]), drawn.shape).astype(np.int64)

    monkeypatch.setattr(RangeLevels, "encode", marked)
    levels = RangeLevels(TensorLayout.of(_float({"w": np.array([3])})), modulus)
    one, both = ([_float({"w": np.array([v])}) for v in case] for case in ((3, 0), (3, 3)))
    assert views(levels, one, TapeCoins(modulus, 4)) != views(levels, both, TapeCoins(modulus, 4))


def test_what_has_no_range_is_refused() -> None:
    """NaN, infinity and numbers beyond the last level are errors under their key, as is a total of another length."""
    for bad, kind in ((np.nan, InputError), (np.inf, InputError), (1.7e308, FieldRangeError)):
        with pytest.raises(kind, check=about("numbers under 'w'")):
            found([{"w": np.array([bad])}] * 2)
    with pytest.raises(InputError, check=about("total")):
        RangeLevels(TensorLayout.of({"w": np.ones(1)}), 11).bounds(np.zeros(3, np.int64))


def _float(mapping: dict[str, Any]) -> dict[str, Any]:
    return {name: value.astype(np.float64) for name, value in mapping.items()}
