"""Privacy by enumeration: over all coin tapes, both inputs show the coalition each view equally often."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

from numpy.typing import ArrayLike

from fgl_secure.runtime import Party
from fgl_secure.statistics.exact import ExactComparison, compare_exactly
from fgl_secure.testing.arms import AlignedViews, Arm, align_views
from fgl_secure.testing.evidence import Evidence, PrivacyTestWarning
from fgl_secure.testing.protocol import Protocol, Question, words
from fgl_secure.testing.vacuous import judge_question, require_twin

_SHOWN = 12  # coordinates of a view in a message


def assert_exactly_private(
    protocol: Protocol,
    inputs_a: ArrayLike,
    inputs_b: ArrayLike,
    coalition: Iterable[Party],
    *,
    broken_twin: Protocol,
    waived: Mapping[str, str] | None = None,
) -> Evidence:
    """Proves that a coalition's joint view has the same distribution for two inputs.

    The view is everything the coalition received, its own inputs and its own coins, over all rounds. Every coin tape
    is run, so the protocol must be over a small field: `modulus ** coins` may not exceed 2^24.

    Args:
        protocol: what is tested.
        inputs_a: one row for each owner; the two inputs must give the coalition equal allowed information.
        inputs_b: the same shape, with the same rows for the coalition's members.
        coalition: who pools views.
        broken_twin: the same protocol with a flaw that this check must find.
        waived: rules of `docs/privacy_tests.md` that this test breaks on purpose, by name, each with a reason:
            "coalition", "trace" or "values".

    Returns:
        What was compared, with a summary in words.

    Raises:
        NotPrivateError: the distributions differ.
        VacuousTestError: those of the twin do not, or the test would pass whatever the protocol does.
        InputError: for inputs that make no fair question, or too many tapes.

    Examples:
        assert_exactly_private(masked_sum, a, b, [Party(Role.SERVER, 0)], broken_twin=one_mask_for_all)
    """
    __tracebackhide__ = True

    def compare(tested: Protocol, question: Question, _sure: bool) -> Evidence:
        a, b = (Arm(tested, values, question.coalition) for values in (question.a, question.b))
        return exact_evidence("exact privacy", a, b, ("inputs_a", "inputs_b"))

    require_twin(protocol, broken_twin)
    question = Question.about(protocol, inputs_a, inputs_b, coalition)
    return judge_question(compare, protocol, broken_twin, question, waived)


def exact_evidence(check: str, a: Arm, b: Arm, names: tuple[str, str]) -> Evidence:
    """Compares two arms over all of their tapes; warns where the first has one alone and nothing is found."""
    views = align_views(a.on_all_tapes(), b.on_all_tapes(), a.protocol.parties)
    result = compare_exactly(views.a, views.b)
    if result.equal and result.tapes_a == 1 and views.labels:
        warnings.warn(
            f"protocol must draw its coins from the channel to be enumerated; found one coin tape of {a.protocol}, so "
            "that two single views were compared",
            PrivacyTestWarning,
            stacklevel=2,
        )
    tapes = str(result.tapes_a) if result.tapes_a == result.tapes_b else f"{result.tapes_a} and {result.tapes_b}"
    distance = result.total_variation
    return Evidence(
        check,
        str(a.protocol),
        words(a.coalition),
        not result.equal,
        f"total variation {distance} ({float(distance):.4g}) of the joint views over {tapes} coin tapes, "
        f"{result.distinct} different views of {views.a.shape[1]} coordinates",
        "any: all coin tapes are counted",
        0.0,
        (*_witness(result, views, names), *([views.note] if views.note else [])),
    )


def _witness(exact_comparison: ExactComparison, views: AlignedViews, names: tuple[str, str]) -> tuple[str, ...]:
    if exact_comparison.witness is None:
        return ()
    pairs = list(zip(views.labels, exact_comparison.witness.view, strict=True))
    coordinates = ", ".join(f"{label} = {value}" for label, value in pairs[:_SHOWN])
    coordinates += f" and {len(pairs) - _SHOWN} more coordinates" if len(pairs) > _SHOWN else ""
    return (
        f"for example, {names[0]} shows this view on {exact_comparison.witness.count_a} tapes and {names[1]} on "
        f"{exact_comparison.witness.count_b}: {coordinates}",
    )
