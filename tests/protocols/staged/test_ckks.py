"""Staged sums under CKKS keep what every staged scheme must; their keys, leaders, votes and limits by themselves."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest

from fgl_secure.coins import SimulationCoins, TapeCoins
from fgl_secure.crypto.ckks import ReceiverKey
from fgl_secure.crypto.ckks_public import PUBLIC, SECRET
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError
from fgl_secure.protocols.staged.ciphertexts import client as ckks_client
from fgl_secure.protocols.staged.ciphertexts.plan import SCHEME, STAGES, CkksPlan
from fgl_secure.protocols.staged.ciphertexts.secrets import (
    OwnSecrets,
    boxes_for,
    group_key_from,
    sealed_bytes,
    unwrapped,
    wrapped,
)
from fgl_secure.protocols.staged.ciphertexts.server import CkksServer
from fgl_secure.protocols.staged.ciphertexts.wire import ciphertexts_from, integer_field, padded
from fgl_secure.protocols.staged.ckks import StagedCkks
from fgl_secure.protocols.staged.envelope import SERVER, Envelope
from fgl_secure.protocols.staged.interface import Stage, StagedScheme
from fgl_secure.protocols.staged.masking.wire import client_bytes
from fgl_secure.runtime import Role
from tests.protocols.staged.conformance import StagedConformance
from tests.protocols.staged.rounds import Moment, Sum, moments_of, stages_of, terms_of, vectors_of

THREE = StagedCkks(3)
TOTAL = vectors_of(5).sum(axis=0).tolist()


class TestStagedCkks(StagedConformance):
    """As it is by default."""

    make: ClassVar[Callable[[int | None], StagedScheme]] = StagedCkks


@pytest.fixture
def five() -> Sum:
    """Five clients, three of whom must be left."""
    return Sum.of(THREE, terms_of(THREE, 5), vectors_of(5))


@pytest.fixture
def plan() -> CkksPlan:
    """Theirs."""
    return CkksPlan.of(terms_of(THREE, 5))


def until(run: Sum, stage: Stage) -> None:
    """Goes on to a stage with everybody there."""
    while run.server.stage is not stage:
        step(run)


def step(run: Sum) -> None:
    """One stage with everybody there."""
    for u, message in run.ask():
        run.server.receive(u, run.clients[u].reply(message))
    run.server.advance()


def said(plan: CkksPlan, stage: Stage, ends: tuple[int, int], fields: list[bytes]) -> bytes:
    """A message of one's own making."""
    return Envelope(SCHEME, plan.terms, stage, *ends).sealed(fields)


def test_it_has_four_stages() -> None:
    """Nobody has to agree on who is in the sum, for nobody can check it."""
    assert stages_of(THREE) == STAGES


@pytest.mark.parametrize("gone", list(itertools.combinations(range(3), 2)))
def test_another_makes_the_key_when_a_maker_drops_out(gone: tuple[int, ...], five: Sum) -> None:
    """Of three candidates any two may fall silent as they make their keys: that of the third is used."""
    five.play(dict.fromkeys(gone, Stage.SHARES))
    kept = [u for u in range(5) if u not in gone]
    assert five.server.result().tolist() == vectors_of(5)[kept].sum(axis=0).tolist()
    assert isinstance(five.server, CkksServer)
    assert five.server._maker == min(set(range(3)) - set(gone))


def test_one_more_than_may_drop_out_make_keys(plan: CkksPlan) -> None:
    """Of m clients with keys the first m - threshold + 1 are candidates, and no others."""
    assert plan.candidates([0, 1, 2, 3, 4]) == [0, 1, 2]
    assert plan.candidates([1, 3, 4]) == [1]
    moment = next(moment for moment in moments_of(Sum.of(THREE, plan.terms, vectors_of(5))) if moment.stage == 1)
    assert [len(moment.replies[u]) > 1000 for u in range(5)] == [True, True, True, False, False]


def heard_of_secrets(run: Sum) -> int:
    """How many secrets, of a sum from the seed of all tests, the server finds in what it gets before the vectors."""
    secrets = [OwnSecrets.draw(SimulationCoins(1 + u)) for u in range(5)]
    needles = [SECRET, *(one.group for one in secrets), *(one.sealing for one in secrets)]
    heard = b""
    while run.server.stage is not Stage.VECTORS:
        for u, message in run.ask():
            reply = run.clients[u].reply(message)
            heard += reply
            run.server.receive(u, reply)
        run.server.advance()
    return sum(needle in heard for needle in needles)


