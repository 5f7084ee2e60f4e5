"""Two arms compared by samples: how many, with which coins, and once more before anything is called a leak."""

from __future__ import annotations

import hashlib
import logging
import secrets
from dataclasses import dataclass, replace

import numpy as np

from fgl_secure.coins import Coins, SimulationCoins, SystemCoins
from fgl_secure.errors import InputError
from fgl_secure.statistics.features import (
    MAX_COLUMNS,
    MAX_PAIRS,
    SPARE,
    Joins,
    Pairs,
    affine_relations,
    features_of,
    has_ratios,
)
from fgl_secure.statistics.statistical import ALPHA, POWER, Comparison, Power, compare_samples, family_size
from fgl_secure.testing.arms import Aligned, Arm, Frame, Views, aligned
from fgl_secure.testing.evidence import Evidence
from fgl_secure.testing.protocol import words
from fgl_secure.testing.settings import CURRENT

_LOG = logging.getLogger("fgl_secure.testing")

_PILOT = MAX_COLUMNS + SPARE
_RERUN = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """How samples are taken and judged.

    Attributes:
        advantage: the smallest advantage that must be detected with probability .99.
        alpha: false-alarm probability of one run of all tests together.
        samples: sample size of each arm; None takes the smallest that detects `advantage`.
        seed: makes the check repeatable; None draws secret coins.
        pairs: how many pairs of coordinates are looked at.
    """

    advantage: float = 0.03
    alpha: float = ALPHA
    samples: int | None = None
    seed: int | None = None
    pairs: int = MAX_PAIRS

    def with_settings(self) -> Plan:
        """Fills in what pytest's command line says about what the caller left open."""
        settings = CURRENT.get()
        samples = settings.samples if self.samples is None else self.samples
        return replace(self, samples=samples, seed=settings.seed if self.seed is None else self.seed)

    def power(self, tests: int) -> Power:
        """Sample size and power for a family of tests; raises where the sample is too small."""
        if self.samples is None:
            return Power.for_advantage(self.advantage, tests, self.alpha)
        if self.samples < 2:
            raise InputError(f"samples must be at least 2 per arm; found {self.samples}")
        power = Power(self.samples, tests, self.alpha)
        power.require(self.advantage)
        return power

    def coins(self, *purpose: str) -> Coins:
        """Independent coins for each purpose."""
        return SystemCoins() if self.seed is None else SimulationCoins(_derived(self.seed, *purpose))

    def classifier_seed(self, run: str) -> int:
        """Seed of the classifier."""
        return secrets.randbits(32) if self.seed is None else _derived(self.seed, run, "classifier")


@dataclass(frozen=True, slots=True, eq=False)
class Contest:
    """Two arms, and the plan by which they are told apart.

    Attributes:
        check: what the comparison is called.
        a: the first arm.
        b: the second.
        plan: with the settings of the command line filled in.
    """

    check: str
    a: Arm
    b: Arm
    plan: Plan

    def evidence(self, *, decisive: float = 0.0) -> Evidence:
        """Runs the tests, and once more on four times the sample before anything is called different.

        Args:
            decisive: an adjusted p-value up to which a rejection is sure: it needs no second one, and no classifier.
        """
        found = self._attempt("", None, decisive)
        if isinstance(found, Frame):  # a layout that the pilot had not seen: number them all, on fresh coins
            found = self._attempt("again, ", found, decisive)
        if isinstance(found, Frame):
            raise AssertionError("layouts must be numbered once they are known to differ")
        return found

    def _attempt(self, purpose: str, frame: Frame | None, decisive: float) -> Evidence | Frame:
        samples = self._sampled(purpose + "pilot", _PILOT)
        frame = Frame.of((*samples[0], *samples[1])) if frame is None else frame
        numbered = frame.numbered
        pilot = aligned(*samples, self.a.protocol.parties, frame)
        joins = self._joins(pilot)
        power = self.plan.power(family_size(len(pilot.labels), joins, self.a.protocol.modulus))
        runs: list[Comparison] = []
        for name, size in (("first run", power.n), ("second run", _RERUN * power.n)):
            sampled = self._sampled(purpose + name, size)
            views = aligned(*sampled, self.a.protocol.parties, frame)
            if frame.numbered != numbered:
                return Frame.of((*sampled[0], *sampled[1]))
            runs.append(self._compared(views, joins, purpose + name, decisive))
            words = "first run rejected" if len(runs) == 1 else name
            if not runs[0].rejected or runs[0].p_value <= decisive:
                break
            _LOG.warning("%s, %s: %s: %s", self.check, self.a.protocol, words, _words(runs[-1]))
        return self._evidence(runs, joins, pilot.note)

    def _joins(self, pilot: Aligned) -> Joins:
        """What to look at together, from samples that are used for nothing else."""
        modulus = self.a.protocol.modulus
        varying = np.flatnonzero((np.concatenate([pilot.a, pilot.b]) != pilot.a[0]).any(axis=0))
        pairs = Pairs.among(pilot.positions, varying.tolist(), self.plan.pairs)
        relations = np.zeros((0, len(pilot.labels)), dtype=np.int64)
        if has_ratios(modulus) and pilot.labels:
            found = [affine_relations(arm, modulus) for arm in (pilot.a, pilot.b)]
            relations = np.unique(np.concatenate(found), axis=0)
        return Joins(pairs, relations)

    def _compared(self, views: Aligned, joins: Joins, name: str, decisive: float) -> Comparison:
        modulus = self.a.protocol.modulus
        a, b = (features_of(sample, modulus, joins, views.labels) for sample in (views.a, views.b))
        seed = self.plan.classifier_seed(name)
        return compare_samples(a, b, modulus, views.labels, alpha=self.plan.alpha, seed=seed, decisive=decisive)

    def _sampled(self, name: str, size: int) -> tuple[list[Views], list[Views]]:
        return self.a.sample(size, self.plan.coins(name, "a")), self.b.sample(size, self.plan.coins(name, "b"))

    def _evidence(self, runs: list[Comparison], joins: Joins, note: str) -> Evidence:
        power, last = runs[0].power, runs[-1]
        labels = ("first run", f"fresh run on {_RERUN} times the sample")
        notes = [f"{label}: {_words(run)}" for label, run in zip(labels, runs, strict=False)] if len(runs) > 1 else []
        pairs = joins.pairs
        return Evidence(
            self.check,
            str(self.a.protocol),
            words(self.a.coalition),
            last.rejected,
            _words(last),
            f"{power.fixed:.3g} in one bit of the view, {power.classifier:.3g} by the classifier, with probability "
            f"{POWER:g} at level {power.alpha:g} over {power.tests} tests, {power.n} samples per arm, "
            f"{len(pairs.chosen)} of {pairs.possible} pairs and {len(joins.relations)} linear relations of coordinates",
            power.fixed,
            (*notes, *([note] if note else [])),
        )


def _words(run: Comparison) -> str:
    if run.strongest is None:
        return "an empty view"
    return f"{run.strongest}, adjusted p-value {run.p_value:.3g}"


def _derived(seed: int, *purpose: str) -> int:
    text = "|".join([str(seed), *purpose])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
