"""GAP and ProGAP as they are trained and audited: noise that is calibrated before training, and what it promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from fgl_reproduction.methods.gap.configuration import GAP
from fgl_reproduction.methods.gap.hops import calibrate_noise, play_canaries
from fgl_reproduction.methods.gap.joint_noise import JointNoise
from fgl_reproduction.methods.gap.program import HopPreset, make_job
from fgl_secure.attacks.message_passing.knowledge import TRAINING
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.auditing.method import AuditRequest
from fgl_secure.auditing.plan import AuditPlan, Subject, pooled_over
from fgl_secure.auditing.privacy_cost import MeasuredEpsilon, PrivacyCost
from fgl_secure.auditing.programs import claim_of, in_the_clear, public_of, scheme_choices
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.dp import Perturbation, Unit
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.grouping import check_undirected
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.protocols.scheme import Scheme, least_group
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS, SERVER, Topology
from fgl_secure.runtime import Circumstance, Claim, Guarantee, Leak, Recording, Role, Secret, Strength
from fgl_secure.training.job import Job
from fgl_secure.training.loop import Progress, TrainingResult
from fgl_secure.training.one_process import most_terms
from fgl_secure.training.parties import neighbour_sums
from fgl_secure.training.presets import choice_of_round

SPLIT = (0.1, 0.1, 0.8)
"""Shares of the nodes that train, validate and test."""
_MANY = 2**31
"""As many parties of a role as there are."""

ASSUMPTIONS = (
    "each device, or each relay, adds its noise to a sum before any other party computes with it",
    "who sends to whom is not covered: parties that see traffic between devices see edges",
    "features, labels and models are not covered by what is said of edges",
)
"""What the guarantee for edges rests on, and what it leaves out."""

OWN_LEAK = Leak(
    Secret.EMBEDDING,
    Role.DEVICE,
    Circumstance.SINGLE_NEIGHBOUR,
    "every sum is computed, so that a device with one neighbour receives that neighbour's embedding",
)
"""Sums are exact for their receivers, which add the noise."""

NOTES = (
    "Devices add noise to the sums that they receive, so attacks on what a device receives read exact sums.",
    "Attacks read the sums of a run with one round per stage.",
)


def edge_guarantee(settings: Perturbation) -> Guarantee:
    """Return what noise promises about edges to servers and silos."""
    target = settings.target
    return Guarantee(
        Secret.CROSS_EDGE,
        {Role.SERVER: _MANY, Role.SILO: _MANY},
        Strength.DIFFERENTIAL_PRIVACY,
        f"({target.epsilon:g}, {target.delta:g})-differential privacy of {target.relation} over {target.releases} sums "
        "per device",
        settings.noise.source,
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HopSubject(Subject):
    """GAP or ProGAP under the schemes of one run.

    Attributes:
        settings: of the noise; None sums exactly.
    """

    method: GAP
    preset: HopPreset
    settings: Perturbation | None

    @property
    def claim(self) -> Claim:
        """That of the schemes, and differential privacy of edges."""
        sums = Topology(NEIGHBOURS, neighbour_sums(self.graph), 1)
        claim = claim_of({**self.schemes, MEMBERS: Plaintext()}, sums, self.graph.num_silos)
        if self.settings is None:
            return claim
        leaks = () if self.relays else (OWN_LEAK,)
        return claim.join(Claim((edge_guarantee(self.settings),), leaks, ASSUMPTIONS))

    @property
    def relays(self) -> int:
        """How many relays add noise; 0 where receivers do."""
        scheme = self.schemes[NEIGHBOURS]
        return scheme.inner.R if isinstance(scheme, JointNoise) else 0

    @property
    def job(self) -> Job:
        """The silos' programs."""
        chosen = self.graph, self.schemes, self.preset, self.settings, self.method.label_epsilon
        return make_job(*chosen, self.relays, seed=self.seed, device=self.device)

    @property
    def most_rounds(self) -> int:
        """Those of all stages."""
        return self.preset.stages * self.preset.epochs

    def privacy_cost(self, result: TrainingResult, progress: Callable[[str], Progress]) -> PrivacyCost | None:
        """Train once more without noise, and once without features, and play canary edges."""
        settings = self.settings
        if settings is None:
            return None
        nothing = np.zeros((self.graph.num_devices, self.graph.graph.num_features))
        exact = self._without_noise().train(progress=progress("training without noise"))
        empty = replace(self, graph=self.graph.with_features(nothing))
        without_features = empty.train(progress=progress("training without features"))
        right, tested = result.report["without edges"][2:4].tolist()
        target = settings.target
        bounds = play_canaries(settings, SimulationCoins(self.seed)).bounds(target.delta)
        return PrivacyCost(
            MeasuredEpsilon(target.epsilon, "privacy loss distributions", *bounds),
            target.delta,
            str(target.relation),
            target.releases,
            exact.accuracy.test,
            without_features.accuracy.test,
            right / tested if tested else None,
        )

    def _without_noise(self) -> HopSubject:
        scheme = self.schemes[NEIGHBOURS]
        inner = scheme.inner if isinstance(scheme, JointNoise) else scheme
        return replace(self, settings=None, schemes={**self.schemes, NEIGHBOURS: inner})

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:  # noqa: ARG002  # sums come after the first stage
        """All sums of a run with one round per stage."""
        brief, recording = self.brief(), Recording.everything(self.preset.stages)
        transcript = brief.train(coins=SimulationCoins(self.seed), recording=recording).transcript
        truth, public = MessageTruth.of(transcript, self.graph), public_of(self.schemes[NEIGHBOURS], self.graph)
        what = f"all sums of {self.method.title}, one round per stage"
        yield RecordedRun(self.name, what, TRAINING, public, transcript, (truth,))

    def unprotected_subjects(self) -> tuple[Subject, ...]:
        """One round per stage with every message in plaintext, without noise."""
        ways = in_the_clear(self.graph.num_silos)
        return tuple(
            self.brief(
                schemes={name: each["schemes"][name] for name in (NEIGHBOURS, SERVER)}, name=each["name"], settings=None
            )
            for each in ways
        )


