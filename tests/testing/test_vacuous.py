"""Privacy tests that would pass whatever the protocol does: each is refused, and the message says why."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from fgl_secure.algebra import PrimeField
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.runtime import Channel, Directory, Party, Phase, Role, Step
from fgl_secure.testing import (
    NotPrivateError,
    PrivacyTestWarning,
    Protocol,
    VacuousTestError,
    assert_exactly_private,
    assert_same_trace,
    assert_simulatable,
    assert_statistically_private,
)
from fgl_secure.testing.protocol import Inputs
from tests.error_codes import about
from tests.testing.mutations import Shape, Sharing, mutated, shared_across

P = 11
LARGE = 2**31 - 1
PARTIES = Directory({Role.DEVICE: 2, Role.SERVER: 2})
SERVER = [Party(Role.SERVER, 0)]
A, B = [3, 4, 0, 0], [3, 5, 0, 0]


def share(inputs: Inputs, channel: Channel, *, p: int, masks: int = 2, heard: bool = True, reads: bool = True) -> None:
    """Two devices share a value each between two servers, or don't."""
    devices, servers = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SERVER)
    values = inputs[devices] if reads else np.zeros(2, dtype=np.int64)
    mask = np.broadcast_to(channel.coins.uniform(p, (masks,)), (*channel.batch_shape, 2))
    here = servers[[0, 0]] if heard else servers[[1, 1]]
    channel.send(Phase.CODES, Step(0), devices, here, PrimeField(p).add(values, mask))
    channel.send(Phase.CODES, Step(0), devices, servers[[1, 1]], mask)


def silent(_: Inputs, channel: Channel) -> None:
    """Draws a coin and says nothing."""
    channel.coins.uniform(P, (1,))


def protocol(p: int = P, **changes: Any) -> Protocol:
    """The sharing, or a change of it."""
    return Protocol(partial(share, p=p, **changes), PARTIES, p, name=" ".join(changes) or "share")


GOOD, TWIN = protocol(), protocol(masks=1)
OF_TWO = Shape(p=5, T=2, senders=2)


def exactly(tested: Protocol, a: Any = A, b: Any = B, twin: Protocol = TWIN, **rest: Any) -> None:
    """By enumeration."""
    assert_exactly_private(tested, a, b, SERVER, broken_twin=twin, **rest)


def statistically(tested: Protocol, a: Any = A, b: Any = B, twin: Protocol = TWIN, **rest: Any) -> None:
    """By samples."""
    assert_statistically_private(tested, a, b, SERVER, broken_twin=twin, **{"advantage": 0.3, "seed": 1, **rest})


def by_trace(tested: Protocol, a: Any = A, b: Any = B, twin: Protocol = TWIN, **rest: Any) -> None:
    """By what the network sees."""
    assert_same_trace(tested, a, b, broken_twin=twin, **rest)


CHECKS = (exactly, statistically, by_trace)
Check = Callable[..., None]


@pytest.mark.parametrize("check", [exactly, statistically])
def test_a_sound_test_passes(check: Check) -> None:
    """Nothing below is refused for anything else than what its name says."""
    check(GOOD)


@pytest.mark.parametrize("check", CHECKS)
def test_inputs_that_are_ignored(check: Check) -> None:
    """A protocol that reads no input hides them all."""
    with pytest.raises(VacuousTestError, check=about("protocol")):
        check(protocol(reads=False))


@pytest.mark.parametrize("check", CHECKS)
def test_nothing_sent(check: Check) -> None:
    """Nobody learns anything of parties that say nothing."""
    with pytest.raises(VacuousTestError, check=about("protocol")):
        check(Protocol(silent, PARTIES, P))


@pytest.mark.parametrize("check", [exactly, statistically])
def test_a_coalition_that_is_sent_nothing(check: Check) -> None:
    """A server that nobody writes to sees nothing, and its view has no coordinates."""
    with pytest.raises(VacuousTestError, check=about("coalition")):
        check(protocol(heard=False))


@pytest.mark.parametrize("check", CHECKS)
def test_inputs_that_are_equal_in_the_field(check: Check) -> None:
    """3 and 14 are one element of a field of 11; where the modulus was not told, the run on equal coins shows it."""
    with pytest.raises(VacuousTestError, match=r"must differ modulo the protocol's modulus; .* equal modulo 11"):
        check(GOOD, b=[14, 4, 0, 0])
    untold = Protocol(partial(share, p=P), PARTIES)
    with pytest.raises(VacuousTestError, check=about("protocol")):
        check(untold, b=[14, 4, 0, 0])


def sum_of(inputs: Inputs) -> int:
    """What a server may know."""
    return int(inputs[:2].sum())


def nothing_of(_: Inputs) -> None:
    """What one of two servers may know."""


