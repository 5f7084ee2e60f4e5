"""Transcript and views: a coalition sees what reached it and what it had itself, and nothing else."""

import gc
from collections import defaultdict
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.program import silos_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.runtime import Channel, Directory, Party, Phase, Private, Recording, Role, Step, Transcript, View
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import HONEST
from tests.graphs import two_communities
from tests.strategies import message_batches, send_drawn

PARTIES = Directory.hierarchy(2, 3)
EVERYONE = [Party(role, index) for role in PARTIES.roles for index in range(PARTIES.counts[role])]
Batches = list[tuple[Phase, int, list[tuple[int, int]]]]
Seen = list[tuple[Any, ...]]


def record(batches: Batches, lost: tuple[int, int] | None = None) -> Transcript:
    """A transcript of these batches, one a round; message `lost` = (batch, row) never arrives."""

    def arrives(_: Phase, step: Step, senders: np.ndarray, __: np.ndarray) -> np.ndarray:
        return np.array([(step.round, row) != lost for row in range(len(senders))], dtype=np.bool_)

    channel = Channel(PARTIES, SimulationCoins(0), Recording.everything(), None if lost is None else arrives)
    for number, (phase, width, messages) in enumerate(batches):
        send_drawn(channel, messages, phase, Step(number), width)
    return channel.transcript


def rows_seen(view: View) -> Seen:
    """Everything received, one tuple a message."""
    return [
        (rows.phase, rows.step, sender, receiver, rows.item_bytes, tuple(item))
        for rows in view.received
        for sender, receiver, item in zip(
            rows.senders.tolist(), rows.receivers.tolist(), np.asarray(rows.payload).tolist(), strict=True
        )
    ]


def rows_sent(batches: Batches, receivers: set[int]) -> Seen:
    """The same, by looking at each message that was sent: the slow oracle."""
    return [
        (phase, Step(number), sender, receiver, 4 * width, tuple(range(row * width, row * width + width)))
        for number, (phase, width, messages) in enumerate(batches)
        for row, (sender, receiver) in sorted(enumerate(messages), key=lambda numbered: numbered[1][::-1])
        if receiver in receivers
    ]


@given(message_batches(len(PARTIES)), st.sets(st.sampled_from(EVERYONE)))
def test_coalition_sees_exactly_what_it_received(batches: Batches, coalition: set[Party]) -> None:
    """The view of a coalition is the messages to its members and no others, each batch by receiver and sender."""
    view = record(batches).view(coalition)
    assert rows_seen(view) == rows_sent(batches, {PARTIES.id_of(party) for party in coalition})
    assert all((rows.observers == 0).all() for rows in view.received)


@given(message_batches(len(PARTIES)), st.sampled_from(list(PARTIES.roles)))
def test_views_side_by_side_are_the_single_views(batches: Batches, role: Role) -> None:
    """Observer i of `views` has the rows of party i's own view."""
    transcript = record(batches)
    together = transcript.views(role)
    for index, party in enumerate(PARTIES.ids(role).tolist()):
        mine = [row for row in rows_seen(together) if row[3] == party]
        assert mine == rows_seen(transcript.view([Party(role, index)]))
    assert all(np.array_equal(rows.observers, PARTIES.index_of(rows.receivers, role)) for rows in together.received)


@given(st.data(), message_batches(len(PARTIES)))
def test_removing_a_message_changes_its_receivers_view_alone(data: st.DataObject, batches: Batches) -> None:
    """Without one message the view of its receiver has one row less, and no other view changes."""
    where = [(number, row) for number, (_, _, messages) in enumerate(batches) for row in range(len(messages))]
    if not where:
        return
    lost = data.draw(st.sampled_from(where))
    full, partial = record(batches), record(batches, lost)
    receiver = batches[lost[0]][2][lost[1]][1]
    for party in EVERYONE:
        before, after = rows_seen(full.view([party])), rows_seen(partial.view([party]))
        if PARTIES.id_of(party) == receiver:
            assert len(after) == len(before) - 1
        else:
            assert after == before


@given(message_batches(len(PARTIES)))
def test_traffic_is_what_a_dictionary_counts(batches: Batches) -> None:
    """Messages and bytes by phase and roles are those counted one message at a time."""
    counted: dict[tuple[Phase, Role, Role], list[int]] = defaultdict(lambda: [0, 0])
    role_of = {PARTIES.id_of(party): party.role for party in EVERYONE}
    for phase, width, messages in batches:
        for sender, receiver in messages:
            entry = counted[phase, role_of[sender], role_of[receiver]]
            entry[0] += 1
            entry[1] += 4 * width
    transcript = record(batches)
    traffic = {(t.phase, t.sender_role, t.receiver_role): [t.messages, t.bytes] for t in transcript.traffic()}
    assert traffic == counted
    assert transcript.message_count == sum(messages for messages, _ in counted.values())
    assert transcript.byte_count == sum(size for _, size in counted.values())


