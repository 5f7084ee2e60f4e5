"""Isolation at run time: an attack whose view, knowledge or own state leads to the truth is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fgl_secure.attacks.base import Card, DataSecret, InformedAttack, Measurement, Truth
from fgl_secure.auditing.recorded_run import RecordedRun, truth_within
from fgl_secure.errors import InputError
from fgl_secure.runtime import Directory, PublicParameters, Role, Transcript, View
from fgl_secure.statistics.metrics import exact_proportion
from tests.error_codes import about


@dataclass(frozen=True, slots=True, eq=False)
class Pets(Truth):
    """Their names."""

    names: tuple[str, ...]

    def permute(self, seed: int) -> Pets:  # noqa: ARG002  # one rotation is enough
        """One on."""
        return Pets(self.names[1:] + self.names[:1])


@dataclass(frozen=True, slots=True, eq=False)
class Register:
    """What is known beside a view, and how it is looked up."""

    look_up: Callable[[], object] | object


class ReadsRegister(InformedAttack[object, Register, Pets]):
    """Looks names up."""

    card = Card(
        "reads-register", "names", "nowhere", Role.SERVER, DataSecret.IDENTITY, "pets", "a pet", truth=Pets,
        knowledge=Register,
    )  # fmt: skip

    def __init__(self, kept: object = None) -> None:
        self.kept = kept

    def infer_with(self, view: View, public: PublicParameters, known: Register) -> object:  # noqa: ARG002
        """What the register says."""
        return known.look_up() if callable(known.look_up) else known.look_up

    def score(self, guess: object, truth: Pets) -> tuple[Measurement, ...]:
        """The share of names."""
        found = exact_proportion(int(guess == truth.names), 1)
        return (Measurement("names", found.value, found.interval, 1, 0.0, 0.0, 1.0, True, "Names are read."),)


TRUE = Pets(("Tom", "Rex"))


def run_with(knowledge: object) -> RecordedRun:
    """A run whose server knows something."""
    transcript = Transcript(Directory.hierarchy(1, 1))
    return RecordedRun("none", "pets", "pets", PublicParameters(), transcript, (TRUE,), (Register(knowledge),))


def closing_over(truth: Pets) -> Callable[[], object]:
    """A function that keeps it."""
    return lambda: truth.names


def array_of(truth: Pets) -> np.ndarray[Any, Any]:
    """A view of an array of objects, one of which it is."""
    whole = np.empty(2, dtype=np.object_)
    whole[1] = truth
    return whole[:1]


@pytest.mark.parametrize(
    "hidden", [{"a": [TRUE]}, closing_over(TRUE), TRUE.permute, array_of(TRUE)],
    ids=["in a mapping", "in a closure", "by a bound method", "behind an array"],
)  # fmt: skip
def test_knowledge_that_leads_to_the_truth_is_refused(hidden: object) -> None:
    """However it is kept, before anything is inferred."""
    with pytest.raises(InputError, check=about("knowledge")):
        run_with(hidden).guess(ReadsRegister())


def test_an_attack_that_keeps_the_truth_is_refused() -> None:
    """As an attribute of its own, also in what it was given before."""
    run = run_with(("Tom", "Rex"))
    assert run.guess(ReadsRegister()) == ("Tom", "Rex")
    with pytest.raises(InputError, check=about("attack")):
        run.guess(ReadsRegister([run]))


def test_views_lead_to_no_truth() -> None:
    """The search finds the truth of a run in the run, and none in what observers are shown of it."""
    run = run_with(("Tom", "Rex"))
    assert truth_within(run) is TRUE
    assert truth_within(run.transcript.views(Role.SERVER)) is None
