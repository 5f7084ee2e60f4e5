"""What relays, silos and targets learn of relay-coded messages: proofs by enumeration, and the same judges on flaws."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_reproduction.known_flaws.ideal_relays import IdealCryptography
from fgl_secure.algebra import PrimeField
from fgl_secure.coins import SimulationCoins, TapeCoins
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.relay_coded.cryptography import Cryptography
from fgl_secure.protocols.relay_coded.devices import Devices
from fgl_secure.protocols.relay_coded.plan import DUMMY
from fgl_secure.runtime import (
    Channel,
    Direction,
    Directory,
    MessageBatch,
    Messages,
    Party,
    Phase,
    Recording,
    Role,
    Step,
)
from fgl_secure.runtime.transcript import Endpoints
from fgl_secure.statistics.exact import compare_exactly
from fgl_secure.testing import (
    NotPrivateError,
    NotSimulatableError,
    Protocol,
    assert_exactly_private,
    assert_same_trace,
    assert_simulatable,
    assert_statistically_private,
    protocol_of,
)
from fgl_secure.testing.arms import Arm, align_views
from fgl_secure.testing.protocol import Inputs
from tests.enumeration import FEW, GRID, PRIMES
from tests.error_codes import about
from tests.power import sampled_by_entries, seeing
from tests.protocols.conformance import opened
from tests.protocols.relay_coded import twins
from tests.protocols.relay_coded.twins import Twin, kept_by, under, with_devices, with_relays
from tests.strategies import Parties, grouping_over

SENT = (-1, 0, 1)  # what one coordinate can be at bound 1 without fraction bits, in sums of two over five elements
ONE_SUM = (Step(0),)
SHAPES = [(p, T, R) for p, T in GRID for R in (T + 1, T + 2) if (p == 5 or R < 4)]


def small(p: int, T: int, R: int | None = None, k_min: int = 1) -> RelayCoded:
    """The scheme over a small field under ideal cryptography: the machines are those of every other run."""
    field = PrimeField(p)
    ideal = IdealCryptography
    return RelayCoded(
        field, T=T, R=R or T + 1, k_min=k_min, bound=1.0, fraction_bits=0, cryptography=ideal, profile=Profile.SHOWN
    )


def hidden(p: int, T: int, most: int) -> RelayCoded:
    """The same under the default profile: everybody sends so many messages, covers among them, by way of two silos."""
    return replace(small(p, T), profile=Profile.HIDDEN, max_degree=most)


def both_ways(edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Edges, and the same the other way round."""
    return [*edges, *((u, v) for v, u in edges)]


def between(devices: int, edges: list[tuple[int, int]], relays: int) -> Parties:
    """Devices that own a row and a group each, the first in silo 0 and all others in silo 1."""
    directory, everyone = Directory.hierarchy(2, devices, relays), np.arange(devices)
    silo_of = (everyone > 0).astype(np.int64)
    return Parties(directory, grouping_over(directory, silo_of, everyone, everyone, np.array(edges).T))


def enumerable(
    scheme: RelayCoded, edges: list[tuple[int, int]], devices: int = 3, steps: tuple[Step, ...] = ONE_SUM
) -> Protocol:
    """The scheme as a protocol under test; partners have edges both ways."""
    case = between(devices, both_ways(edges) if scheme.anonymous else edges, scheme.R)
    return protocol_of(scheme, case.grouping, case.directory, steps=steps)


def named(protocol: Protocol, name: str) -> Protocol:
    """A protocol by the name of its flaw."""
    return replace(protocol, name=name)


def inputs(*rows: int | tuple[int, ...], devices: int = 3) -> NDArray[np.float64]:
    """What each device sends in each step, [devices, steps, 1], padded with devices that send zero."""
    by_step = [row if isinstance(row, tuple) else (row,) for row in rows]
    by_step += [(0,) * len(by_step[0])] * (devices - len(by_step))
    return np.array(by_step, dtype=np.float64)[..., None]


def distance(protocol: Protocol, a: Inputs, b: Inputs, coalition: tuple[Party, ...]) -> Fraction:
    """Exact total variation of a coalition's joint views, over all coin tapes."""
    arms = [Arm(protocol, values, coalition).on_all_tapes() for values in (a, b)]
    views = align_views(arms[0], arms[1], protocol.parties)
    return compare_exactly(views.a, views.b).total_variation


