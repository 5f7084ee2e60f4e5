"""Runs of FedSpray that attacks on proxies must break: drawn proxies, sent in the clear or under masks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.proxies.knowledge import FEDSPRAY, FEDSPRAY_ROUNDS, FEDSPRAY_SUM, PROXIES, ProxyKnowledge
from fgl_secure.attacks.updates import Suspects
from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import TooFewClientsError
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.methods.fedspray.alignment import ProxyLayout
from fgl_secure.methods.fedspray.labelled_nodes import LabelledNodes, proxy_truth, slices_of, summands
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Channel, PublicParameters, Recording, Step
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.server_sums import ServerSums

CLIENTS, CLASSES, WIDTH, MOST = 10, 6, 8, 9
ADDITIONS = 2 * CLIENTS
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
    counts = np.stack([rng.multinomial(size, each) for size, each in zip(sizes, skew, strict=True)])
    owner = np.repeat(np.arange(counts.size), counts.ravel())
    proxies = rng.normal(size=(len(owner), WIDTH))
    return LabelledNodes(np.arange(len(owner)), owner // classes, owner % classes, proxies)


def recorded_rounds(
    rounds: list[LabelledNodes],
    what: str,
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
        what: what was exchanged, in words.
        make_sums: gives what adds rows up over a channel; in the clear unless given.
        suspects: what the server may know.
        loss: a network that loses messages.
        recording: what is kept; everything unless given.
        grid: shares are multiples of one over this; None for exact ones.
    """
    graph = graph_of(rounds[-1])
    layout = ProxyLayout(3, graph.num_classes, rounds[-1].proxies.shape[1])
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), recording or Recording.everything(), loss)
    sums = ServerSums(Plaintext(threshold=1), channel) if make_sums is None else make_sums(channel)
    for number, held in enumerate(rounds):
        with suppress(TooFewClientsError) if loss else nullcontext():  # a round that is lost leaves what arrived
            sums(summands(held, layout, graph.num_silos, grid), Step(number))
    truth = proxy_truth(rounds, graph.num_silos, graph.num_classes)
    known = ProxyKnowledge(slices_of(layout, rounds[0], graph.num_silos, grid), suspects)
    rest = (PublicParameters(), channel.transcript, (truth,), (known,))
    return RecordedRun("drawn for attacks", what, PROXIES, *rest)


def growing(held: LabelledNodes, additions: int, seed: int) -> list[LabelledNodes]:
    """Rounds that end with all nodes, where in each but the first one client adds one: clients take turns.

    Args:
        held: all nodes.
        additions: rounds after the first.
        seed: of the choice of nodes.
    """
    rng, clients = np.random.default_rng(seed), int(held.clients.max()) + 1
    waiting = {client: rng.permutation(np.flatnonzero(held.clients == client)).tolist() for client in range(clients)}
    late = [waiting[number % clients].pop() for number in range(additions) if len(waiting[number % clients]) > 1]
    since = np.zeros(len(held.nodes), dtype=np.int64)
    since[late] = np.arange(1, len(late) + 1)
    return [held.among(since <= number) for number in range(len(late) + 1)]


def drawn_pairs(rounds: list[LabelledNodes], seed: int) -> Suspects:
    """For each node that is added, its proxy and that of another node of the class, drawn alike, in random order."""
    rng, pairs = np.random.default_rng(seed), {}
    for number in range(1, len(rounds)):
        before, after = rounds[number - 1], rounds[number]
        (new,) = np.flatnonzero(~np.isin(after.nodes, before.nodes))
        alike = after.proxies[(after.classes == after.classes[new]) & (after.nodes != after.nodes[new])]
        centre = alike.mean(axis=0) if len(alike) else np.zeros(WIDTH)
        both = np.stack([after.proxies[new], centre + rng.normal(size=WIDTH)])
        found = np.full((int(after.clients.max()) + 1, *both.shape), np.nan)
        found[after.clients[new]] = both[rng.permutation(2)]
        pairs[number] = found
    return Suspects(np.empty((0, WIDTH)), pairs)


def graph_of(held: LabelledNodes) -> FederatedGraph:
    """An edgeless graph of the nodes, all of them labelled."""
    everyone: NDArray[np.bool_] = np.ones(len(held.nodes), dtype=np.bool_)
    nothing = np.empty((2, 0), dtype=np.int64)
    graph = Graph.from_arrays("reference", np.ones((len(held.nodes), 1)), held.classes, nothing)
    return FederatedGraph.from_assignment(graph, held.clients, SplitMasks(everyone, ~everyone, ~everyone))


@cache
def _one_round() -> RecordedRun:
    return recorded_rounds([drawn_nodes(0)], "reference, one round")


@cache
def _sum() -> RecordedRun:
    return recorded_rounds([drawn_sizes(2)], "reference, the sum of one round", make_sums=_masked)


def _masked(channel: Channel) -> ServerSums:
    return ServerSums(PairwiseMasking(), channel)


@cache
def _rounds() -> RecordedRun:
    rounds = growing(drawn_nodes(1), ADDITIONS, seed=1)
    return recorded_rounds(rounds, "reference, a node added in each round", suspects=drawn_pairs(rounds, seed=2))


CONTROLS: Makers = MappingProxyType({FEDSPRAY: _one_round, FEDSPRAY_SUM: _sum, FEDSPRAY_ROUNDS: _rounds})
"""What attacks on proxies must break, by name; each is made when it is first asked for."""
