"""Sparse graphs that nobody can choose: what is committed to before the first nonce is known, and what is left then."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fgl_secure.coins import SystemCoins
from fgl_secure.errors import ProtocolError, TooFewClientsError
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.pairwise_masking.clients import MaskingClients
from fgl_secure.protocols.pairwise_masking.drawing import GraphSeed, commitment_of, digest_of_keys
from fgl_secure.protocols.secagg.terms import Stage
from fgl_secure.runtime import Phase, decode
from tests.error_codes import about
from tests.protocols.pairwise_masking import flaws
from tests.protocols.pairwise_masking.wire import Wire, total_of
from tests.protocols.secagg.rounds import LEADER, NOW, SESSION, Sent, Sum, changed, topology_of, vectors_of

Fields = dict[str, Any]

N = 9


def nine(**parts: Any) -> Sum:
    """Nine clients with four neighbours each."""
    return Sum.of(PairwiseMasking(7, degree=4, **parts), topology_of(N), vectors_of(N))


def refused(phase: Phase, lies: Callable[[Fields, int], Iterator[Fields]], match: str) -> int:
    """Every client refuses lies in the place of what the server tells in a phase, and goes on; how many lies."""
    run, told = nine(), 0
    for sent in (sent for out in run.turns() for sent in out):
        if sent.phase is phase and sent.sender == LEADER:
            fields = {name: value[0].copy() for name, value in decode(sent.data, SESSION).fields.items()}
            for lie in lies(fields, sent.receiver - 1):
                with pytest.raises(ProtocolError, match=match):
                    run.machines[sent.receiver].receive(decode(with_fields(sent, lie), SESSION))
                told += 1
        run.hand(sent)
    assert run.result == vectors_of(N).sum(axis=0).tolist()
    return told


def with_fields(sent: Sent, fields: Fields) -> bytes:
    """The same message with other fields, each without its axis of messages."""
    return changed(sent, **{name: np.asarray(value)[None] for name, value in fields.items()})


def test_a_client_reveals_nothing_before_it_is_committed_to_by_all() -> None:
    """Its own commitment left out, or another in its place, or those of too few: it keeps its nonce."""

    def lies(told: Fields, me: int) -> Iterator[Fields]:
        own = np.arange(N) == me
        yield {"made": told["made"] & ~own}
        yield {"pledges": told["pledges"] ^ own[:, None].astype(np.uint8)}
        yield {"made": own | (np.arange(N) < 5)}

    assert refused(Phase.DRAW, lies, "own commitment must come back|a graph must be drawn by 7 clients") == 3 * N


def test_a_client_takes_no_draw_but_from_what_it_was_told_before() -> None:
    """Another nonce, another key, one that committed to nothing, its own left out, or three others: refused."""

    def lies(told: Fields, me: int) -> Iterator[Fields]:
        other, third = (me + 1) % N, (me + 2) % N
        for name in ("nonces", "digests"):
            wrong = told[name].copy()
            wrong[other, 0] ^= 1
            yield {name: wrong}
        yield {"revealed": told["revealed"] & (np.arange(N) != me)}
        yield {"revealed": told["revealed"] & ~np.isin(np.arange(N), [other, third, (me + 3) % N])}

    match = "from what was committed to|which it revealed|must be drawn by 7 clients; found 6"
    assert refused(Phase.KEYS, lies, match) == 4 * N


def test_the_keys_of_a_circle_are_those_that_were_committed_to() -> None:
    """A server that knows the graph can put no other key in a neighbour's place."""

    def lies(told: Fields, _: int) -> Iterator[Fields]:
        for name in ("sealing", "mask"):
            for at in range(5):
                wrong = told[name].copy()
                wrong[at, 0] ^= 1
                yield {name: wrong}

    match = "a graph must be drawn from the keys that there are|own keys must come back"
    assert refused(Phase.KEYS, lies, match) == 10 * N


def twenty() -> Sum:
    """Twenty clients with twelve neighbours each, of which seven of thirteen are enough, whoever is missing."""
    return Sum.of(PairwiseMasking(11, degree=12), topology_of(20), vectors_of(20))


