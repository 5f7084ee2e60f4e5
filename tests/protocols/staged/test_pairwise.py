"""Staged pairwise masking keeps what every staged scheme must; its graph, identities, states and sums by themselves."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgl_secure.coins import SimulationCoins, TapeCoins
from fgl_secure.errors import FieldRangeError, InputError, MalformedMessageError, ProtocolError
from fgl_secure.protocols.identity import Identities
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.pairwise_masking.graph import local_threshold
from fgl_secure.protocols.staged.driver import run
from fgl_secure.protocols.staged.interface import Stage, StagedScheme, SumTerms
from fgl_secure.protocols.staged.masking.memory import memory_from
from fgl_secure.protocols.staged.masking.plan import plan_of, ring_order
from fgl_secure.protocols.staged.masking.secrets import OwnSecrets
from fgl_secure.protocols.staged.pairwise import StagedPairwiseMasking
from fgl_secure.runtime import Step
from tests.protocols.staged.conformance import StagedConformance
from tests.protocols.staged.masking_parties import Wire, clients_of, identities_of, terms_of, vectors_of
from tests.protocols.vector_conformance import channel_of, circle

SCHEME = StagedPairwiseMasking()


class TestStagedPairwiseMasking(StagedConformance):
    """As it is by default."""

    make = staticmethod(StagedPairwiseMasking)


def test_it_says_of_itself_what_the_array_level_says() -> None:
    """Name, claim, thresholds, degrees, field and limit are those of `PairwiseMasking`."""
    for mine, theirs in (
        (StagedPairwiseMasking(), PairwiseMasking()),
        (StagedPairwiseMasking(4, 6, 101), PairwiseMasking(4, 101, 6)),
    ):
        assert (mine.name, mine.claim, mine.public, mine.limit(7)) == (
            theirs.name,
            theirs.claim,
            theirs.public,
            theirs.limit(7),
        )
        assert mine.threshold_for(7) == theirs.threshold_for(7)
        assert mine.degree_for(7) == theirs.degree_for(7)
        assert mine.claim_for(7) == theirs.claim_among(7)


@pytest.mark.parametrize("arguments", [{"threshold": 1}, {"degree": 3}, {"modulus": 15}, {"modulus": 2}])
def test_parameters_out_of_range_are_refused(arguments: dict[str, int]) -> None:
    """As at the array level, when the scheme is made."""
    with pytest.raises(InputError, match=f"{next(iter(arguments))} must"):
        StagedPairwiseMasking(**arguments)


def test_terms_are_checked_against_the_scheme() -> None:
    """At half the clients, another threshold than the scheme's, a sum beyond 2^32 or a field too small: refused."""
    good = terms_of(5, 4)
    StagedPairwiseMasking(4).check(good)
    for wrong in (replace(good, threshold=2), replace(good, threshold=3), replace(good, number=2**32)):
        with pytest.raises(InputError):
            StagedPairwiseMasking(4).check(wrong)
    with pytest.raises(FieldRangeError):
        StagedPairwiseMasking(modulus=7).check(replace(good, bound=None))


@pytest.mark.parametrize(
    ("scheme", "clients"),
    [(SCHEME, 4), (StagedPairwiseMasking(modulus=2**31 - 1), 4), (StagedPairwiseMasking(degree=4), 9)],
    ids=["default", "31 bits", "ring"],
)
def test_both_levels_give_the_same_sum(scheme: StagedPairwiseMasking, clients: int) -> None:
    """Message by message or array by array, over the same vectors with the same client lost: one and the same sum."""
    vectors, lost = vectors_of(clients), 2
    terms = terms_of(clients, scheme.threshold_for(clients))
    server = scheme.server(terms, SimulationCoins(0))
    run(server, clients_of(scheme, terms), {lost: Stage.VECTORS})
    directory, group = circle(clients, split=False)
    gone = group.senders[lost]
    channel = channel_of(directory, lambda phase, _, senders, __: (phase.label != "masked vectors") | (senders != gone))
    session = PairwiseMasking(None, scheme.modulus, scheme.degree).open(channel, group, terms.length, 1000)
    assert server.result().tolist() == session.sum(vectors, Step(0)).tolist()
    assert server.included == tuple(u for u in range(clients) if u != lost)


