"""Pairwise masking keeps what every scheme for one sum must."""

from __future__ import annotations

from typing import ClassVar

from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from tests.protocols.one_sum.conformance import OneSumConformance
from tests.protocols.one_sum.sums import SumsConformance


class TestPairwiseMasking(OneSumConformance):
    """As it is by default."""

    make = staticmethod(PairwiseMasking)


class TestOverASmallerField(SumsConformance):
    """Over 2^31 - 1, where seeds are longer and elements shorter."""

    @staticmethod
    def make(threshold: int | None) -> PairwiseMasking:
        """With a threshold."""
        return PairwiseMasking(threshold, 2**31 - 1)


class TestOnARing(SumsConformance):
    """With four neighbours where there are more clients than that."""

    signs: ClassVar[bool] = True

    @staticmethod
    def make(threshold: int | None) -> PairwiseMasking:
        """With a threshold."""
        return PairwiseMasking(threshold, degree=4)
