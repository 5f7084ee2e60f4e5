"""Shares that go astray, are wrong, or are of another sum; masks that are made once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fgl_secure.coins import Coins, SimulationCoins
from fgl_secure.crypto.keys import KeyPair
from fgl_secure.errors import (
    MalformedMessageError,
    NotEnoughShares,
    ProtocolError,
    StaleMessageError,
    TooFewClientsError,
    TooManyErrors,
)
from fgl_secure.protocols.pairwise_masking.requests import Ask, signed
from fgl_secure.protocols.staged.driver import run
from fgl_secure.protocols.staged.envelope import SERVER
from fgl_secure.protocols.staged.interface import Stage
from fgl_secure.protocols.staged.masking.memory import memory_from
from fgl_secure.protocols.staged.masking.plan import ring_order
from fgl_secure.protocols.staged.masking.wire import client_bytes
from fgl_secure.protocols.staged.pairwise import StagedPairwiseMasking
from tests.protocols.staged import masking_mutations as mutation
from tests.protocols.staged.masking_parties import EVERYBODY, PLAIN, TARGET, Wire, asking, opened, told, vectors_of


def test_shares_for_somebody_else_do_not_open() -> None:
    """A client that is sent what was sealed for others, or by others, refuses; with the right ones it goes on."""
    wire = Wire.of(4)
    wire.until(Stage.VECTORS)
    near = wire.plan.near(0)
    for wrong in (
        [wire.boxes(v)[(v % 4) + 1 if v != 4 else 1] for v in near],  # sealed by the right ones, for others
        [wire.boxes(v)[0] for v in reversed(near)],  # sealed for it, each named as another's
    ):
        with pytest.raises(ProtocolError, match="at least 4 clients must open as sealed for client 0; found 1"):
            wire.ask(Stage.VECTORS, 0, [client_bytes(near), b"".join(wrong)])
    run(wire.server, wire.clients)
    assert wire.server.result().tolist() == PLAIN.sum(axis=0).tolist()


def test_a_share_that_does_not_open_is_not_handed_in() -> None:
    """One bad box of four leaves enough: the client goes on, and opens the shares it has."""
    wire = Wire.of(4)
    wire.until(Stage.VECTORS)
    near = wire.plan.near(0)
    boxes = [wire.boxes(v)[0] for v in near]
    wire.ask(Stage.VECTORS, 0, [client_bytes(near), bytes(len(boxes[0])) + b"".join(boxes[1:])])
    rosters = dict.fromkeys(EVERYBODY, asking(5, ()))
    for u in EVERYBODY[1:]:
        wire.ask(
            Stage.VECTORS, u, [client_bytes(wire.plan.near(u)), b"".join(wire.boxes(v)[u] for v in wire.plan.near(u))]
        )
    assert told(wire, rosters) == {}
    assert opened(wire, rosters) == {}
    assert wire.shares(Ask.SELF_MASK, rosters)[1, 0, 0] == -1
    assert wire.sum_over(list(EVERYBODY), rosters) == PLAIN.sum(axis=0).tolist()


def test_shares_that_reach_the_wrong_party_would_open_a_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: where every share is the secret, one client that helps the server is enough to unmask all."""
    mutation.shares_are_constant(monkeypatch)
    wire = Wire.of(4)
    wire.until(Stage.AGREEMENT)
    state = memory_from(wire.plan, wire.clients[0].state())
    seeds, keys = np.full((2, 5, wire.plan.words), -1, dtype=np.int64)
    seeds[:4], keys[:4] = state.held[TARGET]
    assert wire.vector_of(TARGET, seeds, keys) == PLAIN[TARGET].tolist()


def test_one_client_s_shares_open_nothing() -> None:
    """The same attack on honest clients finds no key, for any number of shares below the threshold."""
    wire = Wire.of(4)
    wire.until(Stage.AGREEMENT)
    seeds, keys = np.full((2, 5, wire.plan.words), -1, dtype=np.int64)
    for helper in (0, 1, 3):
        seeds[helper], keys[helper] = memory_from(wire.plan, wire.clients[helper].state()).held[TARGET]
    with pytest.raises(NotEnoughShares):
        wire.vector_of(TARGET, seeds, keys)
    seeds[4], keys[4] = seeds[3], keys[3]
    with pytest.raises(ProtocolError):
        wire.vector_of(TARGET, seeds, keys)


