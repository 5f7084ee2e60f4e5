"""Noise that relays draw together: its law exactly, for every coalition, and what is refused."""

import itertools
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fgl_reproduction.methods.gap.joint_noise import JointNoise, NoisyRelays
from fgl_secure.algebra import PrimeField
from fgl_secure.coins import Coins, SimulationCoins, TapeCoins
from fgl_secure.dp import (
    Account,
    BudgetExhaustedError,
    GaussianAccount,
    IntegerNoise,
    Perturbation,
    PrivacyTarget,
    Relation,
    Unit,
    grid_rows,
)
from fgl_secure.errors import FieldRangeError, InputError, ProtocolError
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.relay_coded.relays import RelayState
from fgl_secure.protocols.topology import NEIGHBOURS, Topology
from fgl_secure.runtime import Channel, Private, Role, Secret, Step, Strength
from fgl_secure.statistics.lower_bounds import gaussian_bound
from fgl_secure.testing import Protocol, protocol_of
from fgl_secure.typing import Ids
from tests.error_codes import about
from tests.protocols.conformance import channel_of, opened, triangle
from tests.protocols.relay_coded.test_privacy import SILOS, between, device, distance, inputs, relays, small

MESSAGE = Relation(Unit.MESSAGE)


@dataclass(frozen=True, slots=True)
class SmallNoise(IntegerNoise):
    """A law on -1, 0 and 1 that one coin of a field of p elements decides: 1 of p each for -1 and 1."""

    modulus: int
    sigma: float = 2.0**40
    largest: int = 1
    total_variation: float = 0.0
    source: str = "none"

    def sample(self, coins: Coins, shape: tuple[int, ...]) -> NDArray[np.int64]:
        coin = coins.uniform(self.modulus, shape)
        drawn: NDArray[np.int64] = (coin == 1).astype(np.int64) - (coin == 2)
        return drawn

    def account(self, shares: int, l2: float, l1: float) -> Account:  # noqa: ARG002  # like any Gaussian
        return GaussianAccount(self.sigma * shares**0.5 / l2)

    @property
    def law(self) -> dict[int, Fraction]:
        return {-1: Fraction(1, self.modulus), 0: 1 - Fraction(2, self.modulus), 1: Fraction(1, self.modulus)}


def together(law: dict[int, Fraction], count: int, p: int) -> dict[int, Fraction]:
    """The law of a sum of so many, modulo p."""
    found = {0: Fraction(1)}
    for _ in range(count):
        total: dict[int, Fraction] = {}
        for (a, x), (b, y) in itertools.product(found.items(), law.items()):
            total[(a + b) % p] = total.get((a + b) % p, Fraction(0)) + x * y
        found = total
    return found


def moved(law: dict[int, Fraction], p: int, by: int) -> Fraction:
    """Total variation of a law modulo p and of the same law moved."""
    return sum((abs(law.get(x, Fraction(0)) - law.get((x - by) % p, Fraction(0))) for x in range(p)), Fraction(0)) / 2


def tiny(p: int, T: int, colluding: int = 1, roles: Any = NoisyRelays) -> JointNoise:
    """Over a small field, with noise on -1, 0 and 1."""
    inner, target = small(p, T), PrivacyTarget(8.0, 1e-5, MESSAGE, 20)
    inner = replace(inner, roles=replace(inner.roles, relays=roles))
    return JointNoise(inner, Perturbation(target, 1.0, 1, 0, inner.R - colluding, SmallNoise(p)), colluding)


def watched(scheme: JointNoise) -> Protocol:
    """One sender, one receiver and a bystander, as a protocol under test."""
    case = between(3, [(0, 2)], scheme.inner.R)
    return protocol_of(scheme, case.grouping, case.directory)


TINY = (7, 11)


@pytest.mark.parametrize("p", TINY)
def test_a_receiver_learns_a_sum_with_the_noise_of_relays_outside_its_coalition(p: int) -> None:
    """Exactly: with c relays, and all silos, it sees the sum moved by the other R - c shares, for every coalition."""
    protocol, law = watched(tiny(p, 1)), SmallNoise(p).law
    for c in range(2):
        for some in itertools.combinations(range(2), c):
            seen = distance(protocol, inputs(0), inputs(1), (*device(2), *relays(*some), *SILOS))
            assert seen == moved(together(law, 2 - c, p), p, 1) < 1
    for relay in range(2):
        assert distance(protocol, inputs(0), inputs(1), (*relays(relay), *SILOS)) == 0


