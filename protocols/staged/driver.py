"""A staged sum run in one process: server and clients handed each other's messages until the sum is done."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.staged.interface import Stage, StagedClient, StagedServer

NOBODY: Mapping[int, Stage] = MappingProxyType({})


def run(server: StagedServer, clients: Mapping[int, StagedClient], silent: Mapping[int, Stage] = NOBODY) -> None:
    """Drives a sum to its end; `server.result()` has it then.

    A client that refuses a request, or whose answer the server refuses, has not answered; where that ends the sum, the
    error has a note of each refusal.

    Args:
        server: of the sum.
        clients: those that are there, each with its vector provided; the others answer nothing.
        silent: clients that answer nothing from a stage on.

    Raises:
        TooFewClientsError: fewer than the threshold are left.
        ProtocolError: answers contradict each other beyond repair.
        InputError: a client has no vector.
    """
    refused: list[str] = []
    while (stage := server.stage) is not None:
        for number, message in server.requests().items():
            if number not in clients or stage >= silent.get(number, stage + 1):
                continue
            try:
                server.receive(number, clients[number].reply(message))
            except ProtocolError as error:
                refused.append(f"client {number} in stage {stage.name}: {error}")
        _advanced(server, refused)


def _advanced(server: StagedServer, refused: list[str]) -> None:
    """Goes on, or raises with a note of what was refused before."""
    try:
        server.advance()
    except ProtocolError as error:
        for what in refused:
            error.add_note(what)
        raise
