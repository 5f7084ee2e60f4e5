"""Every scheme for one sum over clients keeps what each of them must."""

import itertools
from functools import partial
from typing import ClassVar

import pytest

from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.errors import InputError
from fgl_secure.protocols.ckks import Ckks, SharedKeyCkks
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.secagg.scheme import AggregationScheme
from fgl_secure.runtime import Step
from tests.error_codes import about
from tests.protocols.secagg.dropouts import DropoutConformance
from tests.protocols.secagg.messages import MessageConformance
from tests.protocols.secagg.rounds import NOW, Sum, topology_of, vectors_of
from tests.protocols.secagg.states import StateConformance
from tests.protocols.secagg.sums import CoreConformance


class TestPairwiseMasking(DropoutConformance, MessageConformance, StateConformance):
    """As it is by default."""

    make = staticmethod(PairwiseMasking)


class TestPairwiseMaskingWithX25519(StateConformance):
    """With keys that every version of the library has."""

    make: ClassVar = partial(PairwiseMasking, keys=KeyAgreement.X25519)


class TestPairwiseMaskingAtAPrecision(CoreConformance):
    """Summed modulo 2^k."""

    make: ClassVar = partial(PairwiseMasking, precision=8)


class TestLightSecAgg(DropoutConformance, MessageConformance, StateConformance):
    """As it is by default."""

    make = staticmethod(LightSecAgg)


class TestLightSecAggWithX25519(StateConformance):
    """With keys that every version of the library has, over a field of shorter elements."""

    make: ClassVar = partial(LightSecAgg, colluding=1, modulus=2**31 - 1, keys=KeyAgreement.X25519)


class TestLightSecAggAtAPrecision(CoreConformance):
    """Summed in a small prime field."""

    make: ClassVar = partial(LightSecAgg, precision=8)


class TestSharedKeyCkks(DropoutConformance, MessageConformance, StateConformance):
    """As it is by default."""

    make = staticmethod(SharedKeyCkks)
    splits: ClassVar[tuple[bool, ...]] = (False,)

    def test_sums_repeat_for_equal_coins(self) -> None:
        """Keys and ciphertexts take SEAL's own randomness: not these."""
        pytest.skip("SEAL draws its own coins")


class TestCkks(MessageConformance, StateConformance):
    """Under the receiver's key, where there are no rounds of keys before."""

    make = staticmethod(Ckks)
    splits: ClassVar[tuple[bool, ...]] = (True,)
    signs: ClassVar[bool] = False

    def test_sums_repeat_for_equal_coins(self) -> None:
        """Keys and ciphertexts take SEAL's own randomness: not these."""
        pytest.skip("SEAL draws its own coins")

    def test_topologies_and_sessions_that_do_not_fit_are_refused(self) -> None:
        """One sender alone may be a group of its own."""
        pytest.skip("test_receiver_key.py has what is refused")

    def test_thresholds_out_of_range_are_refused(self) -> None:
        """Between two, or one of one, and all."""
        for threshold, clients in ((6, 5), (0, 5), (-1, 5), (1, 5), (2, 1)):
            with pytest.raises(InputError, check=about("threshold")):
                Ckks(threshold).threshold_for(clients)
        assert [Ckks().threshold_for(clients) for clients in (1, 2, 50)] == [1, 2, 2]

    def test_a_bad_message_does_not_stop_others_of_its_batch(self) -> None:
        """Senders say nothing before they have a key."""
        pytest.skip("test_receiver_key.py has one bad vector among good ones")

    def test_a_step_that_was_given_up_leaves_nothing(self) -> None:
        """Begun anew before vectors left, with the same step, or later with another, parties come to the exact sum."""
        for turns, step in ((1, NOW), (2, Step(9))):
            run = self.five()
            for out in itertools.islice(run.turns(), turns):
                for sent in out:
                    run.hand(sent)
            run.begin(vectors_of(5) + 1, step)
            assert run.play().result == (vectors_of(5) + 1).sum(axis=0).tolist()


@pytest.mark.parametrize(
    ("scheme", "secret"),
    [
        (PairwiseMasking(), ("secrets", "says", "hears", "held", "rows")),
        (LightSecAgg(), ("secrets", "says", "hears", "held", "own", "rows")),
        (SharedKeyCkks(2), ("secrets", "says", "hears", "group", "files", "rows")),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_what_opens_a_sum_is_forgotten_with_it(scheme: AggregationScheme, secret: tuple[str, ...]) -> None:
    """Clients hold keys, shares and coded masks until they open a sum, and none of them afterwards."""
    run, held = Sum.of(scheme, topology_of(3), vectors_of(3)), set[str]()
    clients = [run.machines[party] for party in run.topology.senders.tolist()]
    for turn in run.turns():
        for sent in turn:
            run.hand(sent)
            held |= {name for client in clients for name in secret if client.state()[name].any()}
    assert run.result == vectors_of(3).sum(axis=0).tolist()
    assert held == set(secret)
    assert not any(client.state()[name].any() for client in clients for name in secret)