class QuietRelays(NoisyRelays):
    """All relays but the first add none."""

    def _draw(self, relay: RelayState, shape: tuple[int, ...]) -> Ids:
        noise = super()._draw(relay, shape)
        return noise * int(relay.party == self._all_relays[0])


class UnscaledRelays(NoisyRelays):
    """Noise is added to shares as it is: the receiver multiplies it by a Lagrange coefficient."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._scales = np.ones_like(self._scales)


def test_relays_that_leave_noise_out_are_noticed() -> None:
    """The broken twin: together with the first relay the receiver sees the sum as it is."""
    protocol = watched(tiny(11, 1, roles=QuietRelays))
    assert distance(protocol, inputs(0), inputs(1), (*device(2), *relays(0))) == 1
    assert distance(protocol, inputs(0), inputs(1), (*device(2), *relays(1))) < 1


def test_all_tapes_give_the_sum_with_the_law_of_all_shares() -> None:
    """And not when shares of noise are not divided by their coefficients: the broken twin."""
    p, case = 11, between(3, [(0, 2), (1, 2)], 2)
    for roles, right in ((NoisyRelays, True), (UnscaledRelays, False)):
        coins = TapeCoins(p, 4)
        session = opened(tiny(p, 1, roles=roles), Channel(case.directory, coins), case.grouping, 1)
        sums = session.sum(np.array([[1.0], [1.0], [0.0]]), Step(0))[:, 2, 0]
        assert coins.unused_coins == 0
        found = {int(x) % p: Fraction(count, len(sums)) for x, count in Counter(sums.tolist()).items()}
        expected = {(x + 2) % p: chance for x, chance in together(SmallNoise(p).law, 2, p).items()}
        assert (found == expected) == right


def joint(T: int = 1, colluding: int = 1, profile: Profile = Profile.SHOWN, **changes: Any) -> JointNoise:
    """At production size, calibrated for messages."""
    target = PrivacyTarget(4.0, 1e-5, MESSAGE, changes.pop("releases", 2))
    settings = Perturbation.calibrate(target, clip=1.0, width=3, honest=T + 1 - colluding)
    inner = RelayCoded(T=T, R=T + 1, k_min=1, profile=profile, **changes)
    return JointNoise(inner, settings, colluding)


def sums_of(scheme: JointNoise, seed: int = 0, devices: int = 400) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Noisy sums of a ring of devices and exact ones, in grid units."""
    everyone = np.arange(devices)
    around = (everyone + 1) % devices
    edges = list(zip([*everyone.tolist(), *around.tolist()], [*around.tolist(), *everyone.tolist()], strict=True))
    case, rows = between(devices, edges, scheme.inner.R), np.random.default_rng(seed).normal(size=(devices, 3))
    bits = scheme.settings.fraction_bits
    noisy = opened(scheme, Channel(case.directory, SimulationCoins(seed)), case.grouping, 3).sum(rows, Step(0))
    units, exact = grid_rows(rows, 1.0, bits).rows, np.zeros((devices, 3))
    np.add.at(exact, case.grouping.target, units[case.grouping.source])
    return noisy * 2.0**bits, exact


@pytest.mark.parametrize("T", [1, 2, 3])
def test_a_sum_holds_each_relay_s_share_once(T: int) -> None:
    """To the unit: so its law, given what any relays drew, is that of the other relays' shares."""
    scheme, case = joint(T, T), between(4, [(0, 3), (1, 3), (2, 0)], T + 1)
    channel, rows = channel_of(case.directory), np.random.default_rng(T).normal(size=(4, 3))
    bits = scheme.settings.fraction_bits
    sums = opened(scheme, channel, case.grouping, 3).sum(rows, Step(0)) * 2.0**bits
    exact = np.zeros((4, 3), dtype=np.int64)
    np.add.at(exact, case.grouping.target, grid_rows(rows, 1.0, bits).rows[case.grouping.source])
    drawn = [batch for batch in channel.transcript.private if batch.kind is Private.COINS and batch.name == "noise"]
    assert sorted({int(batch.owners[0]) for batch in drawn}) == case.directory.ids(Role.RELAY).tolist()
    shares = np.stack([np.asarray(batch.values, dtype=np.int64) for batch in drawn]).sum(axis=0)
    found = (sums - exact).astype(np.int64)[[0, 3]]
    assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, shares.tolist()))


