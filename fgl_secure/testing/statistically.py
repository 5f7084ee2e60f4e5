"""Privacy by samples, at production size, and by simulation: the coalition's view made up from its allowed leakage."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fgl_secure.coins import MAX_TAPES, Coins, SimulationCoins, SystemCoins
from fgl_secure.errors import InputError
from fgl_secure.runtime import Channel, Party, Private
from fgl_secure.statistics.statistical import (
    ALPHA,
    MAX_COLUMNS,
    MAX_PAIRS,
    POWER,
    SPARE,
    CoordinatePairs,
    Joins,
    Power,
    SampleComparison,
    affine_relations,
    compare_samples,
    family_size,
    features_of,
    has_ratios,
)
from fgl_secure.testing.arms import AlignedViews, Arm, Frame, Views, align_views
from fgl_secure.testing.coins import tape_count
from fgl_secure.testing.evidence import CURRENT, Evidence, NotSimulatableError
from fgl_secure.testing.exactly import exact_evidence
from fgl_secure.testing.protocol import Inputs, Protocol, Question, words
from fgl_secure.testing.vacuous import Probe, judge, judge_question, require_leakage, require_twin


def assert_statistically_private(
    protocol: Protocol,
    inputs_a: ArrayLike,
    inputs_b: ArrayLike,
    coalition: Iterable[Party],
    *,
    broken_twin: Protocol,
    advantage: float = 0.03,
    alpha: float = ALPHA,
    samples: int | None = None,
    seed: int | None = None,
    pairs: int = MAX_PAIRS,
    waived: Mapping[str, str] | None = None,
) -> Evidence:
    """Tries to tell two inputs apart from samples of a coalition's joint view, and says how hard it tried.

    The tests are chi-square on low and on high bits, Kolmogorov-Smirnov, equality counts and a random forest, on the
    coordinates of the view and on modular differences, sums and ratios of pairs of them, across rounds too. A
    rejection counts only if a fresh run on four times the sample rejects as well. A pass is no proof: what lies below
    the stated advantage stays unseen.

    Args:
        protocol: what is tested.
        inputs_a: one row for each owner; the two inputs must give the coalition equal allowed information.
        inputs_b: the same shape, with the same rows for the coalition's members.
        coalition: who pools views.
        broken_twin: the same protocol with a flaw that this check must find.
        advantage: the smallest advantage that must be detected with probability .99.
        alpha: false-alarm probability of one run of all tests together.
        samples: sample size of each arm; None takes `--privacy-samples`, or what `advantage` needs.
        seed: makes the check repeatable; None takes `--privacy-seed`, or secret coins.
        pairs: how many pairs of coordinates are looked at, those at one position of two messages first.
        waived: rules of `docs/privacy_tests.md` that this test breaks on purpose, by name, each with a reason:
            "coalition", "trace" or "values".

    Returns:
        What was compared, with a summary in words.

    Raises:
        NotPrivateError: both runs told the inputs apart.
        VacuousTestError: the twin's could not be told apart, or the test would pass whatever the protocol does.
        SampleTooSmallError: the sample cannot show `advantage`.
        InputError: for inputs that make no fair question.

    Examples:
        assert_statistically_private(masked_sum, a, b, [Party(Role.SERVER, 0)], broken_twin=one_mask_for_all)
    """
    __tracebackhide__ = True
    require_twin(protocol, broken_twin)
    question = Question.about(protocol, inputs_a, inputs_b, coalition)
    plan = _Plan(advantage, alpha, samples, seed, pairs).with_settings()

    def compare(tested: Protocol, question: Question, sure: bool) -> Evidence:
        a, b = (Arm(tested, values, question.coalition) for values in (question.a, question.b))
        return _Contest("statistical privacy", a, b, plan).evidence(decisive=alpha**2 if sure else 0.0)

    return judge_question(compare, protocol, broken_twin, question, waived)


_Leakage = TypeVar("_Leakage")

_OWN = (Private.COINS,)  # own inputs are given to the simulator as leakage and are constants here


def assert_simulatable(
    protocol: Protocol,
    inputs: ArrayLike,
    coalition: Iterable[Party],
    simulator: Callable[[_Leakage, Channel], object],
    *,
    leakage: Callable[[Inputs], _Leakage],
    broken_twin: Protocol,
    advantage: float = 0.03,
    alpha: float = ALPHA,
    samples: int | None = None,
    seed: int | None = None,
    pairs: int = MAX_PAIRS,
    waived: Mapping[str, str] | None = None,
) -> Evidence:
    """Compares the coalition's view of real runs with the view that a simulator makes up.

    The simulator is written like a protocol: it gets what `leakage` lets through, sends the coalition's messages over
    the channel in the order in which the protocol sends them, and draws the coalition's own coins there. The
    comparison is exact where the coin tapes of both can be enumerated, and statistical otherwise.

    Args:
        protocol: what is tested.
        inputs: one row for each owner.
        coalition: who pools views.
        simulator: `simulator(leakage(inputs), channel)`.
        leakage: what the coalition may know of the inputs, its own rows included.
        broken_twin: the same protocol with a flaw that this check must find.
        advantage: the smallest advantage that must be detected with probability .99; statistical comparison only.
        alpha: false-alarm probability of one run of all tests together; statistical comparison only.
        samples: sample size of each arm; None takes `--privacy-samples`, or what `advantage` needs.
        seed: makes the check repeatable; None takes `--privacy-seed`, or secret coins.
        pairs: how many pairs of coordinates are looked at.
        waived: rules of `docs/privacy_tests.md` that this test breaks on purpose, by name, each with a reason:
            "coalition", "trace" or "values".

    Returns:
        What was compared, with a summary in words.

    Raises:
        NotSimulatableError: real and simulated views were told apart.
        VacuousTestError: those of the twin were not, or the test would pass whatever the protocol does, for instance
            because `leakage` returns the honest rows as they are.
        SampleTooSmallError: the sample cannot show `advantage`.

    Examples:
        assert_simulatable(masked_sum, a, [server], simulator, leakage=numpy.sum, broken_twin=one_mask_for_all)
    """
    __tracebackhide__ = True
    require_twin(protocol, broken_twin)
    real = protocol.checked_inputs(inputs, "inputs")
    members = tuple(sorted(set(coalition)))
    if not members:
        raise InputError("coalition must have at least one member; found none")
    require_leakage(leakage(real.copy()), real, protocol.rows_of(members))
    plan = _Plan(advantage, alpha, samples, seed, pairs).with_settings()

    def simulate(inputs: Inputs, channel: Channel) -> None:
        simulator(leakage(inputs), channel)

    def check(tested: Protocol, sure: bool) -> Evidence:
        simulated = Arm(replace(tested, run=simulate, name=f"simulator of {protocol}"), real, members, _OWN)
        return _compare(Arm(tested, real, members, _OWN), simulated, plan, alpha**2 if sure else 0.0)

    headline = f"{protocol} shows a coalition more than the allowed leakage"
    probe = Probe(protocol, {"inputs": real}, members)
    return judge(check, probe, broken_twin, NotSimulatableError, headline, waived)


def _compare(real: Arm, simulated: Arm, plan: _Plan, decisive: float) -> Evidence:
    if all(tape_count(arm.draws()) <= MAX_TAPES for arm in (real, simulated)):
        return exact_evidence("simulation, exact", real, simulated, ("the protocol", "the simulator"))
    return _Contest("simulation, statistical", real, simulated, plan).evidence(decisive=decisive)


_LOG = logging.getLogger("fgl_secure.testing")

_PILOT = MAX_COLUMNS + SPARE
_RERUN = 4


@dataclass(frozen=True, slots=True)
class _Plan:
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

    def with_settings(self) -> _Plan:
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
        return SystemCoins() if self.seed is None else SimulationCoins(_derive_seed(self.seed, *purpose))

    def classifier_seed(self, run: str) -> int:
        """Seed of the classifier."""
        return secrets.randbits(32) if self.seed is None else _derive_seed(self.seed, run, "classifier")


@dataclass(frozen=True, slots=True, eq=False)
class _Contest:
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
    plan: _Plan

    def evidence(self, *, decisive: float = 0.0) -> Evidence:
        """Runs the tests, and once more on four times the sample before anything is called different.

        Args:
            decisive: an adjusted p-value up to which a rejection is sure: it needs no second one, and no classifier.
        """
        result = self._attempt("", None, decisive)
        if isinstance(result, Frame):  # a layout that the pilot had not seen: number them all, on fresh coins
            result = self._attempt("again, ", result, decisive)
        if isinstance(result, Frame):
            raise AssertionError("layouts must be numbered once they are known to differ")
        return result

    def _attempt(self, purpose: str, frame: Frame | None, decisive: float) -> Evidence | Frame:
        samples = self._sample(purpose + "pilot", _PILOT)
        frame = Frame.of((*samples[0], *samples[1])) if frame is None else frame
        numbered = frame.has_layout_column
        pilot = align_views(*samples, self.a.protocol.parties, frame)
        # What to look at together, from samples that are used for nothing else.
        modulus = self.a.protocol.modulus
        varying = np.flatnonzero((np.concatenate([pilot.a, pilot.b]) != pilot.a[0]).any(axis=0))
        pairs = CoordinatePairs.among(pilot.positions, varying.tolist(), self.plan.pairs)
        relations = np.zeros((0, len(pilot.labels)), dtype=np.int64)
        if has_ratios(modulus) and pilot.labels:
            result = [affine_relations(arm, modulus) for arm in (pilot.a, pilot.b)]
            relations = np.unique(np.concatenate(result), axis=0)
        joins = Joins(pairs, relations)
        power = self.plan.power(family_size(len(pilot.labels), joins, self.a.protocol.modulus))
        runs: list[SampleComparison] = []
        for name, size in (("first run", power.n), ("second run", _RERUN * power.n)):
            sampled = self._sample(purpose + name, size)
            views = align_views(*sampled, self.a.protocol.parties, frame)
            if frame.has_layout_column != numbered:
                return Frame.of((*sampled[0], *sampled[1]))
            runs.append(self._compare(views, joins, purpose + name, decisive))
            words = "first run rejected" if len(runs) == 1 else name
            if not runs[0].is_rejected or runs[0].p_value <= decisive:
                break
            _LOG.warning("%s, %s: %s: %s", self.check, self.a.protocol, words, _words(runs[-1]))
        return self._evidence(runs, joins, pilot.note)

    def _compare(self, views: AlignedViews, joins: Joins, name: str, decisive: float) -> SampleComparison:
        modulus = self.a.protocol.modulus
        a, b = (features_of(sample, modulus, joins, views.labels) for sample in (views.a, views.b))
        seed = self.plan.classifier_seed(name)
        return compare_samples(a, b, modulus, views.labels, alpha=self.plan.alpha, seed=seed, decisive=decisive)

    def _sample(self, name: str, size: int) -> tuple[list[Views], list[Views]]:
        return self.a.sample(size, self.plan.coins(name, "a")), self.b.sample(size, self.plan.coins(name, "b"))

    def _evidence(self, runs: list[SampleComparison], joins: Joins, note: str) -> Evidence:
        power, last = runs[0].power, runs[-1]
        labels = ("first run", f"fresh run on {_RERUN} times the sample")
        notes = [f"{label}: {_words(run)}" for label, run in zip(labels, runs, strict=False)] if len(runs) > 1 else []
        pairs = joins.pairs
        return Evidence(
            self.check,
            str(self.a.protocol),
            words(self.a.coalition),
            last.is_rejected,
            _words(last),
            f"{power.detectable_bias:.3g} in one bit of the view, {power.classifier:.3g} by the classifier, with "
            f"probability {POWER:g} at level {power.alpha:g} over {power.tests} tests, {power.n} samples per arm, "
            f"{len(pairs.chosen)} of {pairs.possible} pairs and {len(joins.relations)} linear relations of coordinates",
            power.detectable_bias,
            (*notes, *([note] if note else [])),
        )


def _words(run: SampleComparison) -> str:
    if run.strongest is None:
        return "an empty view"
    return f"{run.strongest}, adjusted p-value {run.p_value:.3g}"


def _derive_seed(seed: int, *purpose: str) -> int:
    text = "|".join([str(seed), *purpose])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
