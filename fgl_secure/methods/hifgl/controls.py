"""Runs of HiFGL that attacks on message passing must break, on small fixed graphs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import MappingProxyType

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.message_passing.knowledge import (
    CLEAR_GRADIENTS,
    FRESH_TAGS,
    OWN_SILOS,
    PLAINTEXT,
    SECMP,
    SECMP_DEVIATING,
    SECMP_DROP_OUTS,
    SECMP_STATIC,
    SHARED_MASKS,
    SILENT_SENDERS,
    SILO_PATH,
    SMALL_FIELD,
    TRAINING,
    UNMASKED_SHARES,
)
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.methods.hifgl.audit_runs import (
    deviating_run,
    drop_out_run,
    in_small_field,
    recorded_exchange,
    silent_run,
    static_run,
    training_run,
)
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded, Roles
from fgl_secure.protocols.relay_coded.code import source_shares
from fgl_secure.protocols.relay_coded.cryptography import Cryptography
from fgl_secure.protocols.relay_coded.silos import Silos
from fgl_secure.protocols.relay_coded.wire import PLACE, SHARE, SLOT
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.runtime import (
    PAYLOAD,
    Channel,
    Direction,
    Draws,
    Messages,
    Phase,
    PublicParameters,
    Recording,
    Role,
    Step,
)  # fmt: skip
from fgl_secure.training.parties import hierarchy_of, neighbour_sums, note_membership
from fgl_secure.typing import Flags


def _careless_run(graph: FederatedGraph, seed: int, *, masked: bool) -> RecordedRun:
    """What relays are sent when senders misuse the masks of relay-coded: one for all of them, or none at all."""
    scheme = RelayCoded(R=3, k_min=1, profile=Profile.SHOWN)
    channel = Channel(hierarchy_of(graph, scheme.helpers), SimulationCoins(seed), Recording.everything())
    send_carelessly(channel, scheme, graph, graph.features.astype(np.float64), masked=masked)
    description = "shares under one mask for all senders" if masked else "shares without masks"
    return training_run(scheme, graph, channel.transcript, description)


def send_carelessly(
    channel: Channel, scheme: RelayCoded, graph: FederatedGraph, values: NDArray[np.float64], *, masked: bool
) -> None:
    """The messages of `careless_run`, in both passes: the rows [n, d] are the same in each."""
    grouping, relays = neighbour_sums(graph), channel.parties.ids(Role.RELAY)[scheme.T : scheme.R]
    fixed = scheme.fixed_point(max(grouping.largest_group, 1))
    q = fixed.encode(values)
    one = channel.coins.uniform(scheme.field.modulus, (1, q.shape[1])).astype(q.dtype) * masked
    masks = np.repeat(one, len(grouping.source), axis=0)
    if not len(masks):
        return
    for way, step in ((grouping, Step(0, 0)), (grouping.reverse(), Step(0, 0, Direction.BACKWARD))):
        channel.note_inputs("values", step, way.row_owner, q)
        points = range(scheme.T + 1, scheme.R + 1)
        shares = source_shares(scheme.field, scheme.T, points, q, way.source, [masks] * scheme.T)
        for relay, share in zip(relays, shares, strict=True):
            ends = way.row_owner[way.source], np.full(len(share), relay)
            channel.carry(Messages(Phase.SHARES, step, *ends, {SHARE: share}))


class _UnmixedCryptography(Cryptography):
    """Silos hand rows of their own devices to the relays themselves, in an order that they draw."""

    def routes(self, draws: Draws, step: Step, silos: NDArray[np.int64]) -> NDArray[np.int64]:
        """Via themselves."""
        routes = super().routes(draws, step, silos)
        routes[:, 0] = silos - 1  # silos come behind the server
        return routes


class _HastySilos(Silos):
    """Silos hand on what there is, whether the step is complete or not."""

    def _is_complete(self) -> Flags:
        complete: Flags = np.ones(len(self.parties), dtype=np.bool_)
        return complete if self._responsive.any() else ~complete

    def _confirm(self) -> list[Messages]:
        self._expected = np.stack([self._arrived_counts(kind) for kind in (SLOT, PLACE)], axis=-1)
        return super()._confirm()

    def _arrived_counts(self, kind: str) -> NDArray[np.int64]:
        messages = self._join_arrived(SHARE if kind == SLOT else PAYLOAD, kind, 1)
        if messages is None:
            return np.zeros(self._live.shape, dtype=np.int64)
        return self._count_pairs(messages.receivers, messages.senders)


UNCONFIRMED = RelayCoded(k_min=1, max_degree=64, roles=Roles(silos=_HastySilos))
"""What relays see of devices that drop out where silos don't confirm that a step is complete."""


OF_OWN_SILOS = RelayCoded(k_min=1, profile=Profile.HIDDEN, max_degree=64, cryptography=_UnmixedCryptography)
"""What relays see of the graph where silos don't mix, and every party may have all neighbours as partners."""


def _gradient_run(graph: FederatedGraph, seed: int) -> RecordedRun:
    """Gradients of a one-layer graph convolution as every device computes and sends them: in plaintext, to its silo."""
    channel = Channel(hierarchy_of(graph), SimulationCoins(seed), Recording.everything())
    send_gradients(channel, graph, seed)
    truth, text = (MessageTruth.of(channel.transcript, graph), f"gradients of {graph.num_devices} devices, one layer")
    return RecordedRun("plaintext", text, TRAINING, PublicParameters(), channel.transcript, (truth,))