@pytest.mark.parametrize("threshold", [3, 4])
def test_wrong_shares_are_corrected_or_noticed(threshold: int) -> None:
    """With three needed of five one wrong answer changes nothing; with four needed it stops the sum."""
    wire = Wire.of(threshold)
    wire.until(Stage.OPENING)
    for u, message in wire.server.requests().items():
        owners, shares = wire.heard(Stage.OPENING, u, wire.clients[u].reply(message))
        said = bytes([shares[0] ^ 1]) + shares[1:] if u == 3 else shares
        wire.server.receive(u, wire.plan.envelope(Stage.OPENING, u, SERVER).sealed([owners, said]))
    if threshold == 3:
        wire.server.advance()
        assert wire.server.result().tolist() == PLAIN.sum(axis=0).tolist()
    else:
        with pytest.raises(TooManyErrors):
            wire.server.advance()
        assert wire.server.stage is Stage.OPENING


def test_what_the_field_does_not_hold_is_refused() -> None:
    """Vectors and shares with other values than elements, and of other lengths, are not taken; right ones are."""
    wire = Wire.of(4)
    for stage in (Stage.VECTORS, Stage.OPENING):
        wire.until(stage)
        answer = wire.clients[1].reply(wire.server.requests()[1])
        *first, last = wire.heard(stage, 1, answer)
        envelope = wire.plan.envelope(stage, 1, SERVER)
        for wrong in (b"\xff" * len(last), last[:-1], last + bytes(8), b""):
            with pytest.raises(MalformedMessageError):
                wire.server.receive(1, envelope.sealed([*first, wrong]))
        wire.server.receive(1, answer)
        for u, message in wire.server.requests().items():
            if u != 1:
                wire.server.receive(u, wire.clients[u].reply(message))
        wire.server.advance()
    run(wire.server, wire.clients)
    assert wire.server.result().tolist() == PLAIN.sum(axis=0).tolist()


def test_shares_that_nobody_asked_for_are_refused() -> None:
    """A client names owners of its circle alone, once each."""
    wire = Wire.of(3)
    wire.until(Stage.OPENING)
    answer = wire.clients[1].reply(wire.server.requests()[1])
    owners, shares = wire.heard(Stage.OPENING, 1, answer)
    unordered = [client_bytes(some) for some in ([0, 1, 2, 3, 9], [0, 1, 2, 4, 3], [0, 1, 2, 3, 3])]
    for wrong in (*unordered, owners[1:]):
        with pytest.raises(ProtocolError, match="owners of shares must"):
            wire.server.receive(1, wire.plan.envelope(Stage.OPENING, 1, SERVER).sealed([wrong, shares]))
    wire.server.receive(1, answer)


def difference_of(first: Wire, second: Wire) -> list[int]:
    """Of the target's masked vectors in two sums."""
    p = first.plan.field.modulus
    return [int(x) for x in signed((first.vector(TARGET) - second.vector(TARGET)) % p, p)]


def two_sums(first: int, second: int, coins: Callable[[int], Coins]) -> tuple[Wire, Wire]:
    """Two sums with other vectors of the target, their numbers given; coins by number of the sum."""
    found = []
    for number, entry in ((first, 5), (second, 12)):
        wire, scheme = Wire.of(4, number=number), StagedPairwiseMasking()
        clients = {u: scheme.client(wire.plan.terms, u, coins(10 * number + u)) for u in EVERYBODY}
        for u, client in clients.items():
            client.provide(np.full(3, entry if u == TARGET else u, dtype=np.int64))
        found.append(Wire(wire.plan, clients, wire.server))
        found[-1].until(Stage.AGREEMENT)
    return found[0], found[1]