def relays(*which: int) -> tuple[Party, ...]:
    """Relays of these numbers."""
    return tuple(Party(Role.RELAY, j) for j in which)


def device(number: int) -> tuple[Party, ...]:
    """One device."""
    return (Party(Role.DEVICE, number),)


SILOS = (Party(Role.SILO, 0), Party(Role.SILO, 1), Party(Role.SERVER, 0))
TO_LAST, TO_ONE, TO_TWO = [(0, 2)], [(0, 2), (1, 2)], [(0, 1), (0, 2)]
PAIRS = list(itertools.product(SENT, repeat=2))


@pytest.mark.parametrize(("p", "T", "R"), SHAPES)
def test_T_relays_learn_nothing_of_two_senders(p: int, T: int, R: int) -> None:  # noqa: N802
    """Any T relays with all silos see the same counts for every pair of embeddings, whatever their sum."""
    protocol = enumerable(small(p, T, R), TO_ONE)
    for some in itertools.combinations(range(R), T):
        assert distance(protocol, inputs(0, 0), inputs(1, -1), relays(*some) + SILOS) == 0
        assert distance(protocol, inputs(0, 0), inputs(1, 1), relays(*some) + SILOS) == 0


@pytest.mark.parametrize("T", [1, 2])
def test_T_relays_learn_nothing_for_any_pair_of_secrets(T: int) -> None:  # noqa: N802
    """Over five elements every pair of embeddings is compared with every other."""
    protocol = enumerable(small(5, T), TO_ONE)
    for some in itertools.combinations(range(T + 1), T):
        assert {distance(protocol, inputs(0, 0), inputs(*b), relays(*some)) for b in PAIRS} == {Fraction(0)}


@pytest.mark.parametrize(("p", "T", "R"), SHAPES)
def test_one_relay_more_learns_everything(p: int, T: int, R: int) -> None:
    """Any T + 1 relays never see the same for two embeddings: the judge of the proofs above can reject."""
    protocol = enumerable(small(p, T, R), [(0, 2)])
    for some in itertools.combinations(range(R), T + 1):
        assert distance(protocol, inputs(0), inputs(1), relays(*some)) == 1


@pytest.mark.parametrize(("p", "T"), GRID)
def test_a_target_with_T_relays_learns_the_sum_and_no_more(p: int, T: int) -> None:  # noqa: N802
    """Equal sums look the same to the target with T relays and all silos; unequal sums never do."""
    protocol = enumerable(small(p, T), TO_ONE)
    for some in itertools.combinations(range(T + 1), T):
        together = (*device(2), *relays(*some), *SILOS)
        assert distance(protocol, inputs(1, -1), inputs(0, 0), together) == 0
        assert distance(protocol, inputs(1, 0), inputs(0, 1), together) == 0
        assert distance(protocol, inputs(1, 0), inputs(0, 0), together) == 1


@pytest.mark.parametrize("p", PRIMES)
def test_silos_and_bystanders_learn_nothing(p: int) -> None:
    """Silos, the server, other devices and T relays together see nothing of what two devices send a third."""
    protocol = enumerable(small(p, 1), TO_ONE, devices=4)
    together = (*SILOS, *device(3), *relays(0))
    for b in [(1, -1), (1, 1), (-1, 0)]:
        assert distance(protocol, inputs(0, 0, devices=4), inputs(*b, devices=4), together) == 0


EVERY_WAY = tuple(Step(r, 0, d) for r in range(2) for d in Direction)
LAYERS_TOO = (
    *(Step(r, layer) for r in range(2) for layer in range(2)),
    *(Step(0, layer, Direction.BACKWARD) for layer in (1, 0)),
)


@pytest.mark.parametrize(("p", "relay"), [(5, 0), (5, 1), (7, 0)])
def test_a_relay_learns_nothing_over_rounds_and_directions(p: int, relay: int) -> None:
    """Two rounds, forward and backward, together: repeated, changed and unchanged values look the same."""
    protocol = enumerable(small(p, 1), [(0, 1)], devices=2, steps=EVERY_WAY)
    same = inputs((0, 0, 0, 0), (0, 0, 0, 0), devices=2)
    for here, there in [((1, 1, 1, 1), (0,) * 4), ((1, 0, -1, 0), (0, 1, 0, -1)), ((1, 0, 1, 0), (0, 1, 0, 1))]:
        assert distance(protocol, same, inputs(here, there, devices=2), (*relays(relay), *SILOS)) == 0


