"""Products of remainders modulo primes below 2^8 by bytes, in pairs and by floats, against integers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import numba
import numpy as np
import pytest
import torch
from llvmlite import binding

from fgl_secure.algebra import PrimeField, pair_products
from fgl_secure.algebra import exact_products as module
from fgl_secure.algebra.exact_products import FLOAT_ROWS, ROWS, exact_product
from fgl_secure.algebra.pair_products import COLUMNS, DEPTH, HEIGHT, WIDTH
from fgl_secure.algebra.residues import BELOW_2_8
from fgl_secure.errors import FieldRangeError
from fgl_secure.processor import has

PRIMES = (2, 3, 5, 101, *BELOW_2_8[:2])


@pytest.fixture(params=["by bytes", "in pairs", "by floats"])
def _all_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the processor's instructions for bytes or for pairs where it has them, and by float32."""
    if request.param == "by bytes":
        if not module._bytes_are_fast():
            pytest.skip("this processor has no instructions for products of bytes")
        return
    monkeypatch.setattr(module, "_bytes_are_fast", lambda: False)
    monkeypatch.setattr(pair_products, "available", lambda: request.param == "in pairs")
    if request.param == "in pairs" and not has("avx2"):
        pytest.skip("this processor has no instruction for pairs")


def test_what_is_added_up_fits() -> None:
    """Products of the largest elements over as many rows as are added up, in int32 and in float32."""
    largest = (BELOW_2_8[0] // 2) ** 2
    assert ROWS * largest < 2**31
    assert FLOAT_ROWS * largest < 2**24


@pytest.mark.usefixtures("_all_ways")
@pytest.mark.parametrize("prime", PRIMES)
def test_products_are_those_of_integers(prime: int) -> None:
    """Whatever the shapes, also of vectors and of nothing, and behind a batch axis."""
    rng, half = np.random.default_rng(prime), prime // 2
    shapes = [(1, 1, 1), (7, 1, 5), (7, 5, 1), (1, 4, 3), (0, 2, 3), (2, 2, 2), *rng.integers(1, 70, (20, 3)).tolist()]
    for rows, d, h in shapes:
        for batch in ((), (2,)):
            left, right = (rng.integers(-half, half + 1, (*batch, rows, w)).astype(np.int8) for w in (d, h))
            found = exact_product(left, right)
            whole = np.matmul(np.swapaxes(left, -1, -2).astype(np.int64), right.astype(np.int64))
            assert found.dtype in (np.int32, np.int64)
            assert np.array_equal(found, whole)
            for kind in (np.int32, np.int64):
                room = np.full((3, *whole.shape), -1, dtype=kind)
                put = exact_product(left, right, room[1])
                assert np.shares_memory(put, room[1]) or not put.size
                assert np.array_equal(room[1], whole)
                assert (room[[0, 2]] == -1).all()


@pytest.mark.usefixtures("_all_ways")
@pytest.mark.parametrize("widths", [(2, 2), (1, 3), (3, 1), (65, 17)])
@pytest.mark.parametrize("rows", [FLOAT_ROWS - 1, FLOAT_ROWS, FLOAT_ROWS + 1, ROWS, ROWS + 1, 2 * ROWS + 7])
@pytest.mark.parametrize("signs", [(1, 1), (-1, -1), (1, -1)])
def test_the_largest_elements_over_many_rows_are_exact(
    rows: int, widths: tuple[int, int], signs: tuple[int, int]
) -> None:
    """Where sums are largest: twice as many rows would not fit, and pieces are added up."""
    half = BELOW_2_8[0] // 2
    left, right = (
        np.full((rows, width), sign * half, dtype=np.int8) for width, sign in zip(widths, signs, strict=True)
    )
    found = exact_product(left, right)
    assert np.unique(found).tolist() == [signs[0] * signs[1] * rows * half**2]
    assert np.array_equal(exact_product(left, right, np.empty(widths, dtype=np.int64)), found)
    if rows > ROWS:
        with pytest.raises(FieldRangeError, match=f"out must be a contiguous int64 .* over {rows:,} rows; found int32"):
            exact_product(left, right, np.empty(widths, dtype=np.int32))


@pytest.mark.usefixtures("_all_ways")
def test_products_go_into_arrays_that_hold_them() -> None:
    """Others are refused, and nothing is written."""
    left, right = np.ones((4, 3), dtype=np.int8), np.ones((4, 2), dtype=np.int8)
    kept = np.zeros((3, 2), dtype=np.int32)
    kept.flags.writeable = False
    others = (np.zeros((3, 2), dtype=np.int16), np.zeros((2, 3), dtype=np.int32), np.zeros(6, dtype=np.int64), kept,
              np.zeros((3, 4), dtype=np.int32)[:, ::2])  # fmt: skip
    for out in others:
        with pytest.raises(FieldRangeError, match=r"out must be a contiguous int32 or int64 \[3, 2\] that can be"):
            exact_product(left, right, out)
        assert not out.any()


def test_primes_that_are_too_large_are_refused() -> None:
    """Beyond 2^8 a remainder is no byte."""
    with pytest.raises(FieldRangeError, match="must be int8, of primes below 2\\^8, for exact products; found int16"):
        exact_product(*(np.zeros((1, 1), dtype=PrimeField(257).dtype) for _ in range(2)))


@pytest.mark.usefixtures("_all_ways")
@pytest.mark.parametrize("width", [1, 2, 40])
def test_matrices_may_lie_apart_and_be_read_only(width: int) -> None:
    """Columns of larger ones, which PyTorch does not take as they are."""
    elements = np.random.default_rng(width).integers(-125, 126, (2, 70, 90)).astype(np.int8)
    left, right = elements[..., 3 : 3 + width], elements[..., 1:50]
    elements.flags.writeable = False
    for one, other in ((left, right), (right, left), (left[0], right[1])):
        expected = np.matmul(np.swapaxes(one, -1, -2).astype(np.int64), other.astype(np.int64))
        assert np.array_equal(exact_product(one, other), expected)


@pytest.mark.skipif(not has("avx2"), reason="this processor has no instruction for pairs")
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_pairs_are_added_up_in_tiles_and_pieces_of_any_size(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole ones, one more and one less of rows and of both matrices' columns, by one thread and by two."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", threads)
    rng = np.random.default_rng(0)
    around = [[size - 1, size, size + 1] for size in (2 * DEPTH, COLUMNS, WIDTH)]
    shapes = [
        *product(*around),
        (1, 7, 5),
        (600, HEIGHT, 2 * WIDTH),
        (4 * DEPTH + 3, 3 * COLUMNS + HEIGHT + 1, 3 * WIDTH + 1),
    ]
    for rows, d, h in shapes:
        left, right = (rng.integers(-127, 128, (rows, width)).astype(np.int8) for width in (d, h))
        expected = left.astype(np.int64).T @ right.astype(np.int64)
        wider, taller = (np.concatenate([left, left], axis=axis) for axis in (1, 0))
        backwards = left[::-1].copy()[::-1], left[:, ::-1].copy()[:, ::-1]
        in_columns = np.asfortranarray(left), np.asfortranarray(wider)[:, d:], np.asfortranarray(taller)[:rows]
        for laid in (left, wider[:, :d], *in_columns, *backwards):
            assert np.array_equal(pair_products.product(laid, right), expected)
            assert np.array_equal(pair_products.product(right, laid), expected.T)


def test_bytes_come_before_pairs_and_pairs_before_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way is taken where the processor has nothing faster."""
    left, right, taken = np.ones((4, 3), dtype=np.int8), np.ones((4, 2), dtype=np.int8), list[str]()

    def noted(name: str) -> Callable[..., np.ndarray]:
        def found(left: np.ndarray, right: np.ndarray, *_: object) -> np.ndarray:
            taken.append(name)
            return np.asarray(left.T @ right)

        return found

    monkeypatch.setattr(module, "_product_of_bytes", noted("bytes"))
    monkeypatch.setattr(pair_products, "product", noted("pairs"))
    monkeypatch.setattr(module, "_product_of_floats", noted("floats"))
    for bytes_, pairs in ((True, True), (False, True), (False, False)):
        monkeypatch.setattr(module, "_bytes_are_fast", partial(bool, bytes_))
        monkeypatch.setattr(pair_products, "available", partial(bool, pairs))
        exact_product(left, right)
    assert taken == ["bytes", "pairs", "floats"]


@pytest.mark.parametrize("feature", pair_products.FOR_BYTES)
def test_pairs_are_for_processors_without_instructions_for_bytes(feature: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their loop is not compiled where it would not be called."""
    for features, expected in (({"avx2"}, True), ({"avx2", feature}, False), (set[str](), False)):
        monkeypatch.setattr(pair_products, "has", features.__contains__)
        assert pair_products.available() is expected


def test_a_processor_whose_products_saturate_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of two products that stop at 2^15 - 1 are noticed before they are used, and so is that PyTorch has none."""

    def shifted(left: np.ndarray, right: np.ndarray, most: int) -> np.ndarray:
        left = left.astype(np.int64) + 128  # as unsigned bytes, which is made good after
        each = left[:, :, None] * right[:, None].astype(np.int64)
        pairs = np.minimum(each[0::2] + each[1::2], most)
        return np.asarray(pairs.sum(axis=0) - 128 * right.astype(np.int64).sum(axis=0))

    def absent(*_: np.ndarray) -> np.ndarray:
        raise AttributeError("_int_mm")

    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: {"avx512vnni": True})
    for broken in (lambda left, right, *_: shifted(left, right, 2**15 - 1), absent):
        monkeypatch.setattr(module, "_product_of_bytes", broken)
        assert not module._bytes_are_fast.__wrapped__()
    monkeypatch.setattr(module, "_product_of_bytes", lambda left, right, *_: shifted(left, right, 2**31 - 1))
    assert module._bytes_are_fast.__wrapped__()
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: {"avx2": True})
    assert not module._bytes_are_fast.__wrapped__()
