"""FedStruct from the first message to the last: how structure is exchanged, and the training on top of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.local_subgraph import augmented_subgraph
from fgl_secure.graph.structure_features import LEARNT, structure_features
from fgl_secure.methods.fedstruct.aggregated_queries import AggregatedQueries
from fgl_secure.methods.fedstruct.gradients import (
    AtOwners,
    ClearSum,
    ClientSums,
    GradientSum,
    OwnerAddressed,
    SecuredBroadcast,
    SecuredOwners,
    SecuredSum,
    ServerBroadcast,
    StructureDelivery,
)
from fgl_secure.methods.fedstruct.hop_exchange import exchanged_rows, note_combined_rows, note_own_graph
from fgl_secure.methods.fedstruct.presets import FedStructPreset
from fgl_secure.methods.fedstruct.program import FedStruct, Structure
from fgl_secure.methods.fedstruct.structure_sum import HeldRows, Hopwise, StructureSum
from fgl_secure.methods.fedstruct.traffic import FedStructTraffic
from fgl_secure.methods.fedstruct.training import run_rounds, run_sharing
from fgl_secure.protocols.hop_adjacency import HopSettings, Pruning
from fgl_secure.protocols.query_audit import AuditRule
from fgl_secure.protocols.scheme import NO_HELPERS, Scheme
from fgl_secure.runtime import Channel, Role
from fgl_secure.training.loop import Progress, TrainingResult

HOP2VEC = LEARNT

Seen = Callable[[FedStruct], None]
"""Shown the method before the first round, and after the last."""


class FeatureSharing(StrEnum):
    """Who holds structure features."""

    SHARED = "shared"
    """Every client holds those of all nodes (Algorithms 1 and 2)."""
    QUERIES = "queries"
    """Owners alone; they answer weighted queries (App. G.1)."""


class GradientDelivery(StrEnum):
    """To whom clients send gradients of learnt structure features."""

    SERVER = "server"
    """To the server, which sends sums on (Algorithm 2)."""
    OWNER = "owner"
    """To the owner of each node."""


@dataclass(frozen=True, slots=True)
class RowExchange:
    """Clients come to hold rows of the combined adjacency (App. D).

    Attributes:
        terms: adds up the terms of a hop; None shows each to its receiver, as published.
        gradients: adds up gradients; None shows each to whom it is for, as published.
        pruning: which entries of powers are kept; how many is the preset's `kept`.
        sharing: who holds structure features.
        delivery: to whom gradients of learnt structure features go.
        rule: when a query is refused, under QUERIES; None counts queries as the paper does.
        pooled: whether clients assume that all requesters pool their answers.
        k_min: fewest clients that a row of summed gradients is opened for; see `RowSums`.
    """

    terms: Scheme | None = None
    gradients: Scheme | None = None
    pruning: Pruning = Pruning.MATRIX
    sharing: FeatureSharing = FeatureSharing.SHARED
    delivery: GradientDelivery = GradientDelivery.SERVER
    rule: AuditRule | None = AuditRule()  # noqa: RUF009  # frozen
    pooled: bool = False
    k_min: int = 1


@dataclass(frozen=True, slots=True)
class HopwiseExchange:
    """Nobody holds rows of a power: embeddings travel hop by hop.

    Attributes:
        sums: computes sums over foreign neighbours.
        gradients: adds up gradients of model parameters; None shows each to the server.
    """

    sums: Scheme
    gradients: Scheme | None = None


Exchange = RowExchange | HopwiseExchange


def helpers_of(exchange: Exchange) -> Mapping[Role, int]:
    """Who takes part beside the server, the clients and their nodes."""
    return exchange.sums.helpers if isinstance(exchange, HopwiseExchange) else NO_HELPERS


def run_fedstruct(
    graph: FederatedGraph,
    preset: FedStructPreset,
    exchange: Exchange,
    channel: Channel,
    *,
    features: str = HOP2VEC,
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
    seen: Seen | None = None,
) -> TrainingResult:
    """Exchanges structure and trains.

    Args:
        graph: who has what.
        preset: how to train; `hops` and `kept` say what is exchanged.
        exchange: how.
        channel: between the parties of `hierarchy_of(graph, helpers_of(exchange))`.
        features: name of the structure features; "hop2vec" learns them.
        seed: of initial weights, learnt structure features, node2vec's walks and dropout.
        device: where model compute runs; the CPU by default.
        progress: called after each round.
        seen: shown the method before the first round, and after the last.
    """
    if graph.num_silos < 2:
        raise InputError(f"silos must be at least 2, or there is nobody to exchange with; found {graph.num_silos}")
    traffic = FedStructTraffic(channel, graph)
    fixed = None if features == HOP2VEC else client_features(graph, preset, features, seed)
    combine = _combine(graph, preset, exchange, traffic, device)
    sums = _sums(graph, exchange, traffic)
    method = FedStruct(graph, preset, Structure(combine, fixed), seed=seed, device=device, sums=sums)
    show = seen or (lambda _: None)
    show(method)
    if isinstance(exchange, RowExchange) and exchange.sharing is FeatureSharing.SHARED:
        result = run_sharing(method, fixed, graph, preset, traffic, progress)
    else:
        result = run_rounds(method, graph, preset, traffic=traffic, progress=progress)
    show(method)
    return result


def client_features(graph: FederatedGraph, preset: FedStructPreset, name: str, seed: int) -> NDArray[np.float32]:
    """Structure features as each client computes them from what it knows: its nodes, their edges, and where these end.

    The `paper` preset computes them on the whole graph, as the public code does, which no client could.

    Returns:
        float32 [n, d_s].
    """
    if preset.name == "paper":
        return structure_features(name, graph.graph, preset.structure_width, seed)
    rows: NDArray[np.float32] | None = None
    for client in range(graph.num_silos):
        members = graph.devices_of(client)
        local = augmented_subgraph(graph.graph, members)
        found = structure_features(name, local.graph, preset.structure_width, seed)
        rows = np.empty((graph.num_devices, found.shape[1]), dtype=np.float32) if rows is None else rows
        rows[members] = found[np.searchsorted(local.nodes, members)]
    assert rows is not None
    return rows


def _combine(
    graph: FederatedGraph,
    preset: FedStructPreset,
    exchange: Exchange,
    traffic: FedStructTraffic,
    device: torch.device | None,
) -> StructureSum:
    channel = traffic.channel
    note_own_graph(channel, graph)
    if isinstance(exchange, HopwiseExchange):
        return Hopwise(graph, channel, exchange.sums, graph.num_classes, preset.hops, device=device)
    pruning = exchange.pruning if preset.kept is not None else Pruning.NONE
    settings = HopSettings(preset.hops, pruning, preset.kept or 1)
    rows = exchanged_rows(graph, channel, exchange.terms, settings)
    note_combined_rows(channel, graph, rows)
    if exchange.sharing is FeatureSharing.SHARED:
        return HeldRows(rows, device)
    delivery = _to_server_or_owner(graph, exchange, traffic, shares=False)
    width = preset.structure_width if preset.structure_hidden is not None else graph.num_classes
    return AggregatedQueries(
        graph, channel, rows, exchange.rule, delivery, pooled=exchange.pooled, width=width, device=device
    )


def _sums(graph: FederatedGraph, exchange: Exchange, traffic: FedStructTraffic) -> ClientSums:
    theta: GradientSum = ClearSum(traffic)
    if exchange.gradients is not None:
        theta = SecuredSum(exchange.gradients, traffic.channel)
    if isinstance(exchange, HopwiseExchange) or exchange.sharing is FeatureSharing.QUERIES:
        return ClientSums(theta, AtOwners(), structure_at_owners=True)
    return ClientSums(theta, _to_server_or_owner(graph, exchange, traffic, shares=True))


def _to_server_or_owner(
    graph: FederatedGraph, exchange: RowExchange, traffic: FedStructTraffic, *, shares: bool
) -> StructureDelivery:
    if exchange.gradients is None:
        return OwnerAddressed(traffic) if exchange.delivery is GradientDelivery.OWNER else ServerBroadcast(traffic)
    if exchange.delivery is GradientDelivery.OWNER:
        return SecuredOwners(exchange.gradients, traffic, graph.silo_of, shares=shares, k_min=exchange.k_min)
    return SecuredBroadcast(exchange.gradients, traffic, exchange.k_min)
