"""Fixed point for weighted sums: within the stated error, or a typed error."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.aggregation.encoding import IntegerRule, TensorEncoding
from fgl_secure.aggregation.layout import TensorLayout
from fgl_secure.algebra import Weighing
from fgl_secure.errors import FieldRangeError, InputError, ProtocolError
from tests.aggregation.trees import exact, exact_mean, leaves, plans, trees
from tests.error_codes import about

LIMIT = 2**60


def encoding_of(
    layout: TensorLayout, bound: float = 4.0, *, limit: int = LIMIT, clients: int = 3, **more: Any
) -> TensorEncoding:
    """With one bound for all floats."""
    bounds = dict.fromkeys((entry.name for entry in layout.floats), bound)
    return TensorEncoding.for_sums(layout, bounds, limit=limit, clients=clients, **more)


def check_mean(encoding: TensorEncoding, mappings: list[Any], weights: list[float]) -> None:
    """The decoded mean is within the stated error of the exact one, entry by entry."""
    total = sum(encoding.encode(m, w) for m, w in zip(mappings, weights, strict=True))
    assert isinstance(total, np.ndarray)
    assert int(np.abs(total).max()) <= LIMIT
    stated, mean = encoding.errors(total, len(mappings)), dict(leaves(encoding.decode(total)))
    for name, value in mean.items():
        truth = exact_mean([dict(leaves(mapping))[name] for mapping in mappings], weights)
        off = [abs(a - b) for a, b in zip(exact(value), truth, strict=True)]
        assert max(off, default=Fraction(0)) <= Fraction(stated[name])


@given(st.data(), plans(("float16", "bfloat16", "float32", "float64", "int8", "int64", "uint8")))
def test_weighted_means_of_trees_are_within_the_stated_error(data: st.DataObject, plan: Any) -> None:
    """Whatever the tree, the bound, the precision and the integer weights, no entry is further off than stated."""
    bound = 2.0 ** data.draw(st.integers(-12, 14))
    mappings = [data.draw(trees(plan, bound)) for _ in range(3)]
    weights = [float(data.draw(st.integers(0, 1000))) for _ in range(2)] + [1.0]
    layout, limit = TensorLayout.of(mappings[0]), 2 ** data.draw(st.integers(34, 60))
    encoding = encoding_of(layout, bound, limit=limit, weighing=Weighing(2000.0), integers=IntegerRule.ROUND)
    check_mean(encoding, mappings, weights)


@given(st.data(), st.lists(st.floats(1 / 8, 7.9), min_size=3, max_size=3), st.integers(3, 20))
def test_fractional_weights_are_within_the_stated_error(data: st.DataObject, weights: list[float], bits: int) -> None:
    """Weights that are rounded to a grid add no more than is stated."""
    mappings = [data.draw(trees({"w": ((2,), "float64", False)}, 4.0)) for _ in range(3)]
    check_mean(encoding_of(TensorLayout.of(mappings[0]), weighing=Weighing(8.0, bits)), mappings, weights)


def test_a_bound_without_the_rounding_term_is_too_small() -> None:
    """Half a unit is really lost: the error that is stated without it would be wrong."""
    mapping = {"w": np.array([2.0**-5 + 2.0**-40])}
    encoding = encoding_of(TensorLayout.of(mapping), clients=2, fraction_bits=4)
    total = encoding.encode(mapping) + encoding.encode(mapping)
    off, stated = abs(encoding.decode(total)["w"][0] - mapping["w"][0]), encoding.errors(total, 2)["w"]
    assert 0.9 * stated < off <= stated


@given(st.sampled_from(["float16", "bfloat16", "float32", "float64"]), st.booleans())
def test_the_largest_numbers_of_a_type_stay_finite(dtype: str, negative: bool) -> None:
    """A mean of the largest numbers of a float type is that number, and no infinity."""
    largest = torch.tensor([torch.finfo(getattr(torch, dtype)).max], dtype=getattr(torch, dtype))
    mapping = {"w": -largest if negative else largest}
    encoding = encoding_of(TensorLayout.of(mapping), float(largest.double()))
    mean = encoding.decode(encoding.encode(mapping) + encoding.encode(mapping))
    assert torch.isfinite(mean["w"]).all()
    assert torch.allclose(mean["w"], mapping["w"], rtol=0.01)


def test_the_vector_shows_weight_only_last_and_multiplied() -> None:
    """An entry is the weight times the rounded number, and the last one is the weight."""
    mapping = {"a": np.array([0.5, -1.0]), "n": np.array(7)}
    encoding = encoding_of(TensorLayout.of(mapping), fraction_bits=1, weighing=Weighing(10.0))
    assert encoding.encode(mapping, 3).tolist() == [3, -6, 21, 3]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_named(bad: float) -> None:
    """NaN and infinity are refused under the key that they stand under."""
    mapping = {"fine": np.ones(2), "hurt": np.array([1.0, bad])}
    with pytest.raises(InputError, check=about("'hurt'")):
        encoding_of(TensorLayout.of(mapping)).encode(mapping)


@pytest.mark.parametrize("value", [4.0000001, -5.0])
def test_overflow_is_an_error_that_names_the_key_and_not_the_number(value: float) -> None:
    """A number beyond the bound is refused, and the message does not tell it."""
    mapping = {"w": np.array([value])}
    with pytest.raises(FieldRangeError, check=about("'w'")) as caught:
        encoding_of(TensorLayout.of(mapping)).encode(mapping)
    assert f"{abs(value)}" not in str(caught.value)


@pytest.mark.parametrize("value", [2**61, -(2**63), 2**63 - 1])
def test_integers_without_room_are_refused(value: int) -> None:
    """Integers that the sum could not hold are refused under their key."""
    mapping = {"n": np.array([value])}
    with pytest.raises(FieldRangeError, check=about("integers under 'n'")):
        encoding_of(TensorLayout.of(mapping)).encode(mapping)


def test_unsigned_integers_beyond_int64_are_refused() -> None:
    """The upper half of uint64 does not wrap to negative numbers."""
    mapping = {"n": np.array([2**63], dtype=np.uint64)}
    with pytest.raises(FieldRangeError, check=about("integers under 'n'")):
        encoding_of(TensorLayout.of(mapping)).encode(mapping)


def test_means_of_integers_follow_the_rule() -> None:
    """2 and 3 have no integer mean under EXACT, 3 under ROUND; with weights 1 and 3 the mean of 1 and 5 is 4."""
    low, high = {"n": np.array([2, -2, 7])}, {"n": np.array([3, -3, 7])}
    strict = encoding_of(TensorLayout.of(low), weighing=Weighing(8.0), integers=IntegerRule.EXACT)
    loose = encoding_of(TensorLayout.of(low), weighing=Weighing(8.0), integers=IntegerRule.ROUND)
    total = strict.encode(low) + strict.encode(high)
    with pytest.raises(InputError, check=about("under 'n'")):
        strict.decode(total)
    assert loose.decode(total)["n"].tolist() == [3, -2, 7]
    largest = {"n": np.array([2**61, -(2**61)])}
    full = encoding_of(TensorLayout.of(largest), limit=2**62, clients=2, integers=IntegerRule.ROUND)
    assert full.decode(2 * full.encode(largest))["n"].tolist() == [2**61, -(2**61)]  # twice the sum is beyond int64
    one, five = {"n": np.array([1, 1, 1])}, {"n": np.array([5, 5, 5])}
    assert strict.decode(strict.encode(one, 1) + strict.encode(five, 3))["n"].tolist() == [4, 4, 4]


@pytest.mark.parametrize("rule", list(IntegerRule))
@pytest.mark.parametrize(("weight", "majority"), [(1, False), (2, True), (3, True)])
def test_means_of_truth_values_follow_the_rule(rule: IntegerRule, weight: int, majority: bool) -> None:
    """Masks that all clients share come back; of others the mean is the majority's, unless the rule is EXACT."""
    one, other = {"m": torch.tensor([True, False])}, {"m": torch.tensor([True, True])}
    encoding = encoding_of(TensorLayout.of(one), weighing=Weighing(4.0), integers=rule)
    assert encoding.decode(encoding.encode(one, 2) + encoding.encode(one, 3))["m"].tolist() == [True, False]
    total = encoding.encode(one, 2) + encoding.encode(other, weight)
    if rule is IntegerRule.EXACT:
        with pytest.raises(InputError, check=about("mean of the integers or truth values under 'm'")):
            encoding.decode(total)
    else:
        found = encoding.decode(total)["m"]
        assert found.dtype == torch.bool
        assert found.tolist() == [True, majority]


