"""Canaries: noise as claimed survives the audit, and every way to get it wrong does not."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.coins import Coins, SimulationCoins
from fgl_secure.dp import (
    Account,
    DiscreteGaussian,
    IntegerNoise,
    Perturbation,
    PrivacyTarget,
    Relation,
    Skellam,
    TabulatedNoise,
    Unit,
)
from fgl_secure.methods.hifgl.audit_target import canary_scores
from fgl_secure.protocols.perturbed import PerturbedScheme
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.statistics.lower_bounds import gaussian_bound

DELTA, STARS = 1e-5, 4000
MESSAGE, EDGE, NODE = Relation(Unit.MESSAGE), Relation(Unit.EDGE), Relation(Unit.NODE, 4)


def settings(
    epsilon: float = 4.0,
    relation: Relation = MESSAGE,
    releases: int = 4,
    honest: int = 2,
    family: type[TabulatedNoise] | None = None,
) -> Perturbation:
    """Calibrated settings for one coordinate."""
    target = PrivacyTarget(epsilon, DELTA, relation, releases)
    return Perturbation.calibrate(target, clip=1.0, width=1, honest=honest, family=family)


def lower_bound(noise: Perturbation, seed: int = 0, stars: int = STARS) -> float:
    """The bound that an audit of the scheme over plaintext, as its ideal functionality, finds at 95 %."""
    scores = canary_scores(PerturbedScheme(Plaintext(), noise), SimulationCoins(seed), stars=stars)
    return gaussian_bound(scores.present, scores.absent, delta=DELTA).epsilon


@pytest.mark.parametrize("noise", [
    settings(1.0, releases=1, honest=1),
    settings(4.0),
    settings(8.0, honest=5, releases=9),
    settings(4.0, EDGE, honest=3),
    settings(4.0, NODE, honest=3),
    settings(4.0, family=Skellam),
], ids=["once", "message", "eight", "edge", "device", "skellam"])  # fmt: skip
def test_claimed_noise_survives(noise: Perturbation) -> None:
    """The bound stays below the claimed epsilon, and above half of it: the audit can see what is there."""
    bound = lower_bound(noise)
    assert 0.5 * noise.target.epsilon * (noise.target.epsilon > 1) < bound < noise.target.epsilon


def test_audits_exceed_the_claim_no_more_often_than_stated() -> None:
    """Of 40 audits at 95 % at most 6 exceed the claim, and their mean is above half of it."""
    noise = settings(4.0, releases=1, honest=1)
    found = [lower_bound(noise, seed, 1000) for seed in range(40)]
    assert sum(bound > 4.0 for bound in found) <= 6
    assert np.mean(found) > 2.0


@dataclass(frozen=True, slots=True)
class Twin(IntegerNoise):
    """Noise that is accounted for as it should be, and drawn otherwise by its subclasses."""

    told: IntegerNoise
    honest: int

    @property
    def sigma(self) -> float:
        return self.told.sigma

    @property
    def largest(self) -> int:
        return self.told.largest

    @property
    def total_variation(self) -> float:
        return self.told.total_variation

    @property
    def source(self) -> str:
        return self.told.source

    def sample(self, coins: Coins, shape: tuple[int, ...]) -> NDArray[np.int64]:
        return self.told.sample(coins, shape)

    def account(self, shares: int, l2: float, l1: float) -> Account:
        return self.told.account(shares, l2, l1)


class Omitted(Twin):
    """Nobody adds noise."""

    def sample(self, coins: Coins, shape: tuple[int, ...]) -> NDArray[np.int64]:
        return np.zeros_like(self.told.sample(coins, shape))


class WrongRoot(Twin):
    """Each sender adds sigma / honest where sigma / sqrt(honest) is due."""

    def sample(self, coins: Coins, shape: tuple[int, ...]) -> NDArray[np.int64]:
        return DiscreteGaussian(self.told.sigma / math.sqrt(self.honest)).sample(coins, shape)


class Reused(Twin):
    """Every release has the noise of the first."""

    def sample(self, coins: Coins, shape: tuple[int, ...]) -> NDArray[np.int64]:  # noqa: ARG002  # never asks them again
        return self.told.sample(SimulationCoins(11), shape)


class OneSender(Twin):
    """Of the senders of each sum, told apart by their messages' order, only the first adds noise."""

    def sample(self, coins: Coins, shape: tuple[int, ...]) -> NDArray[np.int64]:
        noise = self.told.sample(coins, shape)
        noise[shape[0] // self.honest :] = 0
        return noise


def test_the_twin_itself_is_sound() -> None:
    """The null control: drawn as told, a twin's noise survives."""
    told = settings(4.0)
    assert lower_bound(replace(told, noise=Twin(told.noise, 2))) < 4.0


@pytest.mark.parametrize("twin", [Omitted, WrongRoot, Reused, OneSender])
def test_broken_noise_exceeds_the_claim(twin: type[Twin]) -> None:
    """Noise omitted, of the wrong root, used twice, or of one sender where more are assumed: the claim is refuted."""
    told = settings(4.0, honest=4)
    assert lower_bound(replace(told, noise=twin(told.noise, 4))) > 4.0


def test_a_field_scheme_gives_the_same_scores() -> None:
    """The audit reads decoded sums, so any exact scheme with the same noise scores alike."""
    noise = settings(4.0, releases=2)
    inner = SecretMessagePassing(bound=2 * noise.largest)
    plain, field = (
        canary_scores(PerturbedScheme(scheme, noise), SimulationCoins(5), stars=400) for scheme in (Plaintext(), inner)
    )
    for first, second in ((plain.present, field.present), (plain.absent, field.absent)):
        assert first.shape == second.shape == (200,)
        assert abs(first.mean() - second.mean()) < 5 * noise.sigma * math.sqrt(2 * 2 / 200)
        assert first.std() == pytest.approx(second.std(), rel=0.3)
