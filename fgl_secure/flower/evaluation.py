"""What clients say of an evaluation, which is in the open: what cannot be averaged with the others' is left out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from logging import WARNING

from flwr.app import Message
from flwr.common.logger import log

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
    known = Counter(layout for layout in layouts.values() if layout is not None)
    usual = known.most_common(1)[0][0] if known else None
    kept = [reply for reply in replies if reply.has_error() or (usual is not None and layouts[id(reply)] == usual)]
    for reply in replies:
        if not any(reply is one for one in kept):
            log(WARNING, "evaluation: node %s is out: its metrics cannot be averaged", reply.metadata.src_node_id)
    return kept


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
        if len(reply.content.metric_records) != 1 or len(weights) != 1 or not _positive(weights[0]):
            return None
    return tuple(sorted((record, name, len(v) if isinstance(v, list) else -1) for record, name, v in metrics))


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and value > 0
