"""FedStruct under each exchange of structure, as it is trained and audited."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from fgl_secure.audit.recorded_run import RecordedRun
from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.commands.options import Options, check_common, federated_graph
from fgl_secure.commands.subjects import Plan, Subject
from fgl_secure.commands.train import PrivacyCost
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstruct.choice import ExchangeName
from fgl_secure.methods.fedstruct.claims import claim_of
from fgl_secure.methods.fedstruct.controls import CONTROLS
from fgl_secure.methods.fedstruct.exchange import Exchange, GradientDelivery, RowExchange, relays_of, run_fedstruct
from fgl_secure.methods.fedstruct.presets import Averaging, FeatureModelKind, FedStructPreset, fedstruct_preset
from fgl_secure.methods.fedstruct.scenarios import SeenModels, structure_run
from fgl_secure.methods.fedstruct.unused_choices import check_exchanges
from fgl_secure.methods.hifgl.program import hierarchy_of
from fgl_secure.runtime import Channel, Claim, Recording
from fgl_secure.training.loop import Progress, TrainingResult, compute_device

DEMONSTRATED = (ExchangeName.PLAINTEXT, ExchangeName.CKKS, ExchangeName.HOPWISE)
"""What an audit runs when no exchange is named; the first heads the report, as the first named one does."""

TRAINED = ExchangeName.HOPWISE
"""What training takes when no exchange is named."""

PROTOCOL = "relay-coded"
"""What computes the sums of a hopwise exchange when no protocol is named."""

SPLIT = (0.1, 0.1, 0.8)
"""Shares of the nodes that train, validate and test (FedStruct, section 6)."""

BACKBONES = {"gcn": FeatureModelKind.DGCN, "sage": FeatureModelKind.SAGE}

NOTES = (
    "A client of FedStruct is a silo of this report: it holds its nodes, their features and the edges with an end in "
    "it.",
    "What clients hold after the exchange is noted with the transcript and read by attacks as their own.",
    "Gradients are rounded to multiples of 2^-40 where they are added up under a protocol.",
    "The cost counts the exchange of structure and all rounds.",
)


@dataclass(frozen=True, slots=True, eq=False)
class FedStructSubject(Subject):
    """FedStruct under one exchange.

    Attributes:
        options: checked choices.
        graph: who has what.
        preset: how to train.
        exchange: how structure is exchanged.
        label: what the exchange is called.
        device: where model compute runs.
        models: from which follows what attackers know beside their views; filled when training starts and ends.
    """

    options: Options
    graph: FederatedGraph
    preset: FedStructPreset
    exchange: Exchange
    label: str
    device: torch.device
    models: SeenModels

    @property
    def name(self) -> str:
        """The exchange's."""
        return self.label

    @property
    def claims(self) -> Mapping[str, Claim]:
        """That of the exchange."""
        return {self.label: claim_of(self.exchange, self.options.structure.features)}

    def train(
        self, *, coins: Coins | None = None, recording: Recording | None = None, progress: Progress | None = None
    ) -> TrainingResult:
        """Exchanges structure and trains."""
        parties = hierarchy_of(self.graph, relays_of(self.exchange))
        return run_fedstruct(
            self.graph,
            self.preset,
            self.exchange,
            Channel(parties, coins or SystemCoins(), recording),
            features=self.options.structure.features,
            seed=self.options.seed,
            device=self.device,
            progress=progress,
            seen=self.models.see,
        )

    def privacy_cost(self, result: TrainingResult, progress: Callable[[str], Progress]) -> PrivacyCost | None:  # noqa: ARG002
        """None: no noise is added."""
        return None

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """The exchange, the first round of training, and what clients hold in the end."""
        transcript, graph = result.transcript, self.graph
        what = f"exchange and first round of training, {self.options.structure.features} features"
        knowledge = self.models.knowledge(graph, self.preset, self.options.structure.features, self.options.seed)
        yield structure_run(self.label, what, graph, self.exchange, transcript, knowledge)


def fedstruct_plan(options: Options, protocols: tuple[str, ...], graph: FederatedGraph | None = None) -> Plan:
    """Checks every choice and loads the data; nothing is run.

    Args:
        options: the choices.
        protocols: names of schemes for the sums of a hopwise exchange.
        graph: a graph of the caller's own, instead of the options' data set and partition.
    """
    check_common(options)
    options.structure.check()
    check_exchanges(options)
    names = options.structure.exchanges or DEMONSTRATED
    if ExchangeName.HOPWISE not in names and protocols:
        raise InputError(f"protocol must go with a hopwise exchange; found {', '.join(protocols)}")
    device = compute_device(options.device)
    graph = federated_graph(options, SPLIT) if graph is None else graph
    if graph.num_silos < 2:
        raise InputError(f"silos must be at least 2 for fedstruct; found {graph.num_silos}")
    chosen = fedstruct_preset(options.preset, graph.graph.name).with_epochs(options.epochs)
    preset = options.structure.preset(replace(chosen, feature_model=BACKBONES[options.backbone]))
    return Plan(
        options,
        graph,
        int(graph.crosses_silos.sum()),
        preset.name,
        preset.epochs,
        device,
        _averaged(preset, graph),
        "the last" if preset.selection is None else f"chosen on {preset.selection} accuracy",
        tuple(_subjects(options, graph, preset, names, protocols or (PROTOCOL,), device)),
        CONTROLS,
        NOTES,
    )


def _subjects(
    options: Options,
    graph: FederatedGraph,
    preset: FedStructPreset,
    names: tuple[str, ...],
    protocols: tuple[str, ...],
    device: torch.device,
) -> Iterator[FedStructSubject]:
    """One for each exchange, a hopwise one for each protocol."""
    choice = options.structure
    for name in dict.fromkeys(names):
        for protocol in protocols if name == ExchangeName.HOPWISE else protocols[:1]:
            exchange = choice.exchange(name, protocol, options.parameters)
            _check_masks(exchange, name, graph)
            label = choice.name_of(exchange, name)
            yield FedStructSubject(options, graph, preset, exchange, label, device, SeenModels())


def _check_masks(exchange: Exchange, name: str, graph: FederatedGraph) -> None:
    """Refuses masked sums for one client with less than two others, whose sum would be one term."""
    if not isinstance(exchange, RowExchange) or graph.num_silos > 2:
        return
    to_owners = exchange.gradients is not None and exchange.delivery is GradientDelivery.OWNER
    if name == ExchangeName.PAIRWISE_MASKING or to_owners:
        raise InputError(
            f"silos must be at least 3 for {name}, where a client gets the masked sum of the others; "
            f"found {graph.num_silos}"
        )


def _averaged(preset: FedStructPreset, graph: FederatedGraph) -> str:
    return {
        Averaging.POOLED: f"pooled over {int(graph.test_mask.sum()):,} nodes",
        Averaging.CLIENTS: "as the mean over clients",
        Averaging.NODES: "as the mean over clients by their nodes",
    }[preset.averaging]
