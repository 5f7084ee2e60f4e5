"""What an audit runs and attacks: a method under its schemes, whatever the method is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Self

import torch

from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.privacy_cost import PrivacyCost
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.auditing.wording import Score
from fgl_secure.coins import Coins, SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import CLIENTS, MEMBERS, NEIGHBOURS, SERVER
from fgl_secure.runtime import Claim, Recording, Role, Secret, SecretKind
from fgl_secure.training.job import Job
from fgl_secure.training.loop import Progress, TrainingResult
from fgl_secure.training.program import Program

CARRIED: Mapping[SecretKind, tuple[str, ...]] = MappingProxyType(
    {Secret.EMBEDDING: (NEIGHBOURS,), Secret.PARAMETER_GRADIENT: (MEMBERS,), Secret.SUMMAND: (SERVER, CLIENTS)}
)
"""By secret, the topologies of the sums that it goes into."""
LINKS: frozenset[SecretKind] = frozenset({Secret.CROSS_EDGE, Secret.FOREIGN_NODE, Secret.DEGREE})
"""The secrets that edges are."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much games play.

    Attributes:
        devices: of the graph on which games are played, at most, except one of each silo.
        rounds: of a run.
        observers: owners of sums whose views are compared at once, at most.
        graphs: other graphs with which that one is compared, for each secret that edges are.
    """

    devices: int = 64
    rounds: int = 2
    observers: int = 8
    graphs: int = 1


BRIEF, THOROUGH = Effort(), Effort(devices=192, rounds=6, observers=2**20, graphs=3)
"""What an audit plays, and a thorough one."""
RECORDED_ROUNDS = 1
"""Rounds of training whose payloads are kept and attacked, unless a method says otherwise; sizes are kept of all."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Subject(ABC):
    """A method under the schemes of one run, checked and ready.

    A subclass says what its silos do, what is promised, and what attacks read.

    Attributes:
        method: its choices.
        graph: who has what.
        preset: how to train, of the method's own kind.
        schemes: by topology.
        name: what the run is called: the name of its main scheme, parameters included.
        seed: of all that is drawn.
        device: where model compute runs.
        apart: names of the kinds of runs that are made for attacks alone, under the same claim.
        model_holders: the roles whose parties have the finished model; outsiders get answers alone.
    """

    method: Any
    graph: FederatedGraph
    preset: Any
    schemes: Mapping[str, Scheme]
    name: str
    seed: int
    device: torch.device
    apart: ClassVar[tuple[str, ...]] = ()
    model_holders: ClassVar[tuple[Role, ...]] = (Role.SILO, Role.SERVER)

    @property
    @abstractmethod
    def claim(self) -> Claim:
        """What is promised of the run."""

    @property
    def claims(self) -> Mapping[str, Claim]:
        """What is promised, by the name of the run and of each of its variants; its own comes first."""
        return dict.fromkeys((self.name, *(f"{self.name}[{item}]" for item in self.apart)), self.claim)

    @property
    def job(self) -> Job | None:
        """What every silo does, and who holds what; None for methods that are no programs of one silo."""
        return None

    def train(
        self,
        *,
        coins: Coins | None = None,
        recording: Recording | None = None,
        progress: Progress | None = None,
        shown: Callable[[tuple[Program, ...]], None] | None = None,
    ) -> TrainingResult:
        """Trains to the end, in one process; methods that are no programs of one silo have a loop of their own.

        Args:
            coins: where masks come from; the operating system's entropy unless given.
            recording: what the channel keeps; sizes unless given.
            progress: called after each round.
            shown: shown the silos' programs before the first round, and after the last.
        """
        job = self.job
        if job is None:
            raise NotImplementedError(f"{type(self).__name__} must have a job, or train by itself; it does neither")
        if shown is not None:
            watching = [see for see in (job.shown, shown) if see is not None]
            job = replace(job, shown=lambda programs: [see(programs) for see in watching][-1])
        return job.train(job.channel(coins, recording), progress)

    @property
    def attacked_rounds(self) -> int:
        """How many rounds of training attacks read, from the first on."""
        return RECORDED_ROUNDS

    @property
    def recording(self) -> Recording:
        """What is kept of these rounds."""
        return Recording.everything(self.attacked_rounds)

    def privacy_cost(self, result: TrainingResult, progress: Callable[[str], Progress]) -> PrivacyCost | None:  # noqa: ARG002  # of those that add noise
        """What noise gives and costs, for which training runs once more without it; None where there is none.

        Args:
            result: of the training.
            progress: given a name, what to call after each round.
        """
        return None

    @abstractmethod
    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """What attacks read: the recorded training, and what else is run for them."""

    def read_in(self, scenarios: frozenset[str]) -> Subject:  # noqa: ARG002  # of those that run something for attacks alone
        """The same for attacks that read these kinds of runs alone; what is run for others alone may be left out.

        Args:
            scenarios: as on the cards of attacks.
        """
        return self

    @property
    def most_rounds(self) -> int:
        """Most rounds of training."""
        return int(self.preset.epochs)

    @property
    def model_options(self) -> dict[str, Any]:
        """Backbone, seed and device, by the names that functions which make clients have for them."""
        return {"backbone": self.method.backbone, "seed": self.seed, "device": self.device}

    def brief(self, **changes: Any) -> Self:
        """The same for no more rounds than attacks read, with other changes."""
        return replace(self, **{"preset": self.preset.with_epochs(RECORDED_ROUNDS), **changes})

    @property
    def carried(self) -> Mapping[SecretKind, tuple[str, ...]]:
        """Into which sums each secret goes that rows of sums are, by topology: games vary these rows and keep the sums.

        A method that guarantees to hide something else that goes into sums adds it here.
        """
        return CARRIED

    @property
    def links(self) -> frozenset[SecretKind]:
        """The secrets that the edges of the graph are: games move edges."""
        return LINKS

    def sample(self, seed: int, effort: Effort = BRIEF) -> Subject | None:
        """The same on a few neighbourhoods of its graph, for games; None where there is no such thing.

        Args:
            seed: of the draw.
            effort: how large games are.
        """
        if self.job is None:
            return None
        return self.on_graph(self.graph.some_neighbourhoods(effort.devices, seed), effort.rounds)

    def on_graph(self, graph: FederatedGraph, rounds: int) -> Subject:
        """The same for the rounds of a game on another graph of as many silos.

        Args:
            graph: who has what.
            rounds: of training.
        """
        return self.brief(graph=graph, preset=self.preset.with_epochs(rounds))

    def independent(self, seed: int) -> Subject:
        """The same method under the same schemes on other inputs of the same shape, for null controls.

        Nodes swap places inside their silos. Parties and their numbers stay; who has which secret does not, so that
        a party that knows everything of that run knows nothing of this one. It may train for no longer than what
        attacks read.

        Args:
            seed: of the inputs, of initial weights and of whatever else is drawn.
        """
        return self.brief(seed=seed, graph=self.graph.redealt(seed))

    def shadow(self, graph: FederatedGraph, seed: int) -> Subject:
        """The whole training with sums in plaintext on another split of the nodes, as an attacker repeats it.

        Args:
            graph: the same with other training nodes.
            seed: of initial weights and of whatever else is drawn.
        """
        return replace(self.unprotected_subjects()[0].on_graph(graph, self.most_rounds), seed=seed)

    def unprotected_subjects(self) -> tuple[Subject, ...]:
        """The same method on the same inputs with everything unprotected, in each way that there is, itself included.

        What an attack finds there is the most that it can find on this subject. They may train for no longer than what
        attacks read.
        """
        clear = Plaintext()
        return (self.brief(schemes=dict.fromkeys(self.schemes, clear), name=clear.name),)

    def record_training(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """The runs of a recorded training: of its first rounds and its end, whose sizes alone are known of others."""
        return self.runs(replace(result, transcript=result.transcript.until(self.attacked_rounds)))

    def record_runs(self, seed: int) -> Iterator[RecordedRun]:
        """What attacks read, trained for them alone, under repeatable coins."""
        return self.record_training(self.train(coins=SimulationCoins(seed), recording=self.recording))


def pooled_over(graph: FederatedGraph, units: str = "nodes") -> str:
    """Over what accuracy is taken where all silos' test nodes count alike, in words."""
    return f"pooled over {int(graph.test_mask.sum()):,} {units}"


@dataclass(frozen=True, slots=True, eq=False)
class AuditPlan:
    """Checked choices of a method: everything that an audit needs to know.

    A pickle or a copy has no controls, which are functions of the process that audits.

    Attributes:
        subjects: in the order of the report; all of one method on one graph.
        controls: make the runs that attacks must break, once each, by name.
        notes: sentences about this method that a reader of the report should know.
        messages: messages of one layer, or of one hop.
        averaged: over what the reported accuracy is taken, in words.
        chosen_on: how the reported round is chosen, in words.
        backbone: the graph neural network that is trained.
        score: what the reported numbers are.
    """

    subjects: tuple[Subject, ...]
    controls: Makers
    notes: tuple[str, ...]
    messages: int
    averaged: str
    chosen_on: str
    backbone: str = ""
    score: Score = Score.ACCURACY

    @property
    def method(self) -> str:
        """The method's name."""
        return str(self.subjects[0].method.name)

    @property
    def seed(self) -> int:
        """Of partition, split, initial weights, and of the coins of an audit."""
        return self.subjects[0].seed

    @property
    def graph(self) -> FederatedGraph:
        """Who has what."""
        return self.subjects[0].graph

    @property
    def preset(self) -> str:
        """The preset's name."""
        return str(self.subjects[0].preset.name)

    @property
    def epochs(self) -> int:
        """Most rounds of training."""
        return self.subjects[0].most_rounds

    @property
    def device(self) -> torch.device:
        """Where model compute runs."""
        return self.subjects[0].device

    def __reduce__(self) -> tuple[Callable[[], AuditPlan], tuple[()]]:
        state = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "controls"}
        return partial(AuditPlan, **state, controls={}), ()
