"""Requests and answers that somebody who means harm makes of genuine ones: taken or refused, and nothing else."""

import json
import tracemalloc
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from fgl_secure import SecureAggregator
from fgl_secure.aggregation.client_round import ClientRound
from fgl_secure.aggregation.layout import Layout
from fgl_secure.aggregation.server_round import ServerRound
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FglSecureError
from fgl_secure.runtime.packing import packed, unpacked
from fgl_secure.schemes import names
from tests.protocols.hostile import chance, changed, other_bytes, refused_or_taken, trials

CLIENTS = 3
MAPPING = {"w": {"a": np.ones(3, np.float32), "b": np.zeros((2, 1))}, "n": np.array([2])}
BOUNDS = (b"", b"{}", b'{"w.a":1e999,"w.b":1.0}', b'{"w.a":8.0,"w.b":1e-300}', b'{"w.a":1e300,"w.b":8.0}')
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


def changed_request(data: bytes, random: Random) -> bytes:
    """A request with another head, opening or batch of messages."""
    if random.random() < 0.3:
        return other_bytes(data, random)
    head, opening, batches = unpacked(data, 3)
    which = random.randrange(4)
    if which == 0:
        head = other_bytes(head, random) if random.random() < 0.5 else head[:-1] + bytes([random.randrange(4)])
    elif which == 1 and opening:
        layout, bounds, opened = unpacked(opening, 3)
        which = random.randrange(4)
        if which == 0:
            bounds = random.choice((*BOUNDS, other_bytes(bounds, random)))
        elif which == 1:
            opened = random.choice((b"", b"\0", b"\xff" * 1000, other_bytes(opened, random)))
        else:
            layout = changed_layout(layout, random)
        opening = packed([layout, bounds, opened])
    else:
        batches = changed_batches(batches, random)
    return packed([head, opening, batches])


def changed_batches(data: bytes, random: Random) -> bytes:
    """Batches of messages of which one is changed, missing, or there again."""
    batches = unpacked(data)
    if not batches:
        return packed([random.randbytes(random.randrange(80))])
    at, which = random.randrange(len(batches)), random.randrange(8)
    if which == 0:
        del batches[at]
    elif which == 1:
        batches = batches * random.choice((2, 30))
    else:
        batches[at] = changed(batches[at], random, session=batches[at][5:21])
    return packed(batches)


def changed_layout(data: bytes, random: Random) -> bytes:
    """A layout of which one thing is something else."""
    rows: list[Any] = json.loads(data)
    row = random.choice(rows)
    values: tuple[Any, ...] = (
        None,
        [],
        {},
        "x",
        "int8",
        "\ud800",
        0,
        -1,
        2**40,
        1e300,
        [2**31, 2**31],
        ["w"],
        ["w", "a"],
        ["a"] * 500,
    )
    row[random.randrange(len(row))] = random.choice(values)
    if random.random() < 0.2:
        rows += rows * random.choice((1, 500))
    return json.dumps(rows).encode()


def parties(scheme: str, seed: int) -> tuple[ServerRound, list[ClientRound]]:
    """A server and clients that have what they add."""
    server = aggregator(scheme, seed).server_round(Layout.of(MAPPING))
    clients = [aggregator(scheme, seed + 1 + i).client_round(i, server.session, server.number) for i in range(CLIENTS)]
    for client in clients:
        client.provide(MAPPING)
    return server, clients


def rounds(scheme: str, random: Random) -> Iterator[tuple[ServerRound, ClientRound, int, bytes]]:
    """Each genuine request of one round after another, with the server and the client that it is for."""
    while True:
        server, clients = parties(scheme, random.randrange(2**30))
        try:
            while not server.done:
                for index, message in server.requests().items():
                    yield server, clients[index], index, message
                server.advance()
            _ = server.result
        except FglSecureError:  # an answer that was changed has stopped the round
            continue


@pytest.mark.parametrize("scheme", sorted(names("server")))
def test_changed_requests_are_answered_or_refused(scheme: str) -> None:
    """Whatever a client is asked, it answers or raises a typed error; it then answers the genuine request."""
    random, tried = chance(scheme), 0
    for server, client, index, message in rounds(scheme, random):
        state, rules = client.state(), aggregator(scheme, 0)
        for _ in range(TRIES):
            asked, other = changed_request(message, random), rules.restored_client(state)
            with refused_or_taken():
                other.reply(asked)
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
            said = other_bytes(answer, random) if random.random() < 0.3 else changed_batches(answer, random)
            with refused_or_taken():
                server.receive(random.choice((index, index, index, 0, 7)), said)
        with refused_or_taken():
            server.receive(index, answer)
        tried += TRIES
        if tried >= trials():
            break