def simulated(leakage: Callable[[Inputs], Any], tested: Protocol = GOOD, inputs: Any = A) -> None:
    """A simulator that is given what `leakage` returns, and runs the sharing on it as far as it can."""

    def simulator(given: Any, channel: Channel) -> None:
        values = np.array(given) if given is not None and np.size(given) == 4 else np.zeros(4, dtype=np.int64)
        tested.run(values, channel)

    assert_simulatable(tested, inputs, SERVER, simulator, leakage=leakage, broken_twin=TWIN)


@pytest.mark.parametrize(
    "leakage",
    [lambda x: x, lambda x: x[:3], lambda x: {"rows": list(x)}, lambda x: ("all", x.reshape(2, 2).tolist())],
    ids=["identity", "the honest rows", "in a mapping", "reshaped"],
)
def test_leakage_that_is_the_identity(leakage: Callable[[Inputs], Any]) -> None:
    """A simulator that knows everything can make up everything, and is not needed for what it knows."""
    simulated(nothing_of)
    with pytest.raises(VacuousTestError, check=about("leakage")):
        simulated(leakage)


@pytest.mark.parametrize(
    "check", [assert_exactly_private, partial(assert_statistically_private, advantage=0.3, seed=1)]
)
def test_a_coalition_that_is_too_small(check: Callable[..., Any]) -> None:
    """Of a sharing that withstands two relays one shows nothing; two do, and a reason lets one stand."""
    a, b = OF_TWO.inputs(0, 0), OF_TWO.inputs(0, 1)
    good, twin = Sharing(OF_TWO).protocol, mutated(OF_TWO, "one mask for all", masks=shared_across(0)).protocol
    with pytest.raises(VacuousTestError, check=about("coalition")):
        check(good, a, b, OF_TWO.colluders[:1], broken_twin=twin)
    check(good, a, b, OF_TWO.colluders, broken_twin=twin)
    found = check(good, a, b, OF_TWO.colluders[:1], broken_twin=twin, waived={"coalition": "one relay is the case"})
    assert "waived, coalition: one relay is the case" in found.notes


@pytest.mark.parametrize("check", CHECKS)
def test_a_twin_that_is_the_protocol(check: Check) -> None:
    """A twin without a flaw is no twin, under any name."""
    with pytest.raises(VacuousTestError, check=about("broken_twin")):
        check(GOOD, twin=GOOD)
    again = protocol()
    with pytest.raises(VacuousTestError, match="found the protocol itself"):
        check(GOOD, twin=Protocol(again.run, PARTIES, P, name="another name"))


@pytest.mark.parametrize("check", CHECKS)
def test_values_that_are_all_equal(check: Check) -> None:
    """Under one mask for all equal values give equal shares, whatever the value: the flaw itself passes."""
    flaw, clear = protocol(masks=1), protocol(masks=1, heard=True)
    assert clear is not flaw
    with pytest.raises(VacuousTestError, check=about("inputs_a and inputs_b")):
        check(flaw, [3, 3, 0, 0], [4, 4, 0, 0])
    with pytest.raises(VacuousTestError, check=about("inputs")):
        simulated(sum_of, inputs=[3, 3, 0, 0])


def test_a_twin_with_other_messages() -> None:
    """A twin that says more might be rejected for that; the difference is named, and may be waived with a reason."""

    def talkative(inputs: Inputs, channel: Channel) -> None:
        share(inputs, channel, p=P, masks=1)
        ends = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SERVER)
        channel.send(Phase.VALUES, Step(0), *ends, np.zeros((*channel.batch_shape, 2)))

    twin = Protocol(talkative, PARTIES, P)
    with pytest.raises(VacuousTestError, check=about("broken_twin")):
        exactly(GOOD, twin=twin)
    exactly(GOOD, twin=twin, waived={"trace": "the flaw is a message more"})


@pytest.mark.parametrize(("waived", "message"), [({"inputs": "no reason"}, "waived"), ({"trace": " "}, "waived")])
def test_waivers_have_known_names_and_reasons(waived: dict[str, str], message: str) -> None:
    """The rules that every test must obey cannot be waived, and others not in silence."""
    for check in CHECKS:
        with pytest.raises(InputError, check=about(message)):
            check(GOOD, waived=waived)


def labelled_sealed(inputs: Inputs, channel: Channel) -> None:
    """Sends the secret in the clear, and calls it sealed."""
    devices, server = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SERVER)[[0, 0]]
    values = np.broadcast_to(inputs[devices], (*channel.batch_shape, 2))
    channel.send(Phase.CODES, Step(0), devices, server, channel.coins.uniform(P, (2,)))
    channel.send(Phase.SEALED, Step(0), devices, server, values)


def test_content_that_is_called_sealed() -> None:
    """Nobody looks into sealed messages, so none with a content of its own may reach the coalition."""
    with pytest.raises(VacuousTestError, check=about("payload of phase sealed")):
        exactly(Protocol(labelled_sealed, PARTIES, P))


