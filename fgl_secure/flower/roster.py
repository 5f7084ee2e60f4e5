"""Who is behind the nodes of a round: asked before it, where clients have identities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fgl_secure.errors import MalformedMessageError
from fgl_secure.flower.exchange import Patience, exchange
from fgl_secure.flower.records import Answer, Request


def known_nodes(
    grid: Grid,
    asked: Sequence[Message],
    patience: Patience,
    identities: Collection[bytes],
    lost: dict[int, str],
) -> tuple[list[Message], tuple[str, ...]]:
    """The nodes that say in time who they are, and are known.

    A node proves nothing yet: whoever names another's identity cannot sign with it, and clients will refuse its keys.

    Args:
        grid: of the run.
        asked: what the strategy wants to send, one message for each node.
        patience: how long to wait.
        identities: public ones that may take part.
        lost: where the other nodes are noted.

    Returns:
        The messages to the known nodes, and their public identities in the same order, in hexadecimal digits.
    """
    replies = exchange(grid, {i: _question(message) for i, message in enumerate(asked)}, patience)
    named = {i: _identity_in(replies[i]) if i in replies else b"" for i in range(len(asked))}
    times = Counter(named.values())
    known = [i for i, identity in named.items() if identity in identities and times[identity] == 1]
    for i in set(named) - set(known):
        lost[asked[i].metadata.dst_node_id] = "IDENTITY: none that is known and its own, in time"
    return [asked[i] for i in known], tuple(named[i].hex() for i in known)


def _question(message: Message) -> Message:
    content = Request(b"").added_to(RecordDict())
    return Message(content, message.metadata.dst_node_id, message.metadata.message_type, ttl=message.metadata.ttl)


def _identity_in(reply: Message) -> bytes:
    try:
        return b"" if reply.has_error() else Answer.of(reply.content).identity
    except MalformedMessageError:
        return b""
