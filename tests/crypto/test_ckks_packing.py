"""Entries as digits of coefficients: what is packed and added unpacks to the sum, and bad vectors are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.crypto.ckks import PublicKey, ReceiverKey, RunningSums
from fgl_secure.crypto.ckks_parameters import CHAINS, Parameters, checked_vector, pack, unpack
from fgl_secure.errors import FieldRangeError, InputError, ProtocolError
from fgl_secure.typing import Integers
from tests.crypto.adders import Adder
from tests.error_codes import about


@st.composite
def terms_of(draw: st.DrawFn) -> tuple[Parameters, Integers]:
    """Parameters and as many terms as they allow, int64 [terms, length], both ends of the range included."""
    count, bound = draw(st.integers(1, 6)), draw(st.sampled_from([1, 7, 1000, 2**20]))
    parameters = Parameters.for_sums(count, bound)
    length = draw(st.sampled_from([1, 5, 4096, parameters.entries, parameters.entries + 1]))
    seed = draw(st.integers(0, 2**32))
    rows = np.random.default_rng(seed).choice([-bound, bound, 0, 1], (count, length))
    return parameters, rows


@given(terms_of())
def test_sums_of_packed_terms_unpack_to_the_sum(case: tuple[Parameters, Integers]) -> None:
    """Digits don't run into each other, whatever the signs, and coefficients stay within their magnitude."""
    parameters, rows = case
    total = sum((pack(row, parameters) for row in rows), np.zeros(1, dtype=np.int64))
    assert np.abs(total).max() <= parameters.magnitude
    assert total.shape == (parameters.ciphertexts(rows.shape[1]), parameters.chain.degree)
    assert (unpack(total, rows.shape[1], parameters) == rows.sum(axis=0)).all()


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (np.array([1.0, np.nan]), "vector"),
        (np.array([1.0, -np.inf]), "vector"),
        (np.array([1.0, 0.5]), "vector"),
        (np.array([]), "vector"),
        (np.zeros((2, 2)), "vector"),
        (np.array([1j]), "vector"),
        (np.array([True]), "vector"),
        (np.array(["1"]), "vector"),
        (np.array([object()]), "vector"),
    ],
)
def test_what_is_no_vector_of_integers_is_refused(vector: np.ndarray, message: str) -> None:
    """NaN, infinities, fractions and other dtypes raise."""
    with pytest.raises(InputError, check=about(message)):
        checked_vector(vector, 10)


@pytest.mark.parametrize("entry", [11, -11, 2**62, -(2**63), 1e300])
def test_entries_beyond_the_bound_are_refused_and_not_told(entry: float) -> None:
    with pytest.raises(FieldRangeError) as caught:
        checked_vector(np.array([1, entry]), 10)
    assert "bound = 10" in str(caught.value)
    assert "11" not in str(caught.value)


PARAMETERS = Parameters(CHAINS[1], 3, 1000, 1)
KEY = ReceiverKey.generate(PARAMETERS)
LENGTH = PARAMETERS.entries + 3
ROWS = np.random.default_rng(0).integers(-1000, 1001, (3, LENGTH))
TERMS = [KEY.public.encrypt(row) for row in ROWS]


def sums() -> RunningSums:
    """Of vectors that take two ciphertexts."""
    return RunningSums(PublicKey.from_bytes(KEY.public_context()), 2)


def test_terms_one_by_one_give_the_sum() -> None:
    """After each term the sums decrypt to that of the terms so far, and are those that an adder makes."""
    running = sums()
    assert running.to_bytes() == []
    for count, term in enumerate(TERMS, start=1):
        running.add(term)
        assert KEY.decrypt(running.to_bytes(), LENGTH).tolist() == ROWS[:count].sum(axis=0).tolist()
    adder = Adder(KEY.public)
    assert running.to_bytes() == [adder.add(column) for column in zip(*TERMS, strict=True)]


def test_a_bad_term_changes_nothing() -> None:
    """One ciphertext too few, of another key, damaged, a sum, or one that cancels what is there: all or nothing."""
    running, another = sums(), ReceiverKey.generate(PARAMETERS).public
    running.add(TERMS[0])
    before = running.to_bytes()
    twice = Adder(KEY.public).add([TERMS[1][1], TERMS[2][1]])
    for bad in (TERMS[1][1], another.encrypt(ROWS[1])[1], TERMS[1][1][:-1], twice, b""):
        with pytest.raises(ProtocolError):
            running.add([TERMS[1][0], bad] if bad != TERMS[1][1] else [bad])
        assert running.to_bytes() == before
    running.add(TERMS[1])
    assert KEY.decrypt(running.to_bytes(), LENGTH).tolist() == ROWS[:2].sum(axis=0).tolist()


def test_there_are_no_more_terms_than_the_parameters_allow() -> None:
    """A fourth term of three raises."""
    running = sums()
    for term in TERMS:
        running.add(term)
    with pytest.raises(ProtocolError, check=about("a term")):
        running.add(TERMS[0])
