"""Runs of Fed2GNN's hop sums for attacks: what clients know beside them, the truth, and the positive control."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import floor, log2
from types import MappingProxyType

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.rooted_trees.knowledge import ASKED, FED2GNN, HOP_SUMS, OWN_ROWS, HopRules, PublicTopology
from fgl_secure.attacks.truth import TreeTruth
from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks, partition
from fgl_secure.methods.fed2gnn.grouping import agreed_neighbours, client_pairs
from fgl_secure.methods.fed2gnn.hop_sums import RowRange, hop_sums, note_heard
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset
from fgl_secure.methods.fed2gnn.program import Fed2GNNClient, row_range
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme, least_group
from fgl_secure.protocols.topology import Grouping
from fgl_secure.runtime import Channel, PublicParameters, Recording, Role, Step
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.job import Job
from fgl_secure.training.parties import hierarchy_of, note_own_graph
from fgl_secure.training.program import Program
from fgl_secure.typing import Floats


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
    what: str = "hop sums",
    *,
    recording: Recording | None = None,
    loss: Loss | None = None,
) -> RecordedRun:
    """Protocol 1 alone, on given rows, under repeatable coins.

    Args:
        graph: who has what.
        values: float64 [n, d], what nodes put into the first hop.
        setting: how sums are computed.
        what: what was exchanged, in words.
        recording: what is kept; everything unless given.
        loss: a network that loses messages.
    """
    most, scheme = setting.neighbours, setting.scheme
    parties = hierarchy_of(graph, scheme.helpers)
    channel = Channel(parties, SimulationCoins(0), recording or Recording.everything(), loss)
    note_own_graph(channel, graph)
    asked = graph if most is None else agreed_neighbours(graph, channel, most, 0, Step(0))
    hop_sums(asked, values, setting.hops, scheme, channel, rows=setting.rows)
    return _run(graph, asked, values, setting, channel, ("drawn for attacks", what))


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
        return client.had.values, client.heard

    return before_training(job, setting, sums_of, backbone, seed)


def before_training(
    job: Job, setting: HopSetting, sums_of: Callable[[Program], tuple[Floats, Floats]], what: str, seed: int
) -> RecordedRun:
    """What a run says before its first round of training, with everything recorded.

    Args:
        job: the run.
        setting: how sums are computed.
        sums_of: of a client, what its nodes put into the first hop, float64 [m, w], and the sums that it got in every
            hop, float64 [K, m, w].
        what: of what the sums are, in words.
        seed: of the coins.
    """
    graph, asked = job.graph, job.heard or job.graph
    channel = job.channel(SimulationCoins(seed), Recording.everything(1))
    process = job.open(channel)
    process.begin()
    result = [sums_of(client) for client in process.programs]
    asking = client_pairs(asked, channel, None, least_group(setting.scheme))[1].asking
    note_heard(channel, graph, asking, [received for _, received in result])
    values = np.empty((graph.num_devices, result[0][0].shape[1]))
    for client, (own, _) in zip(process.programs, result, strict=True):
        values[client.silo.nodes] = own
    words = f"hop sums of {values.shape[1]} columns, {what}"
    return _run(graph, asked, values, setting, channel, (setting.scheme.name, words))


def _run(
    graph: FederatedGraph,
    asked: FederatedGraph,
    values: Floats,
    setting: HopSetting,
    channel: Channel,
    names: tuple[str, str],
) -> RecordedRun:
    """Notes what every client knows beside its sums, and gathers the truth."""
    grouping, pairs = client_pairs(asked, channel, None, least_group(setting.scheme))
    silos, everyone, silo = channel.parties.ids(Role.SILO), np.arange(graph.num_devices), graph.silo_of
    own = np.column_stack([everyone, values])
    channel.note_inputs(OWN_ROWS, Step(0, layer=0), silos[silo], own)
    requests = np.stack([pairs.asking, pairs.asked, silo[pairs.asked]], axis=1)
    channel.note_inputs(ASKED, Step(0), silos[silo[pairs.asking]], requests)
    truth = TreeTruth(graph.silo_of, graph.edges, values)
    public_topology = PublicTopology(graph.edges, silo, HopRules(least_group(setting.scheme), setting.neighbours))
    public = _public(setting, grouping)
    return RecordedRun(*names, HOP_SUMS, public, channel.transcript, (truth,), (public_topology,))


def _public(setting: HopSetting, grouping: Grouping) -> PublicParameters:
    """What everybody knows of a scheme at work on pairs of clients and nodes: also how finely rows are rounded."""
    scheme, rows = setting.scheme, setting.rows
    fixed = scheme.fixed_point(max(grouping.largest_group, 1))
    if fixed is None:
        return scheme.public
    unit = 1.0 if rows is None else max(rows.of(hop) for hop in range(1, setting.hops + 1)) / fixed.bound
    return replace(scheme.public, fraction_bits=fixed.fraction_bits - max(0, floor(log2(unit)) + 1))


WIDTH, HOPS = 8, 3


def along_communities(network: nx.Graph, clients: int) -> FederatedGraph:
    """A network of nodes 0, 1 and so on, dealt to clients by the Louvain method."""
    pairs, nodes = np.array(network.edges, dtype=np.int64), network.number_of_nodes()
    edges = np.concatenate([pairs, pairs[:, ::-1]]).T
    graph = Graph.from_arrays("reference", np.ones((nodes, 1)), np.arange(nodes) % 2, edges)
    everyone = np.ones(nodes, dtype=np.bool_)
    masks = SplitMasks(everyone, ~everyone, ~everyone)
    return FederatedGraph.from_assignment(graph, partition("louvain", graph, clients, 0), masks, "louvain")


def drawn_rows(nodes: int, width: int = WIDTH) -> NDArray[np.float64]:
    """Normal rows."""
    return np.random.default_rng(0).normal(size=(nodes, width))


@cache
def _in_the_clear() -> RecordedRun:
    """Every node has three neighbours: few enough for sums that are solved, and for surroundings that are explained."""
    graph = along_communities(nx.random_regular_graph(3, 900, seed=0), 2)
    return drawn_hops(graph, drawn_rows(graph.num_devices), HopSetting(HOPS, Plaintext()), "reference, three hops")


CONTROLS: Makers = MappingProxyType({FED2GNN: _in_the_clear})
"""What attacks on hop sums must break, by name; made when it is first asked for."""
