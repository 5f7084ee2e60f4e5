"""Settings and small examples that every test may use."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from fgl_secure.algebra import PrimeField

# Compiled kernels make first examples slow, and a conformance suite runs inherited tests from several classes.
_EXPECTED = (HealthCheck.too_slow, HealthCheck.differing_executors)

# What hypothesis itself sets where CI is set would repeat one draw of examples for ever, and hide what users see.
settings.register_profile("quick", deadline=None, max_examples=40, derandomize=False, suppress_health_check=_EXPECTED)
settings.register_profile("ci", settings.get_profile("quick"), print_blob=True)
# For an installed wheel, which is not the place to find new examples.
settings.register_profile("brief", settings.get_profile("ci"), max_examples=6, derandomize=True, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "quick"))


@pytest.fixture
def field() -> PrimeField:
    """The field of production: 2^31 - 1 elements."""
    return PrimeField()
