"""What an attack is: it infers from a view, and is scored against a truth that it never sees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Generic, Self, TypeVar

from fgl_secure.errors import InputError
from fgl_secure.runtime import Circumstance, CircumstanceKind, Directory, PublicParameters, Role, SecretKind, View
from fgl_secure.statistics.metrics import Interval, Proportion

Guess = TypeVar("Guess")
Known = TypeVar("Known")
Secrets = TypeVar("Secrets", bound="Truth")

FINISHED_MODEL = "finished model"
"""The scenario of attacks on what a finished model answers."""


class DataSecret(SecretKind):
    """What clients know of their data, and models, updates and structure features may tell."""

    FOREIGN_EDGE = ("which edges exist between nodes of other clients", "others' edges")
    LABEL = ("the labels of other clients' nodes", "others' labels")
    IDENTITY = ("which node of another client is which", "who is who")
    STRUCTURE_FEATURE = ("the structure features of single nodes of another client", "structure features")
    TRAINING_NODE = ("which nodes other clients take their gradients over", "training nodes")
    NODE_FEATURES = ("the features of single nodes of another client", "features of a node")
    CLASS_PRESENCE = ("which classes a client has labelled nodes of", "classes at a client")
    LABEL_SHARES = ("how often each label occurs at a client", "label counts")
    CLIENT_IDENTITY = ("which client an update is from", "who sent an update")
    MEMBER = ("which nodes the finished model was trained on", "model's members")
    LINK = ("which nodes are neighbours, from the finished model's answers", "model's edges")


class Truth(ABC):
    """What the parties of a run kept to themselves, for scoring and for nothing else; each family has its own."""

    @abstractmethod
    def permute(self, seed: int) -> Self:
        """The same truth with every secret at another party: what a score must be at chance on, whatever the guess."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure of an attack on one view.

    Attributes:
        metric: what is measured.
        value: the figure, a rate or an advantage.
        interval: its 95 % interval.
        n: independent units behind it, an effective number where units depend on each other.
        random: the figure of a random guess.
        prior: the figure of the best guess without the transcript.
        reachable: the value that a complete break would have.
        exact: whether it is a share of secrets that were recovered (else an advantage).
        finding: the figure in one plain sentence.
        context: whether the figure only describes the size of something, or how many claims are right, and is no
            evidence of its own: few claims can all be right while next to nothing is recovered.
        arms: of a difference of two rates, the independent units of each and the second rate; None for other figures.
    """

    metric: str
    value: float
    interval: Interval
    n: int
    random: float
    prior: float
    reachable: float
    exact: bool
    finding: str
    context: bool = False
    arms: tuple[int, int, float] | None = None

    @classmethod
    def of_share(
        cls,
        metric: str,
        share: Proportion,
        finding: str,
        *,
        random: float = 0.0,
        prior: float = 0.0,
        reachable: float = 1.0,
        context: bool = False,
    ) -> Self:
        """A share of secrets that were recovered; arguments as for the class."""
        value, interval, n = share.value, share.interval, share.n
        return cls(metric, value, interval, n, random, prior, reachable, True, finding, context)

    @classmethod
    def of_area(cls, metric: str, area: float, interval: Interval, n: int, finding: str, prior: float = 0.0) -> Self:
        """Twice an area under the curve, or a share of pairs, less one: 0 for a random ranking, which has one half."""
        bounds = Interval(2 * interval.low - 1, 2 * interval.high - 1)
        return cls(metric, 2 * area - 1, bounds, n, 0.0, prior, 1.0, False, finding)

    @classmethod
    def of_advantage(cls, metric: str, advantage: Proportion, alarms: float, finding: str) -> Self:
        """A difference of two rates that no party has without the transcript.

        Args:
            metric: what is measured.
            advantage: the difference, with its arms.
            alarms: the second rate.
            finding: the figure in one plain sentence.
        """
        value, interval, arms = advantage.value, advantage.interval, advantage.arms
        rates = None if arms is None else (*arms, alarms)
        return cls(metric, value, interval, advantage.n, 0.0, 0.0, 1.0, False, finding, arms=rates)


@dataclass(frozen=True, slots=True)
class Card:
    """What an attack is, for lists, records and the comparison with claims.

    Attributes:
        name: in lists, records and on the command line.
        summary: what it does and how, in one line that reads as a sentence.
        source: where it is described or what it contradicts; reports link the addresses in it, and papers that
            `fgl_secure.attacks.papers` knows by name.
        observer: whose view it reads; every party of the role attacks alone.
        secret: what it finds.
        scenario: the kind of run that it reads, by the name that its family gives it.
        control: the name of the run that it must break, or finding nothing elsewhere would mean nothing.
        circumstance: the condition under which it finds it.
        minimum: what each of its figures must reach on the control, as a share of what a complete break has.
        auxiliary: what the observer knows beside its view, in words; "" where that is nothing.
        truth: the type of the secrets that it is scored against.
        knowledge: the type of what the observer knows beside its view; None where that is nothing.
        tells_nothing: why that knowledge by itself says nothing of the secret, in words; "" where it says something,
            which `InformedAttack.guess_without` guesses from, and where there is none.
        page: the page on it, which reports name; "" for the page of its family, if this project has one.
    """

    name: str
    summary: str
    source: str
    observer: Role
    secret: SecretKind
    scenario: str
    control: str
    circumstance: CircumstanceKind = Circumstance.ANY
    minimum: float = 0.99
    auxiliary: str = ""
    truth: type[Truth] = field(kw_only=True)
    knowledge: type | None = field(default=None, kw_only=True)
    tells_nothing: str = field(default="", kw_only=True)
    page: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        field_kinds = (("name", self.name, str), ("scenario", self.scenario, str), ("control", self.control, str),
                  ("observer", self.observer, Role), ("secret", self.secret, SecretKind),
                  ("circumstance", self.circumstance, CircumstanceKind), ("truth", self.truth, type))  # fmt: skip
        for field_name, result, kind in field_kinds:
            if not isinstance(result, kind):
                raise InputError(f"{field_name} of a card must be a {kind.__name__}; found {result!r}")
        if not 0 < self.minimum <= 1:
            raise InputError(f"minimum of a card must lie above 0 and at most at 1; found {self.minimum}")

    @property
    def coalition(self) -> Mapping[Role, int]:
        """How many parties of each role pool their views: one of the observing role."""
        return {self.observer: 1}


class Attack(ABC, Generic[Guess, Secrets]):
    """An attack on the views of one role.

    `infer` gets the view and what is public; `score` alone gets the truth, after the guess is fixed.
    """

    @property
    @abstractmethod
    def card(self) -> Card:
        """What the attack is."""

    @abstractmethod
    def infer(self, view: View, public: PublicParameters) -> Guess | None:
        """Infers the secret.

        Args:
            view: what the observers saw, and nothing else.
            public: parameters of the scheme that every party knows.

        Returns:
            The guess, or None where the view holds nothing that this attack can use.
        """

    @abstractmethod
    def score(self, guess: Guess, truth: Secrets) -> tuple[Measurement, ...]:
        """Compares a guess with the truth of the run it is of, or of an independent one for the null control."""


class InformedAttack(Attack[Guess, Secrets], Generic[Guess, Known, Secrets]):
    """An attack that rests on its view and on what its card names as knowledge, and has no guess without it."""

    def infer(self, view: View, public: PublicParameters) -> Guess | None:  # noqa: ARG002  # one signature
        """None: the view alone is not enough."""
        return None

    @abstractmethod
    def infer_with(self, view: View, public: PublicParameters, known: Known) -> Guess | None:
        """Infers the secret from the view and from what the observer knows beside it; None without either."""

    def guess_without(self, guess: Guess, known: Known, parties: Directory) -> Guess | None:  # noqa: ARG002  # for others
        """The best guess from the knowledge alone, which is scored for the prior: what messages add is the rest.

        Override it, or say on the card why there is none (`Card.tells_nothing`); where neither is done, records say
        that no party has looked at what the knowledge tells by itself.

        Args:
            guess: of `infer_with`, for its shape alone: whom it speaks of, and how many claims it makes.
            known: what the observer knows beside its view.
            parties: numbering of the parties.

        Returns:
            A guess of the same shape; None where the knowledge says nothing of the secret.
        """
        return None


def guess_of(
    attack: Attack[Guess, Any], view: View, public: PublicParameters, knowledge: Iterable[object] = ()
) -> Guess | None:
    """The guess of an attack, which is shown the knowledge that its card names and no other.

    Args:
        attack: what guesses.
        view: what the observers saw.
        public: parameters of the scheme that every party knows.
        knowledge: what may be known beside the view, at most one object of a type.
    """
    if not isinstance(attack, InformedAttack):
        return attack.infer(view, public)
    known = _known_to(attack, knowledge)
    return None if known is None else attack.infer_with(view, public, known)


def _known_to(attack: Attack[Any, Any], knowledge: Iterable[object]) -> Any:  # of the type that its card names
    """The one piece of knowledge that an attack is shown; None where its card names none, or it is not there."""
    knowledge_type = attack.card.knowledge
    return next((item for item in knowledge if knowledge_type is not None and isinstance(item, knowledge_type)), None)


class KnowledgeBaseline(StrEnum):
    """What an attack's knowledge tells by itself, without a message."""

    NOTHING_KNOWN = "nothing is known beside the view"
    GUESSED = "the knowledge alone was tried"
    TELLS_NOTHING = "the knowledge alone says nothing of it"
    NOT_LOOKED_AT = "nobody has said what the knowledge alone tells"


