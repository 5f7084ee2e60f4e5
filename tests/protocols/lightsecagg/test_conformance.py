"""LightSecAgg keeps what every scheme for one sum must."""

from functools import partial
from typing import ClassVar

from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.protocols.lightsecagg import LightSecAgg
from tests.protocols.one_sum.conformance import OneSumConformance
from tests.protocols.one_sum.sums import SumsConformance


class TestLightSecAgg(OneSumConformance):
    """As it is by default."""

    make = staticmethod(LightSecAgg)


class TestX25519Alone(OneSumConformance):
    """With keys that every version of the library has."""

    alike = True
    make: ClassVar = partial(LightSecAgg, keys=KeyAgreement.X25519)


class TestOverASmallerField(SumsConformance):
    """Over a field of shorter elements."""

    make: ClassVar = partial(LightSecAgg, colluding=1, modulus=2**31 - 1)
