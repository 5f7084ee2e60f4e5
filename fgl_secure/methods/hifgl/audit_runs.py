"""Recorded runs of HiFGL for attacks: training, exchanges under variants, static rows, drop-outs, deviating devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.checks import largest_magnitude
from fgl_secure.attacks.message_passing.knowledge import (
    DEVIATION,
    DROP_OUTS,
    NOT_SILENT,
    SILENCE,
    SMALL_FEATURES,
    STATIC_ROWS,
    TRAINING,
    PublicRows,
    SilentDevices,
)
from fgl_secure.attacks.message_passing.sums import CHOSEN, PARTICIPANTS
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.auditing.programs import public_of
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.program import exchange
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import PAYLOAD, Channel, Messages, Phase, Recording, Role, Step, TamperedBatch, Transcript
from fgl_secure.training.one_process import open_neighbours
from fgl_secure.training.parties import hierarchy_of, neighbour_sums, note_membership
from fgl_secure.training.ranges import shrunk
from fgl_secure.typing import Ids

CARRYING = (Phase.VALUES, Phase.CODES, Phase.SHARE_HEADERS, Phase.SHARES, Phase.SEALED)
"""Messages that an absent device does not send; of what is sealed for relays, those of which each device sends several:
shares, where relays are not to see the graph. What fetches its own sum is one for each relay."""


@dataclass(slots=True, eq=False)
class Absence:
    """A network without the messages of devices that are not there.

    Attributes:
        absent: bool [rounds, n].
        first: identifier of the first device.
        effective: whether any message of a device was left out.
    """

    absent: NDArray[np.bool_]
    first: int
    effective: bool = False

    def __call__(self, phase: Phase, step: Step, senders: Ids, receivers: Ids) -> NDArray[np.bool_]:
        """Bool [m]: which messages arrive."""
        arrives = np.ones(len(receivers), dtype=np.bool_)
        devices = self.absent.shape[1]
        of_devices = (senders >= self.first) & (senders < self.first + devices)
        several = phase is not Phase.SEALED or len(np.unique(senders)) < len(senders)
        if phase in CARRYING and several and len(senders) and bool(of_devices.all()):
            arrives = ~self.absent[step.round, senders - self.first]
            self.effective |= not arrives.all()
        return arrives


@dataclass(slots=True, eq=False)
class _Silence:
    """A network in which nothing that silent devices send arrives.

    Attributes:
        by_round: int64 [rounds, k], identifiers of silent devices; others for no party.
    """

    by_round: Ids = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))

    def __call__(self, phase: Phase, step: Step, senders: Ids, receivers: Ids) -> NDArray[np.bool_]:
        """Bool [m]: which messages arrive."""
        if phase is Phase.PARTNERS or phase is Phase.REQUESTS:
            return np.ones(len(receivers), dtype=np.bool_)
        return ~np.isin(senders, self.by_round[step.round])


@dataclass(slots=True, eq=False)
class Deviation:
    """Devices that send the codes of their first neighbour where the protocol has them send a sum.

    Attributes:
        devices: int64 [k], those with several neighbours.
        chosen: int64 [k], the neighbour of each.
    """

    devices: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    chosen: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    codes: NDArray[Any] | None = None

    def __call__(self, messages: Messages) -> TamperedBatch | None:
        """Remembers codes, and puts those of one neighbour in the place of aggregates."""
        phase, senders, receivers = messages.phase, messages.senders, messages.receivers
        if phase is Phase.CODES:
            order = np.lexsort((senders, receivers))
            owners, first, counts = np.unique(receivers[order], return_index=True, return_counts=True)
            rows, several = order[first], counts > 1
            self.devices, self.chosen, self.codes = (
                owners[several],
                senders[rows[several]],
                messages[PAYLOAD][rows[several]],
            )
        if phase is not Phase.AGGREGATE or self.codes is None:
            return None
        payload = messages[PAYLOAD].copy()
        payload[np.searchsorted(senders, self.devices)] = self.codes
        return TamperedBatch.of_payload(np.arange(len(senders)), payload)


SMALL_FIELD = 31
"""Largest field that counts as small: its decoders can be tried one by one."""

NARROW = 16
"""Columns of the narrow feature exchange, the fewest for which brute force is said to be exact."""

_FLOAT_BYTES = 4
_CAST_AT_ONCE = 2**28
"""Bytes of features that are cast to float64 together."""

MOST_RELEASED = 2**28
"""Numbers of all messages of a release of static rows, up to which all devices take part."""

SAMPLED = 2**23
"""Numbers of all rows that are released where some devices take part."""

WIDEST = 64
"""Columns of real-valued features that a variant exchanges: as many as a hidden layer has."""

ROUNDS = 10
"""Rounds in which static rows are summed again."""

PRESENCE = 0.9
"""Probability with which a device takes part in a round."""

PROJECTED = 16
"""Columns of the projected features that are summed again and again."""

SILENT_PAIRS = 8
"""Partners of different silos that fall silent, each alone, both together, and each with an end of another pair."""

SILENT_AMONG, DROPPING_AMONG = 128, 512
"""Devices among whom some fall silent or drop out, beside the first of each silo, where a graph is hidden from relays:
circuits are opened again in every such round."""

SCENARIOS = frozenset({TRAINING, SMALL_FEATURES, STATIC_ROWS, DROP_OUTS, SILENCE, DEVIATION})
"""All kinds of runs that an audit of HiFGL has."""


def training_run(scheme: Scheme, graph: FederatedGraph, transcript: Transcript, description: str) -> RecordedRun:
    """A recorded training run as attacks read it.

    Args:
        scheme: how sums were computed.
        graph: whose edges carried the messages.
        transcript: what was said.
        description: what was exchanged, in words.
    """
    return _record_run(scheme, graph, transcript, description, TRAINING)


def recorded_exchange(
    scheme: Scheme,
    graph: FederatedGraph,
    values: NDArray[np.float64],
    description: str,
    seed: int,
    *,
    both_ways: bool = False,
    scenario: str | None = None,
) -> RecordedRun:
    """One exchange with everything recorded, under repeatable coins.

    Args:
        scheme: how sums are computed.
        graph: who is whose neighbour.
        values: [n, d], the row of each device.
        description: what the rows are, in words.
        seed: of the coins.
        both_ways: whether the rows also travel along the reversed edges.
        scenario: which attacks can use it; None finds out whether the field is small.
    """
    channel = Channel(hierarchy_of(graph, scheme.helpers), SimulationCoins(seed), Recording.everything())
    exchange(graph, scheme, channel, values, both_ways=both_ways)
    return _record_run(scheme, graph, channel.transcript, description, scenario or _kind_of_exchange(scheme))


def _kind_of_exchange(scheme: Scheme) -> str:
    return SMALL_FEATURES if in_small_field(scheme) else TRAINING


def variant_runs(
    scheme: Scheme, graph: FederatedGraph, seed: int, read: Container[str] = SCENARIOS
) -> Iterator[RecordedRun]:
    """One exchange of the devices' features under every variant of a scheme.

    In a small field the features are cut to 0 and 1 at their mean, as whole rows and as their 16 most frequent
    columns; elsewhere the first 64 columns are exchanged as they are.

    Args:
        scheme: whose variants.
        graph: who is whose neighbour.
        seed: of the coins.
        read: the scenarios that attacks read; exchanges of others are left out.
    """
    for variant in scheme.variants:
        if _kind_of_exchange(variant) not in read:
            continue
        if not in_small_field(variant):
            values = _within_bound(graph.features[:, :WIDEST].astype(np.float64), variant)
            yield recorded_exchange(variant, graph, values, f"{values.shape[1]} feature columns", seed)
            continue
        binary = as_words(graph)
        frequent = np.sort(np.argsort(-binary.sum(axis=0), kind="stable")[:NARROW])
        for columns in (binary, binary[:, frequent])[: 1 + (binary.shape[1] > NARROW)]:
            yield recorded_exchange(variant, graph, columns, f"{columns.shape[1]} feature columns as 0/1", seed)


def _within_bound(values: NDArray[np.float64], scheme: Scheme) -> NDArray[np.float64]:
    """Return rows over the least power of two that leaves them within a scheme's bound; as they are where they are."""
    fixed = scheme.fixed_point(1)
    excess = 1.0 if fixed is None else largest_magnitude(values) / fixed.bound
    return values if excess <= 1 else shrunk(values, math.ceil(math.log2(excess)))


