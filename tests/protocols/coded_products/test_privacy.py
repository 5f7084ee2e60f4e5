"""What relays and silos learn of factors: proofs by enumeration on the machines, and the same judges on flaws."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.coins import TapeCoins
from fgl_secure.protocols.coded_products import CodedProducts, OuterProduct, ProductLayout
from fgl_secure.runtime import Channel, MessageBatch, Party, Phase, Role, Step
from fgl_secure.statistics.exact import compare_exactly
from fgl_secure.testing import Protocol, assert_exactly_private, assert_statistically_private
from fgl_secure.testing.arms import Arm, align_views
from fgl_secure.testing.protocol import Inputs
from tests.power import sampled_by_entries, seeing
from tests.protocols.coded_products import twins
from tests.protocols.coded_products.cases import Members
from tests.protocols.coded_products.ideal import IdealProductCryptography
from tests.protocols.coded_products.twins import Twin, under, with_relays

Ints = NDArray[np.int64]

SILO = (Party(Role.SILO, 1),)
OTHERS = (Party(Role.SILO, 0), Party(Role.SERVER, 0))


def small(p: int = 5, T: int = 1, R: int = 3, k_min: int = 1) -> CodedProducts:
    """The scheme over one small field under ideal cryptography; the machines are those of every other run."""
    return CodedProducts(
        T=T, R=R, k_min=k_min, left=1.0, right=1.0, primes=(p,), least_bits=0,
        product_cryptography=IdealProductCryptography,
    )  # fmt: skip


def enumerable(scheme: CodedProducts, devices: int = 1, steps: int = 1, *, static: bool = False) -> Protocol:
    """Devices of silo 1, each with two numbers a step of which the product is summed: inputs [devices, steps, 2].

    Where the left number is static, that of the first step is taken.
    """
    case = Members.of([1] * devices, scheme.R)
    layout = ProductLayout((OuterProduct(1, 1, 1, static=static),))

    def run(inputs: Inputs, channel: Channel) -> None:
        sums = case.collective(scheme, layout, channel)
        for step in range(steps):
            left, right = (inputs[None, :, 0 if static and side == 0 else step, side, None] for side in range(2))
            sums.sum_units([None if static and step else left], [right], Step(step))

    return Protocol(run, case.directory, scheme.primes[0], case.topology.grouping.row_owner)


def inputs(*devices: tuple[int, int] | tuple[tuple[int, int], ...]) -> Ints:
    """Two numbers of each device; or several pairs of them, one a step."""
    by_step = [pairs if isinstance(pairs[0], tuple) else (pairs,) for pairs in devices]
    return np.array(by_step, dtype=np.int64)


def relays(*which: int) -> tuple[Party, ...]:
    """Relays of these numbers."""
    return tuple(Party(Role.RELAY, j) for j in which)


def distance(protocol: Protocol, a: Ints, b: Ints, coalition: tuple[Party, ...]) -> Fraction:
    """Exact total variation of a coalition's joint views, over all coin tapes."""
    return next(distances(protocol, (a, b), coalition))[2]


def distances(
    protocol: Protocol, some: Sequence[Ints], coalition: tuple[Party, ...]
) -> Iterator[tuple[Ints, Ints, Fraction]]:
    """That of any two of some inputs, each of which is played on all tapes once."""
    arms = [Arm(protocol, values, coalition).on_all_tapes() for values in some]
    for (one, a), (other, b) in itertools.combinations(zip(some, arms, strict=True), 2):
        views = align_views(a, b, protocol.parties)
        yield one, other, compare_exactly(views.a, views.b).total_variation


SOME = (inputs((0, 0)), inputs((1, 0)), inputs((0, -1)), inputs((1, 1)), inputs((-1, 1)), inputs((-1, -1)))


@pytest.mark.parametrize("relay", range(3))
def test_a_relay_learns_nothing_of_factors(relay: int) -> None:
    """Any relay with the server and another silo sees the same counts, whatever both numbers are."""
    for _, _, found in distances(enumerable(small()), SOME, (*relays(relay), *OTHERS)):
        assert found == 0


