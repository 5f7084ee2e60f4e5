"""Pairwise masking keeps what every scheme for one sum must."""

from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from tests.protocols.one_sum.conformance import OneSumConformance
from tests.protocols.one_sum.sums import SumsConformance


class TestPairwiseMasking(OneSumConformance):
    """As it is by default."""

    make = staticmethod(PairwiseMasking)


def over_31_bits(threshold: int | None) -> PairwiseMasking:
    """Over 2^31 - 1."""
    return PairwiseMasking(threshold, 2**31 - 1)


def on_a_ring(threshold: int | None) -> PairwiseMasking:
    """With four neighbours where there are more clients than that."""
    return PairwiseMasking(threshold, degree=4)


def x25519_alone(threshold: int | None) -> PairwiseMasking:
    """With keys that every version of the library has."""
    return PairwiseMasking(threshold, keys=KeyAgreement.X25519)


class TestX25519Alone(OneSumConformance):
    """With keys of one kind."""

    alike = True
    make = staticmethod(x25519_alone)


class TestOverASmallerField(SumsConformance):
    """Over 2^31 - 1, where seeds are longer and elements shorter."""

    make = staticmethod(over_31_bits)


class TestOnARing(SumsConformance):
    """With a sparse graph."""

    make = staticmethod(on_a_ring)
