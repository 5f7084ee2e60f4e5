"""Federated averaging under each scheme for sums of updates, as an audit runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from fgl_secure.attacks.gradients.truth import GradientTruth
from fgl_secure.audit.recorded_run import RecordedRun
from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.commands.options import Options, check_common, federated_graph
from fgl_secure.commands.subjects import Plan, Subject
from fgl_secure.commands.train import PrivacyCost
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedavg.claims import claim_of
from fgl_secure.methods.fedavg.controls import CONTROLS
from fgl_secure.methods.fedavg.privacy import measured_updates
from fgl_secure.methods.fedavg.program import FedAvg, LocalTraining
from fgl_secure.methods.fedavg.scenarios import UpdateRule, attacked_round, gradient_model, one_round, with_fields
from fgl_secure.methods.fedavg.training import train_fedavg
from fgl_secure.methods.hifgl.program import hierarchy_of
from fgl_secure.protocols.staged.registry import staged
from fgl_secure.runtime import Channel, Claim, Recording
from fgl_secure.training.loop import Progress, TrainingResult, compute_device
from fgl_secure.training.presets import Preset, preset

DEMONSTRATED = ("plaintext", "pairwise-masking")
"""What an audit runs when no scheme is named; the first heads the report, as the first named one does."""

TRAINED = "pairwise-masking"
"""What training takes when no scheme is named."""

CLEAR = "plaintext"

SMALL_BATCH = 4
"""Labelled nodes of a client in the second round that is attacked."""

SMALL = f"batches of {SMALL_BATCH}"
SINGLE = "single nodes, one layer"
"""What the rounds are called that are run for attacks alone."""

NOTES = (
    "A client is a silo of this report: it trains on the edges between its own nodes.",
    "A scheme with a kind of round in brackets was run for one such round, with a fresh model; the claim is the same, "
    "so what contradicts it there counts.",
    "Under a scheme the server's own knowledge, the sum of the updates, is noted with the transcript.",
    "To choose the reported round the server gets two counts of every client, of predictions and of right ones, in the "
    "clear under every scheme; their sizes are counted.",
)


@dataclass(frozen=True, slots=True, eq=False)
class FedAvgSubject(Subject):
    """Federated averaging under one scheme.

    Attributes:
        options: checked choices.
        graph: who has what.
        preset: how to train.
        rule: how updates become their mean.
        device: where model compute runs.
    """

    options: Options
    graph: FederatedGraph
    preset: Preset
    rule: UpdateRule
    device: torch.device

    @property
    def name(self) -> str:
        """The scheme's, and whether there is noise."""
        scheme = CLEAR if self.rule.scheme is None else self.rule.scheme.name
        return scheme if self.rule.noise is None else f"{scheme}+dp"

    @property
    def claims(self) -> Mapping[str, Claim]:
        """What the scheme promises for so many clients and a sum tells whatever the scheme, for each kind of round."""
        claim = claim_of(self.rule, self.graph.num_silos)
        return dict.fromkeys((self.name, f"{self.name}[{SMALL}]", f"{self.name}[{SINGLE}]"), claim)

    def train(
        self, *, coins: Coins | None = None, recording: Recording | None = None, progress: Progress | None = None
    ) -> TrainingResult:
        """Trains to the end."""
        channel = Channel(hierarchy_of(self.graph), coins or SystemCoins(), recording)
        method = self._method(channel)
        return train_fedavg(method, self.graph, channel, self.preset, progress=progress)

    def privacy_cost(self, result: TrainingResult, progress: Callable[[str], Progress]) -> PrivacyCost | None:
        """Of noise on updates, if there is any."""
        noise = self.rule.noise
        if noise is None:
            return None
        quiet = replace(self, rule=replace(self.rule, noise=None), preset=self.preset.with_epochs(result.rounds))
        without = quiet.train(progress=progress(quiet.name))
        found = measured_updates(noise, self._threshold, self.options.seed)
        return PrivacyCost(found, noise.delta, str(noise.target.relation), noise.rounds, without.accuracy.test)

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """The first round of training, a round of small batches, and one of single nodes and a single layer."""
        fresh = self._method(Channel(hierarchy_of(self.graph), SystemCoins()))
        local = self.options.updates.local()
        model = gradient_model(fresh, self.graph, self.preset, self.options.backbone, local)
        batches = fresh.draw()
        what = f"first round of training, {self.options.backbone}"
        yield attacked_round(result.transcript, self.graph, model, batches, self.name, what)
        yield self._small_round(SMALL, SMALL_BATCH, self.preset.layers)
        single = self._small_round(SINGLE, 1, 1)
        nodes = [batch.nodes for batch in single.truth(GradientTruth).batches]
        yield with_fields(single, self.graph.restricted_to_silos(), nodes)

    def _small_round(self, name: str, batch: int, layers: int) -> RecordedRun:
        return one_round(
            self.graph,
            replace(self.preset, layers=layers),
            self.rule,
            f"one round, {name}, {self.options.backbone}",
            label=f"{self.name}[{name}]",
            local=LocalTraining(batch=batch),
            backbone=self.options.backbone,
            seed=self.options.seed,
        )

    @property
    def _threshold(self) -> int:
        assert self.rule.scheme is not None
        return self.rule.scheme.threshold_for(self.graph.num_silos)

    def _method(self, channel: Channel) -> FedAvg:
        return FedAvg(
            self.graph,
            self.preset,
            self.rule.on(channel, self.graph),
            local=self.options.updates.local(),
            backbone=self.options.backbone,
            seed=self.options.seed,
            device=self.device,
        )


def fedavg_plan(options: Options, protocols: tuple[str, ...], graph: FederatedGraph | None = None) -> Plan:
    """Checks every choice and loads the data; nothing is run.

    Args:
        options: the choices.
        protocols: none: no neighbourhood sums cross clients.
        graph: a graph of the caller's own, instead of the options' data set and partition.
    """
    check_common(options)
    options.updates.check()
    if protocols:
        raise InputError(
            f"protocol must be left out for fedavg, whose updates are summed under --scheme; found {protocols[0]}"
        )
    if options.preset != "honest":
        raise InputError(f"preset must be honest for fedavg, which no paper here is about; found {options.preset}")
    device = compute_device(options.device)
    graph = federated_graph(options) if graph is None else graph
    training = preset(options.preset, graph.graph.name).with_epochs(options.epochs)
    names = tuple(dict.fromkeys(options.updates.schemes or DEMONSTRATED))
    schemes = [None if name == CLEAR else staged(name, options.updates.threshold) for name in names]
    noise = options.updates.distributed(training.epochs)
    for scheme in schemes:
        if scheme is not None:
            scheme.threshold_for(graph.num_silos)
        elif noise is not None and options.updates.schemes:
            raise InputError("noise must go with a scheme other than plaintext, for a client adds a share of it alone")
    rules = [UpdateRule(scheme) for scheme in schemes]
    rules += [UpdateRule(scheme, noise) for scheme in schemes if scheme is not None and noise is not None]
    named = options.updates.schemes and noise is not None  # what was asked for, and nothing besides
    chosen = [rule for rule in rules if rule.noise is not None] if named else rules
    subjects = tuple(FedAvgSubject(options, graph, training, rule, device) for rule in chosen)
    return Plan(
        options,
        graph,
        int((~graph.crosses_silos).sum()),
        training.name,
        training.epochs,
        device,
        f"pooled over {int(graph.test_mask.sum()):,} nodes",
        f"chosen on {training.selection} accuracy",
        subjects,
        CONTROLS,
        NOTES,
    )
