"""LightSecAgg keeps what every scheme for one sum must."""

from __future__ import annotations

from fgl_secure.protocols.lightsecagg import LightSecAgg
from tests.protocols.one_sum.conformance import OneSumConformance
from tests.protocols.one_sum.sums import SumsConformance


def over_31_bits(threshold: int | None) -> LightSecAgg:
    """Over 2^31 - 1, with one part of noise."""
    return LightSecAgg(threshold, 1, 2**31 - 1)


class TestLightSecAgg(OneSumConformance):
    """As it is by default."""

    make = staticmethod(LightSecAgg)


class TestOverASmallerField(SumsConformance):
    """Over a field of shorter elements."""

    make = staticmethod(over_31_bits)
