"""Servers that lie about who is in the sum: clients refuse, and without each check a named attack succeeds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.pairwise_masking.requests import Ask
from fgl_secure.protocols.staged.driver import run
from fgl_secure.protocols.staged.interface import Stage
from fgl_secure.protocols.staged.masking.plan import ring_order
from fgl_secure.protocols.staged.masking.wire import elements_from
from fgl_secure.protocols.staged.pairwise import StagedPairwiseMasking
from tests.protocols.staged import masking_mutations as mutation
from tests.protocols.staged.masking_parties import (
    EVERYBODY,
    PLAIN,
    TARGET,
    Rosters,
    Wire,
    asking,
    opened,
    told,
    vectors_of,
)


def test_a_sum_of_one_is_refused_by_everybody() -> None:
    """Those said to have dropped out refuse, for they have not; the target refuses a sum below the threshold."""
    wire = Wire.of(4)
    wire.until(Stage.AGREEMENT)
    refusals = told(wire, dict.fromkeys(EVERYBODY, asking(5, [u for u in EVERYBODY if u != TARGET])))
    assert refusals.pop(TARGET) == "a roster must name at least threshold = 4 senders; found 1"
    assert refusals == {
        u: f"sender {u} must be on the roster of a step that it sent its vector in; it is not"
        for u in EVERYBODY
        if u != TARGET
    }
    run(wire.server, wire.clients)
    assert wire.server.result().tolist() == PLAIN.sum(axis=0).tolist()


def small_sum_on_a_ring() -> tuple[Wire, dict[int, str], list[int], Rosters]:
    """The attack: of nine clients with four neighbours each every third is said to be gone; seven must be left."""
    wire = Wire.of(7, 9, degree=4)
    wire.until(Stage.AGREEMENT)
    order: list[int] = ring_order(wire.plan.terms).tolist()
    rosters = dict.fromkeys(range(9), asking(9, order[::3]))
    refusals = told(wire, rosters)
    opened(wire, rosters)
    return wire, refusals, sorted(set(order) - set(order[::3])), rosters


def test_a_sum_below_the_threshold_is_refused_by_everybody() -> None:
    """Nobody votes for it, though a majority of every neighbourhood could open it."""
    wire, refusals, _, _ = small_sum_on_a_ring()
    assert set(refusals) == set(range(9))
    assert Stage.OPENING not in wire.said


def test_without_the_check_of_requests_a_sum_below_the_threshold_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: clients that check no request give the server a sum of six of nine, where seven are due."""
    mutation.any_roster_will_do(monkeypatch)
    wire, refusals, some, rosters = small_sum_on_a_ring()
    assert refusals == {}
    assert wire.sum_over(some, rosters) == vectors_of(9)[some].sum(axis=0).tolist()


@pytest.mark.parametrize("target", EVERYBODY)
def test_a_server_that_asks_for_both_secrets_is_refused_by_everybody(target: int) -> None:
    """Every client refuses, the target included, and the sum goes on when the server asks what it may."""
    wire = Wire.of(4)
    wire.until(Stage.AGREEMENT)
    asked = asking(5, ())
    asked[target] = Ask.SELF_MASK + Ask.MASK_KEY
    refusals = told(wire, dict.fromkeys(EVERYBODY, asked))
    assert refusals == dict.fromkeys(
        EVERYBODY, f"a request must be for one secret of each sender; found one for both of sender {target}"
    )
    run(wire.server, wire.clients)
    assert wire.server.result().tolist() == PLAIN.sum(axis=0).tolist()


def test_clients_that_give_both_shares_are_unmasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: with shares of both secrets the server has the target's vector."""
    mutation.both_shares_are_given(monkeypatch)
    wire = Wire.of(4)
    wire.until(Stage.AGREEMENT)
    asked = asking(5, ())
    asked[TARGET] = 3
    rosters = dict.fromkeys(EVERYBODY, asked)
    assert told(wire, rosters) == {}
    others = [u for u in EVERYBODY if u != TARGET]
    for u in others:
        wire.ask(Stage.OPENING, u, wire.votes_for(u, rosters))
    words, field = wire.plan.words, wire.plan.field
    seeds, keys = np.full((2, 5, words), -1, dtype=np.int64)
    for u in others:
        shares = elements_from(field, wire.said[Stage.OPENING][u][1], (6, words), "shares")
        seeds[u], keys[u] = shares[TARGET], shares[5]
    assert wire.vector_of(TARGET, seeds, keys) == PLAIN[TARGET].tolist()


