"""Servers that lie about who is in the sum: clients refuse, and without each check a named attack succeeds."""

from collections.abc import Mapping

import numpy as np
import pytest

from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.pairwise_masking.clients import MaskingClients
from fgl_secure.protocols.pairwise_masking.plan import UnmaskRequest
from fgl_secure.protocols.secagg.terms import Stage
from fgl_secure.runtime import Messages, Phase
from tests.error_codes import about
from tests.protocols.pairwise_masking import flaws
from tests.protocols.pairwise_masking.wire import EVERYBODY, TARGET, Roster, Wire, asking, attacked, plain, total_of
from tests.protocols.secagg.rounds import LEADER, NOW


def test_a_sum_of_one_is_refused_by_everybody() -> None:
    """Those said to have dropped out refuse, for they have not; the target refuses a sum below the threshold."""
    wire = Wire(4)
    wire.until(Stage.AGREEMENT)
    refusals = wire.told(dict.fromkeys(EVERYBODY, asking(5, [u for u in EVERYBODY if u != TARGET])))
    assert refusals.pop(TARGET) == "a roster must name at least threshold = 4 senders; found 1"
    assert refusals == {
        u: f"sender {u} must be on the roster of a step that it sent its vector in; it is not"
        for u in EVERYBODY
        if u != TARGET
    }
    assert wire.rest() == total_of(EVERYBODY)


def small_sum_on_a_ring(clients: type[MaskingClients]) -> tuple[Wire, list[int]]:
    """The attack: of nine clients with four neighbours each every third is said to be gone; seven must be left."""
    wire = Wire(7, 9, degree=4, clients=clients)
    gone = wire.order()[::3]
    roster = asking(9, gone)
    attacked(wire, dict.fromkeys(range(9), roster), roster)
    return wire, sorted(set(range(9)) - set(gone))


def test_a_sum_below_the_threshold_is_refused_by_everybody() -> None:
    """Nobody votes for it, though a majority of every neighbourhood could open it."""
    wire, _ = small_sum_on_a_ring(MaskingClients)
    with pytest.raises(ProtocolError, check=about("sender 0")):
        wire.run.play()
    assert not any(sent.phase is Phase.UNMASKING for sent in wire.run.log)


def test_without_the_check_of_requests_a_sum_below_the_threshold_is_opened() -> None:
    """The broken twin: clients that check no request give the server a sum of six of nine, where seven are due."""
    wire, some = small_sum_on_a_ring(flaws.AnyRosterWillDo)
    assert wire.run.play(lenient=True).result == total_of(some, 9)


@pytest.mark.parametrize("target", EVERYBODY)
def test_a_server_that_asks_for_both_secrets_is_refused_by_everybody(target: int) -> None:
    """Every client refuses, the target included, and the sum goes on when the server asks what it may."""
    wire = Wire(4)
    wire.until(Stage.AGREEMENT)
    asked = asking(5, ())
    asked[target] = UnmaskRequest.SELF_MASK + UnmaskRequest.MASK_KEY
    refusals = wire.told(dict.fromkeys(EVERYBODY, asked))
    assert refusals == dict.fromkeys(
        EVERYBODY, f"a request must be for one secret of each sender; found one for both of sender {target}"
    )
    assert wire.rest() == total_of(EVERYBODY)


def test_clients_that_check_nothing_answer_it() -> None:
    """The broken twin: a request for both secrets is voted for."""
    wire = Wire(4, clients=flaws.AnyRosterWillDo)
    wire.until(Stage.AGREEMENT)
    asked = asking(5, ())
    asked[TARGET] = 3
    assert wire.told(dict.fromkeys(EVERYBODY, asked)) == {}


def test_a_client_is_asked_once() -> None:
    """Told first that the target is in the sum and then that it is not, every client refuses the second."""
    wire = Wire(4)
    wire.until(Stage.AGREEMENT)
    rosters = dict.fromkeys(EVERYBODY, asking(5, ()))
    assert wire.told(rosters) == {}
    assert set(wire.told(dict.fromkeys(EVERYBODY, asking(5, [TARGET])))) == set(EVERYBODY)
    assert wire.opened(rosters) == {}
    assert set(wire.opened(rosters)) == set(EVERYBODY)


