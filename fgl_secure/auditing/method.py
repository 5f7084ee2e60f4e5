"""What every method says of itself: a frozen configuration that can be trained and audited.

A method from outside this package subclasses `Method` as a frozen dataclass, and is found by an entry point of the
group `fgl_secure.methods`. Nothing heavy is imported here, so that `--help` answers at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from fgl_secure.config_fields import check_choices, choices_of
from fgl_secure.errors import InputError
from fgl_secure.graph.data import THIRDS, Data, GraphSets
from fgl_secure.graph.federated_graph import FederatedGraph

if TYPE_CHECKING:
    import torch

    from fgl_secure.auditing.plan import AuditPlan
    from fgl_secure.protocols.scheme import Scheme
    from fgl_secure.schemes import Assignment
    from fgl_secure.training.collectives import Collectives
    from fgl_secure.training.loop import TrainingRounds
    from fgl_secure.training.silo import Facts

Source = Data | GraphSets | FederatedGraph
"""What a run is on: data that are loaded, or a graph of the caller's own."""

Usual = Mapping[str, Mapping[str, object]]
"""By topology, parameters of schemes."""

SEEDS = 2**63


@dataclass(frozen=True, slots=True, eq=False)
class AuditRequest:
    """What a caller asks of a method.

    Attributes:
        method: its choices.
        data: what it is run on.
        runs: for each run its schemes by topology, at least one; all are different.
        named: whether a caller named them; the method demonstrates them otherwise.
        seed: of partition, split, initial weights, and of the coins of an audit.
        device: where model compute runs.
    """

    method: Method
    data: Source
    runs: tuple[Mapping[str, Scheme], ...]
    named: bool
    seed: int
    device: torch.device

    def load_graph(self, fractions: tuple[float, float, float] = THIRDS, least: int = 1) -> FederatedGraph:
        """The graph: the caller's own, or loaded, split by these shares and dealt to silos, at least so many.

        Raises:
            InputError: there are fewer silos.
        """
        assert not isinstance(self.data, GraphSets)
        graph = self.data if isinstance(self.data, FederatedGraph) else self.data.load(self.seed, fractions)
        if graph.num_silos < least:
            raise InputError(f"silos must be at least {least} for {self.method.name}; found {graph.num_silos}")
        return graph

    def common_fields(
        self, graph: FederatedGraph, preset: Any
    ) -> dict[str, Any]:  # each method has a preset of its own
        """What all subjects of a plan have in common, by attribute: see `fgl_secure.auditing.plan.Subject`."""
        same = {"method": self.method, "seed": self.seed, "device": self.device}
        return {**same, "graph": graph, "preset": preset}


