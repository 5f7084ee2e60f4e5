"""Sending messages through a Grid and taking what comes back in time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from flwr.app import Message
from flwr.serverapp import Grid

POLL_SECONDS = 0.25


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
