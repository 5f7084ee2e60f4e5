"""Fed2GNN under each scheme for its hop sums, as it is trained and audited."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.algebra import MERSENNE_61
from fgl_secure.audit.recorded_run import RecordedRun
from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.commands.options import Options, check_common, check_selection, federated_graph
from fgl_secure.commands.subjects import Plan, Subject
from fgl_secure.commands.train import PrivacyCost
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.claims import claim_of
from fgl_secure.methods.fed2gnn.controls import CONTROLS
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset, fed2gnn_preset
from fgl_secure.methods.fed2gnn.sampling import sampled_neighbours
from fgl_secure.methods.fed2gnn.scenarios import trained_hops
from fgl_secure.methods.fed2gnn.training import train_fed2gnn
from fgl_secure.methods.hifgl.program import hierarchy_of
from fgl_secure.protocols.grouped_sum import Scheme
from fgl_secure.protocols.registry import Parameters, make_scheme
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.protocols.staged.interface import StagedScheme
from fgl_secure.protocols.staged.registry import staged
from fgl_secure.runtime import Channel, Claim, Recording
from fgl_secure.training.loop import Progress, TrainingResult, compute_device
from fgl_secure.training.server_sums import server_sums

DEMONSTRATED = ("plaintext", "relay-coded")
"""What an audit runs when no protocol is named; the first heads the report, as the first named one does."""

TRAINED = "relay-coded"
"""What training takes when no protocol is named."""

AVERAGING = "pairwise-masking"
"""What adds up the models beside a protocol that hides messages, when no scheme is named."""

CLEAR = "plaintext"

SPLIT = (0.4, 0.3, 0.3)
"""Shares of the nodes that train, validate and test (Fed2GNN, 5.1)."""

NOTES = (
    "A client of Fed2GNN is a silo of this report: it holds its nodes, their features and the edges with an end in it.",
    "Attacks read a second exchange of hop sums with the same seed, and so the same messages; what clients have of "
    "their own nodes is noted beside it.",
    "Models are added up by pairwise masking where hop sums are not in the clear, unless a scheme is named; what their "
    "sum tells the server is what federated averaging is audited for.",
    "A scheme that refuses small sums leaves nodes with neighbours at few clients without any: the more clients there "
    "are and the less they follow communities, the fewer.",
)


@dataclass(frozen=True, slots=True, eq=False)
class Fed2GNNSubject(Subject):
    """Fed2GNN under one scheme for hop sums and one for models.

    Attributes:
        options: checked choices.
        graph: who has what.
        preset: how to train.
        scheme: computes the hop sums.
        averaging: adds up the models; None in the clear.
        device: where model compute runs.
    """

    options: Options
    graph: FederatedGraph
    preset: Fed2GNNPreset
    scheme: Scheme
    averaging: StagedScheme | None
    device: torch.device

    @property
    def name(self) -> str:
        """The scheme's for hop sums."""
        return self.scheme.name

    @property
    def claims(self) -> Mapping[str, Claim]:
        """That of both schemes."""
        return {self.name: claim_of(self.scheme, self.averaging, self.graph.num_silos)}

    def train(
        self, *, coins: Coins | None = None, recording: Recording | None = None, progress: Progress | None = None
    ) -> TrainingResult:
        """Exchanges hop sums and trains."""
        parties = hierarchy_of(self.graph, self.scheme.relays)
        channel = Channel(parties, coins or SystemCoins(), recording)
        return train_fed2gnn(
            self.graph,
            channel,
            self.preset,
            self.scheme,
            server_sums(self.averaging, channel),
            backbone=self.options.backbone,
            seed=self.options.seed,
            device=self.device,
            progress=progress,
        )

    def privacy_cost(self, result: TrainingResult, progress: Callable[[str], Progress]) -> PrivacyCost | None:  # noqa: ARG002
        """None: no noise is added."""
        return None

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:  # noqa: ARG002  # the exchange is run once more
        """The exchange of hop sums."""
        yield trained_hops(
            self.graph,
            self.preset,
            self.scheme,
            self.averaging,
            backbone=self.options.backbone,
            seed=self.options.seed,
            device=self.device,
        )


