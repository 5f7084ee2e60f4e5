"""HiFGL under each protocol, as an audit runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fgl_secure.auditing.method import Asked
from fgl_secure.auditing.plan import RECORDED_ROUNDS, Plan, Subject
from fgl_secure.auditing.privacy_cost import PrivacyCost
from fgl_secure.auditing.programs import claim_of, filled
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.controls import CONTROLS
from fgl_secure.methods.hifgl.prepared import Prepared, prepare
from fgl_secure.methods.hifgl.privacy import measured
from fgl_secure.methods.hifgl.scenarios import (
    SCENARIOS,
    released,
    special_runs,
    training_run,
    variant_runs,
    variants_of,
)
from fgl_secure.methods.hifgl.training import silos_of
from fgl_secure.protocols.coded_products import SumsProducts
from fgl_secure.protocols.perturbed import Perturbed
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS, SERVER, Topology
from fgl_secure.runtime import Claim, Secret
from fgl_secure.schemes import Assignment
from fgl_secure.training.job import Job
from fgl_secure.training.loop import Progress, TrainingResult
from fgl_secure.training.parties import neighbour_sums
from fgl_secure.training.presets import choice_of_round

if TYPE_CHECKING:
    from fgl_secure.methods.hifgl.configuration import HiFGL

NOTES = (
    "A protocol with parameters in brackets is a variant that was run for one exchange of features, without "
    "training; the claim is the same, so what contradicts it there counts.",
    "Models are counted by size. Gradients that are summed under a protocol are so in every round; what silos get of "
    "them is recorded.",
)


@dataclass(frozen=True, slots=True, eq=False)
class HiFGLSubject(Subject):
    """HiFGL under the schemes of one run.

    Attributes:
        prepared: checked choices.
        schemes: by topology, one of `prepared.runs`.
        label: what the run is called.
        read: the scenarios that attacks read.
        redealt: who takes part in the release of static rows, on other inputs than those of the audited run.
    """

    prepared: Prepared
    schemes: Assignment
    label: str
    read: frozenset[str] = SCENARIOS
    redealt: FederatedGraph | None = None

    @property
    def name(self) -> str:
        """The scheme of neighbours' rows, and what was named beside it."""
        return self.label

    @property
    def scheme(self) -> Scheme:
        """That of neighbours' rows."""
        return self.schemes[NEIGHBOURS]

    @property
    def claims(self) -> Mapping[str, Claim]:
        """Those of the scheme and its variants."""
        sums = Topology(NEIGHBOURS, neighbour_sums(self.prepared.heard), 1)
        whole = claim_of(self.scheme, sums, self.schemes[SERVER], self.prepared.graph.num_silos)
        members = self.schemes[MEMBERS]
        if isinstance(members, SumsProducts):
            kept = tuple(promise for promise in whole.guarantees if promise.secret is not Secret.PARAMETER_GRADIENT)
            whole = replace(whole, guarantees=kept).joined(members.products_claim())
        return {self.name: whole, **{each.name: each.claim_for(sums) for each in variants_of(self.scheme)}}

    @property
    def job(self) -> Job:
        """The silos, each with its devices."""
        prepared = self.prepared
        return silos_of(
            prepared.graph,
            self.schemes,
            prepared.preset,
            backbone=prepared.method.backbone,
            seed=prepared.seed,
            device=prepared.device,
        )

    def privacy_cost(self, result: TrainingResult, progress: Callable[[str], Progress]) -> PrivacyCost | None:
        """Of noise on embeddings and gradients: trains once more without it, and plays canaries."""
        if not isinstance(self.scheme, Perturbed):
            return None
        shorter = replace(self.prepared, preset=self.prepared.preset.with_epochs(result.rounds))
        members = self.scheme.inner if self.schemes[MEMBERS] is self.scheme else self.schemes[MEMBERS]
        schemes = {**self.schemes, NEIGHBOURS: self.scheme.inner, MEMBERS: members}
        quiet = HiFGLSubject(shorter, schemes, self.scheme.inner.name)
        without = quiet.train(progress=progress(quiet.name))
        target = self.scheme.settings.target
        found = measured(self.scheme, self.prepared.seed)
        return PrivacyCost(found, target.delta, str(target.relation), target.releases, without.accuracy.test)

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """The first round of training, special runs, and an exchange under each variant."""
        heard, seed = self.prepared.heard, self.prepared.seed
        what = f"first round of training, {self.prepared.method.backbone}"
        first = [self._called(training_run(self.scheme, heard, result.transcript, what))]
        del result  # nothing is kept here of a run that is handed on: the next one may be gigabytes as well
        yield first.pop()
        yield from map(self._called, special_runs(self.scheme, heard, seed, self.read, self._static))
        yield from variant_runs(self.scheme, heard, seed, self.read)

    def _called(self, run: RecordedRun) -> RecordedRun:
        return replace(run, protocol=self.name)

    @property
    def _static(self) -> FederatedGraph:
        """Who takes part in the release of static rows."""
        return released(self.prepared.heard, self.prepared.seed) if self.redealt is None else self.redealt

    def read_in(self, scenarios: frozenset[str]) -> Subject:
        """Special runs are made for attacks alone."""
        return replace(self, read=scenarios)

    def independent(self, seed: int) -> Subject:
        """One round on a graph whose nodes have swapped places inside their silos."""
        prepared, graph = self.prepared, self.prepared.graph.redealt(seed)
        brief = prepared.preset.with_epochs(RECORDED_ROUNDS)
        heard = graph.restricted_to_split() if brief.split_restricted else graph
        other = replace(prepared, seed=seed, graph=graph, heard=heard, preset=brief)
        some = self._static  # of the same shape: other neighbourhoods would be more or fewer devices
        return replace(self, prepared=other, redealt=None if some is prepared.heard else some.redealt(seed))

    def unprotected(self) -> tuple[Subject, ...]:
        """One round with every message in the clear, without noise: from device to device, and by way of the silos."""
        brief = replace(self.prepared, preset=self.prepared.preset.with_epochs(RECORDED_ROUNDS))
        ways, silos = (Plaintext(), Plaintext(Path.SILO)), self.prepared.graph.num_silos
        return tuple(HiFGLSubject(brief, filled({NEIGHBOURS: way}, silos), way.name, self.read) for way in ways)


def hifgl_plan(method: HiFGL, asked: Asked) -> Plan:
    """Checks every choice and loads the data; nothing is run."""
    prepared = prepare(method, asked)
    return Plan(
        method.name,
        method.backbone,
        asked.seed,
        prepared.graph,
        int(prepared.heard.edges.shape[1]),
        prepared.preset.name,
        prepared.preset.epochs,
        prepared.device,
        f"pooled over {int(prepared.graph.test_mask.sum()):,} devices",
        choice_of_round(prepared.preset.selection, prepared.graph),
        tuple(HiFGLSubject(prepared, *each) for each in zip(prepared.runs, prepared.names, strict=True)),
        CONTROLS,
        NOTES,
    )