@pytest.mark.parametrize(("p", "relay"), [(5, 0), (5, 1), (5, 2), (7, 1)])
def test_a_silo_with_a_relay_learns_the_product_and_no_more(p: int, relay: int) -> None:
    """Equal products of different numbers look the same to the silo with any relay; unequal ones never do."""
    for one, other, found in distances(enumerable(small(p)), SOME, (*SILO, *relays(relay), *OTHERS)):
        same = (one.prod(axis=-1) == other.prod(axis=-1)).all()
        assert found == (0 if same else 1)


@pytest.mark.parametrize("relay", [0, 2])
def test_a_silo_with_a_relay_learns_the_sum_over_its_devices(relay: int) -> None:
    """Two devices: whatever their numbers, equal sums of products look the same; unequal ones never do."""
    some = inputs((1, 1), (1, -1)), inputs((0, 1), (0, 0)), inputs((1, 1), (0, 1)), inputs((-1, 0), (-1, -1))
    for a, b, found in distances(enumerable(small(), devices=2), some, (*SILO, *relays(relay))):
        assert found == (0 if a.prod(axis=-1).sum() == b.prod(axis=-1).sum() else 1)


def test_two_relays_learn_everything() -> None:
    """T + 1 relays never see the same for two inputs: the judge of the proofs above can reject."""
    protocol = enumerable(small())
    for some in itertools.combinations(range(3), 2):
        assert distance(protocol, SOME[3], SOME[5], relays(*some)) == 1


def two_rounds() -> Protocol:
    """Of a row that is shared once and multiplied twice."""
    return enumerable(with_relays(twins.UniformZero)(small()), steps=2, static=True)


@pytest.mark.parametrize("relay", [0, 2])
def test_two_rounds_with_a_static_row_tell_the_two_products(relay: int) -> None:
    """Equal products in both rounds look the same to the silo with a relay."""
    protocol, together = two_rounds(), (*SILO, *relays(relay))
    one, other = inputs(((1, 1), (0, -1))), inputs(((-1, -1), (0, 1)))  # 1 times 1 and -1, and -1 times -1 and 1
    assert distance(protocol, one, other, together) == 0
    nothing = inputs(((1, 0), (0, 0))), inputs(((0, 0), (0, 0)))
    assert distance(protocol, *nothing, together) == 0


def test_a_silo_tells_two_rounds_of_other_products() -> None:
    """The judge of the proofs above can reject."""
    assert distance(two_rounds(), inputs(((1, 1), (0, -1))), inputs(((1, 0), (0, 0))), SILO) == 1


def test_all_tapes_give_the_product() -> None:
    """Whatever the coins, the silo's sum is right: the enumeration runs the scheme and not a model of it."""
    case = Members.of([1, 1], 3)
    coins = TapeCoins(5, 7)
    sums = case.collective(small(), ProductLayout((OuterProduct(1, 1, 1),)), Channel(case.directory, coins))
    left, right = np.array([[[1], [1]]]), np.array([[[1], [1]]])
    found = sums.sum_units([left], [right], Step(0))
    assert coins.unused_coins == 0
    assert found.shape == (5**7, 2, 1)
    assert (found[:, :, 0] == [0, 2]).all()


@dataclass(frozen=True)
class Flaw:
    """A flaw, and the smallest run in which it shows.

    Attributes:
        name: what it is.
        twin: what makes it of the scheme.
        a: inputs.
        b: other ones, with the same sums.
        watching: the coalition.
        static: whether left numbers are shared once.
    """

    name: str
    twin: Twin
    a: Ints
    b: Ints
    watching: tuple[Party, ...]
    static: bool = False