def fed2gnn_plan(options: Options, protocols: tuple[str, ...], graph: FederatedGraph | None = None) -> Plan:
    """Checks every choice and loads the data; nothing is run.

    Args:
        options: the choices.
        protocols: names of schemes for the hop sums; `DEMONSTRATED` when empty.
        graph: a graph of the caller's own, instead of the options' data set and partition.
    """
    check_common(options)
    options.trees.check()
    _check_updates(options)
    device = compute_device(options.device)
    schemes = [_scheme(name, options.parameters) for name in dict.fromkeys(protocols or DEMONSTRATED)]
    graph = federated_graph(options, SPLIT) if graph is None else graph
    if graph.num_silos < 2:
        raise InputError(f"silos must be at least 2 for fed2gnn; found {graph.num_silos}")
    chosen = fed2gnn_preset(options.preset, graph.graph.name, options.backbone).with_epochs(options.epochs)
    preset = chosen.with_trees(options.trees.hops, options.trees.neighbours)
    subjects = tuple(_subject(options, graph, preset, scheme, device) for scheme in schemes)
    if options.updates.threshold is not None and all(subject.averaging is None for subject in subjects):
        raise InputError(
            f"threshold must go with a scheme other than {CLEAR} for the models; found {options.updates.threshold}"
        )
    check_selection(preset.name, preset.selection, graph)
    return Plan(
        options,
        graph,
        int(graph.crosses_silos.sum()),
        preset.name,
        preset.epochs,
        device,
        f"pooled over {int(graph.test_mask.sum()):,} nodes",
        f"chosen on {preset.selection} accuracy",
        subjects,
        CONTROLS,
        NOTES,
    )


def _subject(
    options: Options, graph: FederatedGraph, preset: Fed2GNNPreset, scheme: Scheme, device: torch.device
) -> Fed2GNNSubject:
    """Raises unless some sum can be computed, and models added up."""
    asked = sampled_neighbours(graph, preset.neighbours, options.seed)
    most = int(_clients_around(asked).max(initial=0))
    if 1 < scheme.minimum_group > most:
        raise InputError(
            f"k_min must leave some node a sum under {scheme.name}: neighbours at {scheme.minimum_group} other clients "
            f"or more; found at most {most} over {graph.num_silos} silos and {preset.neighbours} sampled neighbours"
        )
    named = options.updates.schemes or ((CLEAR,) if scheme.fixed_point(1) is None else (AVERAGING,))
    averaging = None if named[0] == CLEAR else staged(named[0], options.updates.threshold)
    if averaging is not None:
        averaging.threshold_for(graph.num_silos)
    return Fed2GNNSubject(options, graph, preset, scheme, averaging, device)


def _clients_around(graph: FederatedGraph) -> NDArray[np.int64]:
    """int64 [n], at how many other clients each node has neighbours."""
    source, target = graph.edges[:, graph.crosses_silos]
    pairs = np.unique(target * graph.num_silos + graph.silo_of[source])
    return np.bincount(pairs // graph.num_silos, minlength=graph.num_devices).astype(np.int64)


def _scheme(name: str, parameters: Parameters) -> Scheme:
    """A scheme for hop sums, in a large field unless another was chosen: they grow with every hop."""
    if isinstance(make_scheme(name, parameters), SecretMessagePassing):
        raise InputError(
            "protocol must not be secmp for fed2gnn: the client that gets a sum would be the silo that decodes it, and "
            f"reads every part; found {name}"
        )
    chosen = parameters.modulus != Parameters().modulus
    return make_scheme(name, parameters if chosen else replace(parameters, modulus=MERSENNE_61))


def _check_updates(options: Options) -> None:
    """Raises unless at most one scheme adds up the models."""
    updates = options.updates
    updates.check()
    if len(updates.schemes) > 1:
        raise InputError(
            f"scheme must be given once for fed2gnn, beside each protocol; found {', '.join(updates.schemes)}"
        )