def make_preset(method: GAP) -> HopPreset:
    """Return the preset of a method's name, with its choices."""
    preset = HopPreset(method.preset, progressive=method.progressive, hops=method.hops)
    if method.preset == "paper":
        preset = replace(preset, unit=Unit.MESSAGE, edges_off=False)
    return preset.with_epochs(method.epochs)


def gap_plan(method: GAP, request: AuditRequest) -> AuditPlan:
    """Check every choice, calibrate the noise and load the data; nothing is run."""
    preset, graph = make_preset(method), request.load_graph(SPLIT)
    check_undirected(graph)
    found = int(graph.edges.shape[1])
    most = found if method.edges is None else method.edges
    if found > most:
        raise InputError(f"edges must bound the graph's directed edges; found {found} of them and edges={most}")

    def calibrate(honest: int) -> Perturbation:
        budget = method.epsilon, method.delta, max(most, 1)
        return calibrate_noise(*budget, preset.hops, preset.width, preset.unit, honest)

    settings = calibrate(1)
    settings.target.relation.check(*graph.edges)
    runs = scheme_choices(request, NEIGHBOURS)
    for run in runs:
        scheme, run["settings"] = run["schemes"][NEIGHBOURS], settings
        _check_scheme(scheme, graph, settings)
        if method.noise == "relays":
            joint = _add_joint_noise(scheme, method.colluding, calibrate)
            run |= {"schemes": {**run["schemes"], NEIGHBOURS: joint}, "settings": joint.settings}
            run["name"] = run["name"].replace(scheme.name, joint.name, 1)
    shared = request.common_fields(graph, preset)
    return AuditPlan(
        tuple(HopSubject(**shared, **run) for run in runs),
        {},  # attacks on sums of messages bring their controls
        NOTES,
        messages=found,
        averaged=pooled_over(graph, "devices"),
        chosen_on=choice_of_round(preset.selection, graph),
        backbone="perceptron",
    )


def _add_joint_noise(scheme: Scheme, colluding: int, calibrate: Callable[[int], Perturbation]) -> JointNoise:
    """Return a relay-coded scheme whose relays add noise, calibrated for the shares of those that do not collude."""
    if not isinstance(scheme, RelayCoded):
        raise InputError(f"noise must be receivers under {scheme.name}, which has no relays; found relays")
    if not 0 <= colluding <= scheme.T:
        raise InputError(f"colluding must lie in 0..T = {scheme.T} relays; found {colluding}")
    return JointNoise(scheme, calibrate(scheme.R - colluding), colluding)


def _check_scheme(scheme: Scheme, graph: FederatedGraph, settings: Perturbation) -> None:
    """Raise unless a scheme answers every sum, over all neighbours, to its receiver alone, and exactly."""
    rule = "scheme must compute every sum over all neighbours for its receiver alone, as the noise assumes"
    if least_group(scheme) > 1:
        raise InputError(f"{rule}; {scheme.name} refuses small sums, which reveals edges: take k_min=1")
    if scheme.partnering(neighbour_sums(graph)) is not None:
        raise InputError(
            f"{rule}; under {scheme.name} one edge changes the partners of others: take profile=graph-shown"
        )
    by_silos = isinstance(scheme, Plaintext) and scheme.path is Path.SILO
    if scheme.custodian_decodes or scheme.adds_noise or by_silos:
        raise InputError(f"{rule}; found {scheme.name}: take plaintext or relay-coded[k_min=1,graph-shown]")
    fixed = scheme.fixed_point(most_terms(scheme, neighbour_sums(graph)))
    if fixed is not None and fixed.fraction_bits < settings.fraction_bits:
        raise InputError(
            f"fraction_bits of {scheme.name} must be at least those of the noise, {settings.fraction_bits}; found "
            f"{fixed.fraction_bits}: take a larger field"
        )
