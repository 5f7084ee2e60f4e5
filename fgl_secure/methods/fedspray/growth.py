"""Rounds of FedSpray between which clients label one node more, one client at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.attacks.updates import Suspects
from fgl_secure.coins import Coins, SimulationCoins
from fgl_secure.graph import FederatedGraph, SplitMasks
from fgl_secure.methods.fedspray.client import FedSpray
from fgl_secure.methods.fedspray.labelled_nodes import LabelledNodes
from fgl_secure.methods.fedspray.preset import FedSprayPreset
from fgl_secure.methods.fedspray.training import clients_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.rounds import Figures, Rounds
from fgl_secure.typing import Flags, Ids

MOST = 10**6
"""Rounds that there may be."""


@dataclass(frozen=True, slots=True)
class Setting:
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
    ) -> tuple[OneProcess, tuple[FedSpray, ...]]:
        """All clients at their start, as a process and one by one; over a channel that nobody reads unless given."""
        process = self._job(graph, scheme or Plaintext()).opened(channel or _quiet(graph))
        return process, tuple(each for each in process.programs if isinstance(each, FedSpray))

    def client(self, graph: FederatedGraph, number: int) -> FedSpray:
        """One of the clients at its start, over a channel that nobody reads; the others are not made."""
        job = self._job(graph, Plaintext())

        def make(talk: Collectives, coins: Coins) -> Rounds:
            return job.task.make(talk, coins) if talk.silo.silo == number else _Absent(talk)

        found = replace(job, task=replace(job.task, make=make)).opened(_quiet(graph)).programs[number]
        assert isinstance(found, FedSpray), "the job makes no others"
        return found

    def _job(self, graph: FederatedGraph, scheme: Scheme) -> Job:
        preset = replace(self.preset, epochs=MOST, patience=None)
        return clients_of(graph, scheme, preset, backbone=self.backbone, seed=self.seed, device=self.device)


class _Absent(Rounds):
    """In the place of a client that is not looked at, and whose rounds are never asked for."""

    def __init__(self, talk: Collectives) -> None:
        super().__init__(talk, 0, None, None)

    def train(self, number: int) -> Figures:
        """Never asked for."""
        raise AssertionError(f"an absent client must run no round; round {number} was asked for")

    def judge(self, number: int) -> None:
        """Never asked for."""
        raise AssertionError(f"an absent client must not be judged; round {number} was to be")


def _quiet(graph: FederatedGraph) -> Channel:
    return Channel(hierarchy_of(graph), SimulationCoins(0))


def with_few_labels(graph: FederatedGraph, most: int, seed: int) -> FederatedGraph:
    """A graph in which every client has at most so many labelled nodes, drawn from those it has."""
    rng, kept = np.random.default_rng(seed), np.zeros(graph.num_devices, dtype=np.bool_)
    for client in range(graph.num_silos):
        own = np.flatnonzero(graph.train_mask & (graph.silo_of == client))
        kept[rng.permutation(own)[:most]] = True
    return relabelled(graph, kept)


def relabelled(graph: FederatedGraph, labelled: Flags) -> FederatedGraph:
    """The same graph with other labelled nodes, bool [n]; those that validate and test stay."""
    masks = SplitMasks(labelled, graph.validation_mask & ~labelled, graph.test_mask & ~labelled)
    return FederatedGraph.from_assignment(graph.graph, graph.silo_of, masks, graph.partition)


def turns(few: FederatedGraph, waiting: Flags, additions: int, seed: int) -> list[tuple[int, int]]:
    """Which node is added in each round, and another node of the same client that could have been.

    Clients take turns; the other node is of the same class where there is one left, and -1 where there is none at all.

    Args:
        few: who has which labelled nodes at first.
        waiting: bool [n], the nodes that may be added.
        additions: how many rounds at most; fewer where clients have nothing left.
        seed: of the choice.
    """
    rng, left, found = np.random.default_rng(seed), waiting.copy(), []
    for number in range(additions):
        own = np.flatnonzero(left & (few.silo_of == number % few.num_silos))
        if not len(own):
            continue
        node = int(rng.choice(own))
        left[node] = False
        others = own[own != node]
        alike = others[few.labels[others] == few.labels[node]]
        choice = alike if len(alike) else others
        found.append((node, int(rng.choice(choice)) if len(choice) else -1))
    return found


def grow(
    few: FederatedGraph, added: list[tuple[int, int]], setting: Setting, scheme: Scheme, channel: Channel
) -> tuple[list[LabelledNodes], Suspects]:
    """Trains one round, and one more for each node that is added; models go on, optimisers start afresh.

    Args:
        few: who has which labelled nodes at first.
        added: of `turns`.
        setting: how rounds are trained.
        scheme: adds the clients' vectors up.
        channel: keeps the messages.

    Returns:
        The labelled nodes of each round, and for each added node its proxy and the one that the other node would have,
        in random order.
    """
    rng, labelled = np.random.default_rng(setting.seed + 1), few.train_mask.copy()
    process, clients = setting.clients(few, scheme, channel)
    process.round(0)
    rounds, pairs = [LabelledNodes.of(clients)], {}
    for number, (node, other) in enumerate(added, start=1):
        client, instead = int(few.silo_of[node]), None
        if other >= 0:
            alone = setting.client(_with(few, labelled, other), client)
            _go_on(clients[client : client + 1], (alone,))
            instead = _proxy(alone, other)
        process, later = setting.clients(_with(few, labelled, node), scheme, channel)
        _go_on(clients, later)
        clients, labelled[node] = later, True
        process.round(number)
        held = LabelledNodes.of(clients)
        rounds.append(held)
        if instead is not None:
            both = np.stack([held.proxies[held.nodes == node][0], instead])
            pairs[number] = np.full((few.num_silos, *both.shape), np.nan)
            pairs[number][client] = both[rng.permutation(2)]
    return rounds, Suspects(np.empty((0, setting.preset.width)), pairs)


def _with(few: FederatedGraph, labelled: Flags, node: int) -> FederatedGraph:
    """The graph with one labelled node more."""
    more = labelled.copy()
    more[node] = True
    return relabelled(few, more)


def _go_on(clients: Sequence[FedSpray], later: Sequence[FedSpray]) -> None:
    """Gives clients with a labelled node more the models and proxies of those before."""
    for old, new in zip(clients, later, strict=True):
        new.encoder.load_state_dict(old.encoder.state_dict())
        new.network.load_state_dict(old.network.state_dict())
        new.class_proxies = old.class_proxies
        known = np.isin(_nodes(new), _nodes(old))
        with torch.no_grad():
            new.proxies[torch.tensor(known, device=new.proxies.device)] = old.proxies


def _proxy(client: FedSpray, node: int) -> NDArray[np.float64]:
    """What the proxy of a node is after a round of its client alone."""
    client.work()
    found: NDArray[np.float64] = client.proxies.detach().cpu().numpy().astype(np.float64)
    return np.asarray(found[_nodes(client) == node][0])


def _nodes(client: FedSpray) -> Ids:
    return client.silo.nodes[client.silo.train]
