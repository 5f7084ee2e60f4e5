"""Runs of FedSpray as attacks read them: recorded rounds, rounds for attacks alone, and those that must be broken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.attacks.proxies.knowledge import (
    FEDSPRAY,
    FEDSPRAY_ROUNDS,
    FEDSPRAY_SUM,
    PROXIES,
    ProxyKnowledge,
    ProxySlices,
)
from fgl_secure.attacks.truth import ProxyTruth
from fgl_secure.attacks.updates import Suspects
from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import TooFewClientsError
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.methods.fedspray.client import FedSprayClient, ProxyLayout, clients_of, shares_of
from fgl_secure.methods.fedspray.preset import FedSprayPreset
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel, PublicParameters, Recording, Step, Transcript
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.server_sums import ServerSums
from fgl_secure.typing import Flags, Floats, Ids


@dataclass(frozen=True, slots=True, eq=False)
class LabelledNodes:
    """The labelled nodes of one round.

    Attributes:
        nodes: int64 [m], device indices.
        clients: int64 [m].
        classes: int64 [m].
        proxies: float64 [m, d], at the end of the round.
    """

    nodes: Ids
    clients: Ids
    classes: Ids
    proxies: Floats

    @classmethod
    def of(cls, clients: Sequence[FedSprayClient]) -> LabelledNodes:
        """Those of clients after their last round."""
        silos = [client.silo for client in clients]
        return cls(
            np.concatenate([silo.nodes[silo.train] for silo in silos]),
            np.repeat(np.arange(len(silos)), [int(silo.train.sum()) for silo in silos]),
            np.concatenate([silo.labels[silo.train] for silo in silos]),
            np.concatenate([client.proxies.detach().cpu().numpy().astype(np.float64) for client in clients]),
        )

    def among(self, mask: NDArray[np.bool_]) -> LabelledNodes:
        """Some of them: bool [m]."""
        return LabelledNodes(self.nodes[mask], self.clients[mask], self.classes[mask], self.proxies[mask])

    def counts(self, clients: int, classes: int) -> Ids:
        """How many each client has of each class, int64 [K, C]."""
        result = np.zeros((clients, classes), dtype=np.int64)
        np.add.at(result, (self.clients, self.classes), 1)
        return result

    def sums(self, clients: int, classes: int) -> Floats:
        """The sum of their proxies by client and class, float64 [K, C, d]."""
        result = np.zeros((clients, classes, self.proxies.shape[1]))
        np.add.at(result, (self.clients, self.classes), self.proxies)
        return result


def summands(labelled: LabelledNodes, layout: ProxyLayout, clients: int, grid: int | None = None) -> Floats:
    """What clients send in a round whose encoder is all zeros: float64 [K, layout.length], all of one weight.

    Args:
        labelled: the labelled nodes of the round.
        layout: of a summand.
        clients: how many there are.
        grid: shares are multiples of one over this; None for exact ones.
    """
    rows = np.zeros((clients, layout.length))
    counts = labelled.counts(clients, layout.classes)
    shares = np.stack([shares_of(count, grid) for count in counts])
    means = labelled.sums(clients, layout.classes) / np.maximum(counts, 1)[..., None]
    rows[:, layout.weight] = 1 / clients
    rows[:, layout.proxies] = (shares[..., None] * means).reshape(clients, -1)
    rows[:, layout.shares] = shares
    return rows


def _slices_of(layout: ProxyLayout, first: LabelledNodes, clients: int, grid: int | None) -> ProxySlices:
    """The layout as attacks know it, with how many labelled nodes clients have in the first round."""
    labelled = np.bincount(first.clients, minlength=clients).tolist()
    return ProxySlices(layout.parameters, layout.classes, layout.width, tuple(labelled), grid)


def _proxy_truth(rounds: Sequence[LabelledNodes], clients: int, classes: int) -> ProxyTruth:
    """The truth of rounds 0, 1 and so on."""
    counts = np.stack([held.counts(clients, classes) for held in rounds], axis=1)
    sums = np.stack([held.sums(clients, classes) for held in rounds], axis=1)
    singles = np.where(counts[..., None] == 1, sums, np.nan)
    # float64 [K, R, d]: NaN where a client adds no node, or several.
    result = np.full((clients, len(rounds), rounds[0].proxies.shape[1]), np.nan)
    for number in range(1, len(rounds)):
        new = ~np.isin(rounds[number].nodes, rounds[number - 1].nodes)
        for client in range(clients):
            rows = np.flatnonzero(new & (rounds[number].clients == client))
            if len(rows) == 1:
                result[client, number] = rounds[number].proxies[rows[0]]
    return ProxyTruth(counts, singles, result, counts.sum(axis=2))


_MOST_ROUNDS = 10**6
"""Rounds that there may be."""


@dataclass(frozen=True, slots=True)
class RoundSetting:
    """How rounds are trained that are run for attacks alone.

    Attributes:
        preset: everything but the backbone.
        backbone: of the clients' networks.
        seed: of weights and of the choice of nodes.
        device: where model compute runs.
    """

    preset: FedSprayPreset
    backbone: str = "gcn"
    seed: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def clients(
        self, graph: FederatedGraph, scheme: Scheme | None = None, channel: Channel | None = None
    ) -> tuple[OneProcess, tuple[FedSprayClient, ...]]:
        """All clients at their start, as a process and one by one; over a channel that no party reads unless given."""
        adding, preset = scheme or Plaintext(), self._endless
        job = clients_of(graph, adding, preset, backbone=self.backbone, seed=self.seed, device=self.device)
        process = job.open(channel or Channel(hierarchy_of(graph), SimulationCoins(0)))
        return process, tuple(program for program in process.programs if isinstance(program, FedSprayClient))

    @property
    def _endless(self) -> FedSprayPreset:
        return replace(self.preset, epochs=_MOST_ROUNDS, patience=None)

    def relabelled(self, client: FedSprayClient, node: int, comm: Collectives) -> FedSprayClient:
        """The client with a node labelled more if that is its own: models and proxies go on, optimisers start afresh.

        Args:
            client: as it is.
            node: which.
            comm: the channel from now on, which learns of the node.
        """
        silo, known = client.silo, _nodes(client)
        comm.silo = replace(silo, train=silo.train | (silo.nodes == node))
        result = FedSprayClient(comm, self._endless, backbone=self.backbone, seed=self.seed, device=self.device)
        result.encoder.load_state_dict(client.encoder.state_dict())
        result.network.load_state_dict(client.network.state_dict())
        result.class_proxies = client.class_proxies
        mask = torch.tensor(np.isin(_nodes(result), known), device=result.proxies.device)
        with torch.no_grad():
            result.proxies[mask] = client.proxies
        return result


def turns(few: FederatedGraph, waiting: Flags, additions: int, seed: int) -> list[tuple[int, int]]:
    """Which node is added in each round, and another node of the same client that could have been.

    Clients take turns; the other node is of the same class where there is one left, and -1 where there is none at all.

    Args:
        few: who has which labelled nodes at first.
        waiting: bool [n], the nodes that may be added.
        additions: how many rounds at most; fewer where clients have nothing left.
        seed: of the choice.
    """
    rng, left, result = np.random.default_rng(seed), waiting.copy(), []
    for number in range(additions):
        candidates = np.flatnonzero(left & (few.silo_of == number % few.num_silos))
        if not len(candidates):
            continue
        node = int(rng.choice(candidates))
        left[node] = False
        others = candidates[candidates != node]
        alike = others[few.labels[others] == few.labels[node]]
        choice = alike if len(alike) else others
        result.append((node, int(rng.choice(choice)) if len(choice) else -1))
    return result


def _grow(
    few: FederatedGraph, added: list[tuple[int, int]], setting: RoundSetting, scheme: Scheme, channel: Channel
) -> tuple[list[LabelledNodes], Suspects]:
    """Trains one round, and one more for each node that is added; models go on, optimisers start afresh."""
    rng = np.random.default_rng(setting.seed + 1)
    process, clients = setting.clients(few, scheme, channel)
    process.round(0)
    rounds, pairs = [LabelledNodes.of(clients)], {}
    for number, (node, other) in enumerate(added, start=1):
        client, instead = int(few.silo_of[node]), None
        if other >= 0:
            before = clients[client]
            instead = _proxy(setting.relabelled(before, other, copy(before.comm)), other)
        process.programs = clients = tuple(setting.relabelled(item, node, item.comm) for item in clients)
        process.round(number)
        held = LabelledNodes.of(clients)
        rounds.append(held)
        if instead is not None:
            both = np.stack([held.proxies[held.nodes == node][0], instead])
            pairs[number] = np.full((few.num_silos, *both.shape), np.nan)
            pairs[number][client] = both[rng.permutation(2)]
    return rounds, Suspects(np.empty((0, setting.preset.width)), pairs)


def _proxy(client: FedSprayClient, node: int) -> NDArray[np.float64]:
    """What the proxy of a node is after a round of its client alone."""
    client.work()
    result: NDArray[np.float64] = client.proxies.detach().cpu().numpy().astype(np.float64)
    return np.asarray(result[_nodes(client) == node][0])


def _nodes(client: FedSprayClient) -> Ids:
    return client.silo.nodes[client.silo.train]


FEW_LABELS = 8
"""Labelled nodes of a client in rounds that are run for attacks alone."""

ADDITIONS = 20
"""Labelled nodes that are added there, one a round."""

GROWING = f"{FEW_LABELS} labels a client, one added each round"
"""What such rounds are called."""


def first_round(graph: FederatedGraph, setting: RoundSetting, name: str, transcript: Transcript) -> RecordedRun:
    """The first round of a recorded training; the proxies in it are had by training that round once more."""
    process, clients = setting.clients(graph)
    process.round(0)
    description = f"first round of training, {setting.backbone}"
    return _record_attacked(name, description, transcript, graph, setting, [LabelledNodes.of(clients)])


def growing_rounds(graph: FederatedGraph, setting: RoundSetting, scheme: Scheme, name: str) -> RecordedRun:
    """Rounds of clients with few labelled nodes each, between which one client labels a node more, in turn."""
    # A graph in which every client has at most so many labelled nodes, drawn from those it has.
    rng, mask = np.random.default_rng(setting.seed), np.zeros(graph.num_devices, dtype=np.bool_)
    for client in range(graph.num_silos):
        training_nodes = np.flatnonzero(graph.train_mask & (graph.silo_of == client))
        mask[rng.permutation(training_nodes)[:FEW_LABELS]] = True
    masks = SplitMasks(mask, graph.validation_mask, graph.test_mask)
    few = FederatedGraph.from_assignment(graph.graph, graph.silo_of, masks, graph.partition)
    channel = Channel(hierarchy_of(few), SimulationCoins(setting.seed), Recording.everything())
    added = turns(few, graph.train_mask & ~few.train_mask, ADDITIONS, setting.seed)
    rounds, suspects = _grow(few, added, setting, scheme, channel)
    description = f"{len(rounds)} rounds, {GROWING}, {setting.backbone}"
    return _record_attacked(f"{name}[{GROWING}]", description, channel.transcript, few, setting, rounds, suspects)


def _record_attacked(
    label: str,
    description: str,
    transcript: Transcript,
    graph: FederatedGraph,
    setting: RoundSetting,
    rounds: list[LabelledNodes],
    suspects: Suspects | None = None,
) -> RecordedRun:
    truth = _proxy_truth(rounds, graph.num_silos, graph.num_classes)
    layout = ProxyLayout.of(graph.graph.num_features, graph.num_classes, setting.preset.width)
    knowledge = ProxyKnowledge(_slices_of(layout, rounds[0], graph.num_silos, setting.preset.share_grid), suspects)
    return RecordedRun(label, description, PROXIES, PublicParameters(), transcript, (truth,), (knowledge,))


CLIENTS, CLASSES, WIDTH, MOST = 10, 6, 8, 9
SIZES = (31, 37, 41, 43, 47)
"""Labelled nodes of clients whose sum alone is read: no two have a divisor in common."""


def drawn_nodes(seed: int, clients: int = CLIENTS, classes: int = CLASSES, most: int = MOST) -> LabelledNodes:
    """Labelled nodes with normal proxies around a mean for each class; of half of the classes a client has none.

    Args:
        seed: of the draw.
        clients: how many.
        classes: how many.
        most: labelled nodes of one class at a client.
    """
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, most + 1, size=(clients, classes)) * (rng.random((clients, classes)) < 0.5)
    single = rng.random((clients, classes)) < 0.3
    counts = np.where(single & (counts > 0), 1, counts)
    counts[np.arange(clients), rng.integers(classes, size=clients)] = 1  # no common divisor, and no client without
    owner = np.repeat(np.arange(clients * classes), counts.ravel())
    kinds = owner % classes
    proxies = rng.normal(size=(classes, WIDTH))[kinds] + rng.normal(size=(len(owner), WIDTH))
    return LabelledNodes(np.arange(len(owner)), owner // classes, kinds, proxies)


def drawn_sizes(seed: int, sizes: tuple[int, ...] = SIZES, classes: int = CLASSES) -> LabelledNodes:
    """Clients of given numbers of labelled nodes, whose classes are skewed and differ from client to client.

    Args:
        seed: of the draw.
        sizes: labelled nodes of each client.
        classes: how many.
    """
    rng = np.random.default_rng(seed)
    skew = rng.dirichlet(np.full(classes, 0.7), size=len(sizes))
    counts = np.stack([rng.multinomial(size, item) for size, item in zip(sizes, skew, strict=True)])
    owner = np.repeat(np.arange(counts.size), counts.ravel())
    proxies = rng.normal(size=(len(owner), WIDTH))
    return LabelledNodes(np.arange(len(owner)), owner // classes, owner % classes, proxies)


def recorded_rounds(
    rounds: list[LabelledNodes],
    description: str,
    *,
    make_sums: Callable[[Channel], ServerSums] | None = None,
    suspects: Suspects | None = None,
    loss: Loss | None = None,
    recording: Recording | None = None,
    grid: int | None = None,
) -> RecordedRun:
    """Rounds in which clients send class proxies of given nodes, and encoders of zeros.

    Args:
        rounds: labelled nodes of each; the last one has them all.
        description: what was exchanged, in words.
        make_sums: gives what adds rows up over a channel; in plaintext unless given.
        suspects: what the server may know.
        loss: a network that loses messages.
        recording: what is kept; everything unless given.
        grid: shares are multiples of one over this; None for exact ones.
    """
    graph = graph_of(rounds[-1])
    layout = ProxyLayout(3, graph.num_classes, rounds[-1].proxies.shape[1])
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), recording or Recording.everything(), loss)
    sums = ServerSums(Plaintext(threshold=1), channel) if make_sums is None else make_sums(channel)
    for number, labelled_nodes in enumerate(rounds):
        with suppress(TooFewClientsError) if loss else nullcontext():  # a round that is lost leaves what arrived
            sums(summands(labelled_nodes, layout, graph.num_silos, grid), Step(number))
    truth = _proxy_truth(rounds, graph.num_silos, graph.num_classes)
    knowledge = ProxyKnowledge(_slices_of(layout, rounds[0], graph.num_silos, grid), suspects)
    rest = (PublicParameters(), channel.transcript, (truth,), (knowledge,))
    return RecordedRun("drawn for attacks", description, PROXIES, *rest)


def growing(labelled: LabelledNodes, additions: int, seed: int) -> list[LabelledNodes]:
    """Rounds that end with all nodes, where in each but the first one client adds one: clients take turns.

    Args:
        labelled: all nodes.
        additions: rounds after the first.
        seed: of the choice of nodes.
    """
    rng, clients = np.random.default_rng(seed), int(labelled.clients.max()) + 1
    waiting = {
        client: rng.permutation(np.flatnonzero(labelled.clients == client)).tolist() for client in range(clients)
    }
    late = [waiting[number % clients].pop() for number in range(additions) if len(waiting[number % clients]) > 1]
    since = np.zeros(len(labelled.nodes), dtype=np.int64)
    since[late] = np.arange(1, len(late) + 1)
    return [labelled.among(since <= number) for number in range(len(late) + 1)]


def drawn_pairs(rounds: list[LabelledNodes], seed: int) -> Suspects:
    """For each node that is added, its proxy and that of another node of the class, drawn alike, in random order."""
    rng, pairs = np.random.default_rng(seed), {}
    for number in range(1, len(rounds)):
        before, after = rounds[number - 1], rounds[number]
        (new,) = np.flatnonzero(~np.isin(after.nodes, before.nodes))
        alike = after.proxies[(after.classes == after.classes[new]) & (after.nodes != after.nodes[new])]
        centre = alike.mean(axis=0) if len(alike) else np.zeros(WIDTH)
        both = np.stack([after.proxies[new], centre + rng.normal(size=WIDTH)])
        result = np.full((int(after.clients.max()) + 1, *both.shape), np.nan)
        result[after.clients[new]] = both[rng.permutation(2)]
        pairs[number] = result
    return Suspects(np.empty((0, WIDTH)), pairs)


def graph_of(labelled: LabelledNodes) -> FederatedGraph:
    """An edgeless graph of the nodes, all of them labelled."""
    mask: NDArray[np.bool_] = np.ones(len(labelled.nodes), dtype=np.bool_)
    nothing = np.empty((2, 0), dtype=np.int64)
    graph = Graph.from_arrays("reference", np.ones((len(labelled.nodes), 1)), labelled.classes, nothing)
    return FederatedGraph.from_assignment(graph, labelled.clients, SplitMasks(mask, ~mask, ~mask))


@cache
def _one_round() -> RecordedRun:
    return recorded_rounds([drawn_nodes(0)], "reference, one round")


@cache
def _sum() -> RecordedRun:
    return recorded_rounds([drawn_sizes(2)], "reference, the sum of one round", make_sums=_masked_sums)


def _masked_sums(channel: Channel) -> ServerSums:
    return ServerSums(PairwiseMasking(), channel)


@cache
def _rounds() -> RecordedRun:
    rounds = growing(drawn_nodes(1), 2 * CLIENTS, seed=1)
    return recorded_rounds(rounds, "reference, a node added in each round", suspects=drawn_pairs(rounds, seed=2))


CONTROLS: Makers = MappingProxyType({FEDSPRAY: _one_round, FEDSPRAY_SUM: _sum, FEDSPRAY_ROUNDS: _rounds})
"""What attacks on proxies must break, by name; each is made on first use."""
