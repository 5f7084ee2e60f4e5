"""Sending messages through a Grid and taking what comes back in time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fgl_secure.errors import MalformedMessageError, TooFewClientsError
from fgl_secure.flower.records import Answer, Request

POLL_SECONDS = 0.25
NO_INTRODUCTION = "no introduction in time; is the node there, and does the ClientApp have SecureAggregationMod?"
"""Why a node is out that has not said who it is."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a stage waits.

    Attributes:
        timeout: seconds until everybody who has not answered has dropped out; None waits for all.
        enough: answers that suffice to go on.
        grace: seconds that the others get once there are enough; None gives them until the timeout.
    """

    timeout: float | None
    enough: int
    grace: float | None

    def until(self, timeout: float) -> Patience:
        """The same with another timeout."""
        return replace(self, timeout=timeout)

    def with_enough(self, enough: int) -> Patience:
        """The same with another number that suffices."""
        return replace(self, enough=enough)


def exchange(grid: Grid, messages: Mapping[int, Message], patience: Patience) -> dict[int, Message]:
    """Sends one message to each of several clients and collects their replies, errors among them.

    A reply belongs to the client whose message it answers, and comes from that client's node: a reply that another
    node claims to give is left out. Asks for replies every quarter of a second, where Flower's own waits for three.

    Args:
        grid: of the run.
        messages: by client.
        patience: how long to wait.

    Returns:
        The replies that came in time, by client.
    """
    sent = list(messages.items())
    identifiers = list(grid.push_messages([message for _, message in sent]))
    client_of = {message.metadata.message_id: client for client, message in sent if message.metadata.message_id}
    awaited = {identifier for identifier in identifiers if identifier in client_of}
    replies: dict[int, Message] = {}
    start, enough_at = time.monotonic(), None
    while awaited:
        for reply in grid.pull_messages(list(awaited)):
            identifier = reply.metadata.reply_to_message_id
            if identifier in awaited:
                awaited.discard(identifier)
                replies |= _accepted(client_of[identifier], messages, reply)
        if enough_at is None and sum(not reply.has_error() for reply in replies.values()) >= patience.enough:
            enough_at = time.monotonic()
        if not awaited or _over(patience, start, enough_at):
            break
        time.sleep(POLL_SECONDS)
    return replies


def _accepted(client: int, messages: Mapping[int, Message], reply: Message) -> dict[int, Message]:
    """An error may be the link's own; an answer must come from the node that was asked."""
    genuine = reply.has_error() or reply.metadata.src_node_id == messages[client].metadata.dst_node_id
    return {client: reply} if genuine else {}


def _over(patience: Patience, start: float, enough_at: float | None) -> bool:
    now = time.monotonic()
    late = patience.timeout is not None and now - start >= patience.timeout
    return late or (enough_at is not None and patience.grace is not None and now - enough_at >= patience.grace)


def introductions(grid: Grid, asked: Sequence[Message], patience: Patience) -> dict[int, Answer]:
    """What nodes say in time of who they are and how their run is configured.

    Args:
        grid: of the run.
        asked: what the strategy wants to send, one message for each node.
        patience: how long to wait.

    Returns:
        The introductions that came, by place in `asked`.
    """
    replies = exchange(grid, {i: _question(message) for i, message in enumerate(asked)}, patience)
    read = {i: _introduction(reply) for i, reply in replies.items()}
    return {i: answer for i, answer in read.items() if answer is not None}


def known_nodes(
    asked: Sequence[Message], introduced: Mapping[int, Answer], identities: Collection[bytes], lost: dict[int, str]
) -> tuple[list[Message], tuple[str, ...]]:
    """The nodes that have said who they are, and are known.

    A node proves nothing yet: whoever names another's identity cannot sign with it, and clients will refuse its keys.

    Args:
        asked: what the strategy wants to send, one message for each node.
        introduced: what they said, by place.
        identities: public ones that may take part.
        lost: where the other nodes are noted.

    Returns:
        The messages to the known nodes, and their public identities in the same order, in hexadecimal digits.
    """
    named = {i: introduced[i].identity if i in introduced else b"" for i in range(len(asked))}
    times = Counter(named.values())
    known = [i for i, identity in named.items() if identity in identities and times[identity] == 1]
    for i in sorted(set(named) - set(known)):
        why = "one that is known and its own is missing" if i in introduced else NO_INTRODUCTION
        lost[asked[i].metadata.dst_node_id] = f"IDENTITY: {why}"
    return [asked[i] for i in known], tuple(named[i].hex() for i in known)


def common_configuration(introduced: Mapping[int, Answer]) -> bytes:
    """The digest of the run's configuration that most nodes name; the others will refuse the round.

    Raises:
        TooFewClientsError: no node has named one.
    """
    named = Counter(answer.configuration for answer in introduced.values() if answer.configuration)
    if not named:
        raise TooFewClientsError(f"nodes must say in time how their run is configured; none did: {NO_INTRODUCTION}")
    return named.most_common(1)[0][0]


def _question(message: Message) -> Message:
    content = Request(b"").added_to(RecordDict())
    return Message(content, message.metadata.dst_node_id, message.metadata.message_type, ttl=message.metadata.ttl)


def _introduction(reply: Message) -> Answer | None:
    try:
        return None if reply.has_error() else Answer.of(reply.content)
    except MalformedMessageError:
        return None