@pytest.mark.parametrize(("T", "colluding"), [(1, 1), (2, 1), (2, 2), (2, 0)])
@pytest.mark.parametrize("profile", Profile)
def test_the_noise_of_a_sum_has_the_variance_that_is_stated(T: int, colluding: int, profile: Profile) -> None:
    """R / (R - c) times the calibrated one, on integers, at production size."""
    scheme = joint(T, colluding, profile, **({"max_degree": 2} if profile is Profile.HIDDEN else {}))
    noisy, exact = sums_of(scheme)
    noise, settings = (noisy - exact).ravel(), scheme.settings
    assert (noise == np.rint(noise)).all()
    calibrated = settings.noise.sigma * np.sqrt(settings.honest)
    expected = calibrated * np.sqrt((T + 1) / (T + 1 - colluding))
    assert noise.std() == pytest.approx(expected, rel=5 / np.sqrt(2 * len(noise)))
    assert stats.kstest(noise / expected, "norm").pvalue > 1e-4


def test_canaries_stay_below_the_claim_against_a_colluding_relay() -> None:
    """A receiver subtracts a relay's noise: its bound is below the claim, and above it with noise for one more."""
    for calibrated_for, kept in ((1, True), (0, False)):
        scheme = joint(1, calibrated_for, releases=1)
        noise = scheme.settings.noise.sample(SimulationCoins(1), (8000,))  # of the one relay that does not collude
        scores = noise[:4000] + scheme.settings.grid_clip, noise[4000:]
        bound = gaussian_bound(scores[0].astype(np.float64), scores[1].astype(np.float64), delta=1e-5)
        assert (bound.epsilon <= 4.0) == kept


def test_relays_make_no_sum_beyond_the_budget() -> None:
    scheme, case = joint(), between(3, [(0, 2), (1, 2)], 2)
    session = opened(scheme, channel_of(case.directory), case.grouping, 3)
    for number in range(2):
        session.sum(np.zeros((3, 3)), Step(number))
    with pytest.raises(BudgetExhaustedError):
        session.sum(np.zeros((3, 3)), Step(2))


def test_a_relay_that_drops_out_leaves_no_sum() -> None:
    """So no sum has fewer shares of noise than are accounted for."""
    case = between(3, [(0, 2), (1, 2)], 2)
    last = int(case.directory.ids(Role.RELAY)[1])
    channel = channel_of(case.directory, lambda _phase, _step, senders, _receivers: senders != last)
    with pytest.raises(ProtocolError):
        opened(joint(), channel, case.grouping, 3).sum(np.zeros((3, 3)), Step(0))


def test_the_claim_names_the_coalition() -> None:
    claim = joint(2, 1).claim_for(Topology(NEIGHBOURS, triangle().grouping, 3))
    (promise,) = (each for each in claim.guarantees if each.strength is Strength.DIFFERENTIAL_PRIVACY)
    assert promise.secret is Secret.EMBEDDING
    assert promise.covers({Role.RELAY: 1, Role.DEVICE: 9, Role.SILO: 3})
    assert not promise.covers({Role.RELAY: 2})


def test_settings_that_leave_a_sum_without_noise_are_refused() -> None:
    good = joint()
    for changes, named in (({"R": 3}, "R"), ({"k_min": 2}, "k_min")):
        with pytest.raises(InputError, check=about(named)):
            replace(good, inner=replace(good.inner, **changes))  # type: ignore[arg-type]
    with pytest.raises(InputError, check=about("colluding")):
        replace(good, colluding=2)
    with pytest.raises(InputError, check=about("honest")):
        replace(good, colluding=0)
    case = between(3, [(0, 2), (1, 2)], 2)
    with pytest.raises(InputError, check=about("width")):
        opened(good, channel_of(case.directory), case.grouping, 4)
    narrow = replace(good, inner=replace(good.inner, field=PrimeField(10_007)))
    with pytest.raises(FieldRangeError):
        opened(narrow, channel_of(case.directory), case.grouping, 3)
