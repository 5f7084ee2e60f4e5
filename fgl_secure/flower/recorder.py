"""Records of a test run: what each party of a Flower run sends and receives, in a file of its own.

A record is for a test run and never for real data. A client that records draws repeatable randomness: a party that has
the seed can remove its masks. So a client records only if its node's own configuration names a folder and a seed. No
message of a server and no configuration of a run can make it record.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from logging import WARNING
from pathlib import Path

from flwr.app import Context, Message, RecordDict
from flwr.common.logger import log
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.flower.records import entries_of
from fgl_secure.private_files import read_private
from fgl_secure.runtime.packing import pack, unpack

FOLDER_KEY, SEED_KEY = "test-run-record", "test-run-seed"
"""Names in a node's configuration: of the folder of records, and of the seed of the node's randomness."""
SERVER_FILE = "server"


def node_file(folder: Path, node: int) -> Path:
    """Return the file of a node's record."""
    return folder / f"node{node}"


@dataclass(frozen=True, slots=True)
class NotedMessage:
    """A message as one party noted it.

    Attributes:
        sent: whether the party sent it, and did not receive it.
        request: identifier of the request, which its reply names as well.
        node: of the client.
        entries: its content, as `content_of` gives it.
    """

    sent: bool
    request: str
    node: int
    entries: Mapping[str, bytes]


def content_of(message: Message) -> dict[str, bytes]:
    """Return type, group and records of a message, or its error, as bytes by name."""
    head = {"type": message.metadata.message_type.encode(), "group": b"g" + message.metadata.group_id.encode()}
    if message.has_error():
        return {**head, "error": f"{message.error.code} {message.error.reason}".encode()}
    return {**head, **entries_of(message.content)}


class PartyRecord:
    """The file in which one party notes its messages, readable for its owner alone.

    Args:
        file: each message is appended to it.

    Raises:
        InputError: its folder is not there.
    """

    def __init__(self, file: Path) -> None:
        if not file.is_absolute() or not file.parent.is_dir():
            raise InputError(f"folder of a record must be there, and named by its absolute path; found {file.parent}")
        self._file = file

    def note(self, message: Message, *, sent: bool, request: str, node: int) -> None:
        """Append a message; see `NotedMessage`."""
        entries = [part for name, value in content_of(message).items() for part in (name.encode(), value)]
        data = pack([pack([b"\x01" if sent else b"\x00", request.encode(), str(node).encode(), *entries])])
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        with open(os.open(self._file, flags, 0o600), "ab") as file:
            file.write(data)

    def __len__(self) -> int:
        return len(unpack(read_private(self._file) or b""))

    def messages(self) -> list[NotedMessage]:
        """Return what was noted, in order; nothing if there is no file.

        Raises:
            MalformedMessageError: the file is cut, or holds something else.
        """
        out = []
        for item in unpack(read_private(self._file) or b""):
            sent, request, node, *entries = unpack(item)
            named = {name.decode(): value for name, value in zip(entries[::2], entries[1::2], strict=True)}
            out.append(NotedMessage(sent == b"\x01", request.decode(), int(node), named))
        return out


class ClientRecorder:
    """Records what one client sends and receives, and gives it repeatable randomness.

    Args:
        context: of the node, whose own configuration names `FOLDER_KEY` and `SEED_KEY`.

    Raises:
        InputError: one of them is missing or of another type, or the folder is not there.
    """

    def __init__(self, context: Context) -> None:
        folder, seed = (context.node_config.get(key) for key in (FOLDER_KEY, SEED_KEY))
        if not isinstance(folder, str) or isinstance(seed, bool) or not isinstance(seed, int):
            raise InputError(
                f"{FOLDER_KEY} and {SEED_KEY} must be a text and an integer, both in the node's configuration; "
                f"found {type(folder).__name__} and {type(seed).__name__}"
            )
        self._seed, self._node = seed, int(context.node_id)
        self._record = PartyRecord(node_file(Path(folder), self._node))

    @classmethod
    def of(cls, context: Context) -> ClientRecorder | None:
        """Return the recorder of a node; None where its own configuration asks for none."""
        return cls(context) if {FOLDER_KEY, SEED_KEY} & set(context.node_config) else None

    def receive(self, message: Message) -> SimulationCoins:
        """Note a message and return the randomness of its reply: other one for each message."""
        number = len(self._record)
        if not number:
            log(WARNING, "test run: this node records its messages, and a party that has its seed can remove its masks")
        self._note(message, sent=False, request=message.metadata.message_id)
        digest = hashlib.sha256(b"fgl-secure test run|%d|%d|%d" % (self._seed, self._node, number)).digest()
        return SimulationCoins(int.from_bytes(digest[:8]))

    def send(self, reply: Message) -> Message:
        """Note a reply and return it."""
        self._note(reply, sent=True, request=reply.metadata.reply_to_message_id)
        return reply

    def _note(self, message: Message, *, sent: bool, request: str) -> None:
        self._record.note(message, sent=sent, request=request, node=self._node)


class GridProxy(Grid):
    """Another Grid, as it is.

    Args:
        grid: of the run.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def set_run(self, run: Run) -> None:
        """As the other Grid's."""
        self._grid.set_run(run)

    @property
    def run(self) -> Run:
        """As the other Grid's."""
        return self._grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """As the other Grid's."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """As the other Grid's."""
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[NodeInfo]:
        """As the other Grid's."""
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """As the other Grid's."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """As the other Grid's."""
        return self._grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """As the other Grid's."""
        return self._grid.send_and_receive(messages, timeout=timeout)


class RecordingGrid(GridProxy):
    """The Grid of a server that records what it sends and receives; it goes to `SecureAggregationStrategy.start`.

    Args:
        grid: of the run.
        folder: of records, by its absolute path.

    Raises:
        InputError: the folder is not there.
    """

    def __init__(self, grid: Grid, folder: Path) -> None:
        super().__init__(grid)
        self._record = PartyRecord(folder / SERVER_FILE)
        self._nodes: dict[str, int] = {}

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """As the other Grid's."""
        messages = list(messages)
        identifiers = list(super().push_messages(messages))
        for message, identifier in zip(messages, identifiers, strict=True):
            self._note_request(message, identifier)
        return identifiers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """As the other Grid's."""
        return [self._noted(reply) for reply in super().pull_messages(message_ids)]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """As the other Grid's."""
        messages = list(messages)
        replies = list(super().send_and_receive(messages, timeout=timeout))
        for message in messages:
            self._note_request(message, message.metadata.message_id)
        return [self._noted(reply) for reply in replies]

    def _note_request(self, message: Message, identifier: str) -> None:
        self._nodes[identifier] = message.metadata.dst_node_id
        self._record.note(message, sent=True, request=identifier, node=message.metadata.dst_node_id)

    def _noted(self, reply: Message) -> Message:
        request = reply.metadata.reply_to_message_id
        self._record.note(reply, sent=False, request=request, node=self._nodes.get(request, 0))
        return reply