def special_runs(
    scheme: Scheme,
    graph: FederatedGraph,
    seed: int,
    read: Container[str] = SCENARIOS,
    static: FederatedGraph | None = None,
    *,
    rounds: int = ROUNDS,
) -> Iterator[RecordedRun]:
    """Static rows released once, summed again with drop-outs or silent devices, and exchanged with deviating devices.

    Args:
        scheme: how sums are computed.
        graph: who is whose neighbour.
        seed: of the coins, of who is present, and of projections.
        read: the scenarios that attacks read; nothing is run for others.
        static: who takes part in the release of static rows; those of the graph if not given.
        rounds: how often the same rows are summed with drop-outs.
    """
    makers: tuple[tuple[str, Callable[..., RecordedRun | None]], ...] = (
        (STATIC_ROWS, static_run),
        (DROP_OUTS, partial(drop_out_run, rounds=rounds)),
        (SILENCE, silent_run),
        (DEVIATION, deviating_run),
    )
    for scenario, make in makers:
        whose = static if static is not None and scenario is STATIC_ROWS else graph
        made = [make(scheme, whose, seed)] if scenario in read else []
        suffix = f", of {whose.num_devices:,} devices drawn with neighbours" if whose is not graph else ""
        result = [replace(run, what=run.what + suffix) for run in made if run is not None]
        del made  # nothing is kept here of a run that is handed on: the next one may be gigabytes as well
        if result:
            yield result.pop()


