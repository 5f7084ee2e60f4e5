"""Sums under a CKKS key that clients share: who makes it, votes for the sum, offers and keys that are none."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins, TapeCoins
from fgl_secure.crypto.ckks import SECRET, ReceiverKey
from fgl_secure.crypto.ckks_parameters import Parameters
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError
from fgl_secure.protocols.ckks import SharedKeyCkks
from fgl_secure.protocols.ckks.wire import ciphertexts_of, pad, public_bytes, unwrap_key, wrap_key
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.secagg.terms import Stage
from fgl_secure.runtime import Channel, OwnDraws, Phase, Role, Step, decode
from tests.error_codes import about
from tests.protocols.secagg.rounds import (
    LEADER,
    NOW,
    SESSION,
    Sent,
    Sum,
    changed,
    directory_of,
    topology_of,
    vectors_of,
)

Array = NDArray[Any]

THREE = SharedKeyCkks(3)
TOTAL = vectors_of(5).sum(axis=0).tolist()
PARTIES = [int(party) for party in topology_of(5).senders]
PLAN = THREE.machines(topology_of(5), SESSION, OwnDraws(SimulationCoins(0)))[0]._plan  # type: ignore[attr-defined]


def five() -> Sum:
    """Five clients, three of whom must be left."""
    return Sum.of(THREE, topology_of(5), vectors_of(5))


def fields_of(sent: Sent) -> Mapping[str, Array]:
    """Of a message."""
    return decode(sent.data, SESSION).fields


@pytest.mark.parametrize("gone", list(itertools.combinations(range(3), 2)))
def test_another_makes_the_key_when_a_maker_drops_out(gone: tuple[int, ...]) -> None:
    """Of three candidates any two may fall silent as they make their keys: that of the third is used."""
    run = five().play(dict.fromkeys(gone, Stage.SHARES))
    kept = [u for u in range(5) if u not in gone]
    assert run.result == vectors_of(5)[kept].sum(axis=0).tolist()
    told = [sent for sent in run.log if sent.phase is Phase.SECRET_SHARES and sent.sender == LEADER]
    makers = {int(np.flatnonzero(fields_of(sent)["maker"][0])[0]) for sent in told}
    assert makers == {min(set(range(3)) - set(gone))}


def test_one_more_than_may_drop_out_make_keys() -> None:
    """Of m clients with keys the first m - threshold + 1 are candidates, and no others."""
    listed = np.ones(5, dtype=np.bool_)
    assert PLAN.candidates(listed).tolist() == [True, True, True, False, False]
    listed[[0, 2]] = False
    assert PLAN.candidates(listed).tolist() == [False, True, False, False, False]
    log = five().play().log
    offers = [sent for sent in log if sent.phase is Phase.SECRET_SHARES and sent.receiver == LEADER]
    assert [len(sent.data) > 1000 for sent in offers] == [True, True, True, False, False]


def test_any_client_and_the_server_open_everything() -> None:
    """What the claim admits is so: one client's key opens another client's own ciphertexts, which the server has."""
    run, keys = five(), list[ReceiverKey]()
    for out in run.turns():
        for sent in out:
            if sent.phase is Phase.CIPHERTEXTS and sent.sender == PARTIES[1]:
                state = run.machines[PARTIES[4]].state()
                keys.append(ReceiverKey.from_secret_file(state["files"][0].tobytes()[: int(state["sizes"][0])]))
                found = keys[0].decrypt(ciphertexts_of(decode(sent.data, SESSION), 0), 2)
                assert found.tolist() == vectors_of(5)[1].tolist()
            run.hand(sent)
    assert keys
    claim = THREE.claim_for(topology_of(5))
    assert any("any one of them and the server open every vector" in text for text in claim.assumptions)
    assert all(not guarantee.covers({Role.SERVER: 1, Role.SILO: 1}) for guarantee in claim.guarantees)


def test_a_client_opens_one_ciphertext_and_no_second() -> None:
    """It opens nothing but what clients voted for, and after the sum nothing more."""
    run, single = five(), dict[str, Any]()

    def listen(run: Sum, sent: Sent) -> None:
        if sent.phase is Phase.CIPHERTEXTS and sent.sender == PARTIES[1]:
            single.update(fields_of(sent))
        if sent.phase is Phase.UNMASKING and sent.receiver == PARTIES[0]:
            lie = changed(sent, **single)
            with pytest.raises(ProtocolError, check=about("the opened sum")):
                run.machines[PARTIES[0]].receive(decode(lie, SESSION))
            run.machines[PARTIES[0]].receive(decode(sent.data, SESSION))
            for second in (lie, sent.data):
                with pytest.raises(ProtocolError):
                    run.machines[PARTIES[0]].receive(decode(second, SESSION))
            raise StopIteration

    with pytest.raises(StopIteration):
        run.play(listen=listen)


def said_by(sent: Sent, values: list[int]) -> Sent:
    """The same answer with another sum."""
    data = changed(sent, sum=np.array([values], dtype=np.int64))
    return Sent(sent.sender, sent.receiver, sent.phase, data)


@pytest.mark.parametrize("liars", [2, 3])
def test_the_server_believes_what_the_threshold_says_alike(liars: int) -> None:
    """Two of five that lie change nothing; a third leaves no sum that enough clients vouch for, and it says so."""
    run = five()

    def play() -> None:
        for out in run.turns():
            for sent in out:
                place = PARTIES.index(sent.sender) if sent.sender in PARTIES else 9
                lies = sent.phase is Phase.UNMASKING and place < liars
                run.hand(said_by(sent, [place, 7]) if lies else sent)

    if liars == 2:
        play()
        assert run.result == TOTAL
        assert [remark.party for remark in run.server.remarks] == PARTIES[:2]
    else:
        with pytest.raises(ProtocolError, check=about("at least threshold = 3 clients")):
            play()


def test_a_sum_beyond_what_vectors_can_add_up_to_is_refused() -> None:
    """Five vectors within 50 add up to 250 at most."""

    def listen(run: Sum, sent: Sent) -> None:
        if sent.phase is Phase.UNMASKING and sent.receiver == LEADER:
            for entry in (251, -251, -(2**63)):
                with pytest.raises(MalformedMessageError, check=about("opened sum")):
                    run.hand(said_by(sent, [entry, 0]))

    assert five().play(listen=listen).result == TOTAL


def refused(run: Sum, sent: Sent, fields: Mapping[str, Any]) -> None:
    """A message with other fields is refused, and the machine as it was."""
    with pytest.raises(ProtocolError):
        run.machines[sent.receiver].receive(decode(changed(sent, **fields), SESSION))


def test_ciphertexts_for_another_key_are_refused() -> None:
    """A vector under a key of one's own, and a sum in place of a term, raise; the client may still answer."""
    another = np.frombuffer(ReceiverKey.generate(PLAN.parameters).public.fingerprint, dtype=np.uint8)

    def listen(run: Sum, sent: Sent) -> None:
        if sent.phase is Phase.CIPHERTEXTS:
            first, second = (fields_of(sent)["ciphertexts"].copy() for _ in range(2))
            first[0, 0, : len(another)] = another
            second[0, 0, len(another) : len(another) + 4] = [0, 0, 0, 2]
            for forged in (first, second):
                refused(run, sent, {"ciphertexts": forged})

    assert five().play(listen=listen).result == TOTAL


