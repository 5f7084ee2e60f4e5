"""Rounds of FedSpray between which clients label one node more, one client at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.attacks.suspects import Suspects
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, SplitMasks
from fgl_secure.methods.fedspray.client import Client, flat, put_flat
from fgl_secure.methods.fedspray.labelled_nodes import LabelledNodes
from fgl_secure.methods.fedspray.preset import FedSprayPreset
from fgl_secure.methods.fedspray.training import FedSpray
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Channel
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.server_sums import CollectiveSums, ServerSums

Ids = NDArray[np.int64]
Bools = NDArray[np.bool_]


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

    def method(self, graph: FederatedGraph, sums: ServerSums | None = None) -> FedSpray:
        """All clients and the server at their start; with sums that nobody reads unless they are given."""
        quiet = CollectiveSums(Plaintext(), Channel(hierarchy_of(graph), SimulationCoins(0)))
        return FedSpray(graph, self.preset, sums or quiet, backbone=self.backbone, seed=self.seed, device=self.device)


def with_few_labels(graph: FederatedGraph, most: int, seed: int) -> FederatedGraph:
    """A graph in which every client has at most so many labelled nodes, drawn from those it has."""
    rng, kept = np.random.default_rng(seed), np.zeros(graph.num_devices, dtype=np.bool_)
    for client in range(graph.num_silos):
        own = np.flatnonzero(graph.train_mask & (graph.silo_of == client))
        kept[rng.permutation(own)[:most]] = True
    return relabelled(graph, kept)


def relabelled(graph: FederatedGraph, labelled: Bools) -> FederatedGraph:
    """The same graph with other labelled nodes, bool [n]; those that validate and test stay."""
    masks = SplitMasks(labelled, graph.validation_mask & ~labelled, graph.test_mask & ~labelled)
    return FederatedGraph.from_assignment(graph.graph, graph.silo_of, masks, graph.partition)


def turns(few: FederatedGraph, waiting: Bools, additions: int, seed: int) -> list[tuple[int, int]]:
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
    few: FederatedGraph, added: list[tuple[int, int]], setting: Setting, sums: ServerSums
) -> tuple[list[LabelledNodes], Suspects]:
    """Trains one round, and one more for each node that is added; models go on, optimisers start afresh.

    Args:
        few: who has which labelled nodes at first.
        added: of `turns`.
        setting: how rounds are trained.
        sums: adds the clients' vectors up.

    Returns:
        The labelled nodes of each round, and for each added node its proxy and the one that the other node would have,
        in random order.
    """
    rng, labelled = np.random.default_rng(setting.seed + 1), few.train_mask.copy()
    method = setting.method(few, sums)
    method.round(0)
    rounds, pairs = [LabelledNodes.of(method)], {}
    for number, (node, other) in enumerate(added, start=1):
        client = int(few.silo_of[node])
        instead = None if other < 0 else _proxy(_going_on(method, few, labelled, other, setting), client, other)
        method = _going_on(method, few, labelled, node, setting, sums)
        labelled[node] = True
        method.round(number)
        held = LabelledNodes.of(method)
        rounds.append(held)
        if instead is not None:
            both = np.stack([held.proxies[held.nodes == node][0], instead])
            pairs[number] = np.full((few.num_silos, *both.shape), np.nan)
            pairs[number][client] = both[rng.permutation(2)]
    return rounds, Suspects(np.empty((0, setting.preset.width)), pairs)


def _going_on(
    method: FedSpray, few: FederatedGraph, labelled: Bools, node: int, setting: Setting, sums: ServerSums | None = None
) -> FedSpray:
    """The same models and proxies with one labelled node more."""
    more = labelled.copy()
    more[node] = True
    later = setting.method(relabelled(few, more), sums)
    put_flat(later.encoder, flat(method.encoder).detach())
    later.proxies = method.proxies
    for old, new in zip(method.clients, later.clients, strict=True):
        new.network.load_state_dict(old.network.state_dict())
        known = np.isin(_nodes(new), _nodes(old))
        with torch.no_grad():
            new.proxies[torch.tensor(known, device=new.proxies.device)] = old.proxies
    return later


def _proxy(method: FedSpray, client: int, node: int) -> NDArray[np.float64]:
    """What the proxy of a node is after a round of its client alone."""
    held = method.clients[client]
    held.round(method.encoder, torch.tensor(method.proxies, dtype=torch.float32, device=held.proxies.device))
    found: NDArray[np.float64] = held.proxies.detach().cpu().numpy().astype(np.float64)
    return np.asarray(found[_nodes(held) == node][0])


def _nodes(client: Client) -> Ids:
    held = client.subgraph
    return np.asarray(held.members[held.labelled.cpu().numpy()])