@pytest.mark.parametrize(
    ("weight", "bits", "kind", "message"),
    [
        (-1.0, 0, InputError, "weight"),
        (float("nan"), 0, InputError, "weight"),
        (float("inf"), 0, InputError, "weight"),
        (1.5, 0, InputError, "weight"),
        (11, 0, FieldRangeError, "weight"),
        (0.01, 4, InputError, "weight"),
    ],
)
def test_weights_that_break_the_rules_are_refused(weight: float, bits: int, kind: type, message: str) -> None:
    """Negative, undefined, fractional, too large and vanishing weights are errors."""
    with pytest.raises(kind, check=about(message)):
        Weighing(10.0, bits).units(weight)


def test_means_beyond_the_bound_are_noticed() -> None:
    """Vectors of numbers within the bound have a mean within it; the largest pass, and one unit more does not."""
    mapping = {"x": np.array([4.0, -4.0]), "n": np.array([1])}
    encoding = encoding_of(TensorLayout.of(mapping), weighing=Weighing(8.0))
    total = encoding.encode(mapping, 3) + encoding.encode(mapping, 5)
    assert encoding.decode(total)["x"].tolist() == [4.0, -4.0]
    for place, entry in ((0, "n"), (1, "x"), (2, "x")):
        wrong = total.copy()
        wrong[place] = encoding.bound if entry == "n" else wrong[place] + np.sign(wrong[place])
        wrong[place] += entry == "n"
        with pytest.raises(ProtocolError, check=about(f"mean under '{entry}'")):
            encoding.decode(wrong)


