"""Who are partners hangs on edges and coins: neighbours agree on that before any row is known, whatever they have."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.attributed_graph import read_only
from fgl_secure.methods.hifgl.program import exchange
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.runtime import Channel, MessageBatch, Phase, Recording, Step
from fgl_secure.runtime.transcript import SECRETS
from fgl_secure.training.one_process import open_neighbours
from fgl_secure.training.parties import hierarchy_of, neighbour_sums
from fgl_secure.training.processes.neighbours import PartnerSums, hosted_sums
from fgl_secure.training.processes.process import Inbox, parcels_to_bytes
from fgl_secure.training.silo import Silo
from tests.graphs import two_communities
from tests.training.processes.mailbox import Mailbox

SCHEME = RelayCoded(k_min=2, max_degree=3)
GRAPH = two_communities(12)
AGREEMENT = {Phase.PARTNERS, Phase.REQUESTS}


def whole(graph: FederatedGraph) -> FederatedGraph:
    """All edges."""
    return graph


def among_like(graph: FederatedGraph) -> FederatedGraph:
    """The twin in which neighbours that are less alike than others don't count as such."""
    apart = np.linalg.norm(np.diff(graph.features[graph.edges], axis=0)[0], axis=1)
    return replace(graph, graph=replace(graph.graph, edges=read_only(graph.edges[:, apart <= np.median(apart)])))


def with_features(seed: int) -> FederatedGraph:
    """The graph with features that are drawn, all above 0 or all below."""
    drawn = np.random.default_rng(seed).exponential(size=GRAPH.features.shape) * (-1) ** (seed % 2)
    features = np.clip(drawn, -SCHEME.bound, SCHEME.bound).astype(np.float32)
    return GRAPH.with_features(features)


def said(graph: FederatedGraph, coins: int) -> list[MessageBatch]:
    """All messages of an agreement, and of the sums of features."""
    channel = Channel(hierarchy_of(graph, SCHEME.helpers), SimulationCoins(coins), Recording.everything())
    exchange(graph, SCHEME, channel, graph.features)
    return channel.transcript.messages


def alike(a: MessageBatch, b: MessageBatch) -> bool:
    """Whether messages have the same ends and lengths, and those about partners the same contents."""
    same = (a.phase, a.step, a.item_bytes) == (b.phase, b.step, b.item_bytes)
    same &= np.array_equal(a.senders, b.senders) and np.array_equal(a.receivers, b.receivers)
    if not same or a.phase not in AGREEMENT:
        return same
    return a.fields is not None and all(np.array_equal(value, b[name]) for name, value in a.fields.items())


@pytest.mark.parametrize("candidates", [whole, among_like])
@pytest.mark.parametrize("coins", range(2))
def test_who_are_partners_hangs_on_no_feature(
    candidates: Callable[[FederatedGraph], FederatedGraph], coins: int
) -> None:
    """On equal coins whoever looks on sees the same agreement and the same sums for other features; not of a twin."""
    here, there = (said(candidates(with_features(seed)), coins) for seed in (0, 1))
    same = len(here) == len(there) and all(map(alike, here, there))
    assert Phase.PARTNERS in {batch.phase for batch in here}
    assert same == (candidates is whole)


def test_partners_are_chosen_before_any_row_is_known() -> None:
    """All that is said about partners is said when sums are opened, which nobody brings a row to."""
    channel = Channel(hierarchy_of(GRAPH, SCHEME.helpers), SimulationCoins(0), Recording.everything())
    sums = open_neighbours(SCHEME, neighbour_sums(GRAPH), GRAPH.features.shape[1], channel)
    before = len(channel.transcript.messages)
    assert {batch.phase for batch in channel.transcript.messages} == AGREEMENT
    assert SECRETS not in {rows.name for rows in channel.transcript.private}
    sums.sum(GRAPH.features, Step(0, 0))
    assert SECRETS in {rows.name for rows in channel.transcript.private}
    assert not {batch.phase for batch in channel.transcript.messages[before:]} & AGREEMENT


def told(graph: FederatedGraph, coins: int) -> list[bytes]:
    """What the processes of silos send each other until their devices have agreed on partners."""
    silos, out = range(graph.num_silos), list[bytes]()
    parts = [hosted_sums(Silo.of(graph, n), SCHEME, bytes(16), SimulationCoins(coins + n), 1) for n in silos]
    box, outboxes = Mailbox(graph.num_silos), {n: part.prepare() for n, part in enumerate(parts)}
    while not parts[0].is_agreed:
        out += [parcels_to_bytes(parcels) for outbox in outboxes.values() for parcels in outbox.values()]
        inboxes: dict[int, Inbox] = dict(box.sorted(outboxes))
        outboxes = {n: part.take(inboxes.get(n, {})) or {} for n, part in enumerate(parts)}
    assert all(isinstance(part, PartnerSums) for part in parts)
    return out


@pytest.mark.parametrize("coins", range(2))
def test_what_silos_send_until_devices_have_partners_hangs_on_no_feature(coins: int) -> None:
    """With a process for each silo it is the same for other features, byte for byte; on other coins it isn't."""
    first = told(with_features(0), coins)
    assert first
    assert told(with_features(1), coins) == first
    assert told(with_features(0), coins + 1) != first