def fixed(inputs: Inputs, channel: Channel, *, flawed: bool = False) -> None:
    """A rounded value without any coin: two values that round alike look the same."""
    devices, server = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SERVER)[[0, 0]]
    values = inputs[devices] // (1 if flawed else 2)
    values = values + np.arange(2) * inputs[0]
    channel.send(Phase.VALUES, Step(0), devices, server, np.broadcast_to(values, (*channel.batch_shape, 2)))


def test_one_tape_is_warned_of() -> None:
    """A protocol without coins from the channel has one tape, and enumeration compares two views."""

    def hidden(inputs: Inputs, channel: Channel, *, flawed: bool = False) -> None:
        fixed(inputs, channel, flawed=flawed)
        ends = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SERVER)[[1, 1]]
        payload = np.broadcast_to(inputs[:2], (*channel.batch_shape, 2))
        channel.send(Phase.VALUES, Step(1), *ends, payload)

    with pytest.warns(PrivacyTestWarning, match="found one coin tape of hidden"):
        exactly(
            Protocol(hidden, PARTIES, P), [3, 4, 0, 0], [3, 5, 0, 0], Protocol(partial(hidden, flawed=True), PARTIES, P)
        )


def noisy(inputs: Inputs, channel: Channel, how: Callable[[Channel, int], None]) -> None:
    """Masked values, and whatever is done with the second secret beside."""
    share(inputs, channel, p=P)
    how(channel, int(inputs[1]))


def in_order(channel: Channel, secret: int) -> None:
    """Two messages, the secret says which first."""
    ends = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SERVER)
    for phase in (Phase.KEYS, Phase.TAGS)[:: 1 if secret % 2 else -1]:
        channel.send(phase, Step(0), *ends, np.zeros((*channel.batch_shape, 2)))


def in_dtype(channel: Channel, secret: int) -> None:
    """Zeros of a type that the secret chooses."""
    ends = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SERVER)
    dtype = np.dtype(np.int32 if secret % 2 else np.float32)
    channel.send(Phase.KEYS, Step(0), *ends, np.zeros((*channel.batch_shape, 2), dtype=dtype))


def in_size(channel: Channel, secret: int) -> None:
    """Zeros that are declared to be as long on the wire as the secret says."""
    ends = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SERVER)
    channel.send(Phase.KEYS, Step(0), *ends, np.zeros((*channel.batch_shape, 2)), wire_bytes=8 + secret)


def in_incidents(channel: Channel, secret: int) -> None:
    """Something goes wrong where the secret is odd."""
    if secret % 2:
        channel.note_incident(Step(0), 0, "was late")


def in_errors(channel: Channel, secret: int) -> None:
    """The run ends with an error where the secret is odd."""
    if secret % 2:
        raise ProtocolError(f"{channel.parties} must agree; they do not")


@pytest.mark.parametrize("how", [in_order, in_dtype, in_size, in_incidents, in_errors])
def test_whatever_is_seen_is_compared(how: Callable[[Channel, int], None]) -> None:
    """Order, type and declared size of messages, incidents, and errors tell the secret, whatever the payloads do."""
    leaky = Protocol(partial(noisy, how=how), PARTIES, P)
    for check in (exactly, statistically):
        with pytest.raises(NotPrivateError, match="number, order, types and lengths of the messages"):
            check(leaky)


@pytest.mark.parametrize("batched", [True, False])
def test_a_protocol_that_never_ends_is_an_error(batched: bool) -> None:
    """Equal errors are no privacy: what every run raises is raised."""

    def broken(inputs: Inputs, channel: Channel) -> None:
        share(inputs, channel, p=P)
        raise ProtocolError("relays must answer; none did")

    with pytest.raises(ProtocolError, check=about("relays")):
        statistically(Protocol(broken, PARTIES, P, batched=batched))


def with_dummies(inputs: Inputs, channel: Channel, *, tells: bool = False, masks: int = 2) -> None:
    """A random number of dummies behind the shares; none for an odd secret, where it tells."""
    share(inputs, channel, p=LARGE, masks=masks)
    sender, server = channel.parties.ids(Role.DEVICE)[:1], channel.parties.ids(Role.SERVER)[:1]
    for _ in range(int(channel.coins.uniform(1 if tells and inputs[1] % 2 else 4, ()))):
        channel.send(Phase.VALUES, Step(1), sender, server, channel.coins.uniform(LARGE, (1,)))


def test_a_random_number_of_dummies_is_a_distribution() -> None:
    """Views of different length are compared as they are: a number that depends on coins alone tells nothing."""
    good, tells, twin = (
        Protocol(partial(with_dummies, **changes), PARTIES, LARGE, batched=False)
        for changes in ({}, {"tells": True}, {"masks": 1})
    )
    statistically(good, twin=twin, advantage=0.6)
    with pytest.raises(NotPrivateError, match="number, order, types and lengths of the messages"):
        statistically(tells, twin=tells, advantage=0.6)
