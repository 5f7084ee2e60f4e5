"""Privacy by samples, at production size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from numpy.typing import ArrayLike

from fgl_secure.runtime import Party
from fgl_secure.statistics.features import MAX_PAIRS
from fgl_secure.statistics.statistical import ALPHA
from fgl_secure.testing.arms import Arm
from fgl_secure.testing.evidence import Evidence, NotPrivateError
from fgl_secure.testing.protocol import Protocol, Question
from fgl_secure.testing.sampling import Contest, Plan
from fgl_secure.testing.twins import judge, require_twin
from fgl_secure.testing.vacuous import Probe, Waivers, require_fair


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

    Raises:
        NotPrivateError: both runs told the inputs apart.
        VacuousTestError: the twin's could not be told apart, or the test would pass whatever the protocol does.
        SampleTooSmallError: the sample cannot show `advantage`.
        InputError: for inputs that make no fair question.
    """
    __tracebackhide__ = True
    require_twin(protocol, broken_twin)
    waivers = Waivers.of(waived)
    question = Question.about(protocol, inputs_a, inputs_b, coalition)
    probe = Probe(protocol, {"inputs_a": question.a, "inputs_b": question.b}, question.coalition)
    probe.require_different()
    plan = Plan(advantage, alpha, samples, seed, pairs).with_settings()

    def check(tested: Protocol, *joining: Party, decisive: float = 0.0) -> Evidence:
        together = (*question.coalition, *joining)
        a, b = Arm(tested, question.a, together), Arm(tested, question.b, together)
        return Contest("statistical privacy", a, b, plan).evidence(decisive=decisive)

    def sees(party: Party) -> bool:
        return check(protocol, party, decisive=alpha**2).rejected

    return judge(
        check,
        protocol,
        broken_twin,
        NotPrivateError,
        "{protocol} lets a coalition tell inputs_a from inputs_b",
        fair=partial(require_fair, probe, broken_twin, waivers, sees),
        waived=waivers.notes,
        check_twin=partial(check, decisive=alpha**2),
    )