def test_a_relay_learns_nothing_over_layers_too() -> None:
    """Two rounds and two layers forward, and one round backward, together, over five elements."""
    protocol = enumerable(small(5, 1), [(0, 1)], devices=2, steps=LAYERS_TOO)
    other = inputs((1, 0) * 3, (0, 1) * 3, devices=2)
    assert distance(protocol, np.zeros_like(other), other, relays(1)) == 0


@pytest.mark.parametrize("p", PRIMES)
def test_all_tapes_give_the_sum(p: int) -> None:
    """Whatever the coins, the target's sum is right: the enumeration runs the scheme and not a model of it."""
    case = between(3, TO_ONE, 2)
    coins = TapeCoins(p, 2)
    session = opened(small(p, 1), Channel(case.directory, coins), case.grouping, 1)
    sums = session.sum(np.array([[1.0], [1.0], [0.0]]), Step(0))
    assert coins.unused_coins == 0
    assert sums.shape == (p**2, 3, 1)
    assert (sums[:, :, 0] == [0, 0, 2]).all()


@dataclass(frozen=True, slots=True)
class Flaw:
    """A flaw, and the smallest run in which it shows.

    Attributes:
        name: what it is.
        twin: what makes it of the scheme.
        edges: who sends to whom.
        steps: the sums.
        a: inputs, one row for each device that sends.
        b: other inputs; what the coalition may know is the same.
        watching: by T, the coalition.
        distance: predicted total variation for a field of p elements and T.
        waived: rules of the kit that the flaw itself breaks.
    """

    name: str
    twin: Twin
    a: tuple[Any, ...]
    b: tuple[Any, ...]
    edges: tuple[tuple[int, int], ...] = ((0, 2),)
    steps: tuple[Step, ...] = ONE_SUM
    watching: Callable[[int], tuple[Party, ...]] = lambda T: relays(*range(1, T + 1))
    distance: Callable[[int], Fraction] = lambda _: Fraction(1)
    waived: Mapping[str, str] | None = None

    def question(self, scheme: RelayCoded) -> tuple[Protocol, Protocol, Inputs, Inputs]:
        """The protocol, its twin, and two inputs."""
        good, broken = (enumerable(each, list(self.edges), steps=self.steps) for each in (scheme, self.twin(scheme)))
        return good, named(broken, self.name), inputs(*self.a), inputs(*self.b)


def across(name: str, second: Step, key: Callable[[Step], Any]) -> Flaw:
    """One mask for two steps."""
    steps = (Step(0, 0), second)
    return Flaw(name, under(kept_by(key)), ((0, 0),), ((0, 1),), steps=steps)


MORE = MappingProxyType({"trace": "the flaw is messages more"})
FLAWS = (
    Flaw("shared mask across senders", under(twins.OneForAllSenders), (0, 0), (0, 1), tuple(TO_ONE)),
    across("shared mask across rounds", Step(1, 0), lambda s: (s.layer, s.direction, s.part, s.evaluation)),
    across("shared mask across layers", Step(0, 1), lambda s: (s.round, s.direction, s.part, s.evaluation)),
    across("shared mask across parts", Step(0, 0, part=1), lambda s: (s.round, s.layer, s.direction, s.evaluation)),
    across("shared mask with evaluation", Step(0, 0, evaluation=True), lambda s: (s.round, s.layer, s.direction)),
    Flaw("polynomial of degree T - 1", with_devices(twins.LowerDegree), (0,), (1,)),
    Flaw(
        "T + 1 shares to one relay", with_devices(twins.ExtraShare), (0,), (1,), watching=lambda T: relays(*range(T)),
        waived=MORE,
    ),
    Flaw("alpha_i = secret point", with_devices(twins.SecretPoint), (0,), (1,)),
    Flaw(
        "group answered twice with different sets", with_relays(twins.AnsweredTwice), (0, 0), (1, -1), tuple(TO_ONE),
        watching=lambda T: (*device(2), *relays(*range(T))), waived=MORE,
    ),
    Flaw("mask on 0 .. p - 2", under(twins.ShortRange), (0,), (1,), distance=lambda p: Fraction(1, p - 1)),
)  # fmt: skip