ONE, MINUS = inputs((1, -1)), inputs((-1, 1))
FLAWS = (
    Flaw("no share of zero", with_relays(twins.NoZero), ONE, MINUS, (*SILO, *relays(0))),
    Flaw("no share of zero, to the silo alone", with_relays(twins.NoZero), inputs((1, 0)), inputs((0, 0)), SILO),
    Flaw("share of zero of degree T", with_relays(twins.LowZero), ONE, MINUS, (*SILO, *relays(0))),
    Flaw("one mask for both rows", under(twins.OneMaskForBothRows), ONE, inputs((1, 0)), relays(1)),
    Flaw("one mask for all devices", under(twins.OneMaskForAllDevices),
         inputs((1, 1), (1, 0)), inputs((1, 0), (0, 0)), relays(1)),
    Flaw("masks kept for the next round", under(twins.MasksKept),
         inputs(((1, 0), (1, 0))), inputs(((1, 0), (1, 1))), relays(1), static=True),
    Flaw("shares of zero kept for the next round", with_relays(twins.ZeroKept),
         inputs(((1, 1), (0, 1))), inputs(((-1, -1), (0, -1))), (*SILO, *relays(0)), static=True),
)  # fmt: skip


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.name)
def test_enumeration_passes_the_scheme_and_rejects_the_flaw(flaw: Flaw) -> None:
    """The proof for the scheme holds because the same proof fails for the flaw."""
    devices, steps = flaw.a.shape[:2]
    scheme = with_relays(twins.UniformZero)(small()) if steps > 1 else small()  # or there are too many tapes
    good, broken = (enumerable(each, devices, steps, static=flaw.static) for each in (scheme, flaw.twin(scheme)))
    found = assert_exactly_private(
        good, flaw.a, flaw.b, flaw.watching, broken_twin=replace(broken, name=flaw.name),
        waived={"coalition": "the smallest that sees the flaw"},
    )  # fmt: skip
    assert "total variation 0 " in found.statistic


def test_sums_of_fewer_than_k_min_are_not_answered() -> None:
    """When a device's shares are lost, one of two is left, and k_min = 2 keeps it from the silo; else it would tell."""

    def losing(protocol: Protocol) -> Protocol:
        def run(values: Inputs, channel: Channel) -> None:
            channel._loss = lambda phase, _, senders, __: (phase is not Phase.FACTOR_SHARES) | (senders > senders.min())
            protocol.run(values, channel)

        return replace(protocol, run=run)

    scheme = small(k_min=2)
    good, broken = (
        losing(enumerable(each, devices=2)) for each in (scheme, with_relays(twins.SmallSumsAnswered)(scheme))
    )
    waived = {"trace": "the flaw is an answer", "coalition": "the silo alone sees it"}
    one, other = inputs((0, 0), (1, 1)), inputs((0, 0), (0, 1))
    assert_exactly_private(good, one, other, SILO, broken_twin=replace(broken, name="k_min not kept"), waived=waived)


def produced(scheme: CodedProducts) -> Protocol:
    """Two rounds of two devices at production size: the shares that a relay is sent, entries for samples."""
    case = Members.of([1, 1], scheme.R)

    def run(values: Inputs, channel: Channel) -> None:
        layout = ProductLayout((OuterProduct(1, values.shape[-1], 1),))
        sums = case.collective(scheme, layout, channel)
        for step in range(2):
            sums.sum([values[None, :, step].astype(np.float64)], [np.ones((1, 2, 1))], Step(step))

    def shares(batch: MessageBatch) -> list[NDArray[np.int64]]:
        return [batch["share 0"][:, :-1]] if batch.phase is Phase.FACTOR_SHARES and "share 0" in batch.fields else []  # type: ignore[operator]

    return Protocol(sampled_by_entries(run, shares), case.directory, scheme.primes[0], case.topology.grouping.row_owner)


@seeing
def test_statistics_find_nothing_at_production_size(advantage: float) -> None:
    """With masks from streams, shares of two rounds tell a relay nothing; without the round in the nonce they do."""
    scheme = CodedProducts(k_min=1)
    broken = replace(produced(under(twins.NoRoundInMasks)(scheme)), name="no round in the nonce")
    same, other = np.array([[[0], [0]], [[0], [0]]]), np.array([[[0], [1]], [[0], [-1]]])
    assert_statistically_private(
        produced(scheme), same, other, relays(1), broken_twin=broken, advantage=advantage, pairs=12
    )
