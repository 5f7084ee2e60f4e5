"""Short messages that would cost gigabytes or minutes: refused for what they say, before anything is made of it."""

import json
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from fgl_secure import SecureAggregator
from fgl_secure.aggregation.arguments import DEFAULT_LIMITS, Limits
from fgl_secure.aggregation.client_round import ClientRound, Place
from fgl_secure.aggregation.layout import TensorLayout
from fgl_secure.aggregation.rules import Rules
from fgl_secure.aggregation.sums import Opening, SumKind, SumRequest
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError, MalformedMessageError
from fgl_secure.runtime.packing import pack, unpack
from fgl_secure.schemes import server_scheme
from tests.error_codes import about

MIB = 2**20


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Fails where more bytes are taken at a time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


def rows(*paths: list[str], shape: tuple[int, ...] = (1,)) -> bytes:
    """A layout of tensors under some paths."""
    return json.dumps([[path, shape, "float32", "numpy"] for path in paths], separators=(",", ":")).encode()


def request(layout: bytes, bounds: bytes = b"", batches: tuple[bytes, ...] = ()) -> bytes:
    """The first request of a sum, as a server of any kind may write it."""
    head = struct.pack(">16sIB", bytes(16), 0, SumKind.VALUES)
    return pack([head, pack([layout, bounds, b""]), pack(batches)])


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (rows(["a"] * 24_000), "path of a tensor"),
        (rows(["a" * 2_000]), "path of a tensor"),
        (rows(["\ud800" * 400]), "path of a tensor"),
        (rows(*([str(i)] for i in range(20_000))), "layout"),
        (rows(["a"], shape=(2**20, 2**20)), "layout"),
        (rows(["a"], ["b"], shape=(2**31, 1, 2)), "layout"),
        (b"[" * 3_000_000, "layout"),
        (b"[" + b"[]," * 600_000 + b"[]]", "layout"),
    ],
    ids=["depth", "long key", "no character", "tensors", "entries", "entries of all", "bytes", "empty lists"],
)
def test_layouts_beyond_a_limit_are_refused_for_little(layout: bytes, message: str) -> None:
    """A layout that is too deep, long or large is refused with the limit, in a small multiple of its own size."""
    asked = request(layout)
    with at_most(40 * len(layout) + 2 * MIB), pytest.raises(MalformedMessageError, check=about(message)):
        SumRequest.from_bytes(asked)


def test_nested_names_take_no_more_than_they_are_long() -> None:
    """Without a limit on depth, a path of 24,000 keys costs its length, and not the square of it."""
    deep = Limits(depth=10**6, path_bytes=10**6)
    with at_most(16 * MIB):
        assert TensorLayout.from_bytes(rows(["a"] * 24_000), deep).size == 1
    for below in (["a"] * 24_000 + ["b"], ["a"]):
        with pytest.raises(MalformedMessageError, check=about("layout")):
            TensorLayout.from_bytes(rows(["a"] * 24_000, below), deep)


def test_ranges_and_batches_have_limits() -> None:
    """Bounds by name that are too long, more batches than a request has, and a message that is too long."""
    layout = rows(["a"])
    with pytest.raises(MalformedMessageError, check=about("layout")):
        SumRequest.from_bytes(request(layout, b"[" * 3_000_000))
    many = request(layout, batches=(b"",) * 100_000)
    with at_most(4 * MIB), pytest.raises(MalformedMessageError, check=about("message")):
        SumRequest.from_bytes(many)
    with pytest.raises(MalformedMessageError, check=about("message")):
        SumRequest.from_bytes(request(layout), Limits(message_bytes=10))


def test_strings_are_counted_before_they_are_made() -> None:
    """A message of empty strings is refused at the first that is too many."""
    assert unpack(pack([b"x", b"y"]), most=2) == [b"x", b"y"]
    many = bytes(8 * 500_000)
    with at_most(MIB), pytest.raises(MalformedMessageError, check=about("message")):
        unpack(many, most=3)
    with at_most(MIB), pytest.raises(MalformedMessageError, check=about("message")):
        unpack(many, 3)


@pytest.mark.parametrize("scheme", ["pairwise-masking", "pairwise-masking[degree=65534]", "lightsecagg", "plaintext"])
def test_a_number_of_clients_costs_nothing_before_it_is_accepted(scheme: str) -> None:
    """Rules of 65,536 clients, as a message may name them, are refused by a client before a machine is made."""
    with at_most(16 * MIB):
        rules = Rules(server_scheme(scheme), 2**16, bound=8.0)
        with pytest.raises(InputError, check=about("clients")):
            ClientRound(rules, Place(bytes(16), 0, 0), SimulationCoins(0))
    assert ClientRound(rules, Place(bytes(16), 0, 0), SimulationCoins(0), limits=Limits(clients=2**16)).place.index == 0


@pytest.mark.parametrize("degree", [None, 2_046])
def test_the_most_clients_are_affordable(degree: int | None) -> None:
    """Under the default limit a client of a dense graph works out who its neighbours are in less than 256 MiB."""
    scheme = server_scheme("pairwise-masking" if degree is None else f"pairwise-masking[degree={degree}]")
    rules, mapping = Rules(scheme, DEFAULT_LIMITS.clients, bound=8.0), {"a": np.zeros(3, np.float32)}
    client = ClientRound(rules, Place(bytes(16), 0, 0), SimulationCoins(0))
    client.provide(mapping)
    opening = SumRequest(bytes(16), 0, SumKind.VALUES, Opening(TensorLayout.of(mapping)))
    with at_most(256 * MIB):
        client.reply(opening.to_bytes())
        part: Any = client._part
        circles = part.machine._plan.circles(part.machine.now)
    assert circles.closed_neighbours.shape == (2_048, circles.neighbours.shape[1] + 1)
    assert degree in (None, circles.neighbours.shape[1])


def test_a_party_has_limits_of_its_own() -> None:
    """Pinned where an aggregator is made: its clients and its server refuse what others would take."""
    mapping = {"a": {"b": np.zeros(3, np.float32)}}
    pinned = SecureAggregator.for_clients(3, "plaintext", bound=1.0, limits=Limits(depth=1, message_bytes=400))
    other = SecureAggregator.for_clients(3, "plaintext", bound=1.0)
    server = other.server_round(TensorLayout.of(mapping))
    asked = server.requests()[0]
    for aggregator, refused in ((pinned, True), (other, False)):
        client = aggregator.client_round(0, server.session, server.number)
        client.provide(mapping)
        if refused:
            with pytest.raises(MalformedMessageError, check=about("path of a tensor")):
                client.reply(asked)
        else:
            answer = client.reply(asked)
    with pytest.raises(MalformedMessageError, check=about("message")):
        pinned.server_round(TensorLayout.of(mapping)).receive(0, answer + bytes(400))
    with pytest.raises(InputError, check=about("clients")):
        SecureAggregator.for_clients(3, limits=Limits(clients=2))
    assert SecureAggregator.for_clients(3_000, "plaintext").rules.clients == 3_000


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
def test_limits_are_at_least_one(name: str) -> None:
    """A limit of nothing is none that can be meant."""
    make: Callable[..., Limits] = Limits
    with pytest.raises(InputError, check=about(name)):
        make(**{name: 0})