def send_gradients(channel: Channel, graph: FederatedGraph, seed: int) -> None:
    """The messages of `_gradient_run`; weight gradients travel as their two factors and are sized as dense matrices."""
    rng = np.random.default_rng(seed)
    rows = graph.features.astype(np.float64)
    np.add.at(rows, graph.edges[1], graph.features[graph.edges[0]])
    rows = (rows / (graph.in_degree + 1)[:, None]).astype(np.float32)
    logits = rows @ rng.normal(size=(rows.shape[1], graph.num_classes))
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    delta = (chances / chances.sum(axis=1, keepdims=True) - np.eye(graph.num_classes)[graph.labels]).astype(np.float32)
    note_membership(channel, graph.silo_of)
    devices, silos = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SILO)[graph.silo_of]
    factors, size = np.concatenate([rows, delta], axis=1), rows.shape[1] * delta.shape[1] * delta.itemsize
    channel.send(Phase.GRADIENT, Step(0, 0), devices, silos, factors, wire_bytes=size)
    channel.send(Phase.GRADIENT, Step(0, 0), devices, silos, delta)


def _both_ways(scheme: Scheme, graph: FederatedGraph) -> RecordedRun:
    return recorded_exchange(scheme, graph, graph.features.astype(np.float64), "reference", 0, both_ways=True)


def _small_field() -> RecordedRun:
    return _both_ways(next(variant for variant in SecretMessagePassing().variants if in_small_field(variant)), _tree())


def _dropping_out() -> RecordedRun:
    run = drop_out_run(SecretMessagePassing(), _half_graphs(), 0, rounds=24, presence=0.6)
    assert run is not None, "devices send in their own name"
    return run


def _falling_silent() -> RecordedRun:
    """Every device may have all neighbours as partners, and none has others."""
    run = silent_run(UNCONFIRMED, _attachment_graph(), 0)
    assert run is not None, "silos forward what devices send"
    return run


def _deviating() -> RecordedRun:
    run = deviating_run(SecretMessagePassing(), _half_graphs(), 0)
    assert run is not None, "silos decode what devices hand them"
    return run


def _tree() -> FederatedGraph:
    """A preferential-attachment tree: most devices have one neighbour, a few have many."""
    return _deal_graph(nx.barabasi_albert_graph(300, 1, seed=0), 64, 0.1)


def _attachment_graph() -> FederatedGraph:
    """A preferential-attachment graph in which hardly two devices have the same surroundings."""
    return _deal_graph(nx.barabasi_albert_graph(300, 2, seed=0), 64, 0.1)


def _half_graphs(copies: int = 25, size: int = 6) -> FederatedGraph:
    """Bipartite half graphs, a_i joined to b_j where i + j <= size + 1: a device's neighbours differ in degree."""
    half = nx.Graph((("a", i), ("b", j)) for i in range(1, size + 1) for j in range(1, size + 2 - i))
    return _deal_graph(nx.disjoint_union_all([half] * copies), 256, 0.08)


def _deal_graph(graph: nx.Graph, columns: int, share: float, silos: int = 3) -> FederatedGraph:
    """A graph with random 0/1 features and two classes, its devices dealt to silos in turn."""
    devices = graph.number_of_nodes()
    pairs: NDArray[np.int64] = np.array(graph.edges, dtype=np.int64).T
    words = (np.random.default_rng(0).random((devices, columns)) < share).astype(np.float32)
    both = np.hstack([pairs, pairs[::-1]])
    federated = Graph.from_arrays("reference", words, np.arange(devices) % 2, both)
    ones, zeros = np.ones(devices, dtype=np.bool_), np.zeros(devices, dtype=np.bool_)
    return FederatedGraph.from_assignment(federated, np.arange(devices) % silos, SplitMasks(ones, zeros, zeros))


_MADE: dict[str, Callable[[], RecordedRun]] = {
    PLAINTEXT: lambda: _both_ways(Plaintext(), _tree()),
    SECMP: lambda: _both_ways(SecretMessagePassing(), _tree()),
    SMALL_FIELD: _small_field,
    SILO_PATH: lambda: _both_ways(Plaintext(Path.SILO), _tree()),
    FRESH_TAGS: lambda: _both_ways(RelayCoded(k_min=1, profile=Profile.SHOWN), _attachment_graph()),
    OWN_SILOS: lambda: _both_ways(OF_OWN_SILOS, _attachment_graph()),
    UNMASKED_SHARES: lambda: _careless_run(_tree(), 0, masked=False),
    SHARED_MASKS: lambda: _careless_run(_tree(), 0, masked=True),
    SECMP_STATIC: lambda: static_run(SecretMessagePassing(), _half_graphs(), 0),
    CLEAR_GRADIENTS: lambda: _gradient_run(_tree(), 0),
    SECMP_DROP_OUTS: _dropping_out,
    SILENT_SENDERS: _falling_silent,
    SECMP_DEVIATING: _deviating,
}

CONTROLS: Makers = MappingProxyType({name: cache(make) for name, make in _MADE.items()})
"""What attacks on message passing must break, by name; each is made on first use."""
