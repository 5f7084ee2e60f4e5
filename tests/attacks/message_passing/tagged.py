"""Messages under tags as relays see them, over a network that may lose some."""

from __future__ import annotations

import numpy as np

from fgl_secure.attacks.message_passing.truth import MessageTruth
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
