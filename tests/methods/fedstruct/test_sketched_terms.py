"""Linear sketches give back sparse vectors, and only their sum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.errors import InputError, SketchOverfullError
from fgl_secure.methods.fedstruct.sketched_terms import LinearSketch
from tests.error_codes import about

SHAPE = (40, 50)


def sparse_entries(seed: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    keys = np.sort(rng.choice(SHAPE[0] * SHAPE[1], size=count, replace=False))
    return keys // SHAPE[1], keys % SHAPE[1], rng.integers(1, 2**20, size=count)


def read(sketch: LinearSketch, table: np.ndarray) -> np.ndarray:
    """The matrix that a table stands for."""
    rows, columns, values = sketch.decode(table)
    dense = np.zeros(sketch.shape, dtype=np.int64)
    dense[rows, columns] = values
    return dense


def dense_of(entries: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
    dense = np.zeros(SHAPE, dtype=np.int64)
    dense[entries[0], entries[1]] = entries[2]
    return dense


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 60), st.booleans())
def test_a_sum_of_tables_is_read_as_the_sum_of_the_matrices(seed: int, terms: int, count: int, split: bool) -> None:
    """Whoever adds up tables of several matrices can read the sum of the matrices, whatever they share.

    Two entries may have all three cells in common, some thousand times less often than not: tables are then drawn anew.
    """
    parts, found = [sparse_entries(seed + k, count) for k in range(terms)], None
    for drawn in range(5):
        sketch = LinearSketch.for_entries(SHAPE, 8 * terms * count, seed=seed + drawn * 10**7, split=split)
        try:
            found = read(sketch, np.sum([sketch.encode(*part) for part in parts], axis=0))
            break
        except SketchOverfullError:
            continue
    assert found is not None
    assert np.array_equal(found, np.sum([dense_of(part) for part in parts], axis=0))


@pytest.mark.parametrize("split", [False, True])
def test_a_table_is_a_function_of_the_sum_alone(split: bool) -> None:
    """Two ways to split a matrix among clients give one and the same sum of tables: it tells nothing but the sum."""
    sketch = LinearSketch.for_entries(SHAPE, 100, seed=3, split=split)
    rows, columns, values = sparse_entries(0, 50)
    halves = sketch.encode(rows, columns, values // 2 + 1) + sketch.encode(rows, columns, values - values // 2)
    first, second = slice(0, 20), slice(20, 50)
    apart = sketch.encode(rows[first], columns[first], values[first] + 1) + sketch.encode(
        rows[second], columns[second], values[second] + 1
    )
    assert np.array_equal(halves, apart)


def test_a_table_of_counts_would_tell_in_how_many_terms_an_entry_was() -> None:
    """The broken twin: with one for each client in place of its value, the sum tells how many clients had the entry."""
    sketch = LinearSketch.for_entries(SHAPE, 100, seed=3, split=False)
    row, column, one = np.array([4]), np.array([7]), np.array([1])
    shared = sketch.encode(row, column, one) + sketch.encode(row, column, one)
    alone = sketch.encode(row, column, one)
    assert not np.array_equal(shared, alone)


@pytest.mark.parametrize("split", [False, True])
def test_tables_of_stated_size_are_read(split: bool) -> None:
    """A table for 10,000 entries gives them back, with a quarter more cells than entries and a little."""
    shape = (1000, 1000)
    rng = np.random.default_rng(5)
    keys = np.sort(rng.choice(10**6, size=10_000, replace=False))
    sketch = LinearSketch.for_entries(shape, 10_000, seed=11, split=split)
    values = rng.integers(1, 2**16, size=10_000)
    rows, columns, found = sketch.decode(sketch.encode(keys // 1000, keys % 1000, values))
    assert np.array_equal(rows * 1000 + columns, keys)
    assert np.array_equal(found, values)
    assert sketch.cells < 1.31 * 10_000


@given(st.integers(0, 1000), st.booleans())
def test_an_overfull_table_is_refused(seed: int, split: bool) -> None:
    """A table with twice the entries that it has room for is not read wrongly but refused."""
    sketch = LinearSketch(SHAPE, 40, seed, split)
    with pytest.raises(SketchOverfullError):
        sketch.decode(sketch.encode(*sparse_entries(seed, 300)))


def test_a_damaged_table_is_refused() -> None:
    """One cell that is off by one leaves something that no entry explains."""
    sketch = LinearSketch.for_entries(SHAPE, 50, seed=1, split=True)
    table = sketch.encode(*sparse_entries(1, 50))
    table[-1] += 1
    with pytest.raises(SketchOverfullError):
        sketch.decode(table)


@pytest.mark.parametrize(
    ("rows", "columns", "values", "rule"),
    [([40], [0], [1], "rows"), ([0], [-1], [1], "columns"),
     ([0], [0], [0], "values")],
)  # fmt: skip
def test_entries_outside_the_matrix_are_refused(
    rows: list[int], columns: list[int], values: list[int], rule: str
) -> None:
    """A position outside the matrix or a value below 1 has no place in a table."""
    sketch = LinearSketch.for_entries(SHAPE, 5, seed=1, split=False)
    with pytest.raises(InputError, check=about(rule)):
        sketch.encode(np.array(rows), np.array(columns), np.array(values))