def test_four_may_withhold_what_they_committed_to_and_no_more() -> None:
    """The graph is drawn without them, and the sum is exact; with five missing the server stops."""
    gone = dict.fromkeys((3, 7, 8, 19), Stage.DRAW)
    run = twenty().play(gone)
    kept = [u for u in range(20) if u not in gone]
    assert run.included == kept
    assert run.result == vectors_of(20)[kept].sum(axis=0).tolist()
    with pytest.raises(TooFewClientsError):
        twenty().play({**gone, 0: Stage.DRAW})


def test_a_client_takes_no_draw_without_five_others() -> None:
    """Told that five revealed nothing, a client refuses, though there are enough left for a sum."""
    run = twenty()
    for sent in (sent for out in run.turns() for sent in out):
        if sent.phase is Phase.KEYS and sent.sender == LEADER:
            revealed = decode(sent.data, SESSION)["revealed"] & ~np.isin((np.arange(20) - sent.receiver) % 20, range(5))
            with pytest.raises(ProtocolError, check=about("a graph")):
                run.machines[sent.receiver].receive(decode(changed(sent, revealed=revealed), SESSION))
        run.hand(sent)
    assert run.result == vectors_of(20).sum(axis=0).tolist()


def test_what_is_revealed_is_what_was_committed_to() -> None:
    """The server refuses another nonce, and takes the right one."""
    run = nine()
    for sent in (sent for out in run.turns() for sent in out):
        if sent.phase is Phase.DRAW and sent.receiver == LEADER:
            wrong = decode(sent.data, SESSION)["nonce"] ^ 1
            with pytest.raises(ProtocolError):
                run.machines[LEADER].receive(decode(changed(sent, nonce=wrong), SESSION))
        run.hand(sent)
    assert run.result == vectors_of(N).sum(axis=0).tolist()


def test_clients_that_are_told_different_draws_have_no_sum() -> None:
    """Half of the clients hear that one of the others revealed nothing: theirs are other circles, and other keys."""
    run = nine()

    def play() -> None:
        for sent in (sent for out in run.turns() for sent in out):
            lied = sent.phase is Phase.KEYS and sent.sender == LEADER and sent.receiver % 2
            run.machines[sent.receiver].receive(
                decode(same_circle_without_one(sent, run) if lied else sent.data, SESSION)
            )

    with pytest.raises(ProtocolError, check=about("boxes")):
        play()


def same_circle_without_one(sent: Sent, run: Sum) -> bytes:
    """The draw without somebody outside the receiver's circle, and the keys of the circle that follows."""
    machine = run.machines[sent.receiver]
    assert isinstance(machine, MaskingClients)
    fields = decode(sent.data, SESSION).fields
    gone = sent.receiver % N  # the next one
    revealed = fields["revealed"][0] & (np.arange(N) != gone)
    seed = GraphSeed(machine._commitments(0), revealed, fields["digests"][0], fields["nonces"][0]).seed
    circle = machine._plan.circles(NOW, seed).closed_neighbours[sent.receiver - 1]
    publics = [run.machines[v + 1]._public_keys(0) for v in circle.tolist()]  # type: ignore[attr-defined]
    sealing, mask = (np.stack([np.frombuffer(keys[at], dtype=np.uint8) for keys in publics]) for at in (0, 1))
    listed = circle != gone
    return changed(sent, revealed=revealed[None], listed=listed[None], sealing=sealing[None], mask=mask[None])


VICTIM, FRIENDS = 5, [0, 1, 2]
"""Whom a server wants to open, and who colludes with it: three neighbours of four open a client's secrets."""