@pytest.mark.parametrize(("p", "T"), FEW)
@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.name)
def test_enumeration_passes_the_scheme_and_rejects_the_flaw(flaw: Flaw, p: int, T: int) -> None:
    """The proof for the scheme holds because the same proof fails for the flaw, by the predicted distance."""
    watching = flaw.watching(T)
    good, broken, a, b = flaw.question(small(p, T))
    found = assert_exactly_private(good, a, b, watching, broken_twin=broken, waived=flaw.waived)
    assert "total variation 0 " in found.statistic
    apart = distance(broken, a, b, watching)
    assert apart > 0
    if T == 1 and flaw.name != "mask on 0 .. p - 2":
        assert apart == flaw.distance(p)


HIDDEN_SHAPES = [(5, 1, TO_ONE), *((p, 1, TO_LAST) for p in PRIMES), (5, 2, TO_LAST)]
"""Each device sends as many messages as the last one has neighbours: covers of the others are among 3 or 6 in all."""


@pytest.mark.parametrize(("p", "T", "edges"), HIDDEN_SHAPES)
def test_by_default_T_relays_with_all_silos_learn_nothing(p: int, T: int, edges: list[tuple[int, int]]) -> None:  # noqa: N802
    """Any T relays and the silos that mix see the same counts whatever all devices send; T + 1 relays never do."""
    protocol = enumerable(hidden(p, T, len(edges)), edges)
    for some in itertools.combinations(range(T + 1), T):
        for b in [(1, -1, 1), (1, 1, -1)]:
            assert distance(protocol, inputs(0, 0, 0), inputs(*b), (*relays(*some), *SILOS)) == 0
    assert distance(protocol, inputs(0, 0, 0), inputs(1, -1, 1), relays(*range(T + 1))) == 1


@pytest.mark.parametrize("relay", [0, 1])
def test_by_default_a_target_with_T_relays_learns_the_sum_and_no_more(relay: int) -> None:  # noqa: N802
    """Equal sums look the same to the target with its own row, T relays and all silos; unequal sums never do."""
    protocol, together = enumerable(hidden(5, 1, 2), TO_ONE), (*device(2), *relays(relay), *SILOS)
    assert distance(protocol, inputs(1, -1, 1), inputs(0, 0, 1), together) == 0
    assert distance(protocol, inputs(1, 0, 1), inputs(0, 1, 1), together) == 0
    assert distance(protocol, inputs(1, 0, 1), inputs(0, 0, 1), together) == 1


def test_by_default_all_tapes_give_the_sum() -> None:
    """Whatever the coins, covers change no sum, and each device gets that of its own neighbours."""
    case, coins = between(3, both_ways(TO_ONE), 2), TapeCoins(5, 6)
    session = opened(hidden(5, 1, 2), Channel(case.directory, coins), case.grouping, 1)
    sums = session.sum(np.array([[1.0], [1.0], [-1.0]]), Step(0))
    assert coins.unused_coins == 0
    assert sums.shape == (5**6, 3, 1)
    assert (sums[:, :, 0] == [-1, -1, 2]).all()


class _ToldSilos(Devices):
    """Silos get the last relay's shares as they hand them on."""

    def _masked_rows(self) -> Iterator[Messages]:
        for messages in super()._masked_rows():
            yield messages
            last = messages["share"][..., -1:]
            yield self._wire.make(Phase.VALUES, self.now, (messages.senders, messages.receivers), 0, {"share": last})


class _AnsweredForFewer(twins.SmallCountsAnswered):
    """Relays answer every group a second time, for one message less of each."""

    def _answer(self, relay: Any) -> Iterator[Messages]:
        if not twins.answers_now(self, relay):
            return
        rows, (_, groups, _) = list(relay.rows), self._table(relay).by_group
        yield from super()._answer(relay)
        relay.rows, relay.sums, relay.done = rows, None, {}
        relay.present[groups.order[groups.starts[:-1]]] = False
        yield from super()._answer(relay)


