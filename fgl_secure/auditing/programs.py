"""Programs of silos as methods: which schemes their topologies get, and how they are trained and audited."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

from fgl_secure.attacks.message_passing.knowledge import TRAINING
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.auditing.plan import RECORDED_ROUNDS, AuditPlan, Subject, pooled_over
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.coded_products import SumsProducts
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS, SERVER, Topology
from fgl_secure.runtime import Claim, PublicParameters, Secret
from fgl_secure.schemes import Assignment, parse, promises
from fgl_secure.training.job import Job, Task
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.one_process import most_terms
from fgl_secure.training.parties import neighbour_sums
from fgl_secure.training.presets import Schedule
from fgl_secure.training.server_sums import server_topology
from fgl_secure.training.silo import facts_of

if TYPE_CHECKING:
    from fgl_secure.auditing.method import AuditRequest, ProgramMethod


def fill_schemes(assignment: Assignment, silos: int) -> Assignment:
    """The schemes of a run, of which a caller has named that of neighbours' rows, and perhaps others.

    What devices hand to their silo goes under the scheme of neighbours' rows where that serves it, and in plaintext
    where not; silos' vectors under masks, unless rows are promised nothing, or are decoded by silos as HiFGL publishes
    it (KDD 2024, 4.3), or one silo is all there is.

    Raises:
        InputError: too few silos for the scheme of their vectors.
    """
    rows = assignment[NEIGHBOURS]
    members = rows if rows.refuses(Topology.example(MEMBERS)) is None else Plaintext()
    clear = silos == 1 or rows.custodian_decodes or not promises(rows, NEIGHBOURS)
    server = Plaintext() if clear else PairwiseMasking()
    result = {NEIGHBOURS: rows, MEMBERS: members, SERVER: server, **assignment}
    result[SERVER].threshold_for(silos)
    return result


def named_rows(request: AuditRequest) -> list[Assignment]:
    """For each run the schemes that a caller named, and that of neighbours' rows, the method's own unless named."""
    method = request.method
    usual = dict([parse(method.trained, (NEIGHBOURS,), method.usual)])
    return [{**usual, **run} for run in request.runs]


def scheme_choices(request: AuditRequest, topology: str) -> list[dict[str, Any]]:
    """Schemes and name of each run: a scheme for a topology, with one for models where another than fits it is named.

    Masks fit a scheme that guarantees something, and plaintext sums others.
    """
    result, method = list[dict[str, Any]](), request.method
    usual = parse(method.trained, (topology,), method.usual)[1]
    for run in request.runs:
        sums = run.get(topology, usual)
        fitting = PairwiseMasking() if promises(sums, topology) else Plaintext()
        models = run.get(SERVER, fitting)
        name = sums.name if models == fitting else f"{topology}={sums.name},server={models.name}"
        result.append({"schemes": {topology: sums, SERVER: models}, "name": name})
    return result


def name_of(assignment: Assignment) -> str:
    """What a run is called: the scheme of neighbours' rows, and others that were named."""
    others = [f"{topology}={scheme.name}" for topology, scheme in assignment.items() if topology != NEIGHBOURS]
    return ",".join([assignment[NEIGHBOURS].name, *others])


def claim_of(schemes: Assignment, sums: Topology, silos: int) -> Claim:
    """What is promised for neighbours' rows, for what devices hand to their silo, and of silos' vectors.

    Args:
        schemes: of all three.
        sums: of neighbours' rows.
        silos: how many there are.
    """
    rows, members = schemes[NEIGHBOURS], schemes[MEMBERS]
    claim, models = rows.claim_for(sums), schemes[SERVER].claim_for(server_topology(silos))
    claim = claim.join(models) if models.guarantees else claim
    if members is rows:
        return claim
    guarantees = tuple(guarantee for guarantee in claim.guarantees if guarantee.secret is not Secret.PARAMETER_GRADIENT)
    return replace(claim, guarantees=guarantees).join(_of_members(members))


def _of_members(scheme: Scheme) -> Claim:
    """What a scheme of its own promises of what devices hand to their silo."""
    if isinstance(scheme, SumsProducts):
        return scheme.products_claim()
    claim = scheme.claim_for(Topology.example(MEMBERS))
    members = tuple(guarantee for guarantee in claim.guarantees if guarantee.secret is Secret.PARAMETER_GRADIENT)
    return Claim(members, (), claim.assumptions if members else ())


def public_of(scheme: Scheme, graph: FederatedGraph) -> PublicParameters:
    """What all parties know of a scheme on a graph, also where the binary point is, since all encode alike."""
    fixed = scheme.fixed_point(most_terms(scheme, neighbour_sums(graph)))
    return scheme.public if fixed is None else replace(scheme.public, fraction_bits=fixed.fraction_bits)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _ProgramSubject(Subject):
    """A program under the schemes of one run."""

    method: ProgramMethod

    @property
    def claim(self) -> Claim:
        """That of the schemes."""
        sums = Topology(NEIGHBOURS, neighbour_sums(self.graph), 1)
        return claim_of(self.schemes, sums, self.graph.num_silos)

    @property
    def job(self) -> Job:
        """The program of each silo."""
        method, facts, seed, device = self.method, facts_of(self.graph), self.seed, self.device
        task = Task(
            lambda comm, _: method.program(comm, seed=seed, device=device),
            self.schemes,
            method.most_rounds(facts),
            method.width(facts),
        )
        return Job(task, self.graph)

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """The first round of training."""
        rows, transcript = self.schemes[NEIGHBOURS], result.transcript
        truth = MessageTruth.of(transcript, self.graph)
        description = f"first round of training, {self.method.name}"
        yield RecordedRun(self.name, description, TRAINING, public_of(rows, self.graph), transcript, (truth,))

    def brief(self, **changes: Any) -> Self:
        """With no more rounds than attacks read, where the method can be told how many."""
        return replace(self, **{"method": self._with_rounds(RECORDED_ROUNDS), **changes})

    def on_graph(self, graph: FederatedGraph, rounds: int) -> Subject:
        """See `Subject.on_graph`."""
        return self.brief(graph=graph, method=self._with_rounds(rounds))

    def _with_rounds(self, rounds: int) -> ProgramMethod:
        has_epochs = any(field.name == "epochs" for field in fields(self.method))
        return replace(self.method, epochs=rounds) if has_epochs else self.method  # type: ignore[call-arg]

    def unprotected_subjects(self) -> tuple[Subject, ...]:
        """A round with every message unprotected."""
        return tuple(self.brief(**item) for item in in_the_clear(self.graph.num_silos))


def in_the_clear(silos: int) -> Iterator[dict[str, Any]]:
    """Schemes and name of a run with every message unprotected: from device to device, and via the silos."""
    for way in (Plaintext(), Plaintext(Path.SILO)):
        yield {"schemes": fill_schemes({NEIGHBOURS: way}, silos), "name": way.name}


def program_plan(method: ProgramMethod, request: AuditRequest) -> AuditPlan:
    """Checks every choice and loads the data; nothing is run."""
    graph = request.load_graph()
    shared = request.common_fields(graph, Schedule("", method.most_rounds(facts_of(graph))))
    subjects = tuple(
        _ProgramSubject(
            **shared, schemes=method.assign_schemes(fill_schemes(assignment, graph.num_silos)), name=name_of(assignment)
        )
        for assignment in named_rows(request)
    )
    return AuditPlan(
        subjects,
        {},  # attacks on sums of messages bring their controls
        (),
        messages=int(graph.edges.shape[1]),
        averaged=pooled_over(graph, "devices"),
        chosen_on="chosen as the program says",
    )
