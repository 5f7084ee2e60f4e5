"""One recorded run, as an audit attacks it."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any, TypeVar

import numpy as np

from fgl_secure.attacks.base import Attack, Measurement, Truth, guess_of, measure
from fgl_secure.errors import InputError
from fgl_secure.host import library_settings
from fgl_secure.runtime import PublicParameters, Transcript
from fgl_secure.threads import one_thread

Guess = TypeVar("Guess")
Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True, eq=False)
class RecordedRun:
    """A run with everything that was said, and its truths for scoring.

    Attributes:
        protocol: the scheme's name, parameters included.
        what: what was exchanged, in words.
        scenario: the kind of run, by the name that attacks have on their cards.
        public: what all parties know of the scheme.
        transcript: what was said.
        truths: what was secret, one object of a type.
        knowledge: what attackers may know from elsewhere, one object of a type.

    Raises:
        InputError: two truths, or two pieces of knowledge, are of one type.
    """

    protocol: str
    what: str
    scenario: str
    public: PublicParameters
    transcript: Transcript
    truths: tuple[Truth, ...]
    knowledge: tuple[object, ...] = ()

    def __post_init__(self) -> None:
        _by_type("truths", self.truths)
        _by_type("knowledge", self.knowledge)

    def truth(self, kind: type[Kind]) -> Kind:
        """The secrets of a type.

        Raises:
            InputError: the run has none of it.
        """
        return _only("truths", self.truths, kind)

    def knows(self, kind: type[Kind]) -> Kind:
        """The knowledge of a type.

        Raises:
            InputError: the run offers none of it.
        """
        return _only("knowledge", self.knowledge, kind)

    def without_messages(self) -> RecordedRun:
        """The same without what was said: for scores alone."""
        return replace(self, transcript=Transcript(self.transcript.parties, self.transcript.batch_axes))

    def is_for(self, attack: Attack[Any, Any]) -> bool:
        """Whether an attack reads this kind of run, and whether there is something to score it against."""
        return attack.card.scenario == self.scenario and attack.card.truth in _by_type("truths", self.truths)

    @library_settings()
    @one_thread()
    def guess(self, attack: Attack[Guess, Any]) -> Guess | None:
        """What an attack infers, every party of its role alone; None where it sees, or knows, too little.

        Raises:
            InputError: a truth can be reached from what the attack is given, so that its guess would be no evidence.
        """
        view = self.transcript.views(attack.card.observer)
        for name, argument in (
            ("attack", attack),
            ("view", view),
            ("public", self.public),
            ("knowledge", self.knowledge),
        ):
            result = truth_within(argument)
            if result is not None:
                raise InputError(f"{name} must not lead to the truth; found a {type(result).__name__} in what is given")
        return guess_of(attack, view, self.public, self.knowledge)

    def guess_elsewhere(self, attack: Attack[Guess, Any], other: RecordedRun) -> Guess | None:
        """What an attack infers of another run with this run's knowledge: the guess of the null control.

        Whatever it gets right of this run's truth has come to it by another way than the view: by its knowledge, or by
        none that it should have.

        Args:
            attack: whose guess it is.
            other: independent of this one and of the same shape.
        """
        return replace(other, knowledge=self.knowledge).guess(attack)

    def measure(self, attack: Attack[Guess, Any], guess: Guess) -> tuple[Measurement, ...]:
        """The figures of a guess, with the prior that the attack's knowledge has by itself.

        Raises:
            InputError: the run has no truth of the attack's type.
        """
        truth = _only("truths", self.truths, attack.card.truth)
        return measure(attack, guess, truth, self.transcript.parties, self.knowledge)

    def score(self, attack: Attack[Guess, Any], guess: Guess, shuffle: int | None = None) -> tuple[Measurement, ...]:
        """The bare figures of a guess.

        Args:
            attack: whose guess it is.
            guess: of this run, or of another one.
            shuffle: seed of a permutation of the truth, against which scores must be at chance; None for the truth.

        Raises:
            InputError: the run has no truth of the attack's type.
        """
        truth = _only("truths", self.truths, attack.card.truth)
        return attack.score(guess, truth if shuffle is None else truth.permute(shuffle))


def truth_within(start: object) -> Truth | None:
    """The first truth that can be reached from an object: by attributes, items, bases of arrays and closures.

    Modules, classes and what functions find by name there are not searched.
    """
    visited: set[int] = set()
    queue = [start]
    while queue:
        item = queue.pop()
        if id(item) in visited or isinstance(item, (type, ModuleType, str, bytes, int, float)):
            continue
        visited.add(id(item))
        if isinstance(item, Truth):
            return item
        queue += _referents(item)
    return None


def _referents(item: object) -> list[object]:
    if isinstance(item, np.ndarray):
        return [*([] if item.base is None else [item.base]), *(item.flat if item.dtype == np.object_ else ())]
    if isinstance(item, FunctionType):
        return [item.__closure__, item.__defaults__, item.__kwdefaults__]
    return gc.get_referents(item)


def _by_type(argument: str, objects: Iterable[object]) -> Mapping[type, object]:
    """Objects by their type.

    Raises:
        InputError: two are of one type.
    """
    result: dict[type, object] = {}
    for item in objects:
        if type(item) in result:
            raise InputError(f"{argument} must be of different types; found two of {type(item).__name__}")
        result[type(item)] = item
    return MappingProxyType(result)


def _only(argument: str, objects: Iterable[object], kind: type[Kind]) -> Kind:
    by_type = _by_type(argument, objects)
    result = by_type.get(kind)
    if not isinstance(result, kind):
        names = ", ".join(item.__name__ for item in by_type) or "none"
        raise InputError(f"{argument} must have a {kind.__name__}; found {names}")
    return result