def test_offers_that_are_none_are_refused() -> None:
    """A key of other parameters, a secret key, cut boxes, and an offer of a client that is no candidate raise."""
    foreign = ReceiverKey.generate(Parameters.for_sums(5, 1000, length=2)).public_context()
    offers = [pad([data], public_bytes(PLAN.parameters)) for data in (foreign, SECRET + bytes(100), b"")]
    first: dict[str, Array] = {}

    def listen(run: Sum, sent: Sent) -> None:
        if sent.phase is not Phase.SECRET_SHARES or sent.receiver != LEADER:
            return
        fields = fields_of(sent)
        if "key" not in fields:
            refused(run, sent, first)
            return
        first.update(fields)
        for rows, sizes in offers:
            refused(run, sent, {"key": rows, "size": sizes[:, None]})
        for name in ("file", "boxes", "key"):
            refused(run, sent, {name: fields[name][..., :-1]})
        refused(run, sent, {"offered": ~fields["offered"]})

    assert five().play(listen=listen).result == TOTAL
    assert first


def test_a_key_that_another_forged_is_refused_by_clients() -> None:
    """A key file or group key that the maker did not seal for this client, or of another maker, raises."""
    context, party = PLAN.context(NOW), PARTIES[4]
    own = wrap_key(PLAN, context, PARTIES[0], bytes(32), ReceiverKey.generate(PLAN.parameters).secret_file())

    def listen(run: Sum, sent: Sent) -> None:
        if sent.phase is Phase.SECRET_SHARES and sent.receiver == party:
            fields = fields_of(sent)
            makers = [np.eye(5, dtype=np.bool_)[[u]] for u in (1, 3)]
            refused(run, sent, {"file": np.frombuffer(own, dtype=np.uint8)[None]})
            for name in ("file", "box"):
                refused(run, sent, {name: fields[name] ^ 1})
            for maker in (*makers, makers[0] | makers[1], makers[0] & makers[1]):
                refused(run, sent, {"maker": maker})

    assert five().play(listen=listen).result == TOTAL


