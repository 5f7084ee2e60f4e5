"""Grouped sums against sums of python integers, one row at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fgl_secure.algebra import Elements, PrimeField, Segments
from fgl_secure.errors import InputError
from tests.error_codes import about
from tests.strategies import Ints, elements, prime_fields, reals, segment_members


def slow_sums(values: Elements, group_of: Ints, groups: int, modulus: int) -> list[list[int]]:
    """The sum of each group of rows [m, d], in python integers."""
    sums = np.zeros((groups, values.shape[1]), dtype=object)
    np.add.at(sums, group_of, values.astype(object))
    return [[int(total) % modulus for total in row] for row in sums]


@given(st.data(), segment_members(), st.integers(0, 3))
def test_sums_are_those_of_python_integers(data: st.DataObject, members: tuple[Ints, int], width: int) -> None:
    """The sums of any rows over any field are exact, and an empty group sums to zero."""
    (group_of, groups), field = members, data.draw(prime_fields())
    values = data.draw(elements(field, (len(group_of), width)))
    sums = field.grouped_sums(values, Segments.by_group(group_of, groups))
    assert sums.dtype == field.dtype
    assert sums.tolist() == slow_sums(values, group_of, groups, field.modulus)


@given(st.data(), segment_members())
def test_batches_are_summed_one_by_one(data: st.DataObject, members: tuple[Ints, int]) -> None:
    """Leading batch axes and several item axes change nothing but the shape."""
    (group_of, groups), field = members, data.draw(prime_fields())
    batch = tuple(data.draw(st.lists(st.integers(1, 3), max_size=2)))
    values = data.draw(elements(field, (*batch, len(group_of), 2, 2)))
    sums = field.grouped_sums(values, Segments.by_group(group_of, groups), batch_axes=len(batch))
    assert sums.shape == (*batch, groups, 2, 2)
    for index in np.ndindex(batch):
        alone = values[index].reshape(len(group_of), 4)
        assert sums[index].reshape(groups, 4).tolist() == slow_sums(alone, group_of, groups, field.modulus)


@given(st.data(), segment_members())
def test_real_sums_add_row_by_row(data: st.DataObject, members: tuple[Ints, int]) -> None:
    """Real rows of either precision are added in float64 in their order, bit for bit as numpy adds them."""
    group_of, groups = members
    values = data.draw(reals(100.0, (len(group_of), 2), data.draw(st.sampled_from([32, 64]))))
    expected = np.zeros((groups, 2))
    np.add.at(expected, group_of, values)
    sums = Segments.by_group(group_of, groups).real_sums(values)
    assert sums.dtype == np.float64
    assert np.array_equal(sums, expected)


@given(segment_members())
def test_segments_partition_the_rows(members: tuple[Ints, int]) -> None:
    """Every row is in one segment, that of its group, and within it rows keep their order."""
    group_of, groups = members
    segments = Segments.by_group(group_of, groups)
    assert (len(segments), segments.rows) == (groups, len(group_of))
    assert segments.sizes.tolist() == [int((group_of == group).sum()) for group in range(groups)]
    for group in range(groups):
        rows = segments.order[segments.starts[group] : segments.starts[group + 1]]
        assert rows.tolist() == np.flatnonzero(group_of == group).tolist()


@pytest.mark.parametrize("rows", [0, 2, 4])
def test_wrong_number_of_rows_is_refused(rows: int) -> None:
    """The compiled loops check no bounds, so other rows than the segments' raise before they run."""
    segments = Segments.by_group(np.array([0, 1, 0]), 2)
    with pytest.raises(InputError, check=about("values")):
        PrimeField(11).grouped_sums(np.zeros((rows, 1), dtype=np.int8), segments)
    with pytest.raises(InputError, check=about("values")):
        segments.real_sums(np.zeros((rows, 1)))


@given(hnp.arrays(np.int64, 3, elements=st.integers(-2, 4)))
def test_groups_out_of_range_are_refused(group_of: Ints) -> None:
    """Groups outside 0 .. groups - 1 raise with the range that was found, all others are accepted."""
    if group_of.min() >= 0 and group_of.max() < 2:
        assert len(Segments.by_group(group_of, 2)) == 2
    else:
        with pytest.raises(InputError, check=about("group_of")):
            Segments.by_group(group_of, 2)