def alone(attack: Attack[Any, Any]) -> KnowledgeBaseline:
    """How far a prior of an attack accounts for what is known beside the view."""
    if not isinstance(attack, InformedAttack):
        return KnowledgeBaseline.NOTHING_KNOWN
    if type(attack).guess_without is not InformedAttack.guess_without:
        return KnowledgeBaseline.GUESSED
    return KnowledgeBaseline.TELLS_NOTHING if attack.card.tells_nothing else KnowledgeBaseline.NOT_LOOKED_AT


def measure(
    attack: Attack[Guess, Any], guess: Guess, truth: Truth, parties: Directory, knowledge: Iterable[object] = ()
) -> tuple[Measurement, ...]:
    """The figures of a guess, each with the better of two priors: its own, and what the knowledge alone scores.

    Args:
        attack: whose guess it is.
        guess: of `guess_of`.
        truth: of the type on the attack's card.
        parties: numbering of the parties.
        knowledge: what may be known beside the view, at most one object of a type.
    """
    result, known = attack.score(guess, truth), _known_to(attack, knowledge)
    if known is None or not isinstance(attack, InformedAttack):
        return result
    blind = attack.guess_without(guess, known, parties)
    if blind is None:
        return result
    without = {item.metric: item.value for item in attack.score(blind, truth)}
    return tuple(replace(item, prior=max(item.prior, without.get(item.metric, item.prior))) for item in result)
