"""Staged sums set up for tests, and driven strictly: nothing that a party refuses is passed over."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.protocols.staged.interface import Stage, StagedClient, StagedScheme, StagedServer, SumTerms

Ints = NDArray[np.int64]

SESSION = bytes(range(16))
NEVER = len(Stage)
NOBODY: Mapping[int, int] = {}


def picks(seed: int) -> random.Random:
    """What tests choose with, repeatably."""
    return random.Random(seed)  # noqa: S311  # chooses what is tried; no secret comes of it


def terms_of(
    scheme: StagedScheme,
    clients: int,
    length: int = 2,
    bound: int | None = 50,
    *,
    number: int = 3,
    session: bytes = SESSION,
) -> SumTerms:
    """Terms with the scheme's own threshold."""
    return SumTerms(session, number, clients, scheme.threshold_for(clients), length, bound)


def vectors_of(clients: int, length: int = 2) -> Ints:
    """Different vectors of small numbers."""
    return (np.arange(clients * length, dtype=np.int64).reshape(clients, length) * 7) % 23 - 11


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """One sum, all parties in one process.

    Attributes:
        scheme: under test.
        terms: of the sum.
        clients: by number, their vectors provided.
        server: of the sum.
    """

    scheme: StagedScheme
    terms: SumTerms
    clients: dict[int, StagedClient]
    server: StagedServer

    @classmethod
    def of(cls, scheme: StagedScheme, terms: SumTerms, vectors: Ints, seed: int = 0) -> Sum:
        """A sum that repeats for equal seeds, as far as a scheme draws nothing but coins."""
        clients = {u: scheme.client(terms, u, SimulationCoins(seed + 1 + u)) for u in range(terms.clients)}
        for u, vector in enumerate(vectors):
            clients[u].provide(vector)
        return cls(scheme, terms, clients, scheme.server(terms, SimulationCoins(seed)))

    def ask(self, silent: Mapping[int, int] = NOBODY) -> Iterator[tuple[int, bytes]]:
        """Requests of this stage to the clients that have not fallen silent at it."""
        stage = self.server.stage
        assert stage is not None
        for client, message in self.server.requests().items():
            if stage < silent.get(client, NEVER):
                yield client, message

    def play(self, silent: Mapping[int, int] = NOBODY) -> Sum:
        """To the end; clients answer nothing from the stage on at which they fall silent."""
        while self.server.stage is not None:
            for client, message in self.ask(silent):
                self.server.receive(client, self.clients[client].reply(message))
            self.server.advance()
        return self


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """One stage of a sum that was played with nobody silent.

    Attributes:
        stage: which.
        states: of the clients, before they were asked.
        requests: to the clients.
        replies: of the clients.
    """

    stage: Stage
    states: Mapping[int, bytes]
    requests: Mapping[int, bytes]
    replies: Mapping[int, bytes]


def moments_of(run: Sum) -> list[Moment]:
    """Plays a sum and keeps everything that was said."""
    moments = []
    while (stage := run.server.stage) is not None:
        states = {u: client.state() for u, client in run.clients.items()}
        requests = dict(run.server.requests())
        replies = {u: run.clients[u].reply(message) for u, message in requests.items()}
        for u, reply in replies.items():
            run.server.receive(u, reply)
        run.server.advance()
        moments.append(Moment(stage, states, requests, replies))
    return moments


def server_at(run: Sum, moments: list[Moment], stage: Stage, seed: int = 0) -> StagedServer:
    """A server that has heard all that was said before a stage."""
    server = run.scheme.server(run.terms, SimulationCoins(seed))
    for moment in moments:
        if moment.stage == stage:
            break
        for u, reply in moment.replies.items():
            server.receive(u, reply)
        server.advance()
    return server


@lru_cache(maxsize=32)
def stages_of(scheme: StagedScheme) -> tuple[Stage, ...]:
    """The stages that a scheme has, in order."""
    run = Sum.of(scheme, terms_of(scheme, 5), vectors_of(5))
    return tuple(moment.stage for moment in moments_of(run))