SHOWN_BY_COVERS = (
    "shared mask across senders",
    "shared mask across rounds",
    "polynomial of degree T - 1",
    "T + 1 shares to one relay",
)
"""Flaws of other steps and other points go the same way as these."""
HIDDEN_FLAWS = (
    *(flaw for flaw in FLAWS if flaw.name in SHOWN_BY_COVERS),
    Flaw(
        "shares that silos can open", with_devices(_ToldSilos), (0, 0), (1, -1), tuple(TO_ONE),
        watching=lambda T: relays(*range(T)), waived=MORE,
    ),
    Flaw(
        "group answered again for fewer", with_relays(_AnsweredForFewer), (0, 0, 1), (1, -1, 1), tuple(TO_ONE),
        watching=lambda T: (*device(2), *relays(*range(T))), waived=MORE,
    ),
)  # fmt: skip


@pytest.mark.parametrize("flaw", HIDDEN_FLAWS, ids=lambda flaw: flaw.name)
def test_by_default_enumeration_rejects_the_flaw_too(flaw: Flaw) -> None:
    """With all silos in each coalition, and covers among the messages, the distance is the one predicted."""
    watching = (*flaw.watching(1), *SILOS)
    good, broken, a, b = flaw.question(hidden(5, 1, len(flaw.edges)))
    found = assert_exactly_private(good, a, b, watching, broken_twin=broken, waived=flaw.waived)
    assert "total variation 0 " in found.statistic
    assert distance(broken, a, b, watching) == flaw.distance(5)


@pytest.mark.parametrize("p", PRIMES)
@pytest.mark.parametrize("bits", [4, 8])
def test_remainders_are_rejected_by_their_bias(p: int, bits: int) -> None:
    """Words of a few bits modulo p favour some elements; the relay that gets a share sees it."""
    good = enumerable(small(p, 1), [(0, 2)])
    broken = named(enumerable(under(twins.remainder_of(bits))(small(p, 1)), [(0, 2)]), f"{bits} bits % p")
    assert_exactly_private(good, inputs(0), inputs(1), relays(1), broken_twin=broken)


def test_a_mask_shared_across_targets_links_them() -> None:
    """Under one mask for all targets equal rows give equal shares: whether two messages of a sender are one row shows.

    With a mask of its own for each message, the two shares are equal no more often than any.
    """
    case = between(3, TO_TWO, 2)
    two_rows = replace(case.grouping, source=np.array([0, 0]), target=np.array([1, 2]))
    good = protocol_of(small(5, 1), two_rows, case.directory)
    one_mask = under(twins.OneForAllTargets)(small(5, 1))
    broken = named(protocol_of(one_mask, two_rows, case.directory), "one mask for all targets")
    for protocol, expected in ((good, 5 / 25), (broken, 1.0)):
        (views,) = Arm(protocol, inputs(1)[:, 0], relays(1)).on_all_tapes()
        shares = [
            k for k, label in enumerate(align_views([views], [views], case.directory).labels) if "share[" in label
        ]
        assert np.mean(views.values[:, shares[0]] == views.values[:, shares[1]]) == expected


def test_a_mask_shared_across_directions_is_rejected() -> None:
    """Two devices that send to each other under one mask a step, whichever way: the relay sees the difference."""
    steps = (Step(0), Step(0, direction=Direction.BACKWARD))
    good = enumerable(small(5, 1), [(0, 1)], devices=2, steps=steps)
    one_mask = under(kept_by(lambda step: step.round))(small(5, 1))
    broken = named(enumerable(one_mask, [(0, 1)], devices=2, steps=steps), "one mask both ways")
    a, b = inputs((0, 0), (0, 0), devices=2), inputs((0, 0), (0, 1), devices=2)
    assert_exactly_private(good, a, b, relays(1), broken_twin=broken)
    assert distance(broken, a, b, relays(1)) == 1


def test_a_retry_with_a_new_payload_is_rejected() -> None:
    """The scheme refuses to sum a step twice; a twin that does so under the step's masks shows the difference."""
    retried = enumerable(small(5, 1), [(0, 2)], steps=(Step(0), Step(0)))
    with pytest.raises(ProtocolError, check=about("a step")):
        distance(retried, inputs((0, 0)), inputs((0, 1)), relays(1))
    two_rounds = enumerable(small(5, 1), [(0, 2)], steps=(Step(0), Step(1)))
    again = enumerable(twins.steps_summed_again(small(5, 1)), [(0, 2)], steps=(Step(0), Step(0)))
    broken = named(again, "retry under the same mask")
    waived = {"trace": "the flaw is a step that is named again"}
    assert_exactly_private(two_rounds, inputs((0, 0)), inputs((0, 1)), relays(1), broken_twin=broken, waived=waived)