def as_words(graph: FederatedGraph) -> NDArray[np.float64]:
    """The features as 0 and 1, cut at their mean: what they are already where they are sparse and binary."""
    return np.asarray(graph.features > graph.features.mean(), dtype=np.float64)


def releasing_graph(graph: FederatedGraph, seed: int) -> FederatedGraph:
    """Who takes part where static rows are released: all devices, or some of a graph whose messages fill the memory."""
    width = graph.graph.num_features
    if graph.edges.shape[1] * width <= MOST_RELEASED:
        return graph
    return graph.some_neighbourhoods(SAMPLED // width, seed)


def static_run(scheme: Scheme, graph: FederatedGraph, seed: int) -> RecordedRun:
    """One release of the first layer's static input, x_v / sqrt(d_v) as in HiFGL's Eq. 2, with x public or not.

    d_v is the number of devices that send to v, and 1 where there are none.
    """
    features = as_words(graph)
    values = features / np.sqrt(np.maximum(graph.in_degree, 1))[:, None]
    description = f"one release of {values.shape[1]} static feature columns as 0/1 over the root of the degree"
    run = recorded_exchange(scheme, graph, values, description, seed, scenario=STATIC_ROWS)
    return replace(run, knowledge=(PublicRows(features),))


def drop_out_run(
    scheme: Scheme, graph: FederatedGraph, seed: int, *, rounds: int = ROUNDS, presence: float = PRESENCE
) -> RecordedRun | None:
    """The same rows summed in several rounds, in each of which a device sends or does not.

    Rows are features projected to 16 columns of magnitude up to 1 by a random matrix. Observers note who took part in
    their sums: devices see whom they hear from, and a party that sees who is on-line and knows a device's neighbours
    knows it as well.

    Args:
        scheme: how sums are computed.
        graph: who is whose neighbour; of a large one that relays must not see some devices are drawn.
        seed: of the coins, of these devices, of who is present, and of the projection.
        rounds: number of rounds.
        presence: probability that a device takes part in a round.

    Returns:
        The run; None where devices do not send in their own name, so that a network cannot leave single ones out.
    """
    rng, devices = np.random.default_rng(seed), graph.num_devices
    if devices > DROPPING_AMONG and scheme.partnering(neighbour_sums(graph)) is not None:
        graph = graph.some_neighbourhoods(DROPPING_AMONG, seed, filled=True)
    values = _project_features(graph, rng)
    absence = Absence(rng.random((rounds, graph.num_devices)) >= presence, graph.num_silos + 1)
    coins = SimulationCoins(seed)
    channel = Channel(hierarchy_of(graph, scheme.helpers), coins, Recording.everything(), loss=absence)
    sum_in_rounds(scheme, channel, graph, values, ~absence.absent)
    if not absence.effective:
        return None
    description = f"{rounds} sums of the same rows, devices present with probability {presence:g}"
    description += _drawn_of(graph, devices)
    return _record_run(scheme, graph, channel.transcript, description, DROP_OUTS)


def sum_in_rounds(
    scheme: Scheme, channel: Channel, graph: FederatedGraph, values: NDArray[np.float64], present: NDArray[np.bool_]
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
    session = open_neighbours(scheme, neighbour_sums(graph), values.shape[1], channel)
    for number, present_devices in enumerate(present):
        session.sum(values, Step(number, 0))
        step = Step(number, 0)
        source, target = graph.edges[:, present_devices[graph.edges[0]]]
        devices, silos = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SILO)
        messages = np.stack([devices[target], devices[source]], axis=1)
        owners = np.concatenate([devices[target], silos[graph.silo_of[target]]])
        channel.note_inputs(PARTICIPANTS, step, owners, np.concatenate([messages, messages]))


def silent_run(scheme: Scheme, graph: FederatedGraph, seed: int, *, pairs: int = SILENT_PAIRS) -> RecordedRun | None:
    """Sums in which one device or two fall silent: in a step nothing that they send arrives.

    The edges of the truth are those between partners.

    Args:
        scheme: how sums are computed.
        graph: who is whose neighbour; of a large one some devices are drawn with their neighbours.
        seed: of the coins, of these devices, and of which fall silent.
        pairs: partners of different silos that fall silent at most.

    Returns:
        The run; None where devices don't send equally many messages each: then there are no relays, or they see more.
    """
    if scheme.partnering(neighbour_sums(graph)) is None:
        return None
    devices, rng = graph.num_devices, np.random.default_rng(seed)
    graph = graph if devices <= SILENT_AMONG else graph.some_neighbourhoods(SILENT_AMONG, seed, filled=True)
    recording = Recording.everything()
    parties, silence = hierarchy_of(graph, scheme.helpers), _Silence()
    channel = Channel(parties, SimulationCoins(seed), recording, loss=silence)
    session = open_neighbours(scheme, neighbour_sums(graph), 1, channel)
    partners = np.stack([session.topology.grouping.source, session.topology.grouping.target])
    # int64 [rounds, 2]: devices that are silent in each round, -1 for no party; no party in the first.
    silo_of = graph.silo_of
    result, is_used = list[tuple[int, int]](), np.zeros(len(silo_of), dtype=np.bool_)
    crossing = partners[:, silo_of[partners[0]] != silo_of[partners[1]]]
    for one, other in rng.permutation(crossing.T).tolist():
        if len(result) == pairs:
            break
        if not is_used[[one, other]].any():
            is_used[[one, other]] = True
            is_used[partners[1, np.isin(partners[0], [one, other])]] = True
            result.append((one, other))
    ones, others = np.array(result, dtype=np.int64).reshape(-1, 2).T
    no_device = np.full(2 * len(result), -1)
    first = np.concatenate([ones, others, ones, ones])
    silent = rng.permutation(np.stack([first, np.concatenate([no_device, others, np.roll(others, 1)])], axis=1))
    ends = np.concatenate([[[-1, -1]], silent])
    silence.by_round = np.where(ends < 0, NOT_SILENT, parties.ids(Role.DEVICE)[ends])
    for number in range(len(ends)):
        session.sum(np.ones((graph.num_devices, 1)), Step(number, 0))
    description = f"{len(ends)} sums, one device or two silent in all but the first"
    description += _drawn_of(graph, devices)
    truth = replace(MessageTruth.of(channel.transcript, graph), edges=partners)
    known = (SilentDevices(silence.by_round),)
    return RecordedRun(scheme.name, description, SILENCE, public_of(scheme, graph), channel.transcript, (truth,), known)


def _drawn_of(graph: FederatedGraph, devices: int) -> str:
    return f", of {graph.num_devices:,} devices drawn with neighbours" if graph.num_devices < devices else ""


def deviating_run(scheme: Scheme, graph: FederatedGraph, seed: int) -> RecordedRun | None:
    """One exchange in which every device with several neighbours has the codes of its first one decoded alone.

    What one device sends to its silo changes nothing for the others, so all of them deviate in one run, each alone.

    Returns:
        The run; None where devices hand nothing to a silo to be decoded, or no device has several neighbours.
    """
    deviation = Deviation()
    coins = SimulationCoins(seed)
    channel = Channel(hierarchy_of(graph, scheme.helpers), coins, Recording.everything(), tamper=deviation)
    values = _project_features(graph, np.random.default_rng(seed))
    exchange(graph, scheme, channel, values)
    if not len(deviation.devices):
        return None
    channel.note_inputs(CHOSEN, Step(0, 0), deviation.devices, deviation.chosen)
    description = "one exchange in which devices have single codes decoded"
    return _record_run(scheme, graph, channel.transcript, description, DEVIATION)


def _record_run(scheme: Scheme, graph: FederatedGraph, transcript: Transcript, text: str, scenario: str) -> RecordedRun:
    truth = MessageTruth.of(transcript, graph)
    return RecordedRun(scheme.name, text, scenario, public_of(scheme, graph), transcript, (truth,))


def in_small_field(scheme: Scheme) -> bool:
    """Whether a scheme's decoders can be tried one by one."""
    return (scheme.public.modulus or SMALL_FIELD + 1) <= SMALL_FIELD


def _project_features(graph: FederatedGraph, rng: np.random.Generator) -> NDArray[np.float64]:
    nodes, width = graph.num_devices, graph.graph.num_features
    projection, result = rng.normal(size=(width, PROJECTED)), []
    for part in np.array_split(np.arange(nodes), max(nodes * width * _FLOAT_BYTES // _CAST_AT_ONCE, 1)):
        rows = graph.graph.features_of(part).astype(np.float64)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        result.append(np.clip(rows @ projection / 8, -1, 1))
    return np.concatenate(result)
