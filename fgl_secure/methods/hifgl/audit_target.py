"""HiFGL under the schemes of a run: its choices checked as a whole, its noise, and how an audit runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from fgl_secure.auditing import privacy_cost
from fgl_secure.auditing.method import AuditRequest
from fgl_secure.auditing.plan import AuditPlan, Subject, pooled_over
from fgl_secure.auditing.privacy_cost import MeasuredEpsilon, PrivacyCost
from fgl_secure.auditing.programs import claim_of, fill_schemes, in_the_clear, name_of, named_rows
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import Coins, SimulationCoins
from fgl_secure.dp import Perturbation, PrivacyTarget, Relation, Unit
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.audit_runs import (
    ROUNDS,
    SCENARIOS,
    releasing_graph,
    special_runs,
    training_run,
    variant_runs,
)
from fgl_secure.methods.hifgl.controls import CONTROLS
from fgl_secure.methods.hifgl.program import silos_of
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.perturbed import PerturbedScheme, hidden_messages
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS, Grouping, Topology
from fgl_secure.runtime import Channel, Claim, Directory, Role, Step
from fgl_secure.statistics.lower_bounds import classic_bound, gaussian_bound
from fgl_secure.training.job import Job
from fgl_secure.training.loop import Progress, TrainingResult
from fgl_secure.training.one_process import most_terms
from fgl_secure.training.parties import hierarchy_of, neighbour_sums
from fgl_secure.training.presets import Preset, choice_of_round

if TYPE_CHECKING:
    from fgl_secure.dp.local import PerturbedRows
    from fgl_secure.methods.hifgl.configuration import EmbeddingPrivacy, HiFGL
    from fgl_secure.training.local_privacy import LocalPerturbation


@dataclass(frozen=True, slots=True, eq=False)
class _CanaryScores:
    """What the readers of the sums make of them; higher speaks for a canary.

    Attributes:
        present: float64 [n], scores of stars with a canary.
        absent: float64 [n], scores of stars without one.
    """

    present: NDArray[np.float64]
    absent: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Stars:
    """Stars that touch no other party: one sender, its targets, and the other senders of each target.

    Attributes:
        count: how many stars.
        fan: targets of each star: the messages that the unit of the claim has.
        senders: messages of each sum, the star's own included.
    """

    count: int
    fan: int
    senders: int

    @property
    def devices(self) -> int:
        """All of them: first the stars' own senders, then the targets, then the other senders."""
        return self.count * (1 + self.fan * self.senders)

    def grouping(self, parties: Directory) -> Grouping:
        """Rows of all devices, and a sum for every target."""
        devices, targets = parties.ids(Role.DEVICE), self.count * self.fan
        group = np.arange(targets)
        others = np.arange(self.count + targets, self.devices)
        source = np.concatenate([group // self.fan, others])
        target = np.concatenate([group, np.repeat(group, self.senders - 1)])
        owners, silo = devices[self.count : self.count + targets], parties.ids(Role.SILO)[0]
        custodians = np.full(self.devices, silo)
        return Grouping(devices, owners, source, target, custodians, custodians[:targets])


def canary_scores(scheme: PerturbedScheme, coins: Coins, *, stars: int) -> _CanaryScores:
    """Runs all releases of the scheme's target on disjoint stars and scores what each star's targets decode.

    Every second star carries a canary: its sender sends C e_1, with the sign changed from release to release, to as
    many targets as the claim's unit has messages. All other rows are zero, and every sum has `honest` senders. Since
    that is the largest change the claim allows, the matched filter (the signed sum of all decoded first coordinates)
    is the best test, and distinguishes stars with and without a canary as well as the claimed noise permits. The
    changing sign finds noise that is used twice: it cancels between releases.

    Args:
        scheme: under audit; its inner scheme must answer groups of `honest` messages.
        coins: for the noise and the inner scheme.
        stars: how many stars, even.
    """
    if stars < 2 or stars % 2:
        raise InputError(f"stars must be an even number, at least 2; found {stars}")
    settings = scheme.settings
    shape = _Stars(stars, settings.target.relation.messages, settings.honest)
    parties = Directory.hierarchy(1, shape.devices, scheme.helpers.get(Role.RELAY, 0))
    session = Collective(scheme, Topology(NEIGHBOURS, shape.grouping(parties), 1), Channel(parties, coins))
    canary = np.zeros((shape.devices, 1))
    canary[:stars:2] = settings.clip
    scores = np.zeros(stars)
    for release in range(settings.target.releases):
        sign = 1 - 2 * (release % 2)
        sums = session.sum(sign * canary, Step(release, 0))
        scores += sign * sums[:, 0].reshape(stars, shape.fan).sum(axis=1)
    return _CanaryScores(scores[::2].copy(), scores[1::2].copy())


def releases(preset: Preset, rounds: int) -> int:
    """Grouped sums of that many rounds: layers forward and backward, scoring passes, and the last models' pass."""
    changing = preset.layers - preset.static_first_layer
    passes = 3 if preset.dropout else 2
    return preset.static_first_layer + rounds * passes * changing + changing


def perturb_scheme(scheme: Scheme, choice: EmbeddingPrivacy, preset: Preset, graph: FederatedGraph) -> PerturbedScheme:
    """A scheme with noise for a choice.

    Raises:
        InputError: no noise reaches the target, or it does not fit the scheme; the message has the figures.
    """
    widths = preset.widths(graph.graph.num_features, graph.num_classes)
    count = releases(preset, min(choice.rounds or preset.epochs, preset.epochs))
    target = PrivacyTarget(choice.epsilon, choice.delta, Relation(Unit[choice.unit.upper()], choice.cap), count)
    settings = Perturbation.calibrate(
        target,
        clip=choice.clip,
        width=max(widths),  # an audit exchanges whole feature rows too
        honest=hidden_messages(scheme),
    )
    bound = getattr(scheme, "bound", None) if "bound" in scheme.parameters else None
    if bound is not None and bound < settings.largest:
        scheme = replace(scheme, bound=settings.largest)  # type: ignore[type-var]  # schemes are dataclasses
    return PerturbedScheme(scheme, settings)


def measure_epsilon(scheme: PerturbedScheme, seed: int) -> MeasuredEpsilon:
    """Plays canaries against a scheme and says what they rule out."""
    settings = scheme.settings
    scores = canary_scores(scheme, SimulationCoins(seed), stars=2 * privacy_cost.CANARIES)
    bound = gaussian_bound(scores.present, scores.absent, delta=settings.target.delta)
    return MeasuredEpsilon(settings.epsilon(scheme.shares), "privacy loss distributions", bound)


NOTES = (
    "A protocol with parameters in brackets is a variant that was run for one exchange of features, without "
    "training; the claim is the same, so what violates it there counts.",
    "Models are counted by size. Gradients that are summed under a protocol are so in every round; what silos get of "
    "them is recorded.",
)


PERTURBED_NOTE = (
    "Devices perturb their features before they send anything. Runs that exchange features exchange perturbed ones. "
    "Attacks recover these, and epsilon bounds what they reveal of the features."
)


def measure_perturbation(
    local: LocalPerturbation, width: int, devices: int, seed: int
) -> tuple[MeasuredEpsilon, float]:
    """Perturb two feature vectors that differ most, and return the claim with a lower bound, and its delta.

    Args:
        local: the perturbation.
        width: features of a device.
        devices: n, of the whole run.
        seed: of the noise.
    """
    low, high = (local.least, local.largest) if local.has_range else np.array([-1, 1]) * local.clip / np.sqrt(width)
    coins, count = SimulationCoins(seed), 2 * privacy_cost.CANARIES

    def perturb_copies(value: float) -> list[PerturbedRows]:
        """Copies in lots of n, since delta is checked against the number of rows."""
        lots = range(0, count, devices)
        return [local.perturb_features(np.full((devices, width), value), devices, coins) for _ in lots]

    absent, present = perturb_copies(low), perturb_copies(high)
    scores = [np.concatenate([lot.rows.sum(axis=1) for lot in lots])[:count] for lots in (present, absent)]
    if local.has_range:
        return MeasuredEpsilon(local.epsilon, "randomised response", classic_bound(*scores, delta=0.0)), 0.0
    delta = present[0].delta
    return MeasuredEpsilon(local.epsilon, "privacy loss distributions", gaussian_bound(*scores, delta=delta)), delta


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HiFGLSubject(Subject):
    """HiFGL under the schemes of one run.

    Attributes:
        message_graph: the graph along whose edges messages travel: `graph`, or its restriction to splits.
        noisy: the scheme of neighbours' rows where it adds noise for the method's privacy.
        read: the scenarios that attacks read.
        redealt: who takes part in the release of static rows, on other inputs than those of the audited run.
    """

    method: HiFGL
    preset: Preset
    message_graph: FederatedGraph
    noisy: PerturbedScheme | None = None
    read: frozenset[str] = SCENARIOS
    redealt: FederatedGraph | None = None

    @property
    def scheme(self) -> Scheme:
        """That of neighbours' rows."""
        return self.schemes[NEIGHBOURS]

    def under(self, privacy: EmbeddingPrivacy) -> HiFGLSubject:
        """The same with noise on rows; also on what devices hand to their silo, where one scheme serves both."""
        rows, members = self.scheme, self.schemes[MEMBERS]
        noisy = perturb_scheme(rows, privacy, self.preset, self.graph)
        schemes = {**self.schemes, NEIGHBOURS: noisy, MEMBERS: noisy if members is rows else members}
        return replace(self, schemes=schemes, noisy=noisy, name=self.name.replace(rows.name, noisy.name, 1))

    @property
    def claim(self) -> Claim:
        """That of the schemes."""
        return claim_of(self.schemes, self._sums, self.graph.num_silos)

    @property
    def claims(self) -> Mapping[str, Claim]:
        """Those of the schemes, and of the variants of that of neighbours' rows."""
        return {
            self.name: self.claim,
            **{self._name_of(variant.name): variant.claim_for(self._sums) for variant in self.scheme.variants},
        }

    @property
    def _sums(self) -> Topology:
        return Topology(NEIGHBOURS, neighbour_sums(self.message_graph), 1)

    @property
    def job(self) -> Job:
        """The silos, each with its devices."""
        return silos_of(
            self.graph, self.schemes, self.preset, perturbation=self.method.perturbation, **self.model_options
        )

    def _local_cost(self, local: LocalPerturbation, progress: Callable[[str], Progress]) -> PrivacyCost:
        """Return what perturbed features cost: trains once more without perturbation, and once without features."""
        exact = replace(self, method=replace(self.method, perturbation=None))
        shape = (self.graph.num_devices, self.graph.graph.num_features)
        empty = self.graph.with_features(np.full(shape, local.middle))
        received = empty.restricted_to_split() if self.preset.split_restricted else empty
        without_features = replace(self, graph=empty, message_graph=received)
        accuracies = [
            subject.train(progress=progress(f"training without {noun}")).accuracy.test
            for subject, noun in ((exact, "perturbation"), (without_features, "features"))
        ]
        measured, delta = measure_perturbation(local, shape[1], shape[0], self.seed)
        labels = "" if local.label_epsilon is None else f" (its label: epsilon {local.label_epsilon:g})"
        relation = f"one device's features, replaced by any others{labels}"
        return PrivacyCost(measured, delta, relation, 1, *accuracies)

    @property
    def _exchange_graph(self) -> FederatedGraph:
        """`message_graph`, with perturbed features if devices perturb theirs."""
        local = self.method.perturbation
        if local is None:
            return self.message_graph
        coins = SimulationCoins(self.seed)
        rows = local.model_inputs(self.message_graph.graph.features, self.message_graph.num_devices, coins)
        return self.message_graph.with_features(rows)

    def privacy_cost(self, result: TrainingResult, progress: Callable[[str], Progress]) -> PrivacyCost | None:
        """Of noise on embeddings and gradients: trains once more without it, and plays canaries."""
        if self.method.perturbation is not None:
            return self._local_cost(self.method.perturbation, progress)
        noisy = self.noisy
        if noisy is None:
            return None
        members = noisy.inner if self.schemes[MEMBERS] is noisy else self.schemes[MEMBERS]
        schemes = {**self.schemes, NEIGHBOURS: noisy.inner, MEMBERS: members}
        shorter = self.preset.with_epochs(result.rounds)
        quiet = replace(self, schemes=schemes, name=noisy.inner.name, noisy=None, preset=shorter)
        without = quiet.train(progress=progress(quiet.name))
        target, outcome = noisy.settings.target, measure_epsilon(noisy, self.seed)
        return PrivacyCost(outcome, target.delta, str(target.relation), target.releases, without.accuracy.test)

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """The first round of training, special runs, and an exchange under each variant."""
        exchanged, seed = self._exchange_graph, self.seed
        description = f"first round of training, {self.method.backbone}"
        first = [self._rename_protocol(training_run(self.scheme, self.message_graph, result.transcript, description))]
        del result  # nothing is kept here of a run that is handed on: the next one may be gigabytes as well
        yield first.pop()
        most = ROUNDS if self.noisy is None else min(ROUNDS, self.noisy.settings.target.releases)
        yield from map(
            self._rename_protocol,
            special_runs(self.scheme, exchanged, seed, self.read, self._static(exchanged), rounds=most),
        )
        for run in variant_runs(self.scheme, exchanged, seed, self.read):
            yield replace(run, protocol=self._name_of(run.protocol))

    def _name_of(self, variant: str) -> str:
        """Return what a variant is called beside the same without noise."""
        return f"{variant}+local" if self.name.endswith("+local") else variant

    def _rename_protocol(self, run: RecordedRun) -> RecordedRun:
        return replace(run, protocol=self.name)

    def _static(self, exchanged: FederatedGraph) -> FederatedGraph:
        """Return the devices that take part in the release of static rows, and what they exchange."""
        return releasing_graph(exchanged, self.seed) if self.redealt is None else self.redealt

    def read_in(self, scenarios: frozenset[str]) -> Subject:
        """Special runs are made for attacks alone."""
        return replace(self, read=scenarios)

    def on_graph(self, graph: FederatedGraph, rounds: int) -> Subject:
        """See `Subject.on_graph`."""
        message_graph = graph.restricted_to_split() if self.preset.split_restricted else graph
        return self.brief(
            graph=graph, message_graph=message_graph, redealt=None, preset=self.preset.with_epochs(rounds)
        )

    def independent(self, seed: int) -> Subject:
        """One round on a graph whose nodes have swapped places inside their silos."""
        graph, exchanged = self.graph.redealt(seed), self._exchange_graph
        first = self._static(exchanged)
        received = graph.restricted_to_split() if self.preset.split_restricted else graph
        # of the same shape: other neighbourhoods would be more or fewer devices
        redealt = None if first is exchanged else first.redealt(seed)
        return self.brief(seed=seed, graph=graph, message_graph=received, redealt=redealt)

    def unprotected_subjects(self) -> tuple[Subject, ...]:
        """One round with every message in plaintext, without noise."""
        return tuple(self.brief(**item, noisy=None, redealt=None) for item in in_the_clear(self.graph.num_silos))

    def shadow(self, graph: FederatedGraph, seed: int) -> Subject:
        """See `Subject.shadow`; devices add their noise."""
        made = Subject.shadow(self, graph, seed)
        if self.noisy is None:
            return made
        noisy = replace(self.noisy, inner=made.schemes[NEIGHBOURS])
        return replace(made, schemes={**made.schemes, NEIGHBOURS: noisy}, noisy=noisy)  # type: ignore[call-arg]  # as above


def hifgl_plan(method: HiFGL, request: AuditRequest) -> AuditPlan:
    """Checks every choice and loads the data; nothing is run."""
    graph, assignments = request.load_graph(), named_rows(request)
    runs = [method.assign_schemes(fill_schemes(run, graph.num_silos)) for run in assignments]
    preset = method.training(graph.graph.name)
    received = graph.restricted_to_split() if preset.split_restricted else graph
    _check_ranges([run[NEIGHBOURS] for run in runs], received)
    shared = {**request.common_fields(graph, preset), "message_graph": received}
    subjects = [
        HiFGLSubject(**shared, schemes=run, name=name_of(item)) for run, item in zip(runs, assignments, strict=True)
    ]
    plain = replace(method, privacy=None, perturbation=None, without_noise=False) if method.without_noise else None
    quiet = [] if plain is None else [replace(subject, method=plain) for subject in subjects]
    if quiet and method.perturbation is not None:
        subjects = [replace(subject, name=f"{subject.name}+local") for subject in subjects]
    if method.privacy is not None:
        subjects = [subject.under(method.privacy) for subject in subjects]
        # Opens each scheme once on the graph, so that noise that fits no field or cap is refused before training.
        schemes = [subject.scheme for subject in subjects]
        for scheme in schemes:
            channel = Channel(hierarchy_of(received, scheme.helpers), SimulationCoins(0))
            Collective(scheme, Topology(NEIGHBOURS, neighbour_sums(received), 1), channel)
    return AuditPlan(
        (*quiet, *subjects),
        CONTROLS,
        NOTES if method.perturbation is None else (*NOTES, PERTURBED_NOTE),
        messages=int(received.edges.shape[1]),
        averaged=pooled_over(graph, "devices"),
        chosen_on=choice_of_round(preset.selection, graph),
        backbone=method.backbone,
    )


def _check_ranges(schemes: Sequence[Scheme], graph: FederatedGraph) -> None:
    """Refuses a scheme that computes no sum of this graph, or whose field holds none, before a round is trained."""
    grouping = neighbour_sums(graph)
    largest = grouping.largest_group
    for scheme in schemes:
        rules = scheme.partnering(grouping)
        if rules is not None and rules.reach:
            # Devices that can reach one another along edges: the most of them that hang together.
            adjacency = coo_array(
                (np.ones(graph.edges.shape[1], dtype=np.int8), graph.edges), shape=(graph.num_devices,) * 2
            )
            within = int(np.bincount(connected_components(adjacency, directed=False)[1]).max()) - 1
            enough, text = within >= rules.least, f"{within} others within reach"
        else:
            enough, text = bool(len(scheme.answered_grouping(grouping).target)), f"{largest} neighbours"
        if largest and not enough:
            raise InputError(
                f"scheme must compute at least one sum of this graph; {scheme.name} computes none, and no device has "
                f"more than {text}"
            )
    for scheme in schemes:
        try:
            scheme.fixed_point(most_terms(scheme, grouping))
        except FieldRangeError as error:
            wrap = f", or let sums wrap: {scheme.label}[wrap]" if "overflow" in scheme.parameters else ""
            raise FieldRangeError(f"{error}; take a larger field or a smaller bound{wrap}") from error