def test_weights_that_are_all_zero_have_no_mean() -> None:
    """A sum of weights of 0 is an error and no division by zero; one below 0 never happens among honest clients."""
    mapping = {"w": np.ones(1)}
    encoding = encoding_of(TensorLayout.of(mapping))
    with pytest.raises(InputError, check=about("weights")):
        encoding.decode(encoding.encode(mapping, 0))
    with pytest.raises(ProtocolError):
        encoding.decode(-encoding.encode(mapping, 1))
    with pytest.raises(InputError, check=about("total")):
        encoding.decode(np.zeros(1, np.int64))


def test_room_is_checked_before_anything_is_sent() -> None:
    """Limits, bounds and precision that do not go together are refused with the figures."""
    layout = TensorLayout.of({"w": np.ones(1)})
    with pytest.raises(FieldRangeError, check=about("clients * weight_bound * 2^weight_fraction_bits")):
        encoding_of(layout, limit=100)
    with pytest.raises(FieldRangeError, check=about("bound * 2^fraction_bits")):
        encoding_of(layout, fraction_bits=58)
    with pytest.raises(FieldRangeError, check=about("bound * 2^fraction_bits")):
        encoding_of(layout, fraction_bits=100_000)
    with pytest.raises(InputError, check=about("bound of 'w'")):
        encoding_of(layout, -1.0)
    for bound, bits in ((0.0, 0), (float("nan"), 0), (2.0**60, 0), (1.0, 41)):
        with pytest.raises(InputError, check=about("weight_fraction_bits")):
            Weighing(bound, bits)


@given(st.floats(1e-300, 1e300), st.integers(10, 60))
def test_sums_of_the_largest_entries_stay_within_the_limit(bound: float, bits: int) -> None:
    """Clients times the stated bound of an entry never exceed the limit, and an entry at the bound is within it."""
    mapping = {"w": np.array([bound, -bound])}
    encoding = encoding_of(TensorLayout.of(mapping), bound, limit=2**bits, weighing=Weighing(1.0))
    assert 3 * encoding.bound <= 2**bits
    assert int(np.abs(encoding.encode(mapping)).max()) <= encoding.bound
    assert encoding.bound > 2 ** (bits - 4)  # and the room is used


def test_error_before_the_sum_covers_error_after_it() -> None:
    """What is stated in advance is at least what is stated once the sum is known."""
    mapping = {"w": np.ones(3, np.float32), "n": np.ones(1, np.int64)}
    encoding = encoding_of(TensorLayout.of(mapping), integers=IntegerRule.EXACT)
    after = encoding.errors(encoding.encode(mapping), 1)
    assert after["n"] == encoding.error["n"] == 0
    assert 0 < after["w"] <= encoding.error["w"]