def test_clients_that_go_on_twice_from_one_state_are_unmasked() -> None:
    """The broken twin: clients restored once more from an old state answer both requests, and the target is open."""
    wire = Wire(4)
    wire.until(Stage.AGREEMENT)
    states = {u: wire.client(u).state() for u in EVERYBODY}
    found = []
    for gone in ([], [TARGET]):
        for u in EVERYBODY:
            wire.client(u).restore(states[u])
        for stage in (Stage.AGREEMENT, Stage.OPENING):
            wire.said.pop(stage, None)
        rosters = dict.fromkeys(EVERYBODY, asking(5, gone))
        wire.told(rosters)
        wire.opened(rosters)
        found.append(wire.secret(wire.shares(TARGET)))
    seed, key = found
    assert wire.unmasked(TARGET, wire.keys_of(TARGET, key), seed) == plain()[TARGET].tolist()


PAIR = (0, 1)
DIFFERENT: Mapping[int, list[int]] = {0: [2, 3], 1: [2, 4], 2: [3, 4], 3: [2, 4], 4: [3]}
"""Whom the server says to have dropped out, by client: 2, 3 and 4 have for three others each."""


def different_rosters(clients: type[MaskingClients]) -> Wire:
    """The attack: every roster names three clients, as many as it must, and all together open a sum of two."""
    wire = Wire(3, clients=clients)
    rosters: dict[int, Roster] = {u: asking(5, gone) for u, gone in DIFFERENT.items()}
    attacked(wire, rosters, asking(5, [2, 3, 4]))
    return wire


def test_rosters_that_differ_are_found_out() -> None:
    """Nobody finds three votes for what it was told, and nobody opens a share."""
    wire = different_rosters(MaskingClients)
    with pytest.raises(ProtocolError, check=about("a roster")):
        wire.run.play()
    assert not any(sent.phase is Phase.UNMASKING and sent.receiver == LEADER for sent in wire.run.log)


def test_without_votes_rosters_that_differ_open_a_sum_below_the_threshold() -> None:
    """The broken twin: clients that do not compare votes give the server a sum of two of five, where three are due."""
    wire = different_rosters(flaws.VotesAreNotCompared)
    assert wire.run.play().result == total_of(PAIR)


def test_a_server_that_lies_to_one_client_loses_it() -> None:
    """Told another roster than the others, one client opens nothing; the others' votes are enough for the sum."""
    wire = Wire(4)
    wire.until(Stage.AGREEMENT)
    rosters = {u: asking(5, [4] if u == 1 else []) for u in EVERYBODY}
    assert wire.told(rosters) == {}
    assert wire.opened(rosters) == {1: "a roster must have 4 votes before client 1 opens a share; found 1 for its own"}
    assert set(wire.said[Stage.OPENING]) == {0, 2, 3, 4}


def test_forged_votes_do_not_count() -> None:
    """The server cannot vote in the name of others, nor pass on a vote that was for somebody else."""
    wire = Wire(4)
    wire.until(Stage.AGREEMENT)
    rosters = dict.fromkeys(EVERYBODY, asking(5, ()))
    wire.told(rosters)
    genuine = wire.votes(0, rosters)
    (request,) = [sent for sent in wire.requests.values() if sent.receiver == 1]
    votes, cast = genuine["votes"], genuine["cast"]
    few = np.array([True, True, False, False])
    for forged, who in (
        (np.zeros_like(votes), cast),
        (votes[[1, 0, 2, 3]], cast),
        (wire.votes(1, rosters)["votes"], cast),
        (votes, few),
    ):
        fields = {"cast": who[None], "votes": forged[None]}
        with pytest.raises(ProtocolError, check=about("a roster")):
            wire.send(0, Messages(Phase.UNMASKING, NOW, np.array([LEADER]), np.array([1]), fields))
    assert request.phase is Phase.ROSTERS
    assert wire.opened(rosters) == {}
