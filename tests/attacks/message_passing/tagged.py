"""Messages under tags as relays see them, over a network that may lose some."""

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.message_passing.knowledge import NOT_SILENT, SilentDevices
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import Channel, Messages, Phase, PublicParameters, Recording, Role, Step
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.parties import hierarchy_of
from tests.attacks.recorded import Run


def record_tagged(graph: FederatedGraph, *, loss: Loss | None = None, recording: Recording | None = None) -> Run:
    """Every device sends a header for each neighbour to both of two relays, under random tags of its neighbours."""
    channel = Channel(
        hierarchy_of(graph, {Role.RELAY: 2}), SimulationCoins(0), recording or Recording.everything(), loss
    )
    devices, relays = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.RELAY)
    words = np.random.default_rng(0).integers(2**62, size=(graph.num_devices, 2))
    tags = words[graph.edges[1]]
    for relay in relays:
        to = np.full(len(tags), relay)
        channel.carry(Messages(Phase.SHARE_HEADERS, Step(0, 0), devices[graph.edges[0]], to, {"tag": tags}))
    return Run(graph, PublicParameters(), channel.transcript, MessageTruth.of(channel.transcript, graph))


def record_forwarded(
    graph: FederatedGraph, *, loss: Loss | None = None, recording: Recording | None = None, mixed: bool = False
) -> Run:
    """The same by way of silos, of each sender's own or of any; tags come from the devices whose they are."""
    channel = Channel(
        hierarchy_of(graph, {Role.RELAY: 2}), SimulationCoins(0), recording or Recording.everything(), loss
    )
    devices, silos, relays = (channel.parties.ids(role) for role in (Role.DEVICE, Role.SILO, Role.RELAY))
    rng, own = np.random.default_rng(0), silos[graph.silo_of]
    sources, targets = graph.edges
    tags = rng.integers(2**62, size=(graph.num_devices, 2))[targets]
    channel.carry(Messages(Phase.TAGS, Step(0, 0), devices[targets], devices[sources], {"tag": tags}))
    through = rng.choice(silos, size=len(sources)) if mixed else own[sources]
    for relay in relays:
        channel.carry(Messages(Phase.SHARE_HEADERS, Step(0, 0), through, np.full(len(tags), relay), {"tag": tags}))
    return Run(graph, PublicParameters(), channel.transcript, MessageTruth.of(channel.transcript, graph))


def record_silent(graph: FederatedGraph, *, loss: Loss | None = None, recording: Recording | None = None) -> Run:
    """Rounds in which some devices send nothing: by way of silos, under fresh tags, and as many messages of each.

    The ends of some edges are silent, each alone, both together, and each with an end of another edge.
    """
    channel = Channel(
        hierarchy_of(graph, {Role.RELAY: 2}), SimulationCoins(0), recording or Recording.everything(), loss
    )
    devices, silos, relays = (channel.parties.ids(role) for role in (Role.DEVICE, Role.SILO, Role.RELAY))
    rng, own, degrees = np.random.default_rng(0), silos[graph.silo_of], graph.in_degree
    covers = np.repeat(np.arange(graph.num_devices), degrees.max() + 1 - degrees)
    sources, targets = (np.concatenate([ends, covers]) for ends in graph.edges)
    silent = _silenced(graph)
    for number, here in enumerate(silent):
        tags, step = rng.integers(2**62, size=(graph.num_devices, 2)), Step(number, 0)
        asked, sent = ~np.isin(np.arange(graph.num_devices), here), ~np.isin(sources, here)
        opened = rng.integers(2**62, size=(int(asked.sum()), 2, 2))
        for relay in relays:
            ends = own[sources[sent]], np.full(int(sent.sum()), relay)
            channel.carry(Messages(Phase.SHARE_HEADERS, step, *ends, {"tag": tags[targets[sent]]}))
            fetching = own[asked], np.full(len(opened), relay)
            channel.carry(Messages(Phase.FETCH, step, *fetching, {"opening": opened}))
    truth, known = MessageTruth.of(channel.transcript, graph), np.where(silent < 0, NOT_SILENT, devices[silent])
    return Run(graph, PublicParameters(), channel.transcript, truth, (SilentDevices(known),))


def _silenced(graph: FederatedGraph) -> NDArray[np.int64]:
    """int64 [rounds, 2], devices that are silent in each round, -1 for nobody."""
    pairs: list[tuple[int, int]] = []
    for one, other in [*graph.edges.T.tolist(), (0, 1), (2, 3)]:
        if not {one, other} & {end for pair in pairs for end in pair}:
            pairs.append((one, other))
    ones, others = np.array(pairs[:4]).T
    alone = np.concatenate([ones, others])
    first = np.concatenate([[-1], alone, ones, ones])
    return np.stack([first, np.concatenate([np.full(1 + len(alone), -1), others, np.roll(others, 1)])], axis=1)
