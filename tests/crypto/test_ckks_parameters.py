"""Parameters of CKKS: the bound of the noise holds by proof and by measure, and nothing is chosen beyond it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tenseal import sealapi

from fgl_secure.crypto.ckks import ring
from fgl_secure.crypto.ckks_parameters import (
    CHAINS,
    ERROR_VARIANCE,
    MOST_TERMS,
    PARAMETER_BYTES,
    SECURITY_BITS,
    TAIL_BITS,
    TERNARY_VARIANCE,
    Chain,
    Parameters,
    limit,
)
from fgl_secure.errors import FieldRangeError, InputError
from tests.error_codes import about

LEVELS = {128: sealapi.SEC_LEVEL_TYPE.TC128, 192: sealapi.SEC_LEVEL_TYPE.TC192, 256: sealapi.SEC_LEVEL_TYPE.TC256}
TERNARY = (np.array([-1, 0, 1]), np.full(3, 1 / 3))
BINOMIAL = (np.arange(-21, 22), stats.binom(42, 0.5).pmf(np.arange(43)))
"""SEAL's errors: the difference of the weights of two words of 21 bits."""

terms = st.integers(1, MOST_TERMS)


@pytest.mark.parametrize(("law", "variance"), [(TERNARY, TERNARY_VARIANCE), (BINOMIAL, ERROR_VARIANCE)])
def test_secrets_and_errors_are_strictly_sub_gaussian(law: tuple[np.ndarray, np.ndarray], variance: float) -> None:
    """Both moments that the proof uses are at most those of a Gaussian of the same variance."""
    values, weights = law
    assert weights @ values**2 == pytest.approx(variance)
    for t in np.linspace(0.01, 2, 100):
        assert weights @ np.exp(t * values) <= np.exp(variance * t * t / 2) * (1 + 1e-12)
    for c in np.linspace(0.001, 0.49, 100) / variance:
        assert weights @ np.exp(c * values**2.0) <= (1 - 2 * c * variance) ** -0.5 * (1 + 1e-12)


def test_heavier_secrets_break_the_moments() -> None:
    """The broken twin: rare large values of the same variance are not sub-Gaussian with it."""
    values, weights = np.array([-10, 0, 10]), np.array([1 / 300, 298 / 300, 1 / 300])
    assert weights @ values**2 == pytest.approx(TERNARY_VARIANCE)
    assert weights @ np.exp(values) > np.exp(TERNARY_VARIANCE / 2)


@pytest.mark.parametrize("chain", CHAINS)
@given(terms)
def test_the_bound_is_a_little_above_a_gaussian_quantile(chain: Chain, count: int) -> None:
    """Chernoff's bound costs up to a tenth over the quantile that a Gaussian of the same deviation would have."""
    quantile = stats.norm.isf(2.0 ** -(TAIL_BITS + 1)) * chain.deviation(count)
    assert quantile < chain.noise(count) < 1.1 * quantile


@pytest.mark.parametrize("chain", CHAINS)
def test_moduli_and_levels_are_those_of_seal(chain: Chain) -> None:
    """The prime is at least as large as assumed, and the levels are SEAL's table of the standard."""
    assert chain.least_modulus <= ring(chain).modulus < 2**chain.bits
    for level, most in SECURITY_BITS[chain.degree].items():
        assert sealapi.CoeffModulus.MaxBitCount(chain.degree, LEVELS[level]) == most
        assert (chain.security >= level) is (chain.bits <= most)
    assert chain.security >= 128


@pytest.mark.parametrize("chain", CHAINS)
@given(st.integers(1, 10_000))
def test_the_limit_is_where_noise_reaches_half_the_scale(chain: Chain, count: int) -> None:
    """Up to the limit coefficients stay within q / 2 and noise within half the scale; beyond it they don't."""
    most = chain.limit(count, 0.5)
    scale = chain.scale(most)
    assert chain.noise(count) < scale / 2
    assert most * scale + chain.noise(count) < chain.least_modulus / 2
    assert chain.noise(count) >= chain.scale(most + 1) / 2


@given(st.integers(1, 100_000), st.data(), st.sampled_from([None, 1, 2048, 5000, 10**6]))
def test_the_choice_has_the_fewest_bytes(count: int, data: st.DataObject, length: int | None) -> None:
    """No chain with any number of digits within its limit makes a vector smaller, and the error is below 1/2."""
    chosen = Parameters.for_sums(count, data.draw(st.integers(1, limit(count) // count)), length=length)
    assert chosen.error < 0.5
    assert chosen.noise < chosen.scale / 2
    assert chosen.magnitude <= chosen.chain.limit(count, 0.5)
    entries = 10**9 if length is None else length
    for chain in CHAINS:
        for digits in range(1, 60):
            if (chosen.radix**digits - 1) // 2 <= chain.limit(count, 0.5):
                other = -(-entries // (chain.degree * digits)) * chain.ciphertext_bytes
                ours = -(-entries // chosen.entries) * chosen.chain.ciphertext_bytes
                assert ours <= other + chosen.chain.ciphertext_bytes * (length is None)


def test_what_does_not_fit_is_refused_with_its_figures() -> None:
    """One beyond the limit raises, and says what the limit is and what was asked for."""
    most = limit(3) // 3
    assert Parameters.for_sums(3, most).error < 0.5
    with pytest.raises(FieldRangeError, check=about("bound")):
        Parameters.for_sums(3, most + 1)
    with pytest.raises(FieldRangeError, check=about("bound")):
        Parameters(CHAINS[0], 3, 1000, 30)


@given(st.integers(1, 1000), st.integers(1, 2**30), st.sampled_from([None, 10]))
def test_bytes_carry_all_parameters(count: int, bound: int, length: int | None) -> None:
    """What is read is what was written, in a form of one length."""
    parameters = Parameters.for_sums(count, bound, length=length)
    assert len(parameters.to_bytes()) == PARAMETER_BYTES
    assert Parameters.from_bytes(parameters.to_bytes()) == parameters


def test_parameters_that_nobody_may_choose_are_refused() -> None:
    """A chain that isn't in the table doesn't come in by way of bytes, nor do bytes of another length."""
    data = Parameters.for_sums(3, 5).to_bytes()
    with pytest.raises(InputError, check=about("chain")):
        Parameters.from_bytes(bytes([1]) + data[1:])
    with pytest.raises(InputError, check=about("parameters")):
        Parameters.from_bytes(data[:3])