@given(st.integers(2, 6), st.data())
@settings(max_examples=20)
def test_sums_are_exact_whoever_falls_silent(clients: int, data: st.DataObject) -> None:
    """With as many silent as may be, each from a stage of its own, the sum is that of who handed in a vector."""
    scheme = StagedPairwiseMasking(modulus=data.draw(st.sampled_from([2**61 - 1, 2**31 - 1, 100_003])))
    needed = scheme.threshold_for(clients)
    gone = data.draw(st.lists(st.integers(0, clients - 1), unique=True, max_size=clients - needed))
    silent = {u: data.draw(st.sampled_from(list(Stage))) for u in gone}
    vectors = np.array(
        data.draw(
            st.lists(st.lists(st.integers(-1000, 1000), min_size=2, max_size=2), min_size=clients, max_size=clients)
        )
    )
    terms = terms_of(clients, needed, length=2)
    server = scheme.server(terms, SimulationCoins(0))
    run(server, clients_of(scheme, terms, vectors, known=data.draw(st.booleans())), silent)
    kept = [u for u in range(clients) if silent.get(u, len(Stage)) > Stage.VECTORS]
    assert server.included == tuple(kept)
    assert server.result().tolist() == vectors[kept].sum(axis=0).tolist()


def test_many_clients_sum_along_a_sparse_graph() -> None:
    """Seventy clients have fewer than 69 neighbours each, and as many as may drop out do so at random stages."""
    assert SCHEME.degree_for(70) < 69
    terms, silent = terms_of(70, 60), {7 * at: Stage(at % 5) for at in range(10)}
    server = SCHEME.server(terms, SimulationCoins(0))
    run(server, clients_of(SCHEME, terms), silent)
    kept = [u for u in range(70) if silent.get(u, len(Stage)) > Stage.VECTORS]
    assert server.result().tolist() == vectors_of(70)[kept].sum(axis=0).tolist()


def test_the_ring_follows_from_public_data() -> None:
    """It is a permutation that session and number alone fix, and another for every session and every sum."""
    orders = [
        tuple(ring_order(SumTerms(session, number, 90, 60, 1, 1)).tolist())
        for session in (bytes(16), bytes([1] * 16))
        for number in (0, 1)
    ]
    assert len(set(orders)) == 4
    assert all(sorted(order) == list(range(90)) for order in orders)
    other = ring_order(SumTerms(bytes(16), 0, 90, 70, 5, None))
    assert tuple(other.tolist()) == orders[0]


def test_a_sparse_plan_asks_for_a_majority_of_the_circle() -> None:
    """Shares that open a secret, and votes that a client wants, are those of the array level."""
    plan = plan_of(terms_of(90, 61), SCHEME.modulus, 20)
    assert plan.needed == local_threshold(90, 20, 61) == 11
    assert all(v in plan.near(u) for u in range(90) for v in plan.near(u) if u in plan.near(v))
    assert [len(plan.circle(u)) for u in range(90)] == [21] * 90


def test_every_part_of_the_terms_is_signed() -> None:
    """What an identity signs differs as soon as one term, the field, the graph, the client or a key does."""
    terms = terms_of(6, 5)
    plans = [plan_of(terms, SCHEME.modulus, 5), plan_of(terms, 2**31 - 1, 5), plan_of(terms, SCHEME.modulus, 4)]
    changes: list[dict[str, Any]] = [
        {"session": bytes([1] * 16)}, {"number": 1}, {"clients": 7}, {"threshold": 6}, {"length": 9}, {"bound": 7},
        {"bound": None}, {"context": bytes(32)}, {"context": bytes([1] * 32)},
    ]  # fmt: skip
    plans += [plan_of(replace(terms, **change), SCHEME.modulus, 4) for change in changes]
    said = [plan.statement(1, b"a" * 32, b"b" * 32) for plan in plans]
    said += [plans[0].statement(2, b"a" * 32, b"b" * 32), plans[0].statement(1, b"b" * 32, b"a" * 32)]
    assert len(set(said)) == len(said)


