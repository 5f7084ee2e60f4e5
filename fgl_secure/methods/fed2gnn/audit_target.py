"""Fed2GNN and its like under each scheme for their hop sums: what they promise, and their runs for attacks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import floor, log2
from types import MappingProxyType
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import DataSecret
from fgl_secure.attacks.rooted_trees.knowledge import (
    ASKED,
    FED2GNN,
    FED2GNN_RELAYS,
    HOP_SUMS,
    OWN_ROWS,
    HopRules,
    PublicTopology,
)
from fgl_secure.attacks.truth import TreeTruth, group_tags
from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.method import AuditRequest
from fgl_secure.auditing.plan import CARRIED, AuditPlan, Subject, pooled_over
from fgl_secure.auditing.programs import scheme_choices
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks, partition
from fgl_secure.methods.fed2gnn.grouping import agreed_neighbours, client_pairs, sampled_neighbours
from fgl_secure.methods.fed2gnn.hop_sums import RowRange, hop_sums, note_received
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset, fed2gnn_preset
from fgl_secure.methods.fed2gnn.program import Fed2GNNClient, clients_of, row_range
from fgl_secure.methods.fedavg.audit_target import SUM_LEAKS
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme, least_group
from fgl_secure.protocols.topology import NEIGHBOURS, SERVER, Grouping, Topology
from fgl_secure.runtime import (
    Channel,
    Circumstance,
    Claim,
    Guarantee,
    Leak,
    PublicParameters,
    Recording,
    Role,
    Secret,
    SecretKind,
    Step,
    Strength,
    leaks,
)
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.parties import hierarchy_of, note_own_graph
from fgl_secure.training.presets import choice_of_round
from fgl_secure.training.program import Program
from fgl_secure.training.server_sums import promises as sum_promises
from fgl_secure.typing import Floats

if TYPE_CHECKING:
    from fgl_secure.methods.fed2gnn.configuration import Fed2GNN


@dataclass(frozen=True, slots=True)
class HopSetting:
    """How sums of several hops are computed.

    Attributes:
        hops: K.
        scheme: computes them.
        neighbours: d, most neighbours elsewhere that a node asks about; None for all.
        rows: how large rows may get; None sends them as they are.
    """

    hops: int
    scheme: Scheme
    neighbours: int | None = None
    rows: RowRange | None = None


def drawn_hops(
    graph: FederatedGraph,
    values: Floats,
    setting: HopSetting,
    description: str = "hop sums",
    *,
    recording: Recording | None = None,
    loss: Loss | None = None,
) -> RecordedRun:
    """Protocol 1 alone, on given rows, under repeatable coins.

    Args:
        graph: who has what.
        values: float64 [n, d], what nodes put into the first hop.
        setting: how sums are computed.
        description: what was exchanged, in words.
        recording: what is kept; everything unless given.
        loss: a network that loses messages.
    """
    most, scheme = setting.neighbours, setting.scheme
    parties = hierarchy_of(graph, scheme.helpers)
    channel = Channel(parties, SimulationCoins(0), recording or Recording.everything(), loss)
    note_own_graph(channel, graph)
    sampled = graph if most is None else agreed_neighbours(graph, channel, most, 0, Step(0))
    hop_sums(sampled, values, setting.hops, scheme, channel, rows=setting.rows)
    return _run(graph, sampled, values, setting, channel, ("drawn for attacks", description))


def trained_hops(job: Job, preset: Fed2GNNPreset, scheme: Scheme, backbone: str, seed: int) -> RecordedRun:
    """What a run says before its first round of training, with everything recorded: equal seeds give equal messages.

    Args:
        job: the run.
        preset: how to train.
        scheme: computes the hop sums.
        backbone: "gcn", "sage" or "dagnn".
        seed: of the coins.
    """
    setting = HopSetting(preset.hops, scheme, preset.neighbours, row_range(preset, scheme))

    def sums_of(client: Program) -> tuple[Floats, Floats]:
        assert isinstance(client, Fed2GNNClient)
        return client.had.values, client.received_sums

    return before_training(job, setting, sums_of, backbone, seed)


def before_training(
    job: Job, setting: HopSetting, sums_of: Callable[[Program], tuple[Floats, Floats]], description: str, seed: int
) -> RecordedRun:
    """What a run says before its first round of training, with everything recorded.

    Args:
        job: the run.
        setting: how sums are computed.
        sums_of: of a client, what its nodes put into the first hop, float64 [m, w], and the sums that it got in every
            hop, float64 [K, m, w].
        description: of what the sums are, in words.
        seed: of the coins.
    """
    graph, requested = job.graph, job.message_graph or job.graph
    channel = job.channel(SimulationCoins(seed), Recording.everything(1))
    process = job.open(channel)
    process.begin()
    result = [sums_of(client) for client in process.programs]
    asking = client_pairs(requested, channel, None, least_group(setting.scheme))[1].asking
    note_received(channel, graph, asking, [received for _, received in result])
    values = np.empty((graph.num_devices, result[0][0].shape[1]))
    for client, (rows, _) in zip(process.programs, result, strict=True):
        values[client.silo.nodes] = rows
    words = f"hop sums of {values.shape[1]} columns, {description}"
    return _run(graph, requested, values, setting, channel, (setting.scheme.name, words))


def _run(
    graph: FederatedGraph,
    requested: FederatedGraph,
    values: Floats,
    setting: HopSetting,
    channel: Channel,
    names: tuple[str, str],
) -> RecordedRun:
    """Notes what every client knows beside its sums, and gathers the truth."""
    grouping, pairs = client_pairs(requested, channel, None, least_group(setting.scheme))
    silos, nodes, silo = channel.parties.ids(Role.SILO), np.arange(graph.num_devices), graph.silo_of
    named_rows = np.column_stack([nodes, values])
    channel.note_inputs(OWN_ROWS, Step(0, layer=0), silos[silo], named_rows)
    requests = np.stack([pairs.asking, pairs.asked, silo[pairs.asked]], axis=1)
    channel.note_inputs(ASKED, Step(0), silos[silo[pairs.asking]], requests)
    truth = TreeTruth(graph.silo_of, graph.edges, values, tags=group_tags(channel.transcript))
    public_topology = PublicTopology(graph.edges, silo, HopRules(least_group(setting.scheme), setting.neighbours))
    public = _public(setting, grouping)
    return RecordedRun(*names, HOP_SUMS, public, channel.transcript, (truth,), (public_topology,))


def _public(setting: HopSetting, grouping: Grouping) -> PublicParameters:
    """What all parties know of a scheme at work on pairs of clients and nodes: also how finely rows are rounded."""
    scheme, rows = setting.scheme, setting.rows
    fixed = scheme.fixed_point(max(grouping.largest_group, 1))
    if fixed is None:
        return scheme.public
    unit = 1.0 if rows is None else max(rows.of(hop) for hop in range(1, setting.hops + 1)) / fixed.bound
    return replace(scheme.public, fraction_bits=fixed.fraction_bits - max(0, floor(log2(unit)) + 1))


WIDTH, HOPS = 8, 3


def _deal_network(network: nx.Graph, clients: int, how: str) -> FederatedGraph:
    """A network of nodes 0, 1 and so on, dealt to clients by a partition."""
    pairs, nodes = np.array(network.edges, dtype=np.int64), network.number_of_nodes()
    edges = np.concatenate([pairs, pairs[:, ::-1]]).T
    graph = Graph.from_arrays("reference", np.ones((nodes, 1)), np.arange(nodes) % 2, edges)
    mask = np.ones(nodes, dtype=np.bool_)
    masks = SplitMasks(mask, ~mask, ~mask)
    return FederatedGraph.from_assignment(graph, partition(how, graph, clients, 0), masks, how)


def drawn_rows(nodes: int, width: int = WIDTH) -> NDArray[np.float64]:
    """Normal rows."""
    return np.random.default_rng(0).normal(size=(nodes, width))


@cache
def _in_the_clear() -> RecordedRun:
    """Every node has three neighbours: few enough for sums that are solved, and for surroundings that are explained."""
    graph = _deal_network(nx.random_regular_graph(3, 900, seed=0), 2, "louvain")
    return drawn_hops(graph, drawn_rows(graph.num_devices), HopSetting(HOPS, Plaintext()), "reference, three hops")


@cache
def _at_relays() -> RecordedRun:
    """A few nodes at each of many clients: hardly a node has two neighbours at one of them."""
    graph = _deal_network(nx.barabasi_albert_graph(240, 2, seed=0), 48, "binomial")
    scheme = RelayCoded(bound=1000.0, k_min=1, profile=Profile.SHOWN)
    return drawn_hops(graph, drawn_rows(graph.num_devices, 1), HopSetting(1, scheme), "reference, at relays")


CONTROLS: Makers = MappingProxyType({FED2GNN: _in_the_clear, FED2GNN_RELAYS: _at_relays})
"""What attacks on hop sums must break, by name; made on first use."""


REFUSAL = "refusal of sums over fewer than k_min clients"

HOP_LEAKS = (
    *leaks(
        Role.SILO,
        {
            DataSecret.NODE_FEATURES: "sums are exact and overlap: a client subtracts those of different nodes from "
            "each other, and a party that knows the graph solves the sums of several hops, which are sums of the same "
            "rows; what that determines of single nodes' rows is read, whatever computes the sums"
        },
        Circumstance.REPEATED_SUM,
    ),
    *leaks(
        Role.SILO,
        {
            DataSecret.NODE_FEATURES: "a sum of a few sparse rows can be taken apart by a party that knows what rows "
            "look like; rows that were mapped to a latent space first are dense, and the map is no secret"
        },
        Circumstance.SPARSE_SUM,
    ),
    *leaks(
        Role.SILO,
        {
            DataSecret.FOREIGN_EDGE: "the second hop sums the whole neighbourhood of a node: where its row and those "
            "around it are known, so are its edges at other clients",
            Secret.FOREIGN_NODE: "a client that is asked for sums learns which of its nodes are next to which node of "
            "another client",
            Secret.DEGREE: "clients tell each other which edges their nodes picked: who hears nothing about an edge "
            "learns that its other end has more neighbours at other clients than it may ask about",
        },
    ),
)
"""What exact sums of several hops tell a client, whatever computes them."""

IN_THE_CLEAR = leaks(
    Role.SILO,
    {
        DataSecret.NODE_FEATURES: "each client's part of a sum arrives by itself: a node's neighbour that is alone at "
        "its client is read at once, and of every later hop the sum over that neighbour's surroundings"
    },
)

ONE_CLIENT = Leak(
    DataSecret.NODE_FEATURES,
    Role.SILO,
    Circumstance.SINGLE_NEIGHBOUR,
    "with k_min = 1 a sum over one neighbour is that neighbour's row",
)

MODELS_IN_THE_CLEAR = leaks(
    Role.SERVER,
    {Secret.SUMMAND: "the server sees every client's model, and how many labelled and validation nodes it has"},
)


PAIR_LEAKS = leaks(
    Role.SILO,
    {
        Secret.SUMMAND: "of two clients each can take its own part from the mean that the server sends back: what is "
        "left is the other's model, and of the latent map its perceptron and its mean square"
    },
)
"""What two clients learn of each other, whatever adds the models up."""


def claim_of(
    scheme: Scheme,
    averaging: Scheme,
    clients: int,
    hop_leaks: tuple[Leak, ...] = HOP_LEAKS,
    pair: tuple[Leak, ...] = PAIR_LEAKS,
) -> Claim:
    """The claim of a run. The paper promises nothing: it names privacy as work for the future (its conclusion).

    Args:
        scheme: computes the hop sums.
        averaging: adds up the models; one that promises nothing sends them in plaintext.
        clients: how many there are.
        hop_leaks: what exact sums tell a client, whatever computes them.
        pair: what two clients learn of each other's models, whatever adds them up.
    """
    parts = (_hops(scheme, hop_leaks), _averaging(averaging, clients, pair))
    guarantees = tuple(item for part in parts for item in part.guarantees)
    leaks = tuple(item for part in parts for item in part.leaks_by_design)
    return Claim(guarantees, leaks, tuple(dict.fromkeys(item for part in parts for item in part.assumptions)))


def _hops(scheme: Scheme, hop_leaks: tuple[Leak, ...]) -> Claim:
    inner, least = scheme.claim_for(Topology.example(NEIGHBOURS)), least_group(scheme)
    hidden = next((item for item in inner.guarantees if item.secret is Secret.EMBEDDING), None)
    if hidden is None:
        return Claim((), (*IN_THE_CLEAR, *hop_leaks), inner.assumptions)
    relays = hidden.coalition.get(Role.RELAY, 0)
    leaks = tuple(item for item in inner.leaks_by_design if item.role in (Role.SERVER, Role.RELAY))
    assumptions = (*inner.assumptions, _honest(least))
    if least < 2:
        return Claim((_row_guarantee(hidden, relays),), (*leaks, ONE_CLIENT, *hop_leaks), assumptions)
    promises = (_row_guarantee(hidden, relays), _sums_alone(least, relays))
    return Claim(promises, (*leaks, *hop_leaks), assumptions)


def _row_guarantee(inner: Guarantee, relays: int) -> Guarantee:
    """What a scheme promises of rows, towards all who are no clients: clients are its senders and its targets here."""
    return replace(
        inner,
        coalition={Role.RELAY: relays, Role.SERVER: 1},
        statement=f"up to T = {relays} relays and the server learn nothing of the rows that are summed",
    )


def _sums_alone(least: int, relays: int) -> Guarantee:
    return Guarantee(
        DataSecret.NODE_FEATURES,
        {Role.SILO: 1, Role.SERVER: 1, Role.RELAY: relays},
        Strength.COMPUTATIONAL,
        f"of a node's neighbours elsewhere no message tells a client more than the sums of every hop over at least "
        f"{least} clients' parts, and a node with neighbours at fewer clients gets no sum; what several of these sums "
        "determine together is declared beside it",
        REFUSAL,
    )


def _honest(least: int) -> str:
    return (
        f"of the at least {least} clients in a sum no more than all but two pool what they have with the client that "
        "gets it"
    )


def _averaging(averaging: Scheme, clients: int, told: tuple[Leak, ...]) -> Claim:
    inner = sum_promises(averaging, clients)
    if inner is None:
        return Claim((), MODELS_IN_THE_CLEAR, ())
    pair = told if clients == 2 else ()
    return Claim(inner.guarantees, (*inner.leaks_by_design, *SUM_LEAKS, *pair), inner.assumptions)


NOTES = (
    "Attacks read a second exchange of hop sums with the same seed, and so the same messages; what clients have of "
    "their own nodes is noted beside it.",
    "Models are added up by pairwise masking where hop sums are not in the clear, unless a scheme is named; what their "
    "sum tells the server is what federated averaging is audited for.",
    "A scheme that refuses small sums leaves nodes with neighbours at few clients without any: the more clients there "
    "are and the less they follow communities, the fewer.",
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HopSubject(Subject):
    """A method whose clients hear sums of features at other clients before they train."""

    @abstractmethod
    def exchange(self) -> RecordedRun:
        """The exchange of hop sums, run without training."""

    @property
    def carried(self) -> Mapping[SecretKind, tuple[str, ...]]:
        """Features go into hop sums."""
        return {**CARRIED, DataSecret.NODE_FEATURES: (NEIGHBOURS,)}

    def unprotected_subjects(self) -> tuple[Subject, ...]:
        """In the clear; and for relays, which there are none of there, with a sum for every node."""
        scheme, clear = self.schemes[NEIGHBOURS], Subject.unprotected_subjects(self)
        if Role.RELAY not in scheme.helpers or "k_min" not in scheme.parameters:
            return clear
        answering = replace(scheme, k_min=1)  # type: ignore[type-var]  # schemes are dataclasses
        return (*clear, self.brief(schemes={**self.schemes, NEIGHBOURS: answering}, name=answering.name))

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:  # noqa: ARG002  # the exchange is run once more
        """The exchange of hop sums."""
        yield replace(self.exchange(), protocol=self.name)

    def record_runs(self, seed: int) -> Iterator[RecordedRun]:  # noqa: ARG002  # of the coins, which are of the run's seed
        """The exchange of hop sums, which is run without training."""
        yield replace(self.exchange(), protocol=self.name)


def check_sums(graph: FederatedGraph, schemes: Mapping[str, Scheme], among: str = "") -> None:
    """Raises unless some sum can be computed, and models added up.

    Args:
        graph: the graph along whose edges clients ask.
        schemes: of hop sums and models, by topology.
        among: what errors say of the graph beside its number of silos.
    """
    scheme = schemes[NEIGHBOURS]
    if scheme.custodian_decodes:
        raise InputError(
            f"scheme must not be {scheme.label} here: the client that gets a sum would be the silo that decodes it, "
            f"and reads every part; found {scheme.name}"
        )
    most, least = int(_clients_around(graph).max(initial=0)), least_group(scheme)
    if 1 < least > most:
        raise InputError(
            f"k_min must leave some node a sum under {scheme.name}: neighbours at {least} other clients "
            f"or more; found at most {most} over {graph.num_silos} silos{among}"
        )
    schemes[SERVER].threshold_for(graph.num_silos)


def _clients_around(graph: FederatedGraph) -> NDArray[np.int64]:
    """int64 [n], at how many other clients each node has neighbours."""
    source, target = graph.edges[:, graph.crosses_silos]
    pairs = np.unique(target * graph.num_silos + graph.silo_of[source])
    return np.bincount(pairs // graph.num_silos, minlength=graph.num_devices).astype(np.int64)


SPLIT = (0.4, 0.3, 0.3)
"""Shares of the nodes that train, validate and test (Fed2GNN, 5.1)."""

CLIENT_NOTE = (
    "A client of Fed2GNN is a silo of this report: it holds its nodes, their features and the edges with an end in it."
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Fed2GNNSubject(HopSubject):
    """Fed2GNN under one scheme for hop sums and one for models."""

    method: Fed2GNN
    preset: Fed2GNNPreset

    @property
    def claim(self) -> Claim:
        """That of both schemes."""
        return claim_of(self.schemes[NEIGHBOURS], self.schemes[SERVER], self.graph.num_silos)

    @property
    def job(self) -> Job:
        """Hop sums are exchanged, and models trained."""
        return clients_of(self.graph, self.schemes, self.preset, **self.model_options)

    def exchange(self) -> RecordedRun:
        """The exchange of hop sums, run without training."""
        return trained_hops(self.job, self.preset, self.schemes[NEIGHBOURS], self.method.backbone, self.seed)


def fed2gnn_plan(method: Fed2GNN, request: AuditRequest) -> AuditPlan:
    """Checks every choice and loads the data; nothing is run."""
    runs, graph = scheme_choices(request, NEIGHBOURS), request.load_graph(SPLIT, least=2)
    chosen = fed2gnn_preset(method.preset, graph.graph.name, method.backbone).with_epochs(method.epochs)
    preset = chosen.with_trees(method.hops, method.neighbours, method.decoder)
    sampled = sampled_neighbours(graph, preset.neighbours, request.seed)
    for run in runs:
        check_sums(sampled, run["schemes"], f" and {preset.neighbours} sampled neighbours")
    shared = request.common_fields(graph, preset)
    return AuditPlan(
        tuple(_Fed2GNNSubject(**shared, **run) for run in runs),
        CONTROLS,
        (CLIENT_NOTE, *NOTES),
        messages=int(graph.crosses_silos.sum()),
        averaged=pooled_over(graph),
        chosen_on=choice_of_round(preset.selection, graph),
        backbone=method.backbone,
    )
