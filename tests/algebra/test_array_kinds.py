"""Arrays and tensors: the same answers bit for bit, of the kind and on the device that came in."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.algebra import FixedPoint, LagrangeCode, PrimeField, Segments, prime_field
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FieldRangeError, InputError
from tests.error_codes import about
from tests.strategies import Ints, all_prime_fields, elements, integers, reals, segment_members

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")),
]
on_every_device = pytest.mark.parametrize("device", DEVICES)

OPERATIONS: dict[str, Callable[[PrimeField, Any, Any], Any]] = {
    "add": lambda field, a, b: field.add(a, b),
    "subtract": lambda field, a, b: field.subtract(a, b),
    "multiply": lambda field, a, b: field.multiply(a, b),
    "negate": lambda field, a, _: field.subtract(0 * a, a),
    "combine": lambda field, a, _: field.combine([[1, -2, 3], [2**60, 0, 7]], a, axis=1),
    "combine_two": lambda field, a, b: field.combine_two([[5, -6, 7, 8, 9, 2**62]], a, b, axis=1),
    "dot": lambda field, a, b: field.dot(a, b[0, 0]),
}


def tensor(array: NDArray[Any], device: str) -> torch.Tensor:
    return torch.from_numpy(np.array(array)).to(device)


def assert_same(found: Any, expected: NDArray[Any], device: str) -> None:
    """The tensor is on the device, with the array's dtype, shape and values."""
    assert isinstance(found, torch.Tensor)
    assert found.device.type == device
    back = found.cpu().numpy()
    assert back.dtype == expected.dtype
    assert back.shape == expected.shape
    assert np.array_equal(back, expected)


@on_every_device
@pytest.mark.parametrize("operation", OPERATIONS)
@given(st.data(), all_prime_fields(), st.booleans())
def test_tensors_give_what_arrays_give(
    device: str, operation: str, data: st.DataObject, field: PrimeField, inside: bool
) -> None:
    """Every operation on tensors, of elements or of any integers, equals the one on arrays bit for bit."""
    drawn = elements(field, (2, 3, 4)) if inside else integers((2, 3, 4))
    a, b = data.draw(drawn), data.draw(drawn)
    expected = OPERATIONS[operation](field, a, b)
    assert_same(OPERATIONS[operation](field, tensor(a, device), tensor(b, device)), expected, device)


@on_every_device
@given(st.data(), all_prime_fields())
def test_inverses_agree(device: str, data: st.DataObject, field: Any) -> None:
    """Inverses of tensors are those of arrays, and zero raises on both."""
    a = data.draw(elements(field, (5,)))
    if (a == 0).any():
        for operand in (a, tensor(a, device)):
            with pytest.raises(InputError, check=about("a")):
                field.inverse(operand)
    else:
        assert_same(field.inverse(tensor(a, device)), field.inverse(a), device)


@on_every_device
@given(st.data(), all_prime_fields(), segment_members())
def test_grouped_sums_agree(device: str, data: st.DataObject, field: PrimeField, members: tuple[Ints, int]) -> None:
    """Sums of groups of tensors are those of arrays, batches and empty groups included."""
    segments = Segments.by_group(*members)
    values = data.draw(elements(field, (2, len(members[0]), 3)))
    expected = field.grouped_sums(values, segments, batch_axes=1)
    assert_same(field.grouped_sums(tensor(values, device), segments, batch_axes=1), expected, device)


@on_every_device
@given(st.data(), all_prime_fields(smallest=101), st.sampled_from([np.float32, np.float64]))
def test_fixed_point_agrees(device: str, data: st.DataObject, field: PrimeField, dtype: Any) -> None:
    """Encoding and decoding real tensors gives the elements and the floats of arrays."""
    fixed = FixedPoint.for_sums(field, bound=4.0, terms=8)
    values = data.draw(reals(4.0, (6,), 32)).astype(dtype)
    encoded = fixed.encode(values)
    assert_same(fixed.encode(tensor(values, device)), encoded, device)
    assert_same(fixed.decode(tensor(encoded, device)), fixed.decode(encoded), device)


@on_every_device
@given(st.data(), all_prime_fields(smallest=11), st.integers(0, 2**32))
def test_coding_agrees(device: str, data: st.DataObject, field: PrimeField, seed: int) -> None:
    """Tensors are encoded, corrected and decoded as arrays are, and the answer is a tensor on their device."""
    code, blocks = LagrangeCode(field, K=2, T=1, N=6), data.draw(elements(field, (2, 3, 2)))
    shares = code.encode(blocks, SimulationCoins(seed))
    found = code.encode(tensor(blocks, device), SimulationCoins(seed))
    assert_same(found, shares, device)
    found[4, 1, 0] = (int(found[4, 1, 0]) + 1) % field.modulus
    decoded = code.decode(found, workers=range(6), max_errors=1, coins=SimulationCoins(seed))
    assert_same(decoded.blocks, blocks.astype(field.dtype), device)
    assert decoded.faulty == (4,)


@on_every_device
@pytest.mark.parametrize("modulus", [101, 131071, 2**31 - 1, 2**61 - 1])
def test_wide_products_agree(device: str, modulus: int) -> None:
    """Products of more columns than float64 adds up exactly at a time, all elements the largest, are exact."""
    field, top = PrimeField(modulus), np.full((200, 3000), modulus - 1)
    assert_same(field.combine(top[:3, :200], tensor(top, device)), field.combine(top[:3, :200], top), device)
    assert field.combine(top[:1, :200], top[:, :1]).tolist() == [[200 % modulus]]


@on_every_device
def test_tensors_that_are_no_elements_are_refused(device: str) -> None:
    """Floats, and integers outside the field where elements are asked for, raise."""
    field, code = PrimeField(11), LagrangeCode(PrimeField(11), K=1, T=1, N=3)
    with pytest.raises(InputError, check=about("values")):
        field.add(torch.ones(2, device=device), 1)
    for value in (-1, 11):
        outside = torch.full((1, 2), value, device=device)
        with pytest.raises(FieldRangeError, check=about("values")):
            field.elements(outside)
        with pytest.raises(FieldRangeError, check=about("blocks")):
            code.encode(outside, SimulationCoins(0))


@pytest.mark.parametrize("modulus", [11, 131071, 2**31 - 1, 2**61 - 1])
def test_compiled_loops_give_what_torch_operations_give(modulus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over 10,000 random columns: matrix products, sums of rows, and sums and products of any int64."""
    field, rng = PrimeField(modulus), np.random.default_rng(modulus)
    matrix, blocks = (rng.integers(0, modulus, shape) for shape in ((4, 7), (7, 10_000)))
    segments = Segments.by_group(rng.integers(0, 300, 10_000), 301)
    left, right = (rng.integers(-(2**63), 2**63 - 1, 10_000, endpoint=True) for _ in range(2))

    def results() -> list[NDArray[Any]]:
        each = [operation(left, right) for operation in (field.add, field.subtract, field.multiply)]
        return [field.combine(matrix, blocks), field.grouped_sums(blocks.T, segments), *each]

    compiled = results()
    monkeypatch.setattr(prime_field, "is_compiled", lambda _: False)
    assert all(np.array_equal(one, other) for one, other in zip(compiled, results(), strict=True))
