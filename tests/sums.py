"""Sums for the server in the clear, for tests that are not about schemes."""

from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Channel
from fgl_secure.training.server_sums import ServerSums


def clear_sums(channel: Channel) -> ServerSums:
    """Sums of summands, whoever is lost on the way."""
    return ServerSums(Plaintext(threshold=1), channel)
