"""Sums under a CKKS key that clients share keep what every scheme for one sum must."""

from __future__ import annotations

from typing import ClassVar

import pytest

from fgl_secure.protocols.ckks import SharedKeyCkks
from tests.protocols.one_sum.conformance import OneSumConformance


class TestSharedKeyCkks(OneSumConformance):
    """As it is by default."""

    make = staticmethod(SharedKeyCkks)
    splits: ClassVar[tuple[bool, ...]] = (False,)

    def test_sums_repeat_for_equal_coins(self) -> None:
        """Keys and ciphertexts take SEAL's own randomness: not these."""
        pytest.skip("SEAL draws its own coins")
