"""A Grid through which training passes only in sums: what a wrapped strategy sends and receives."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from logging import WARNING

from flwr.app import Message, RecordDict
from flwr.common.logger import log
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run

from fgl_secure.errors import InputError
from fgl_secure.flower.records import digest_of
from fgl_secure.flower.rounds import GridRounds

Layout = tuple[tuple[str, str, int], ...]
"""Record, name and length of each metric, in order; -1 for a single number."""


def averageable(replies: Iterable[Message], weight_key: str | None) -> list[Message]:
    """The replies that a strategy can average; errors are among them, for it to count.

    What is averaged outside sums is what each client says, true or not. But one client that says something of another
    form, or NaN, would end the run, or be all that is left of the mean.

    Args:
        replies: to an evaluation.
        weight_key: name of the metric by which the strategy weighs; None where it weighs by none.

    Returns:
        Errors, and replies whose metrics are finite, have the names and lengths that most replies' have, and a weight
        above 0. The log names the nodes of the others.
    """
    replies = list(replies)
    layouts = {id(reply): _layout(reply, weight_key) for reply in replies if not reply.has_error()}
    layout_counts = Counter(layout for layout in layouts.values() if layout is not None)
    usual = layout_counts.most_common(1)[0][0] if layout_counts else None
    usable = [reply for reply in replies if reply.has_error() or (usual is not None and layouts[id(reply)] == usual)]
    for reply in replies:
        if not any(reply is one for one in usable):
            log(WARNING, "evaluation: node %s is out: its metrics cannot be averaged", reply.metadata.src_node_id)
    return usable


def _layout(reply: Message, weight_key: str | None) -> Layout | None:
    """How a reply's metrics lie; None where a number is not finite, or what is to be the weight is none."""
    metrics = [
        (record, name, value) for record, named in reply.content.metric_records.items() for name, value in named.items()
    ]
    numbers = [one for *_, value in metrics for one in (value if isinstance(value, list) else [value])]
    if not all(math.isfinite(number) for number in numbers):
        return None
    if weight_key is not None:
        weights = [value for _, name, value in metrics if name == weight_key]
        if (
            len(reply.content.metric_records) != 1
            or len(weights) != 1
            or not (isinstance(weights[0], int | float) and weights[0] > 0)
        ):
            return None
    return tuple(sorted((record, name, len(v) if isinstance(v, list) else -1) for record, name, v in metrics))


_TRAIN = "train"
_EVALUATE = "evaluate"


class SecuredGrid(Grid):
    """Another Grid, but for training: `send_and_receive` runs a round of secure aggregation and returns one reply.

    That reply has the weighted mean for its arrays, and for metrics the sum of the weights under the weight's name
    and the means of the metrics that were asked for. For every node that is not in the mean there is an error reply.
    A round that fails gives error replies only, which strategies take as a round without results. Replies to an
    evaluation that no mean can be made of are left out.

    Args:
        grid: of the run.
        rounds: runs them.
        weight_key: name of the metric by which evaluations are weighed; None where they are not.
    """

    def __init__(self, grid: Grid, rounds: GridRounds, weight_key: str | None = None) -> None:
        self._grid, self._rounds, self._weight_key = grid, rounds, weight_key

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
        """As the other Grid's, for anything but training.

        Raises:
            InputError: a message is for training, whose replies must not be pulled one by one.
        """
        messages = list(messages)
        if any(_kind_of(message) == _TRAIN for message in messages):
            raise InputError("messages for training must go through send_and_receive under secure aggregation")
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """As the other Grid's."""
        return self._grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """A round of secure aggregation for messages of training, and for others what the other Grid does.

        Of replies to an evaluation those that can be averaged come back; the log names the nodes of the others.

        Args:
            messages: all for training, or none of them.
            timeout: seconds that the stage waits in which clients train.

        Raises:
            InputError: some are for training and some are not, two are for one node, or they differ.
            FglSecureError: the round failed, and failed rounds are not skipped.
        """
        messages = list(messages)
        training = [message for message in messages if _kind_of(message) == _TRAIN]
        if not training:
            replies = self._grid.send_and_receive(messages, timeout=timeout)
            return (
                averageable(replies, self._weight_key)
                if messages and all(_kind_of(message) == _EVALUATE for message in messages)
                else replies
            )
        nodes = [message.metadata.dst_node_id for message in training]
        if len(training) < len(messages) or len(set(nodes)) < len(nodes):
            raise InputError("messages must all be for training, each for another node; they are not")
        if not _alike(training):
            raise InputError(
                "messages for training must be alike for all nodes, or their sum tells of each; they differ"
            )
        return self._rounds.run(self._grid, training, timeout)


def _alike(messages: list[Message]) -> bool:
    """Whether all nodes are sent the same; strategies mostly put the same records into all messages."""
    kinds = {(id(message.content), message.metadata.message_type): message for message in messages}
    return len({digest_of(message) for message in kinds.values()}) == 1


def _kind_of(message: Message) -> str:
    return message.metadata.message_type.split(".")[0]