def test_two_sums_have_two_masks() -> None:
    """The difference of a client's masked vectors in two sums is not that of its vectors."""
    assert difference_of(*two_sums(0, 1, SimulationCoins)) != [-7, -7, -7]
    assert difference_of(*two_sums(0, 1, lambda at: SimulationCoins(at % 10))) != [-7, -7, -7]


def test_the_same_coins_in_a_sum_of_the_same_name_give_it_away() -> None:
    """The broken twin: keys drawn alike for two sums of one number make the same mask, and the difference is open."""
    assert difference_of(*two_sums(0, 0, SimulationCoins)) == [-7, -7, -7]


def test_a_seed_of_10_bits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: a mask key of ten secret bits is found from its public key, one of 256 bits is not."""

    def found(public: bytes) -> bool:
        return any(KeyPair(at.to_bytes(2, "little") + bytes(30)).public == public for at in range(2**10))

    mutation.seeds_have_10_bits(monkeypatch)
    wire = Wire.of(4)
    wire.until(Stage.SHARES)
    assert all(found(key) for key in wire.mask_keys().values())
    monkeypatch.undo()
    wire = Wire.of(4)
    wire.until(Stage.SHARES)
    assert not any(found(key) for key in wire.mask_keys().values())


def test_replays_from_another_sum_are_worth_nothing_under_a_new_head() -> None:
    """Votes and sealed shares of sum 0 with the head of sum 1 are refused: they are not of its keys and step."""
    first, second = Wire.of(4), Wire.of(4, number=1)
    for wire in (first, second):
        wire.until(Stage.VECTORS)
    near = second.plan.near(0)
    old = [client_bytes(near), b"".join(first.boxes(v)[0] for v in near)]
    with pytest.raises(ProtocolError, match="must open as sealed for client 0; found 1"):
        second.ask(Stage.VECTORS, 0, old)
    for wire in (first, second):
        wire.until(Stage.OPENING)
    rosters = dict.fromkeys(EVERYBODY, asking(5, ()))
    with pytest.raises(ProtocolError, match="must have 4 votes before client 0 opens a share; found 1"):
        second.ask(Stage.OPENING, 0, first.votes_for(0, rosters))
    run(second.server, second.clients)
    assert second.server.result().tolist() == PLAIN.sum(axis=0).tolist()


def test_a_request_of_another_stage_is_stale() -> None:
    """A client that is asked to open before it voted refuses."""
    wire = Wire.of(4)
    wire.until(Stage.AGREEMENT)
    with pytest.raises(StaleMessageError):
        wire.ask(Stage.OPENING, 0, [b"", b""])


def test_too_few_shares_of_one_secret_are_named() -> None:
    """On a ring a client whose neighbours are gone cannot be unmasked, though there are clients enough: it is named."""
    wire = Wire.of(5, 9, degree=2)
    order: list[int] = ring_order(wire.plan.terms).tolist()
    with pytest.raises(TooFewClientsError, match=f"2 shares are needed to unmask client {order[1]} in stage OPENING"):
        run(wire.server, wire.clients, {order[0]: Stage.OPENING, order[2]: Stage.OPENING})


@pytest.mark.parametrize(("stage", "what"), [(Stage.KEYS, "with keys"), (Stage.SHARES, "that shared")])
def test_a_client_without_neighbours_is_left_out(stage: Stage, what: str) -> None:
    """On a ring whoever is between two that fell silent takes no part; if then too few are left, the sum stops."""
    wire, enough = Wire.of(7, 9, degree=2), Wire.of(6, 9, degree=2)
    order: list[int] = ring_order(wire.plan.terms).tolist()
    silent = {order[0]: stage, order[2]: stage}
    with pytest.raises(TooFewClientsError, match=rf"must have 2 clients {what} .* in stage {stage.name} .*; found 6"):
        run(wire.server, wire.clients, silent)
    assert wire.server.stage is stage
    run(enough.server, enough.clients, silent)
    kept = sorted(order[3:])
    assert enough.server.included == tuple(kept)
    assert enough.server.result().tolist() == vectors_of(9)[kept].sum(axis=0).tolist()