class Method(ABC):
    """A learning method with its choices, checked when it is made.

    Subclasses are frozen dataclasses whose fields are made by `fgl_secure.config_fields.choice`.

    Attributes:
        name: in lists, reports and on the command line.
        title: as its paper calls it.
        task: what is learnt, and where that was published.
        summed: what its sums add up, and for whom.
        sees: by scheme, or group of schemes, what parties see beside their own.
        tells: what parties tell each other beside sums, by kind of message, role of the sender and of the receiver.
        topologies: names of its collectives; a scheme that is named alone is for the first of them that it serves.
        demonstrated: schemes of an audit where none is named; the first heads the report, as the first named one does.
        trained: what training takes where no scheme is named.
        data: what it is trained on: `Data`, or `GraphSets`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    task: ClassVar[str]
    summed: ClassVar[str]
    sees: ClassVar[Mapping[str, str]]
    tells: ClassVar[Mapping[tuple[str, str, str], str]] = {}
    topologies: ClassVar[tuple[str, ...]]
    demonstrated: ClassVar[tuple[str, ...]]
    trained: ClassVar[str]
    data: ClassVar[type[Data] | type[GraphSets]] = Data

    def __post_init__(self) -> None:
        check_choices(self)

    @property
    def usual(self) -> Usual:
        """By topology, parameters that its schemes take where a caller names none of them."""
        return {}

    def plan(
        self,
        data: Source | str | None = None,
        schemes: Iterable[str | Assignment] | str | Assignment = (),
        *,
        seed: int = 0,
        device: str = "auto",
    ) -> AuditPlan:
        """Checks every choice and loads the data; nothing is run.

        Args:
            data: a configuration, the name of a data set, a graph of the caller's own, or None for a data set that
                needs no download.
            schemes: for each run its schemes, as text (see `fgl_secure.schemes`) or by topology; those that
                the method demonstrates when empty.
            seed: of partition, split, initial weights, and of the coins of an audit.
            device: where model compute runs: "auto", "cpu" or "cuda".

        Raises:
            FglSecureError: a choice breaks a rule; the message names it.
        """
        from fgl_secure.training.loop import compute_device  # noqa: PLC0415  # heavy

        if type(seed) is not int:
            raise InputError(f"seed must be an integer; found {seed!r}")
        if not 0 <= seed < SEEDS:
            raise InputError(f"seed must lie in 0..2^63 - 1; found {seed}")
        scheme_names = several("schemes", schemes)
        runs: list[Mapping[str, Scheme]] = []
        for item in map(self._assign_schemes, scheme_names or self.demonstrated):
            runs += [item] if item not in runs else []
        request = AuditRequest(self, self._source(data), tuple(runs), bool(scheme_names), seed, compute_device(device))
        plan = self.make_plan(request)
        names = [subject.name for subject in plan.subjects]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"schemes must have names of their own in one report; found {twice} twice")
        return plan

    @abstractmethod
    def make_plan(self, request: AuditRequest) -> AuditPlan:
        """Check what `plan` leaves to the method, and return what is run; imports of what computes belong in here.

        Raises:
            FglSecureError: a choice breaks a rule; the message names it.
        """

    @classmethod
    def backbones(cls) -> tuple[str, ...]:
        """The graph neural networks that it trains; none where it has but its own."""
        choices = choices_of(cls)
        return choices["backbone"][1].names if "backbone" in choices else ()

    def _source(self, data: Source | str | None) -> Source:
        if data is None:
            return self.data()
        if isinstance(data, str):
            return self.data(data)
        if not isinstance(data, (self.data, FederatedGraph) if self.data is Data else self.data):
            kinds = "Data or a FederatedGraph" if self.data is Data else "GraphSets, for clients have many graphs"
            raise InputError(f"data must be a name, {kinds} for {self.name}; found {type(data).__name__}")
        return data

    def _assign_schemes(self, schemes: str | Assignment) -> Mapping[str, Scheme]:
        from fgl_secure.schemes import assignment as read_assignment  # noqa: PLC0415  # heavy
        from fgl_secure.schemes import check_serves  # noqa: PLC0415

        if isinstance(schemes, str):
            return read_assignment(schemes, self.topologies, self.usual)
        if not isinstance(schemes, Mapping) or not schemes:
            raise InputError(f"schemes must be text, or schemes by topology for each run; found {schemes!r}")
        for topology, scheme in schemes.items():
            if topology not in self.topologies:
                raise InputError(
                    f"schemes must be for {' or '.join(self.topologies)}, which {self.name} has; found {topology}"
                )
            check_serves(scheme, topology)
        return schemes


@dataclass(frozen=True)
class ProgramMethod(Method):
    """A method that is a program of one silo, under any schemes that serve its sums, in any driver.

    A subclass is a frozen dataclass of choices that says what it is called, and makes the program. It is trained by
    `fgl_secure.train`, audited by `fgl_secure.audit` and run with a process for each silo, all without a line more.

    Examples:
        class LabelPropagation(ProgramMethod): ...  # whole in examples/own/label_propagation.py
    """

    task: ClassVar[str] = "node classification"
    summed: ClassVar[str] = "rows of a device's neighbours for the device; losses and right predictions; silos' vectors"
    sees: ClassVar = MappingProxyType({})
    topologies: ClassVar[tuple[str, ...]] = ("neighbours", "members", "server")
    demonstrated: ClassVar[tuple[str, ...]] = ("secmp", "relay-coded", "plaintext")
    trained: ClassVar[str] = "relay-coded"

    def make_plan(self, request: AuditRequest) -> AuditPlan:
        """See `Method.make_plan`."""
        from fgl_secure.auditing.programs import program_plan  # noqa: PLC0415  # heavy

        return program_plan(self, request)

    @abstractmethod
    def program(self, comm: Collectives, *, seed: int, device: torch.device) -> TrainingRounds:
        """The program of one silo.

        Args:
            comm: the collectives of the run; `comm.silo` is what the silo holds.
            seed: the same for all silos: of initial weights and the like.
            device: where model compute runs.
        """

    @abstractmethod
    def width(self, facts: Facts) -> int:
        """Most entries of a row that devices send their neighbours, from what all parties know of the graph."""

    def assign_schemes(self, run: Assignment) -> Assignment:
        """The schemes of a run, by topology, as the method's choices have them: unchanged unless it says otherwise."""
        return run

    def most_rounds(self, facts: Facts) -> int:  # noqa: ARG002  # for those that choose by the graph
        """Most rounds of training: the choice `epochs`, unless a method says otherwise."""
        return int(self.epochs)  # type: ignore[attr-defined]  # a choice of the subclass


def check_method(method: object) -> None:
    """Raises unless it is a method with its choices, and not its name or its class."""
    if not isinstance(method, Method):
        raise InputError(f"method must be a configuration such as fgl_secure.methods.HiFGL(); found {method!r}")


def several(name: str, result: Any) -> tuple[Any, ...]:  # whatever a caller handed over
    """What a caller named: one text or one mapping, or several of them.

    Raises:
        InputError: it is neither.
    """
    if isinstance(result, str | Mapping):
        return (result,)
    if not isinstance(result, Iterable):
        raise InputError(f"{name} must be one or several; found {result!r}")
    return tuple(result)