def test_identities_and_no_identities_sum_alike() -> None:
    """With signed keys the sum is the same; a signature has 64 bytes and none has 0."""
    for known, size in ((True, 64), (False, 0)):
        wire = Wire.of(4, known=known)
        wire.until(Stage(len(Stage) - 1))
        assert {len(fields[2]) for fields in wire.said[Stage.KEYS].values()} == {size}
        run(wire.server, wire.clients)
        assert wire.server.result().tolist() == vectors_of(5).sum(axis=0).tolist()


def test_identities_of_more_than_take_part_are_welcome() -> None:
    """A register of eight serves a sum of five, states included; a neighbour that is not in it is refused."""
    own, everybody = identities_of(8)
    terms = terms_of(5, 4)
    fresh = {u: SCHEME.client(terms, u, SimulationCoins(u), own[u], everybody) for u in range(5)}
    clients = {u: SCHEME.restored(terms, client.state()) for u, client in fresh.items()}
    for client, vector in zip(clients.values(), vectors_of(5), strict=True):
        client.provide(vector)
    server = SCHEME.server(terms, SimulationCoins(9))
    run(server, clients)
    assert server.included == tuple(range(5))
    few = Identities({u: everybody.public[u] for u in (0, 1, 2, 3)})
    wire = Wire.of(4, known=True)
    wire.until(Stage.SHARES)
    part = SCHEME.client(terms, 0, SimulationCoins(0), own[0], few)
    part.reply(SCHEME.server(terms, SimulationCoins(0)).requests()[0])
    with pytest.raises(ProtocolError, match="client must be one whose identity is known; found 4"):
        part.reply(wire.server.requests()[0])


def test_several_tapes_are_refused() -> None:
    """Keys are those of one run."""
    with pytest.raises(InputError, match="coins must be those of one run"):
        SCHEME.client(terms_of(3, 3), 0, TapeCoins(3, 2))


def test_a_client_with_identities_goes_on_elsewhere() -> None:
    """Restored before every answer, with what it knows of the others' identities, and without the signing key."""
    wire = Wire.of(4, known=True)
    own, _ = identities_of(5)
    clients = dict(wire.clients)
    while wire.server.stage is not None:
        for u, message in wire.server.requests().items():
            state = clients[u].state()
            assert own[u].private_bytes() not in state
            clients[u] = SCHEME.restored(wire.plan.terms, state)
            wire.server.receive(u, clients[u].reply(message))
        wire.server.advance()
    assert wire.server.result().tolist() == vectors_of(5).sum(axis=0).tolist()


def test_a_state_serves_one_scheme_and_one_sum() -> None:
    """Under another field, threshold or number it is refused."""
    terms = terms_of(5, 4)
    state = SCHEME.client(terms, 0, SimulationCoins(0)).state()
    for scheme, other in (
        (StagedPairwiseMasking(modulus=2**31 - 1), terms),
        (StagedPairwiseMasking(degree=2), terms),
        (SCHEME, replace(terms, threshold=5)),
        (SCHEME, replace(terms, number=1)),
    ):
        with pytest.raises(MalformedMessageError, match="state must be of a sum under these terms"):
            scheme.restored(other, state)


def secrets_of(u: int) -> list[bytes]:
    """What a client of a `Wire` drew."""
    drawn = OwnSecrets.draw(SimulationCoins(u))
    return [drawn.sealing, drawn.mask, drawn.self_mask, drawn.shares]