def losing_the_first(protocol: Protocol) -> Protocol:
    """The protocol on a network that loses the first message of every relay."""

    def run(values: Inputs, channel: Channel) -> None:
        channel._loss = lambda phase, _, senders, __: np.arange(len(senders)) >= (phase is Phase.SHARES)
        protocol.run(values, channel)

    return replace(protocol, run=run)


def test_counts_below_k_min_are_not_answered() -> None:
    """When a message is lost, one of two is left, and k_min = 2 keeps it from the target; answered, it would tell."""
    scheme = small(5, 1, k_min=2)
    good, broken = (
        losing_the_first(enumerable(each, TO_ONE)) for each in (scheme, with_relays(twins.SmallCountsAnswered)(scheme))
    )
    assert_exactly_private(good, inputs(0, 0), inputs(0, 1), (*device(2), *relays(0)), broken_twin=broken)


def gradients(scheme: RelayCoded, *, clear: bool = False) -> Protocol:
    """Devices 1 and 2 send gradients to their silo; the twin beside that in the clear."""
    directory = Directory.hierarchy(2, 3, scheme.R)
    devices, silos = directory.ids(Role.DEVICE), directory.ids(Role.SILO)
    silo_of = np.array([0, 1, 1])
    grouping = between(3, TO_ONE, scheme.R).grouping
    grouping = replace(
        grouping, source=np.arange(3), target=silo_of, row_custodian=silos[silo_of], group_owner=silos,
        group_custodian=silos,
    )  # fmt: skip

    def run(values: Inputs, channel: Channel) -> None:
        opened(scheme, channel, grouping, 1).sum(values[:, 0], Step(0, -1))
        if clear:
            payload = np.broadcast_to(values[:, 0], (*channel.batch_shape, 3, 1))
            channel.send(Phase.GRADIENT, Step(0), devices, silos[silo_of], payload)

    return Protocol(run, directory, scheme.field.modulus, devices)


@pytest.mark.parametrize("p", PRIMES)
def test_a_silo_learns_the_sum_of_its_gradients_alone(p: int) -> None:
    """With T relays and the other silo, equal sums of gradients look the same; one in the clear would tell."""
    scheme = small(p, 1)
    together = (Party(Role.SILO, 1), *relays(0))
    a, b = inputs(0, 1, -1), inputs(0, 0, 0)
    assert_exactly_private(gradients(scheme), a, b, together, broken_twin=gradients(scheme, clear=True), waived=MORE)


@pytest.mark.parametrize("T", [1, 2])
def test_relays_are_simulated_from_nothing(T: int) -> None:
    """A simulator that runs the scheme on zeros makes up the view of T relays and all silos."""
    protocol = enumerable(small(5, T), TO_ONE)

    def simulator(_: None, channel: Channel) -> None:
        protocol.run(inputs(0, 0), channel)

    broken = named(enumerable(under(twins.OneForAllSenders)(small(5, T)), TO_ONE), "one mask for all senders")
    watching = (*relays(*range(T)), *SILOS)
    arguments = {"leakage": lambda _: None, "broken_twin": broken}
    found = assert_simulatable(protocol, inputs(0, 1), watching, simulator, **arguments)  # type: ignore[arg-type]
    assert found.check == "simulation, exact"
    with pytest.raises(NotSimulatableError):
        assert_simulatable(broken, inputs(0, 1), watching, simulator, **arguments)  # type: ignore[arg-type]


def test_a_target_and_relays_are_simulated_from_the_sum() -> None:
    """A simulator that gives the first sender the whole sum makes up the view of the target with T relays."""
    protocol = enumerable(small(5, 1), TO_ONE)

    def simulator(total: float, channel: Channel) -> None:
        protocol.run(inputs(int(total), 0), channel)

    broken = named(enumerable(with_relays(twins.AnsweredTwice)(small(5, 1)), TO_ONE), "answered twice")
    assert_simulatable(
        protocol, inputs(-1, 1), (*device(2), *relays(1)), simulator,
        leakage=lambda values: float(values[:2].sum()), broken_twin=broken, waived=MORE,
    )  # fmt: skip