def test_a_key_file_opens_in_its_own_sum_alone() -> None:
    """Under another group key, maker, sum or parameters it raises; as sealed it gives the same key pair."""
    key, group, context = ReceiverKey.generate(PLAN.parameters), bytes(32), PLAN.context(NOW)
    sealed = wrap_key(PLAN, context, 1, group, key.secret_file())
    assert unwrap_key(PLAN, context, 1, group, sealed).public_context() == key.public_context()
    for args in ((context, 1, bytes(31) + b"x"), (context, 2, group), (PLAN.context(Step(4)), 1, group)):
        with pytest.raises(ProtocolError):
            unwrap_key(PLAN, *args, sealed)
    stranger = ReceiverKey.generate(Parameters.for_sums(5, 1000, length=2)).secret_file()
    with pytest.raises(ProtocolError, check=about("key of party 1")):
        unwrap_key(PLAN, context, 1, group, wrap_key(PLAN, context, 1, group, stranger))
    with pytest.raises(ProtocolError, check=about("key file of party 1")):
        unwrap_key(PLAN, context, 1, group, wrap_key(PLAN, context, 1, group, b"nothing"))


@pytest.mark.parametrize(("threshold", "clients"), [(2, 5), (2, 4), (1, 2), (3, 6)])
def test_half_of_the_clients_are_too_few(threshold: int, clients: int) -> None:
    """Two sums could each have as many clients that say them."""
    with pytest.raises(InputError, check=about("threshold")):
        SharedKeyCkks(threshold).threshold_for(clients)


def test_the_claim_grows_with_the_threshold() -> None:
    """With a threshold of 34 up to 32 clients may pool what they saw; of two clients either knows the other's."""
    assert THREE.name == "ckks-shared-key[threshold=3]"
    assert SharedKeyCkks().claim_among(50).guarantees[1].coalition == {Role.SILO: 32}
    assert len(SharedKeyCkks().claim_among(2).guarantees) == 1


def test_what_it_does_not_serve() -> None:
    """A receiver that is not the server, and coins of several tapes, which SEAL does not take."""
    assert "every client opens the sum" in str(SharedKeyCkks().refuses(topology_of(5, split=True)))
    with pytest.raises(InputError, check=about("coins")):
        THREE.machines(topology_of(5), SESSION, OwnDraws(TapeCoins(256, 2)))


def test_long_vectors_take_several_ciphertexts() -> None:
    """A vector of 9,000 entries is summed exactly, in messages of one size."""
    draw = np.random.default_rng(0).integers(-(2**27), 2**27, (3, 9000))
    channel = Channel(directory_of(3), SimulationCoins(0))
    collective = Collective(SharedKeyCkks(), topology_of(3, length=9000, bound=2**27), channel)
    assert collective.sum(draw, NOW)[0].tolist() == draw.sum(axis=0).tolist()
    sizes = {batch.item_bytes for batch in channel.transcript.messages if batch.phase is Phase.CIPHERTEXTS}
    assert len(sizes) == 1