def test_secrets_are_in_the_state_alone() -> None:
    """No secret is in a repr, an error or a message; the state holds each as long as it is of use."""
    wire = Wire.of(4)
    secrets = secrets_of(1)
    assert all(secret in wire.clients[1].state() for secret in secrets)
    said: list[bytes] = []
    while wire.server.stage is not None:
        stage = wire.server.stage
        for u, message in wire.server.requests().items():
            said.append(wire.clients[u].reply(message))
            wire.server.receive(u, said[-1])
        with pytest.raises(ProtocolError) as raised:
            wire.ask(stage, 1, [b"x"] * {Stage.KEYS: 1, Stage.SHARES: 4, Stage.AGREEMENT: 1}.get(stage, 2))
        shown = repr(wire.clients[1]) + repr(wire.server) + str(raised.value)
        shown += repr(getattr(wire.clients[1], "_memory"))  # noqa: B009  # what a debugger would show
        for secret in secrets:
            assert secret.hex() not in shown
            assert repr(secret)[2:-1] not in shown
            assert all(secret not in message for message in said)
        wire.server.advance()
        forgotten = [secret not in wire.clients[1].state() for secret in secrets]
        assert forgotten == {
            Stage.KEYS: [False] * 4,
            Stage.SHARES: [True, True, False, True],
        }.get(stage, [True] * 4)


def test_a_vector_leaves_the_client_once_it_is_masked() -> None:
    """After its answer neither memory nor state holds the vector."""
    wire = Wire.of(4)
    plain = (vectors_of(5)[4] % SCHEME.modulus).tobytes()
    wire.until(Stage.VECTORS)
    assert plain in wire.clients[4].state()
    wire.until(Stage.AGREEMENT)
    assert plain not in wire.clients[4].state()


def test_keys_of_pairs_are_forgotten_once_they_have_served() -> None:
    """Those of masks when the vector is sent, those of shares and votes, and all shares, at the end."""
    wire = Wire.of(4)
    wire.until(Stage.VECTORS)
    keys = memory_from(wire.plan, wire.clients[1].state()).keys
    assert all(both.pair in wire.clients[1].state() and both.mask in wire.clients[1].state() for both in keys.values())
    wire.until(Stage.AGREEMENT)
    held = memory_from(wire.plan, wire.clients[1].state()).held
    assert len(held) == 5
    assert all(both.pair in wire.clients[1].state() for both in keys.values())
    assert not any(both.mask in wire.clients[1].state() for both in keys.values())
    run(wire.server, wire.clients)
    left = wire.clients[1].state()
    assert not any(both.pair in left for both in keys.values())
    assert not any(share.tobytes() in left for share in held.values())


def test_equal_coins_give_equal_messages() -> None:
    """A client draws from its coins alone; the digest of all that passes is that of its coins."""

    def digest(threshold: int) -> str:
        wire = Wire.of(threshold)
        wire.until(Stage.OPENING)
        return hashlib.sha256(repr(sorted(wire.said.items())).encode()).hexdigest()

    assert digest(4) == digest(4) != digest(5)


def test_a_sum_of_what_cannot_be_is_noticed() -> None:
    """A vector whose masks do not cancel leaves a sum beyond all bounds, which raises in place of being returned."""
    wire = Wire.of(4)
    wire.until(Stage.VECTORS)
    for u, message in wire.server.requests().items():
        answer = wire.clients[u].reply(message)
        if u == 2:
            (vector,) = wire.plan.envelope(Stage.VECTORS, 2, 2**32 - 1).opened(answer, 1)
            answer = wire.plan.envelope(Stage.VECTORS, 2, 2**32 - 1).sealed([bytes(len(vector))])
        wire.server.receive(u, answer)
    wire.server.advance()
    with pytest.raises(ProtocolError, match="sum of 5 vectors must have magnitude up to 5,000"):
        run(wire.server, wire.clients)


def test_make_takes_a_threshold() -> None:
    """As the table of schemes calls it."""
    scheme: StagedScheme = StagedPairwiseMasking(3)
    assert scheme.threshold_for(5) == 3
