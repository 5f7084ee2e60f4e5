"""Requests, answers and states that somebody who means harm makes: taken or refused, and nothing else."""

import tracemalloc
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from fgl_secure import SecureAggregator
from fgl_secure.aggregation.client_round import ClientRound
from fgl_secure.aggregation.layout import TensorLayout
from fgl_secure.aggregation.server_round import ServerRound
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FglSecureError
from fgl_secure.schemes import names
from tests.protocols.hostile import chance, changed_bytes, refused_or_taken, trials

CLIENTS = 3
MAPPING = {"w": {"a": np.ones(3, np.float32), "b": np.zeros((2, 1))}, "n": np.array([2])}
TRIES = 12
"""Changed messages in place of each genuine one."""


@pytest.fixture(autouse=True)
def _traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def aggregator(scheme: str, seed: int) -> SecureAggregator:
    """One party's own; its rounds have all three sums where the scheme finds ranges."""
    bound, coins = 8.0 if scheme == "ckks-shared-key" else None, SimulationCoins(seed)
    return SecureAggregator.for_clients(CLIENTS, scheme, threshold=2, bound=bound, k_min=2, coins=coins)


def parties(scheme: str, seed: int) -> tuple[ServerRound, list[ClientRound]]:
    """A server and clients that have what they add."""
    server = aggregator(scheme, seed).server_round(TensorLayout.of(MAPPING))
    clients = [aggregator(scheme, seed + 1 + i).client_round(i, server.session, server.number) for i in range(CLIENTS)]
    for client in clients:
        client.provide(MAPPING)
    return server, clients


def rounds(scheme: str, random: Random) -> Iterator[tuple[ServerRound, ClientRound, int, bytes]]:
    """Each genuine request of one round after another, with the server and the client that it is for."""
    while True:
        server, clients = parties(scheme, random.randrange(2**30))
        try:
            while not server.is_done:
                for index, message in server.requests().items():
                    yield server, clients[index], index, message
                server.advance()
            _ = server.result
        except FglSecureError:  # an answer that was changed has stopped the round
            continue


@pytest.mark.parametrize("scheme", sorted(names("server")))
def test_changed_requests_and_states_are_taken_or_refused(scheme: str) -> None:
    """Whatever a client is asked or restored from is taken or a typed error; it then answers the genuine request."""
    random, tried = chance(scheme), 0
    for server, client, index, message in rounds(scheme, random):
        state, rules = client.state(), aggregator(scheme, 0)
        for _ in range(TRIES):
            asked, other = changed_bytes(message, random, server.session), rules.restored_client(state)
            with refused_or_taken():
                other.reply(asked)
            with refused_or_taken():
                rules.restored_client(changed_bytes(state, random, server.session))
        server.receive(index, client.reply(message))
        tried += TRIES
        if tried >= trials():
            break


@pytest.mark.parametrize("scheme", sorted(names("server")))
def test_changed_answers_are_taken_or_refused(scheme: str) -> None:
    """Whatever a server is answered, it takes it or raises a typed error, and so do the stages after it."""
    random, tried = chance(scheme), 0
    for server, client, index, message in rounds(scheme, random):
        try:
            answer = client.reply(message)
        except FglSecureError:  # what others said in place of their answers is nothing that it goes on from
            continue
        for _ in range(TRIES):
            said = changed_bytes(answer, random, server.session)
            with refused_or_taken():
                server.receive(random.choice((index, index, index, 0, 7)), said)
        with refused_or_taken():
            server.receive(index, answer)
        tried += TRIES
        if tried >= trials():
            break