PRODUCTION = {
    "derived": RelayCoded(k_min=1, bound=1.0, profile=Profile.SHOWN),
    "two masks": RelayCoded(T=2, R=3, k_min=1, bound=1.0, profile=Profile.SHOWN),
    "anon": RelayCoded(k_min=1, bound=1.0, profile=Profile.HIDDEN),
}


def production(scheme: RelayCoded) -> Protocol:
    """Two rounds between three devices that all are neighbours of the last."""
    case = between(3, both_ways(TO_ONE), scheme.R)
    steps = (Step(0, 0), Step(1, 0))
    return protocol_of(scheme, case.grouping, case.directory, steps=steps, batched=False)


def shares_alone(protocol: Protocol) -> Protocol:
    """The protocol with all that relays receive but shares left out: headers and keys are no news of values."""

    def shares(batch: MessageBatch) -> list[Any]:
        words = 4 if batch.phase is Phase.SHARES and batch["share"].dtype == np.uint32 else 0
        return [batch["share"][..., words:]] if batch.phase is Phase.SHARES else []

    return replace(protocol, run=sampled_by_entries(protocol.run, shares), batched=True)


def from_any_silo(protocol: Protocol) -> Protocol:
    """The protocol with shares as if relays had them from nowhere: which silo hands one on is drawn."""

    def run(values: Inputs, channel: Channel) -> None:
        protocol.run(values, channel)
        for at, batch in enumerate(channel.transcript.messages):
            if batch.phase is Phase.SHARES:
                channel.transcript.messages[at] = replace(batch, ends=Endpoints(batch.receivers, batch.receivers))

    return replace(protocol, run=run)


class _OneKey(Cryptography):
    """All circuits have one key for each relay, and the nonce names no round."""

    def circuit_keys(self, *given: Any) -> Any:
        keys = super().circuit_keys(*given)
        return np.repeat(keys[:, :1], keys.shape[1], axis=1)

    def nonce(self, step: Step, attempt: int = 0) -> bytes:
        return super().nonce(replace(step, round=0), attempt)


FORGETTING = {
    "derived": ("no round in the nonce", under(twins.nonce_without(round=0))),
    "anon": ("one key for all circuits", under(_OneKey)),
}


@seeing
@pytest.mark.parametrize("kind", FORGETTING)
def test_statistics_find_nothing_at_production_size(kind: str, advantage: float) -> None:
    """Over 2^31 - 1 elements with masks from streams, shares of two rounds tell nothing; where masks repeat they do."""
    (name, flaw), scheme = FORGETTING[kind], PRODUCTION[kind]
    good, broken = (shares_alone(from_any_silo(production(each))) for each in (scheme, flaw(scheme)))
    broken = named(broken, name)
    same, swapped = inputs((0, 0), (0, 0), (0, 0)), inputs((0, 1), (0, -1), (0, 0))
    assert_statistically_private(good, same, swapped, relays(1), broken_twin=broken, advantage=advantage)


def clear_with_relays(scheme: RelayCoded, edges: list[tuple[int, int]]) -> Protocol:
    """Values in the clear between the same parties."""
    case = between(3, edges, scheme.R)
    return protocol_of(Plaintext(), case.grouping, case.directory)


def test_the_kits_question_is_fair() -> None:
    """Values in the clear are rejected at the target by the same call that passes the scheme."""
    scheme = small(7, 1)
    good, clear = enumerable(scheme, TO_ONE), clear_with_relays(scheme, TO_ONE)
    target = (*device(2), *relays(0))
    waived = {"trace": "values in the clear are other messages"}
    assert_exactly_private(good, inputs(1, -1), inputs(0, 0), target, broken_twin=clear, waived=waived)
    with pytest.raises(NotPrivateError):
        assert_exactly_private(clear, inputs(1, -1), inputs(0, 0), device(2), broken_twin=clear)


@pytest.mark.parametrize("kind", PRODUCTION)
def test_traces_do_not_depend_on_values(kind: str) -> None:
    """What the network sees depends on who sends to whom, and not on what.

    Via which silos circuits go is drawn: on equal coins it is the same for all values.
    """
    good = on_equal_coins(production(PRODUCTION[kind]))

    def only_what_is_not_zero(values: Inputs, channel: Channel) -> None:
        senders = channel.parties.ids(Role.DEVICE)[np.flatnonzero(values[:, 0, 0])]
        channel.send(Phase.VALUES, Step(0), senders, senders, np.zeros((len(senders), 1)))

    twin = replace(good, run=only_what_is_not_zero)
    assert_same_trace(good, inputs((0, 0), (0, 0)), inputs((1, 0), (0, -1)), broken_twin=twin, runs=2)


