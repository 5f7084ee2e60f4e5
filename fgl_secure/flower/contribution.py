"""What a client adds to a sum: its app's reply to the message that all are sent, under ranges that may be named."""

from __future__ import annotations

import math
from typing import Any

from flwr.app import Context, Message, MetricRecord
from flwr.clientapp.typing import ClientAppCallable

from fgl_secure.aggregation.sums import Request as RoundRequest
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.flower import guard
from fgl_secure.flower.records import (
    arrays_of,
    digest_of,
    digest_of_configuration,
    only_arrays,
    only_metrics,
    without_request,
)
from fgl_secure.flower.terms import RoundTerms, mapping_of


def training_reply(message: Message, terms: RoundTerms, context: Context, call_next: ClientAppCallable) -> Message:
    """The app's reply to its own records of the message, which must be what everybody else is sent too.

    Raises:
        ProtocolError: they, or the configuration of the run, are not what the terms of the round announce to all, or
            the app failed.
    """
    if digest_of(message, digest_of_configuration(context.run_config)) != terms.training:
        raise ProtocolError(
            "message for training and configuration of the run must be those that the terms announce to all clients; "
            "they are not"
        )
    message.content = without_request(message.content)
    return guard.trained(call_next, message, context)


def check_ranges(asked: RoundRequest) -> None:
    """Raises unless ranges that the server names are such as a secure maximum finds.

    A server may name others than were found; by powers of two it learns a client's range no more closely.

    Raises:
        ProtocolError: one is no power of two.
    """
    bounds = None if asked.opening is None else asked.opening.found.bounds
    if any(math.frexp(bound)[0] != 0.5 for bound in (bounds or {}).values()):
        raise ProtocolError("ranges must be powers of two, as a secure maximum finds them; one is not")


def contribution(reply: Message, terms: RoundTerms) -> tuple[dict[str, Any], float]:
    """What goes into the sum of an app's reply, and with what weight.

    Raises:
        InputError: there is not one record of arrays and one of metrics, or a metric is missing or no number.
    """
    metrics = only_metrics(reply.content, "reply of the app")
    wanted = {name: _number(metrics, name) for name in terms.metrics}
    arrays = {
        name: value.astype(value.dtype.newbyteorder("="), copy=False)
        for name, value in arrays_of(only_arrays(reply.content, "reply of the app")).items()
    }
    return mapping_of(arrays, wanted), _number(metrics, terms.weight_key)


def _number(metrics: MetricRecord, name: str) -> float:
    value = metrics.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"metrics of the app must hold one number under {name!r}; they do not")
    return float(value)
