"""Recorded runs of what a single exchange of embeddings does not show: static rows, drop-outs, deviating devices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Auxiliary, Material
from fgl_secure.attacks.differencing import PARTICIPANTS
from fgl_secure.attacks.malicious_device import CHOSEN
from fgl_secure.attacks.truth import Truth
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.cli.bench.networks import Absence, Deviation
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.exchange import exchange
from fgl_secure.methods.hifgl.hierarchy import note_membership
from fgl_secure.methods.hifgl.program import hierarchy_of, neighbour_sums
from fgl_secure.methods.hifgl.recorded_exchange import public_of, recorded_exchange
from fgl_secure.protocols.grouped_sum import Scheme
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.protocols.relay_coded.code import source_shares
from fgl_secure.protocols.relay_coded.wire import SHARE
from fgl_secure.runtime import Channel, Direction, Messages, Phase, PublicParameters, Recording, Role, Step

ROUNDS = 10
"""Rounds in which static rows are summed again."""

PRESENCE = 0.9
"""Probability with which a device takes part in a round."""

PROJECTED = 16
"""Columns of the projected features that are summed again and again."""


def as_words(graph: FederatedGraph) -> NDArray[np.float64]:
    """The features as 0 and 1, cut at their mean: what they are already where they are sparse and binary."""
    return np.asarray(graph.features > graph.features.mean(), dtype=np.float64)


def static_run(scheme: Scheme, graph: FederatedGraph, seed: int) -> RecordedRun:
    """One release of the first layer's static input, x_v / sqrt(d_v) as in HiFGL's Eq. 2, with x public or not.

    d_v is the number of devices that send to v, and 1 where there are none.
    """
    features = as_words(graph)
    values = features / np.sqrt(np.maximum(graph.in_degree, 1))[:, None]
    what = f"one release of {values.shape[1]} static feature columns as 0/1 over the root of the degree"
    run = recorded_exchange(scheme, graph, values, what, seed, material=Material.STATIC)
    auxiliary = Auxiliary(dictionary=features)
    return RecordedRun(run.protocol, what, run.material, run.public, run.transcript, run.truth, auxiliary)


def drop_out_run(
    scheme: Scheme, graph: FederatedGraph, seed: int, *, rounds: int = ROUNDS, presence: float = PRESENCE
) -> RecordedRun | None:
    """The same rows summed in several rounds, in each of which a device sends or does not.

    Rows are features projected to 16 columns of magnitude up to 1 by a random matrix. Observers note who took part in
    their sums: devices see whom they hear from, and whoever sees who is on-line and knows a device's neighbours knows
    it as well.

    Args:
        scheme: how sums are computed.
        graph: who is whose neighbour.
        seed: of the coins, of who is present, and of the projection.
        rounds: number of rounds.
        presence: probability that a device takes part in a round.

    Returns:
        The run; None where devices do not send in their own name, so that a network cannot leave single ones out.
    """
    rng = np.random.default_rng(seed)
    values = _projected(graph, rng)
    absence = Absence(rng.random((rounds, graph.num_devices)) >= presence, graph.num_silos + 1)
    coins = SimulationCoins(seed)
    channel = Channel(hierarchy_of(graph, scheme.relays), coins, Recording.everything(), loss=absence)
    sum_in_rounds(scheme, channel, graph, values, ~absence.absent)
    if not absence.effective:
        return None
    what = f"{rounds} sums of the same rows, devices present with probability {presence:g}"
    truth = Truth.of(channel.transcript, graph)
    return RecordedRun(scheme.name, what, Material.DROP_OUTS, public_of(scheme, graph), channel.transcript, truth)


def sum_in_rounds(
    scheme: Scheme,
    channel: Channel,
    graph: FederatedGraph,
    values: NDArray[np.float64],
    present: NDArray[np.bool_],
) -> None:
    """Sums the same rows [n, d] in every round and notes who took part; the channel leaves out who is not present.

    Args:
        scheme: how sums are computed.
        channel: with the `Absence` of those who are not present as its loss.
        graph: who is whose neighbour.
        values: [n, d].
        present: bool [rounds, n].
    """
    note_membership(channel, graph.silo_of)
    session = scheme.open(channel, neighbour_sums(graph), values.shape[1])
    for number, here in enumerate(present):
        session.sum(values, Step(number, 0))
        _note_participants(channel, graph, here, Step(number, 0))


def deviating_run(scheme: Scheme, graph: FederatedGraph, seed: int) -> RecordedRun | None:
    """One exchange in which every device with several neighbours has the codes of its first one decoded alone.

    What one device sends to its silo changes nothing for the others, so all of them deviate in one run, each alone.

    Returns:
        The run; None where devices hand nothing to a silo to be decoded, or no device has several neighbours.
    """
    deviation = Deviation()
    coins = SimulationCoins(seed)
    channel = Channel(hierarchy_of(graph, scheme.relays), coins, Recording.everything(), tamper=deviation)
    values = _projected(graph, np.random.default_rng(seed))
    exchange(graph, scheme, channel, values)
    if not len(deviation.devices):
        return None
    channel.note_inputs(CHOSEN, Step(0, 0), deviation.devices, deviation.chosen)
    what = "one exchange in which devices have single codes decoded"
    truth = Truth.of(channel.transcript, graph)
    return RecordedRun(scheme.name, what, Material.DEVIATION, public_of(scheme, graph), channel.transcript, truth)


def careless_run(graph: FederatedGraph, seed: int, *, masked: bool) -> RecordedRun:
    """What relays are sent when senders misuse the masks of relay-coded: one for all of them, or none at all."""
    scheme = RelayCoded(R=3, k_min=1)
    channel = Channel(hierarchy_of(graph, scheme.relays), SimulationCoins(seed), Recording.everything())
    send_carelessly(channel, scheme, graph, graph.features.astype(np.float64), masked=masked)
    what = "shares under one mask for all senders" if masked else "shares without masks"
    truth = Truth.of(channel.transcript, graph)
    return RecordedRun(scheme.name, what, Material.TRAINING, public_of(scheme, graph), channel.transcript, truth)


def send_carelessly(
    channel: Channel, scheme: RelayCoded, graph: FederatedGraph, values: NDArray[np.float64], *, masked: bool
) -> None:
    """The messages of `careless_run`, in both passes: the rows [n, d] are the same in each."""
    grouping, relays = neighbour_sums(graph), channel.parties.ids(Role.RELAY)[scheme.T : scheme.R]
    fixed = scheme.fixed_point(max(grouping.largest_group, 1))
    q = fixed.encode(values)
    one = channel.coins.uniform(fixed.field.modulus, (1, q.shape[1])).astype(q.dtype) * masked
    masks = np.repeat(one, len(grouping.source), axis=0)
    if not len(masks):
        return
    for way, step in ((grouping, Step(0, 0)), (grouping.reversed(), Step(0, 0, Direction.BACKWARD))):
        channel.note_inputs("values", step, way.row_owner, q)
        points = range(scheme.T + 1, scheme.R + 1)
        shares = source_shares(fixed.field, scheme.T, points, q, way.source, [masks] * scheme.T)
        for relay, share in zip(relays, shares, strict=True):
            ends = way.row_owner[way.source], np.full(len(share), relay)
            channel.carry(Messages(Phase.SHARES, step, *ends, {SHARE: share}))


def gradient_run(graph: FederatedGraph, seed: int) -> RecordedRun:
    """Gradients of a one-layer graph convolution as every device computes and sends them: in the clear, to its silo."""
    channel = Channel(hierarchy_of(graph), SimulationCoins(seed), Recording.everything())
    send_gradients(channel, graph, seed)
    truth, what = Truth.of(channel.transcript, graph), f"gradients of {graph.num_devices} devices, one layer"
    return RecordedRun("plaintext", what, Material.TRAINING, PublicParameters(), channel.transcript, truth)


def send_gradients(channel: Channel, graph: FederatedGraph, seed: int) -> None:
    """The messages of `gradient_run`; weight gradients travel as their two factors and are sized as dense matrices."""
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


def _projected(graph: FederatedGraph, rng: np.random.Generator) -> NDArray[np.float64]:
    rows = graph.features.astype(np.float64)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return np.asarray(np.clip(rows @ rng.normal(size=(rows.shape[1], PROJECTED)) / 8, -1, 1))


def _note_participants(channel: Channel, graph: FederatedGraph, present: NDArray[np.bool_], step: Step) -> None:
    source, target = graph.edges[:, present[graph.edges[0]]]
    devices, silos = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SILO)
    messages = np.stack([devices[target], devices[source]], axis=1)
    owners = np.concatenate([devices[target], silos[graph.silo_of[target]]])
    channel.note_inputs(PARTICIPANTS, step, owners, np.concatenate([messages, messages]))