def on_equal_coins(protocol: Protocol) -> Protocol:
    """The protocol on coins that are the same in all of its runs."""

    def run(values: Inputs, channel: Channel) -> None:
        equal = Channel(channel.parties, SimulationCoins(0), channel.recording)
        protocol.run(values, equal)
        channel.transcript.messages += equal.transcript.messages

    return replace(protocol, run=run)


RING = [(0, 1), (1, 2), (2, 3), (3, 0)]
WITH_CHORD = [*RING, (0, 2)]


def seen_of(edges: list[tuple[int, int]]) -> list[Any]:
    """Numbers and sizes of the messages of a run that silos and relays get, and the circuits of every group."""
    scheme = RelayCoded(k_min=1, bound=1.0, max_degree=3)
    case = between(4, both_ways(edges), scheme.R)
    channel = Channel(case.directory, SimulationCoins(2), Recording.everything())
    opened(scheme, channel, case.grouping, 1).sum(np.zeros((4, 1)), Step(0))
    seen: list[Any] = []
    for batch in channel.transcript.messages:
        if batch.phase in (Phase.TAGS, Phase.SHARE_SUMS):
            continue  # between devices, and to them
        seen.append((batch.phase, batch.item_bytes, sorted(zip(batch.senders, batch.receivers, strict=True))))
    for rows in channel.transcript.views(Role.RELAY).own("circuits"):
        for relay in np.unique(rows.owners):
            groups = rows.values[rows.owners == relay][:, 2]
            seen.append(sorted(np.unique(groups, return_counts=True)[1].tolist()))
    return seen


def test_nothing_that_silos_and_relays_get_depends_on_degrees() -> None:
    """With an edge more the same messages leave, in number and size, and every group has D circuits."""
    seen = seen_of(RING)
    assert seen == seen_of(WITH_CHORD)
    assert seen[-1] == [3] * 4


class _ShortCovers(Devices):
    """Rows that carry nothing lack what would be an entry."""

    def _masked_rows(self) -> Iterator[Messages]:
        for messages in super()._masked_rows():
            covers = self.rows(np.arange(len(messages))) == DUMMY
            yield messages.rows(np.flatnonzero(~covers))
            yield replace(messages.rows(np.flatnonzero(covers)), overhead=messages.overhead - 4)


Lengths = Counter[tuple[Phase, int]]
"""How many messages of each length there are in a phase."""


def lengths_of(scheme: RelayCoded) -> list[Lengths]:
    """What each of four devices sends its silo, and at last what all silos together send each other."""
    case = between(4, both_ways(WITH_CHORD), scheme.R)
    channel = Channel(case.directory, SimulationCoins(2), Recording.everything())
    opened(scheme, channel, case.grouping, 1).sum(np.ones((4, 1)), Step(0, 0))
    by_sender = {sender: Lengths() for sender in case.directory.ids(Role.DEVICE).tolist()}
    silos = Lengths()
    for batch in channel.transcript.messages:
        if batch.phase in (Phase.CIRCUITS, Phase.SEALED, Phase.MIXED):
            for sender, receiver in zip(batch.senders.tolist(), batch.receivers.tolist(), strict=True):
                if channel.parties.party_of(receiver).role is Role.SILO:
                    by_sender.get(sender, silos)[batch.phase, batch.item_bytes] += 1
    return [*by_sender.values(), silos]


def test_dummies_are_as_long_as_other_messages() -> None:
    """Devices send their silos, and these each other, as many messages of each length; short dummies show.

    There are three circuits and one for answers, and three rows.
    """
    scheme = RelayCoded(k_min=1, bound=1.0, max_degree=3)
    *devices, _ = lengths_of(scheme)
    assert devices == [devices[0]] * 4
    assert sorted(devices[0].values()) == [1, 3, 3]
    *shorter, _ = lengths_of(with_devices(_ShortCovers)(scheme))
    assert shorter[0] == shorter[2] != shorter[1]
