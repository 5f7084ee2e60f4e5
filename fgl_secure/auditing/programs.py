"""Programs of silos as methods: which schemes their topologies get, and how they are trained and audited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import torch

from fgl_secure.attacks.message_passing.knowledge import TRAINING
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.auditing.method import Asked
from fgl_secure.auditing.plan import RECORDED_ROUNDS, Plan, Subject
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS, SERVER, Topology
from fgl_secure.runtime import Claim, PublicParameters
from fgl_secure.schemes import Assignment
from fgl_secure.training.job import Job, Task
from fgl_secure.training.loop import TrainingResult, compute_device
from fgl_secure.training.one_process import most_terms
from fgl_secure.training.parties import neighbour_sums
from fgl_secure.training.server_sums import server_topology
from fgl_secure.training.silo import facts_of

if TYPE_CHECKING:
    from fgl_secure.auditing.program_method import ProgramMethod

AS_PUBLISHED = ("plaintext", "secmp")
"""Schemes of neighbours' rows beside which silos' vectors go in the clear, as HiFGL publishes it (KDD 2024, 4.3)."""


def filled(named: Assignment, silos: int) -> Assignment:
    """The schemes of a run, of which a caller has named some.

    Neighbours' rows go over relays; what devices hand to their silo under the scheme of neighbours' rows where that
    serves it, and in the clear where not; silos' vectors under masks, unless rows are in the clear or as published, or
    one silo is all there is.

    Raises:
        InputError: too few silos for the scheme of their vectors.
    """
    rows = named.get(NEIGHBOURS) or RelayCoded()
    members = rows if rows.refuses(Topology.example(MEMBERS)) is None else Plaintext()
    clear = rows.label in AS_PUBLISHED or silos == 1
    usual = {NEIGHBOURS: rows, MEMBERS: members, SERVER: Plaintext() if clear else PairwiseMasking()}
    found = {**usual, **named}
    found[SERVER].threshold_for(silos)
    return found


def name_of(named: Assignment) -> str:
    """What a run is called: the scheme of neighbours' rows, and others that were named."""
    rows = named.get(NEIGHBOURS) or RelayCoded()
    others = [f"{topology}={scheme.name}" for topology, scheme in named.items() if topology != NEIGHBOURS]
    return ",".join([rows.name, *others])


def claim_of(rows: Scheme, sums: Topology, server: Scheme, silos: int) -> Claim:
    """What is promised for neighbours' rows, and for what devices hand to their silo, and of silos' vectors.

    Args:
        rows: sums neighbours' rows, and what devices hand to their silo where it can.
        sums: of neighbours' rows.
        server: sums silos' vectors.
        silos: how many there are.
    """
    claim = rows.claim_for(sums)
    models = server.claim_for(server_topology(silos))
    return claim.joined(models) if models.guarantees else claim


def public_of(scheme: Scheme, graph: FederatedGraph) -> PublicParameters:
    """What everybody knows of a scheme on a graph: also where the binary point is, since everybody encodes alike."""
    fixed = scheme.fixed_point(most_terms(scheme, neighbour_sums(graph)))
    return scheme.public if fixed is None else replace(scheme.public, fraction_bits=fixed.fraction_bits)


@dataclass(frozen=True, slots=True, eq=False)
class ProgramSubject(Subject):
    """A program under the schemes of one run.

    Attributes:
        method: its choices.
        graph: who has what.
        schemes: by topology.
        label: what the run is called.
        seed: of the program.
        device: where model compute runs.
    """

    method: ProgramMethod
    graph: FederatedGraph
    schemes: Assignment
    label: str
    seed: int
    device: torch.device

    @property
    def name(self) -> str:
        """The scheme of neighbours' rows, and what was named beside it."""
        return self.label

    @property
    def claims(self) -> Mapping[str, Claim]:
        """That of the schemes."""
        sums = Topology(NEIGHBOURS, neighbour_sums(self.graph), 1)
        return {self.label: claim_of(self.schemes[NEIGHBOURS], sums, self.schemes[SERVER], self.graph.num_silos)}

    @property
    def job(self) -> Job:
        """The program of each silo."""
        method, facts, seed, device = self.method, facts_of(self.graph), self.seed, self.device
        task = Task(
            lambda talk, _: method.program(talk, seed=seed, device=device),
            self.schemes,
            method.most_rounds(facts),
            method.width(facts),
        )
        return Job(task, self.graph)

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """The first round of training."""
        rows, transcript = self.schemes[NEIGHBOURS], result.transcript
        truth = MessageTruth.of(transcript, self.graph)
        what = f"first round of training, {self.method.name}"
        yield RecordedRun(self.label, what, TRAINING, public_of(rows, self.graph), transcript, (truth,))

    def independent(self, seed: int) -> Subject:
        """A round on a graph whose nodes have swapped places inside their silos."""
        return replace(self, method=_brief(self.method), graph=self.graph.redealt(seed), seed=seed)

    def unprotected(self) -> tuple[Subject, ...]:
        """A round with every message in the clear: from device to device, and by way of the silos."""
        ways, silos = (Plaintext(), Plaintext(Path.SILO)), self.graph.num_silos
        brief = replace(self, method=_brief(self.method))
        return tuple(replace(brief, schemes=filled({NEIGHBOURS: way}, silos), label=way.name) for way in ways)


def _brief(method: ProgramMethod) -> ProgramMethod:
    """The method with no more rounds than attacks read, where it can be told how many."""
    told = any(each.name == "epochs" for each in fields(method))
    return replace(method, epochs=RECORDED_ROUNDS) if told else method  # type: ignore[call-arg]


def program_plan(method: ProgramMethod, asked: Asked) -> Plan:
    """Checks every choice and loads the data; nothing is run."""
    device, graph = compute_device(asked.device), asked.federated()
    subjects = tuple(
        ProgramSubject(
            method, graph, method.assigned(filled(named, graph.num_silos)), name_of(named), asked.seed, device
        )
        for named in asked.runs
    )
    return Plan(
        method.name,
        "",
        asked.seed,
        graph,
        int(graph.edges.shape[1]),
        "",
        method.most_rounds(facts_of(graph)),
        device,
        f"pooled over {int(graph.test_mask.sum()):,} devices",
        "chosen as the program says",
        subjects,
        {},  # attacks on sums of messages bring their controls
        (),
    )
