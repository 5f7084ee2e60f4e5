"""Rings that masked vectors are added up in: as small as their sums allow, and written bit by bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.crypto.streams import MOST_BITS, ModularRing
from fgl_secure.errors import InputError, MalformedMessageError
from tests.error_codes import about


@given(st.integers(2, 2**MOST_BITS), st.data())
def test_elements_travel_bit_by_bit(modulus: int, data: st.DataObject) -> None:
    """What is packed is the number that the elements are the digits of, lowest first, and is read again as it was."""
    ring, count = ModularRing(modulus, packed=True), data.draw(st.integers(0, 12))
    rows = [data.draw(st.lists(st.integers(0, modulus - 1), min_size=count, max_size=count)) for _ in range(2)]
    packed = ring.write(np.array(rows, dtype=np.int64).reshape(2, count))
    assert packed.shape == (2, ring.entries(count))
    assert packed.dtype == np.uint8
    for row, bits in zip(rows, packed, strict=True):
        whole = sum(value << (ring.bits * place) for place, value in enumerate(row))
        assert int.from_bytes(bits.tobytes(), "little") == whole
    assert ring.read(packed, count).tolist() == rows


@given(st.integers(1, 2 ** (MOST_BITS - 1) - 1))
def test_the_least_ring_holds_its_sums_and_no_smaller_one_does(largest: int) -> None:
    """Both ends of the range are told apart, and half as many elements are too few for all of it."""
    ring = ModularRing.least(largest)
    assert 2 * largest + 1 <= ring.modulus
    assert ring.modulus // 2 < 2 * largest + 1
    assert ring.packed


@pytest.mark.parametrize(("bits", "clients", "wire"), [(8, 100, 15), (16, 100, 23), (32, 100, 39), (16, 64, 22)])
def test_a_number_takes_its_bits_and_those_of_the_clients(bits: int, clients: int, wire: int) -> None:
    """8 + ceil(log2 m) bits and the like: less than 3 bytes for 16 bits of 100 clients."""
    assert ModularRing.least(clients * (2 ** (bits - 1) - 1)).bits == wire


def test_what_is_no_element_is_refused() -> None:
    """Bits behind the last element, elements beyond a modulus that is no power of two, and rings that there are not."""
    with pytest.raises(MalformedMessageError, check=about("bits behind the last element")):
        ModularRing(8, packed=True).read(np.array([[0b1111_1111]], dtype=np.uint8), 2)
    with pytest.raises(MalformedMessageError, check=about("elements")):
        ModularRing(5, packed=True).read(np.array([0b110], dtype=np.uint8), 1)
    with pytest.raises(MalformedMessageError, check=about("elements")):
        ModularRing(5).read(np.array([5], dtype=np.uint8), 1)
    for modulus in (1, 2**MOST_BITS + 1):
        with pytest.raises(InputError, check=about("modulus")):
            ModularRing(modulus)
    for largest in (0, 2**60):
        with pytest.raises(InputError, check=about("largest")):
            ModularRing.least(largest)
