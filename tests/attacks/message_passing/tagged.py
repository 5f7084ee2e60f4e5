"""Messages under tags as relays see them, over a network that may lose some."""

from collections import Counter
from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.message_passing.knowledge import NOT_SILENT, SilentDevices
from fgl_secure.attacks.recovery import RecoveredRows
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import Channel, Messages, Phase, PublicParameters, Recording, Role, Step
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.parties import hierarchy_of
from tests.attacks.recorded import Run


def record_tagged(graph: FederatedGraph, *, loss: Loss | None = None, recording: Recording | None = None) -> Run:
    """Every device opens a circuit for each neighbour at both of two relays, to random pseudonyms of its neighbours."""
    channel = Channel(
        hierarchy_of(graph, {Role.RELAY: 2}), SimulationCoins(0), recording or Recording.everything(), loss
    )
    devices, relays = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.RELAY)
    words = np.random.default_rng(0).integers(2**62, size=(graph.num_devices, 2))
    groups = words[graph.edges[1]]
    for relay in relays:
        to = np.full(len(groups), relay)
        channel.carry(Messages(Phase.CIRCUITS, Step(0, 0), devices[graph.edges[0]], to, {"pseudonym": groups}))
    return Run(graph, PublicParameters(), channel.transcript, MessageTruth.of(channel.transcript, graph))


def _open(channel: Channel, words: NDArray[np.int64], targets: NDArray[np.int64], through: NDArray[np.int64]) -> None:
    """Relays learn the circuits that silos hand over, and owners have their pseudonyms."""
    devices, relays = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.RELAY)
    channel.note_secrets("pseudonyms of groups", devices, words)
    for relay in relays:
        values = np.column_stack([through, np.arange(len(through)), words[targets]])
        channel.note_secrets("circuits", np.full(len(through), relay), values)
        sealed = np.zeros((len(through), 1), dtype=np.uint8)
        channel.carry(Messages(Phase.CIRCUITS, Step(0, 0), through, np.full(len(through), relay), {"payload": sealed}))


def record_forwarded(
    graph: FederatedGraph, *, loss: Loss | None = None, recording: Recording | None = None, mixed: bool = False
) -> Run:
    """The same via silos, each sender's own or drawn ones."""
    channel = Channel(
        hierarchy_of(graph, {Role.RELAY: 2}), SimulationCoins(0), recording or Recording.everything(), loss
    )
    silos, rng = channel.parties.ids(Role.SILO), np.random.default_rng(0)
    sources, targets = graph.edges
    through = rng.choice(silos, size=len(sources)) if mixed else silos[graph.silo_of][sources]
    _open(channel, rng.integers(2**62, size=(graph.num_devices, 2)), targets, through)
    return Run(graph, PublicParameters(), channel.transcript, MessageTruth.of(channel.transcript, graph))


def record_silent(graph: FederatedGraph, *, loss: Loss | None = None, recording: Recording | None = None) -> Run:
    """Rounds in which some devices send nothing, via silos that hand on what there is.

    The ends of some edges are silent, each alone, both together, and each with an end of another edge.
    """
    channel = Channel(
        hierarchy_of(graph, {Role.RELAY: 2}), SimulationCoins(0), recording or Recording.everything(), loss
    )
    devices, silos, relays = (channel.parties.ids(role) for role in (Role.DEVICE, Role.SILO, Role.RELAY))
    rng, degrees = np.random.default_rng(0), graph.in_degree
    covers = np.repeat(np.arange(graph.num_devices), degrees.max() + 2 - degrees)
    sources, targets = (np.concatenate([ends, covers]) for ends in graph.edges)
    through, silent = silos[graph.silo_of][sources], _silenced(graph)
    _open(channel, rng.integers(2**62, size=(graph.num_devices, 2)), targets, through)
    for number, here in enumerate(silent):
        sent = np.flatnonzero(~np.isin(sources, here))
        for relay in relays:
            ends, slot = (through[sent], np.full(len(sent), relay)), sent.astype(np.uint32)
            channel.carry(Messages(Phase.SHARES, Step(number, 0), *ends, {"slot": slot}))
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


def claimed_rows(guess: Iterable[RecoveredRows]) -> Counter[Hashable]:
    """One claim a message: when it was sent, by whom, and the embedding that was read."""
    return Counter(
        (rows.step, int(sender), tuple(value.tolist()))
        for rows in guess
        for sender, value in zip(rows.senders, rows.values, strict=True)
    )


def expected_rows(
    run: Run, values: NDArray[np.float64], modulus: int, messages: Iterable[tuple[int, int]]
) -> Counter[tuple[int, tuple[int, ...]]]:
    """Sender and embedding of (sender, receiver) device messages, for whole numbers as elements of the field."""
    devices = run.transcript.parties.ids(Role.DEVICE)
    return Counter(
        (int(devices[source]), tuple(int(value) % modulus for value in values[source])) for source, _ in messages
    )


def without_steps(claims: Counter[Hashable]) -> Counter[tuple[int, tuple[int, ...]]]:
    """The same claims for a run of one step."""
    steps = {claim[0] for claim in claims if isinstance(claim, tuple)}
    assert len(steps) <= 1
    return Counter({(c[1], c[2]): count for c, count in claims.items() if isinstance(c, tuple)})


def messages_of(graph: FederatedGraph) -> list[tuple[int, int]]:
    """All messages as (source, target) device indices."""
    return [(int(source), int(target)) for source, target in graph.edges.T]


def readable_with_own_parameters(graph: FederatedGraph) -> list[tuple[int, int]]:
    """Messages whose receiver itself sends to a device of its own silo, and so was handed that silo's parameters."""
    messages, silo = messages_of(graph), graph.silo_of.tolist()
    sends_at_home = {source for source, target in messages if silo[source] == silo[target]}
    return [message for message in messages if message[1] in sends_at_home]