def test_the_server_never_gets_what_opens_a_ciphertext(five: Sum, plan: CkksPlan) -> None:
    """No message holds a secret key file or a group key in the clear, though clients' states hold all of them."""
    moments = moments_of(Sum.of(THREE, five.terms, vectors_of(5)))
    secrets = [OwnSecrets.draw(SimulationCoins(1 + u)) for u in range(5)]
    assert all(one.group in moments[0].states[u] for u, one in enumerate(secrets))
    assert all(SECRET in moments[-1].states[u] for u in range(5))
    assert any(PUBLIC in moment.replies[0] for moment in moments)
    messages = [data for m in moments for u in range(5) for data in (m.requests[u], m.replies[u])]
    for needle in (SECRET, *(one.group for one in secrets), *(one.sealing for one in secrets)):
        assert not any(needle in data for data in messages)
    assert heard_of_secrets(five) == 0
    assert len(moments[2].replies[0]) > plan.frame_bytes


def open_boxes(patch: pytest.MonkeyPatch) -> None:
    """Group keys are handed out unsealed."""
    patch.setattr(ckks_client, "boxes_for", lambda plan, own, secrets, listed, publics: (  # noqa: ARG005
        secrets.group.ljust(48, b"\0") * (len(listed) - 1)))  # fmt: skip


def open_files(patch: pytest.MonkeyPatch) -> None:
    """Key files are handed out unsealed."""
    patch.setattr(ckks_client, "wrapped", lambda plan, maker, group, key: (  # noqa: ARG005
        padded(key.secret_file(), sealed_bytes(plan))))  # fmt: skip