def grinding(clients: type[MaskingClients]) -> tuple[dict[int, str], MaskingClients]:
    """The attack: when all nonces are known, the server has a friend draw again until the victim is surrounded.

    Returns:
        Who refuses the draw that it then tells everybody, and why; and the victim's machine.
    """
    run, refusals = nine(clients=clients), dict[int, str]()
    found: Fields = {}
    for sent in (sent for out in run.turns() for sent in out):
        if sent.phase is not Phase.KEYS or sent.sender != LEADER:
            run.hand(sent)
            continue
        machine = run.machines[sent.receiver]
        assert isinstance(machine, MaskingClients)
        fields = {name: value[0].copy() for name, value in decode(sent.data, SESSION).fields.items()}
        found = found or ground(machine, fields)
        fields |= found | listed_in(run, machine, found)
        try:
            machine.receive(decode(with_fields(sent, fields), SESSION))
        except ProtocolError as error:
            refusals[sent.receiver - 1] = str(error)
        if sent.receiver == N:
            break
    victim = run.machines[VICTIM + 1]
    assert isinstance(victim, MaskingClients)
    return refusals, victim


def draw_of(machine: MaskingClients, fields: Fields) -> GraphSeed:
    """As a client is told it."""
    return GraphSeed(machine._commitments(0), fields["revealed"], fields["digests"], fields["nonces"])


def ground(machine: MaskingClients, fields: Fields) -> Fields:
    """Another nonce of a friend's, by which the victim's neighbours are friends."""
    nonces = fields["nonces"].copy()
    while True:
        nonces[FRIENDS[0]] = SystemCoins().uniform(256, (32,)).astype(np.uint8)
        made = {"revealed": fields["revealed"], "digests": fields["digests"], "nonces": nonces}
        near = machine._plan.circles(NOW, draw_of(machine, made).seed).neighbours[VICTIM]
        if int(np.isin(near, FRIENDS).sum()) >= machine._plan.required_shares:
            return made


def listed_in(run: Sum, machine: MaskingClients, made: Fields) -> Fields:
    """The keys of a client's circle by a draw."""
    circle = machine._plan.circles(NOW, draw_of(machine, made).seed).closed_neighbours[int(machine._places[0])]
    publics = [run.machines[v + 1]._public_keys(0) for v in circle.tolist()]  # type: ignore[attr-defined]
    sealing, mask = (np.stack([np.frombuffer(keys[at], dtype=np.uint8) for keys in publics]) for at in (0, 1))
    return {"sealing": sealing, "mask": mask, "listed": np.ones(len(circle), dtype=np.bool_)}


def test_nobody_draws_again_when_all_nonces_are_known() -> None:
    """Every client refuses a graph from another nonce than its owner committed to, and is in no such circle."""
    refusals, victim = grinding(MaskingClients)
    assert set(refusals) == set(range(N))
    assert set(refusals.values()) == {"a graph must be drawn from what was committed to; of client 0 it is not"}
    assert not victim.state()["has"].any()


def test_clients_that_check_no_draw_are_surrounded() -> None:
    """The broken twin: the victim shares its secrets with friends of the server's, as many as open them."""
    refusals, victim = grinding(flaws.AnyDrawWillDo)
    assert refusals == {}
    near = victim._circles.neighbours[VICTIM]
    assert int(np.isin(near, FRIENDS).sum()) >= victim._plan.required_shares
    assert victim.state()["has"].all()


def test_a_commitment_is_to_one_place_key_and_nonce() -> None:
    """Nothing of it can be changed, and nobody can take another's for its own."""
    made = {
        commitment_of(place, digest_of_keys(*keys), nonce)
        for place in (0, 1)
        for keys in ((b"a" * 32, b"b" * 32), (b"b" * 32, b"a" * 32))
        for nonce in (bytes(32), bytes(31) + b"\1")
    }
    assert len(made) == 8


def test_a_nonce_tells_nothing_and_is_another_for_every_client_and_step() -> None:
    """It is none of a client's secrets, and no message has it before all commitments have been told."""
    wire = Wire(7, N, degree=4)
    wire.until(Stage.DRAW)
    assert len(set(wire.nonces)) == N
    assert not any(nonce in sent.data for nonce in wire.nonces for sent in wire.run.log)
    assert wire.rest() == total_of(range(N), N)
    assert all(any(nonce in sent.data for sent in wire.run.log) for nonce in wire.nonces)
    assert set(Wire(7, N, degree=4, seed=50).nonces).isdisjoint(wire.nonces)
