"""What a client says of its own failures: that there was one, and nothing of what its own log has of it."""

from __future__ import annotations

from logging import ERROR, WARNING

from flwr.app import Context, Error, Message
from flwr.clientapp.typing import ClientAppCallable
from flwr.common.constant import ErrorCode
from flwr.common.logger import log

from fgl_secure.errors import ProtocolError

APP_FAILED = "the app failed; see the log of this client"
NO_PART = (
    "this client takes no part in the round: a number, a metric or its weight is beyond a bound or not finite, or its "
    "arrays are others than it was sent; its log says which"
)
NO_STATE = "this client takes no part in the round: it cannot read or write the file of its state; its log says why"
FIXED = (APP_FAILED, NO_PART, NO_STATE)
"""All sentences that a client says of its own failures."""


class AppFailedError(ProtocolError):
    """The app of this client failed, or answered with an error; its own log says how."""


def called(call_next: ClientAppCallable, message: Message, context: Context) -> Message:
    """What the app makes of a message.

    Flower sends the text of an exception to the server, and texts name sizes of batches, files and values.

    Raises:
        AppFailedError: it raised something, whatever it was; what it said is in the client's log alone.
    """
    try:
        return call_next(message, context)
    except Exception as error:  # an app may raise anything
        log(ERROR, "the app failed", exc_info=error)
    raise AppFailedError(APP_FAILED)


def trained(call_next: ClientAppCallable, message: Message, context: Context) -> Message:
    """The same for training, whose replies are not for the server: an error among them is not either.

    Raises:
        AppFailedError: the app raised something, or replied with an error.
    """
    reply = called(call_next, message, context)
    if reply.has_error():
        log(ERROR, "the app replied with error %s: %s", reply.error.code, reply.error.reason)
        raise AppFailedError(APP_FAILED)
    return reply


def takes_no_part(message: Message, error: Exception, sentence: str = NO_PART) -> Message:
    """The reply of a client that does not hand in what it has; its own log says why."""
    log(WARNING, "this client takes no part in the round: %s", error)
    return refusal(message, sentence)


def refusal(message: Message, sentence: str) -> Message:
    """An error that says one of the fixed sentences."""
    return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, sentence), reply_to=message)
