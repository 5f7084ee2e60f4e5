"""All parties of a round in one process, over the same roles that run in several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any

from fgl_secure.aggregation.client_round import ClientRound
from fgl_secure.aggregation.server_round import ServerRound
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.protocols.staged.interface import Stage


def drive(
    server: ServerRound,
    clients: Mapping[int, ClientRound],
    mappings: Mapping[int, Mapping[str, Any]],
    weights: Sequence[float],
    dropped: Set[int],
) -> None:
    """Hands server and clients each other's messages until the round is done.

    Args:
        server: its part.
        clients: those of the clients that came, by number.
        mappings: what they hold, by number.
        weights: one for each client, come or not.
        dropped: clients that answer nothing from the first request for vectors on.

    Raises:
        InputError: a client refuses its mapping; names the client.
        TooFewClientsError: fewer than the threshold are left.
    """
    there = set(clients)
    for index in mappings.keys() - dropped:
        with _named(index):
            clients[index].provide(mappings[index], weights[index])
    while not server.done:
        late = server.stage is not None and server.stage >= Stage.VECTORS
        for index, message in server.requests().items():
            if index in there and not (late and index in dropped):
                with _named(index):
                    server.receive(index, clients[index].reply(message))
        if late:
            there -= dropped
        server.advance()


@contextmanager
def _named(index: int) -> Iterator[None]:
    """Says whose input it was."""
    try:
        yield
    except (FieldRangeError, InputError) as error:
        kind = FieldRangeError if isinstance(error, FieldRangeError) else InputError
        raise kind(f"client {index}: {error}") from error