def test_a_client_is_asked_once() -> None:
    """Told first that the target is in the sum and then that it is not, every client refuses the second."""
    wire = Wire.of(4)
    wire.until(Stage.AGREEMENT)
    told(wire, dict.fromkeys(EVERYBODY, asking(5, ())))
    assert set(told(wire, dict.fromkeys(EVERYBODY, asking(5, [TARGET])))) == set(EVERYBODY)
    opened(wire, dict.fromkeys(EVERYBODY, asking(5, ())))
    assert set(opened(wire, dict.fromkeys(EVERYBODY, asking(5, ())))) == set(EVERYBODY)


def test_clients_that_go_on_twice_from_one_state_are_unmasked() -> None:
    """The broken twin: clients restored once more from an old state answer both requests, and the target is open."""
    wire = Wire.of(4)
    wire.until(Stage.AGREEMENT)
    states = {u: client.state() for u, client in wire.clients.items()}
    found = []
    for want, gone in ((Ask.SELF_MASK, []), (Ask.MASK_KEY, [TARGET])):
        again = {u: StagedPairwiseMasking().restored(wire.plan.terms, state) for u, state in states.items()}
        fork = Wire(wire.plan, again, wire.server, dict(wire.said))
        fork.said.pop(Stage.AGREEMENT, None)
        fork.said.pop(Stage.OPENING, None)
        rosters = dict.fromkeys(EVERYBODY, asking(5, gone))
        told(fork, rosters)
        opened(fork, rosters)
        found.append(fork.shares(want, rosters)[TARGET])
    assert wire.vector_of(TARGET, *found) == PLAIN[TARGET].tolist()


PAIR = (0, 1)
DIFFERENT: Mapping[int, list[int]] = {0: [2, 3], 1: [2, 4], 2: [3, 4], 3: [2, 4], 4: [3]}
"""Whom the server says to have dropped out, by client: 2, 3 and 4 have for three others each."""


def different_rosters(wire: Wire) -> tuple[dict[int, str], Rosters]:
    """The attack: every roster names three clients, as many as it must, and all together open a sum of two."""
    rosters = {u: asking(5, gone) for u, gone in DIFFERENT.items()}
    assert told(wire, rosters) == {}
    return opened(wire, rosters), rosters


def test_rosters_that_differ_are_found_out() -> None:
    """Nobody finds three votes for what it was told, and nobody opens a share."""
    wire = Wire.of(3)
    wire.until(Stage.AGREEMENT)
    refusals, rosters = different_rosters(wire)
    assert set(refusals) == set(EVERYBODY)
    assert all("must have 3 votes before client" in why for why in refusals.values())
    assert (wire.shares(Ask.SELF_MASK, rosters) < 0).all()


def test_without_votes_rosters_that_differ_open_a_sum_below_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: clients that do not compare votes give the server a sum of two of five, where three are due."""
    mutation.votes_are_not_compared(monkeypatch)
    wire = Wire.of(3)
    wire.until(Stage.AGREEMENT)
    refusals, rosters = different_rosters(wire)
    assert refusals == {}
    assert wire.sum_over(PAIR, rosters) == PLAIN[list(PAIR)].sum(axis=0).tolist()


def test_a_server_that_lies_to_one_client_loses_it() -> None:
    """Told another roster than the others, one client opens nothing; the others' votes are enough for the sum."""
    wire = Wire.of(4)
    wire.until(Stage.AGREEMENT)
    rosters = {u: asking(5, [4] if u == 1 else []) for u in EVERYBODY}
    assert told(wire, rosters) == {}
    assert opened(wire, rosters) == {1: "a roster must have 4 votes before client 1 opens a share; found 1 for its own"}
    assert wire.sum_over(list(EVERYBODY), rosters) == PLAIN.sum(axis=0).tolist()


def test_forged_votes_do_not_count() -> None:
    """The server cannot vote in the name of others, nor pass on a vote that was for somebody else."""
    wire = Wire.of(4)
    wire.until(Stage.AGREEMENT)
    rosters = dict.fromkeys(EVERYBODY, asking(5, ()))
    told(wire, rosters)
    voters, votes = wire.votes_for(0, rosters)
    swapped = votes[16:] + votes[:16]
    for forged in (bytes(len(votes)), swapped, wire.votes_for(1, rosters)[1]):
        with pytest.raises(ProtocolError, match="found 1 for its own"):
            wire.ask(Stage.OPENING, 0, [voters, forged])
    with pytest.raises(ProtocolError, match="must have 4 votes before client 0 opens a share; found 3"):
        wire.ask(Stage.OPENING, 0, [voters[:8], votes[:32]])
    wire.ask(Stage.OPENING, 0, [voters, votes])