def test_private_rows_reach_their_owners_alone() -> None:
    """Inputs and coins are in the views of their owners, row by row, and in no other view."""
    channel, devices = Channel(PARTIES, SimulationCoins(0), Recording.everything()), PARTIES.ids(Role.DEVICE)
    channel.note_inputs("values", Step(0), devices, np.arange(3)[:, None])
    masks = channel.draw("mask", devices[1:], 11, (2,))
    transcript = channel.transcript
    for index in range(3):
        view = transcript.view([Party(Role.DEVICE, index)])
        assert [rows.values.tolist() for rows in view.own("values")] == [[[index]]]
        assert [rows.values.tolist() for rows in view.own("mask")] == ([[masks[index - 1].tolist()]] if index else [])
    assert transcript.view([Party(Role.SERVER, 0)]).private == ()
    assert [(batch.kind, batch.name) for batch in transcript.secrets()] == [(Private.INPUT, "values")]


def reachable(start: object) -> Iterator[object]:
    """Every object that can be reached from another, through attributes, containers and bases of arrays."""
    seen: dict[int, object] = {}
    waiting = [start]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, (type, ModuleType, FunctionType)):
            continue
        seen[id(thing)] = thing
        yield thing
        waiting.extend(gc.get_referents(thing))
        if isinstance(thing, np.ndarray):
            waiting.append(thing.base)


def trained(scheme: Scheme) -> tuple[FederatedGraph, Channel]:
    """A round of training, everything recorded."""
    graph = two_communities()
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), Recording.everything())
    silos_of(graph, scheme, HONEST).open(channel).round(0)
    return graph, channel


@pytest.mark.parametrize("scheme", [Plaintext(), SecretMessagePassing()], ids=lambda scheme: scheme.name)
@pytest.mark.parametrize("observer", [Party(Role.DEVICE, 3), Party(Role.SILO, 1), Party(Role.SERVER, 0)], ids=str)
def test_no_path_leads_from_a_view_to_what_others_know(scheme: Scheme, observer: Party) -> None:
    """From a view neither transcript, channel nor graph is reachable, nor memory of another party's inputs."""
    _, channel = trained(scheme)
    view = channel.transcript.view([observer])
    found = list(reachable(view))
    assert not [thing for thing in found if isinstance(thing, (Transcript, Channel, FederatedGraph))]
    (own,) = channel.parties.ids(observer.role)[[observer.index]]
    private, sent = channel.transcript.private, [b for b in channel.transcript.messages if b.payload is not None]
    everything = [(batch.owners, batch.values) for batch in private] + [(b.receivers, b.payload) for b in sent]
    its_own = [values for parties, values in everything if (parties == own).all()]
    foreign = [values for _, values in everything if not any(np.shares_memory(values, mine) for mine in its_own)]
    arrays = [thing for thing in found if isinstance(thing, np.ndarray)]
    assert not [mine for mine in arrays for theirs in foreign if np.shares_memory(mine, theirs)]


def test_the_walk_finds_what_is_there() -> None:
    """From the channel the same walk does reach the transcript and the inputs of all parties."""
    _, channel = trained(Plaintext())
    found = list(reachable(channel))
    assert any(isinstance(thing, Transcript) for thing in found)
    inputs = channel.transcript.secrets()
    assert inputs
    assert all(any(thing is batch.values for thing in found) for batch in inputs)


def test_first_rounds_and_the_end() -> None:
    """Later rounds are left out, of messages and of what parties have; what they are left with in the end stays."""
    channel = Channel(PARTIES, SimulationCoins(0), Recording.everything())
    ends, steps = PARTIES.ids(Role.DEVICE)[:1], [Step(0), Step(1), Step(2), Step(2, final=True)]
    for step in steps:
        channel.send(Phase.SHARES, step, ends, ends, np.zeros((1, 1)))
        channel.note_inputs("values", step, ends, np.zeros((1, 1)))
    channel.note_incident(Step(2), int(ends[0]), "late")
    for rounds, kept in ((0, steps[3:]), (1, [steps[0], steps[3]]), (3, steps)):
        part = channel.transcript.until(rounds)
        assert [batch.step for batch in part.messages] == kept
        assert [batch.step for batch in part.private] == kept
        assert part.incidents == channel.transcript.incidents
    assert len(channel.transcript.messages) == len(steps)