@pytest.mark.parametrize("breaks", [open_boxes, open_files])
def test_a_twin_that_hands_secrets_to_the_server_is_found(
    breaks: Callable[[pytest.MonkeyPatch], None], five: Sum, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a group key or a key file goes out unsealed, the server has heard of it."""
    breaks(monkeypatch)
    assert heard_of_secrets(five) > 0


def test_two_clients_encrypt_the_same_vector_differently(five: Sum) -> None:
    """Ciphertexts of equal vectors differ, and so do those of one client in two runs."""
    same = np.ones((5, 2), dtype=np.int64)
    runs = [moments_of(Sum.of(THREE, five.terms, same)) for _ in range(2)]
    bodies = [run[2].replies[u][42:] for run in runs for u in range(5)]
    assert len(set(bodies)) == 10


def test_any_client_and_the_server_open_everything(five: Sum, plan: CkksPlan) -> None:
    """What the claim admits is so: one client's key opens another client's own ciphertexts, which the server has."""
    moments = moments_of(five)
    vectors, opening = moments[2], moments[3]
    key_file = opening.states[4][opening.states[4].index(SECRET) :]
    key = ReceiverKey.from_secret_file(key_file[: _file_bytes(key_file)])
    (field,) = Envelope(SCHEME, plan.terms, Stage.VECTORS, 1, SERVER).opened(vectors.replies[1], 1)
    assert key.decrypt(ciphertexts_from(plan, field), 2).tolist() == vectors_of(5)[1].tolist()
    assert any("any one of them and the server open every vector" in text for text in THREE.claim.assumptions)
    assert all(not guarantee.covers({Role.SERVER: 1, Role.SILO: 1}) for guarantee in THREE.claim_for(5).guarantees)


def _file_bytes(data: bytes) -> int:
    """How long the key file at the start of some bytes is: the vector, 16 bytes behind 8, follows it in the state."""
    return len(data) - 8 - 16


def test_a_client_opens_one_ciphertext_and_no_second(five: Sum, plan: CkksPlan) -> None:
    """After the sum it opens nothing more, and nothing that says it has fewer terms than the threshold."""
    moments = moments_of(five)
    part = THREE.restored(five.terms, moments[3].states[0])
    (field,) = Envelope(SCHEME, plan.terms, Stage.VECTORS, 1, SERVER).opened(moments[2].replies[1], 1)
    single = said(plan, Stage.OPENING, (SERVER, 0), [field])
    with pytest.raises(ProtocolError, match="at least 3 terms; found 1"):
        part.reply(single)
    part.reply(moments[3].requests[0])
    with pytest.raises(ProtocolError):
        part.reply(single)


def test_the_server_believes_what_the_threshold_says_alike(five: Sum, plan: CkksPlan) -> None:
    """Two of five that lie change nothing; a third leaves no sum that enough clients vouch for, and it says so."""
    for liars, outcome in ((2, TOTAL), (3, None)):
        run = Sum.of(THREE, five.terms, vectors_of(5))
        until(run, Stage.OPENING)
        for u, message in run.ask():
            lie = integer_field(np.array([u, 7], dtype=np.int64))
            honest = run.clients[u].reply(message)
            run.server.receive(u, said(plan, Stage.OPENING, (u, SERVER), [lie]) if u < liars else honest)
        if outcome is None:
            with pytest.raises(ProtocolError, match="at least threshold = 3 clients must open the same sum; found 2"):
                run.server.advance()
        else:
            run.server.advance()
            assert run.server.result().tolist() == outcome


def test_a_sum_beyond_what_vectors_can_add_up_to_is_refused(five: Sum, plan: CkksPlan) -> None:
    """Five vectors within 50 add up to 250 at most."""
    until(five, Stage.OPENING)
    for entry in (251, -251):
        data = integer_field(np.array([entry, 0], dtype=np.int64))
        with pytest.raises(MalformedMessageError, match="magnitude up to 250"):
            five.server.receive(0, said(plan, Stage.OPENING, (0, SERVER), [data]))


def test_ciphertexts_for_another_key_are_refused(five: Sum, plan: CkksPlan) -> None:
    """A vector under a key of one's own, and a sum in place of a term, raise; the client may still answer."""
    until(five, Stage.VECTORS)
    replies = {u: five.clients[u].reply(message) for u, message in five.ask()}
    (field,) = Envelope(SCHEME, plan.terms, Stage.VECTORS, 0, SERVER).opened(replies[0], 1)
    another = ReceiverKey.generate(plan.parameters).public.fingerprint
    for forged in (field[:8] + another + field[24:], field[:24] + b"\0\0\0\2" + field[28:]):
        with pytest.raises(ProtocolError):
            five.server.receive(0, said(plan, Stage.VECTORS, (0, SERVER), [forged]))
    for u, reply in replies.items():
        five.server.receive(u, reply)
    five.server.advance()
    assert five.play().server.result().tolist() == TOTAL


def _offer(moments: list[Moment], plan: CkksPlan, client: int) -> list[bytes]:
    return Envelope(SCHEME, plan.terms, Stage.SHARES, client, SERVER).opened(moments[1].replies[client], 3)


def test_offers_that_are_none_are_refused(five: Sum, plan: CkksPlan) -> None:
    """A key of other parameters, a secret key, cut boxes, and an offer of a client that is no candidate raise."""
    fields = _offer(moments_of(Sum.of(THREE, five.terms, vectors_of(5))), plan, 0)
    other = CkksPlan.of(terms_of(THREE, 5, bound=1000))
    foreign = padded(ReceiverKey.generate(other.parameters).public_context(), plan.public_bytes)
    until(five, Stage.SHARES)
    for client, offer in (
        (0, [foreign, *fields[1:]]),
        (0, [padded(SECRET + bytes(100), plan.public_bytes), *fields[1:]]),
        (0, [fields[0], fields[1][:-1], fields[2]]),
        (0, [*fields[:2], fields[2][:-1]]),
        (0, [b"", b"", b""]),
        (3, fields),
    ):
        with pytest.raises(ProtocolError):
            five.server.receive(client, said(plan, Stage.SHARES, (client, SERVER), offer))
    step(five)
    assert five.play().server.result().tolist() == TOTAL


def test_a_key_that_another_forged_is_refused_by_clients(five: Sum, plan: CkksPlan) -> None:
    """A key file or group key that the maker did not seal for this client, or of another maker, raises."""
    moments = moments_of(five)
    ends = SERVER, 4
    maker, sealed, box = Envelope(SCHEME, plan.terms, Stage.VECTORS, *ends).opened(moments[2].requests[4], 3)
    mine = OwnSecrets.draw(SimulationCoins(77))
    own_file = wrapped(plan, 0, mine.group, ReceiverKey.generate(plan.parameters))
    part = THREE.restored(five.terms, moments[2].states[4])
    for fields in (
        [maker, own_file, box], [maker, sealed, bytes(len(box))], [maker, sealed[:-1] + b"x", box],
        [client_bytes([1]), sealed, box], [client_bytes([3]), sealed, box], [b"", sealed, box],
        [client_bytes([0, 1]), sealed, box], [maker, b"", box], [maker, sealed, b""],
    ):  # fmt: skip
        with pytest.raises(ProtocolError):
            part.reply(said(plan, Stage.VECTORS, ends, fields))
    part.reply(moments[2].requests[4])


def test_group_keys_pass_between_their_two_clients_alone(plan: CkksPlan) -> None:
    """A box opens for the client that it was sealed for, in its sum, and for nobody else."""
    secrets = [OwnSecrets.draw(SimulationCoins(u)) for u in range(3)]
    publics = [one.public for one in secrets]
    boxes = boxes_for(plan, 0, secrets[0], [0, 1, 2], publics)
    assert group_key_from(plan, 1, secrets[1], 0, publics[0], boxes[:48]) == secrets[0].group
    other = CkksPlan.of(terms_of(THREE, 5, number=4))
    for args in (
        (plan, 2, secrets[2], 0, publics[0]), (plan, 1, secrets[1], 2, publics[2]),
        (plan, 1, secrets[2], 0, publics[0]), (other, 1, secrets[1], 0, publics[0]),
    ):  # fmt: skip
        with pytest.raises(ProtocolError):
            group_key_from(*args, boxes[:48])


def test_a_key_file_opens_in_its_own_sum_alone(plan: CkksPlan) -> None:
    """Under another group key, maker, sum or parameters it raises; as sealed it gives the same key pair."""
    key, group = ReceiverKey.generate(plan.parameters), bytes(32)
    sealed = wrapped(plan, 1, group, key)
    assert unwrapped(plan, 1, group, sealed).public_context() == key.public_context()
    other = CkksPlan.of(terms_of(THREE, 5, number=4))
    for args in ((plan, 1, bytes(31) + b"x"), (plan, 2, group), (other, 1, group)):
        with pytest.raises(ProtocolError):
            unwrapped(*args, sealed)
    stranger = ReceiverKey.generate(CkksPlan.of(terms_of(THREE, 5, bound=1000)).parameters)
    with pytest.raises(ProtocolError, match="parameters of the sum"):
        unwrapped(plan, 1, group, wrapped(plan, 1, group, stranger))


def test_key_lists_that_no_honest_server_sends_are_refused(five: Sum, plan: CkksPlan) -> None:
    """Without the client's own key, with one twice, of low order, or of too few clients: raises and says nothing."""
    moments = moments_of(five)
    who, keys, signed = Envelope(SCHEME, plan.terms, Stage.SHARES, SERVER, 0).opened(moments[1].requests[0], 3)
    part = THREE.restored(five.terms, moments[1].states[0])
    for fields in (
        [who, keys[32:] + keys[:32], signed], [who, keys[:32] + keys[:32] + keys[64:], signed],
        [who, keys[:32] + bytes(32) + keys[64:], signed], [who[:8], keys[:64], signed[:128]],
        [who[4:], keys[32:], signed[64:]], [who, keys, signed[:-1]], [who[4:] + who[:4], keys, signed],
    ):  # fmt: skip
        with pytest.raises(ProtocolError):
            part.reply(said(plan, Stage.SHARES, (SERVER, 0), fields))
    part.reply(moments[1].requests[0])


def test_a_key_twice_or_of_low_order_is_refused_by_the_server(five: Sum, plan: CkksPlan) -> None:
    """Each client has a key of its own."""
    replies = {u: five.clients[u].reply(message) for u, message in five.ask()}
    five.server.receive(0, replies[0])
    (public, signature) = Envelope(SCHEME, plan.terms, Stage.KEYS, 0, SERVER).opened(replies[0], 2)
    for key in (public, bytes(32)):
        with pytest.raises(ProtocolError, match="must be the client's own"):
            five.server.receive(1, said(plan, Stage.KEYS, (1, SERVER), [key, signature]))
    five.server.receive(1, replies[1])


@pytest.mark.parametrize(("threshold", "clients"), [(2, 5), (2, 4), (1, 2), (3, 6)])
def test_half_of_the_clients_are_too_few(threshold: int, clients: int) -> None:
    """Two sums could each have as many clients that say them."""
    with pytest.raises(InputError, match="threshold must lie in"):
        StagedCkks(threshold).threshold_for(clients)


def test_the_claim_grows_with_the_threshold() -> None:
    """With a threshold of 34 up to 32 clients may pool what they saw; of two clients either knows the other's."""
    assert THREE.name == "ckks[threshold=3]"
    assert StagedCkks().claim_for(50).guarantees[1].coalition == {Role.SILO: 32}
    assert len(StagedCkks().claim_for(2).guarantees) == len(StagedCkks().claim.guarantees) == 1


def test_coins_of_several_tapes_are_refused() -> None:
    """SEAL draws its own coins, so there is nothing to enumerate."""
    with pytest.raises(InputError, match="one run"):
        THREE.client(terms_of(THREE, 5), 0, TapeCoins(256, 2))


def test_long_vectors_take_several_ciphertexts() -> None:
    """A vector of 9,000 entries is summed exactly, in messages of one size."""
    scheme = StagedCkks()
    draw = np.random.default_rng(0).integers(-(2**27), 2**27, (3, 9000))
    terms = terms_of(scheme, 3, 9000, 2**27)
    assert CkksPlan.of(terms).ciphertexts == 5
    assert Sum.of(scheme, terms, draw).play().server.result().tolist() == draw.sum(axis=0).tolist()
