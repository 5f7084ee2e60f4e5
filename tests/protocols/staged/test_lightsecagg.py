"""LightSecAgg in messages keeps what every staged scheme must, and what its own stages ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FieldRangeError, InputError, ProtocolError, TooManyErrors
from fgl_secure.protocols.masking.keys import TAG_BYTES
from fgl_secure.protocols.staged.coded_masks import answers
from fgl_secure.protocols.staged.coded_masks.plan import SCHEME, LightSecAggPlan
from fgl_secure.protocols.staged.coded_masks.secrets import OwnSecrets
from fgl_secure.protocols.staged.coded_masks.server import LightSecAggServer
from fgl_secure.protocols.staged.driver import run
from fgl_secure.protocols.staged.envelope import SERVER, Envelope
from fgl_secure.protocols.staged.interface import Stage, StagedScheme, SumTerms
from fgl_secure.protocols.staged.lightsecagg import StagedLightSecAgg
from fgl_secure.protocols.staged.masking.wire import client_bytes, element_bytes, elements_from
from tests.protocols.staged.conformance import StagedConformance
from tests.protocols.staged.rounds import Sum, terms_of, vectors_of

Ints = NDArray[np.int64]

THREE = StagedLightSecAgg(3)
"""U = 3 of five, T = 1: masks have two parts."""


class TestStagedLightSecAgg(StagedConformance):
    """As it is by default."""

    make: ClassVar[Callable[[int | None], StagedScheme]] = StagedLightSecAgg


def five(scheme: StagedLightSecAgg = THREE, bound: int | None = 50) -> Sum:
    """Five clients with vectors of small numbers."""
    return Sum.of(scheme, terms_of(scheme, 5, bound=bound), vectors_of(5))


def until(run_of: Sum, stage: Stage) -> None:
    """Goes on to a stage with everybody there."""
    while run_of.server.stage is not stage:
        for u, message in run_of.ask():
            run_of.server.receive(u, run_of.clients[u].reply(message))
        run_of.server.advance()


def said(terms: SumTerms, stage: Stage, client: int, fields: list[bytes], *, by_server: bool = True) -> bytes:
    """A message of one's own making, to a client or from it."""
    ends = (SERVER, client) if by_server else (client, SERVER)
    return Envelope(SCHEME, terms, stage, *ends).sealed(fields)


def test_masks_of_a_smaller_field_and_more_parts_sum_as_well() -> None:
    """Over 2^31 - 1 with T = 2 and U = 5 of six, and vectors of seven entries, the sum is exact, dropping one."""
    scheme = StagedLightSecAgg(5, 2, 2**31 - 1)
    vectors = vectors_of(6, 7)
    done = Sum.of(scheme, terms_of(scheme, 6, 7), vectors).play({4: Stage.OPENING, 2: 9})
    assert done.server.result().tolist() == vectors.sum(axis=0).tolist()
    assert scheme.name == "lightsecagg[p=2147483647,threshold=5,colluding=2]"


def test_numbers_that_privacy_forbids_are_refused() -> None:
    """T at U, U at half, a threshold that is not the scheme's, and a field with fewer than n + U elements."""
    good = terms_of(THREE, 5)
    with pytest.raises(InputError, match=r"colluding must lie in 1..2 at threshold = 3"):
        StagedLightSecAgg(3, 3)
    with pytest.raises(InputError, match=r"colluding must lie in 1..2 at threshold = 3"):
        StagedLightSecAgg(colluding=3).check(good)
    with pytest.raises(InputError, match=r"threshold must lie in 4..6"):
        StagedLightSecAgg(3).check(SumTerms(good.session, 0, 6, 3, 2, 50))
    with pytest.raises(InputError, match="threshold must be the scheme's 4; found 3"):
        StagedLightSecAgg(4).check(good)
    with pytest.raises(FieldRangeError, match=r"modulus must be at least N \+ threshold = 5 \+ 3.*; found 7"):
        StagedLightSecAgg(3, modulus=7).check(SumTerms(good.session, 0, 5, 3, 2, None))


def changed(message: bytes, terms: SumTerms, client: int, plan: LightSecAggPlan) -> bytes:
    """A client's sum of coded masks with one entry one off."""
    envelope = Envelope(SCHEME, terms, Stage.OPENING, client, SERVER)
    total = elements_from(plan.field, envelope.opened(message, 1)[0], (plan.code.width,), "sum")
    total[0] = (total[0] + 1) % plan.field.modulus
    return envelope.sealed([element_bytes(plan.field, total)])


@pytest.mark.parametrize("scheme", [THREE, StagedLightSecAgg(4)], ids=["U = 3", "U = 4"])
def test_a_wrong_sum_of_coded_masks_is_corrected_or_noticed(scheme: StagedLightSecAgg) -> None:
    """Two answers more than U correct a wrong one, and the server says whose it was; one more notices it."""
    this = five(scheme)
    assert isinstance(this.server, LightSecAggServer)
    until(this, Stage.OPENING)
    plan = LightSecAggPlan.of(this.terms, scheme.modulus, 1)
    for u, message in this.ask():
        reply = this.clients[u].reply(message)
        this.server.receive(u, changed(reply, this.terms, u, plan) if u == 2 else reply)
    if scheme.threshold == 4:
        with pytest.raises(TooManyErrors):
            this.server.advance()
        return
    this.server.advance()
    assert this.server.result().tolist() == vectors_of(5).sum(axis=0).tolist()
    assert this.server.corrected == (2,)


def test_a_mask_that_is_not_the_one_coded_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that adds its mask twice puts the sum beyond what five vectors can reach; it is not given out."""
    honest = OwnSecrets.masked

    def twice(self: OwnSecrets, plan: LightSecAggPlan, own: int, vector: Ints) -> Ints:
        once = honest(self, plan, own, vector)
        return np.asarray(honest(self, plan, own, once) if own == 1 else once)

    monkeypatch.setattr(OwnSecrets, "masked", twice)
    with pytest.raises(ProtocolError, match="sum of 5 vectors must have magnitude up to 250"):
        five().play()


def test_a_client_with_too_few_coded_masks_sends_no_vector() -> None:
    """Boxes that the server swaps, or keeps back, do not open; below U the client says so, and later answers."""
    this = five()
    until(this, Stage.VECTORS)
    good = dict(this.ask())
    who, boxes = Envelope(SCHEME, this.terms, Stage.VECTORS, SERVER, 0).opened(good[0], 2)
    size = len(boxes) // 4
    for names, rows in ((who, boxes[size:] + boxes[:size]), (who[:4], boxes[:size]), (b"", b"")):
        with pytest.raises(ProtocolError, match="coded masks of at least 3 clients must open as sealed for client 0"):
            this.clients[0].reply(said(this.terms, Stage.VECTORS, 0, [names, rows]))
    assert this.play().server.result().tolist() == vectors_of(5).sum(axis=0).tolist()


ALL, WITHOUT = bytes([1, 1, 1, 1, 1]), bytes([1, 1, 1, 1, 0])
TOLD = {0: ALL, 1: ALL, 4: ALL, 2: WITHOUT, 3: WITHOUT}
"""A server that lies: to three clients the last one is in the sum, to two it is not."""


def opened_by_liar(this: Sum) -> dict[int, Ints]:
    """The sums of coded masks that a server gets which tells clients two rosters, and forges votes where it must."""
    votes: dict[int, dict[int, bytes]] = {}
    for u, roster in TOLD.items():
        reply = this.clients[u].reply(said(this.terms, Stage.AGREEMENT, u, [roster]))
        rows = Envelope(SCHEME, this.terms, Stage.AGREEMENT, u, SERVER).opened(reply, 1)[0]
        to = [v for v in range(5) if roster[v] and v != u]
        votes[u] = {v: rows[at * TAG_BYTES :][:TAG_BYTES] for at, v in enumerate(to)}
    plan, sums = LightSecAggPlan.of(this.terms, THREE.modulus, 1), {}
    for u, roster in TOLD.items():
        voters = [v for v in range(5) if roster[v] and v != u]
        rows = b"".join(votes[v].get(u, bytes(TAG_BYTES)) for v in voters)
        try:
            reply = this.clients[u].reply(said(this.terms, Stage.OPENING, u, [client_bytes(voters), rows]))
        except ProtocolError:
            continue
        data = Envelope(SCHEME, this.terms, Stage.OPENING, u, SERVER).opened(reply, 1)[0]
        sums[u] = np.asarray(elements_from(plan.field, data, (plan.code.width,), "sum"))
    return sums


def test_two_rosters_are_not_both_opened() -> None:
    """Three clients with three votes open their roster; the two that were told another refuse."""
    this = five()
    until(this, Stage.AGREEMENT)
    assert sorted(opened_by_liar(this)) == [0, 1, 4]


def test_without_votes_two_rosters_take_a_vector_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: T + 1 = 2 answers for the second roster give a combination of the parts of one vector.

    U = 3 answers open the whole sum. Two of a polynomial of degree two leave the noise out in one combination, which
    is one of the two parts of the sum of masks without the last client's; so the difference is one of its vector's.
    """
    monkeypatch.setattr(answers, "is_vote_for", lambda *_: True)
    this, field = five(), PrimeField(THREE.modulus)
    until(this, Stage.VECTORS)
    masked = {}
    for u, message in this.ask():
        fields = Envelope(SCHEME, this.terms, Stage.VECTORS, u, SERVER).opened(this.clients[u].reply(message), 1)
        masked[u] = elements_from(field, fields[0], (2,), "vector").tolist()
    code, p, sums = LightSecAggPlan.of(this.terms, THREE.modulus, 1).code, THREE.modulus, opened_by_liar(this)
    mask, _ = code.recover(np.stack([sums[u] for u in (0, 1, 4)]), (0, 1, 4), None)
    everybody = [sum(masked[u][k] for u in masked) - int(mask[k]) for k in (0, 1)]
    matrix = code.code.encoding_matrix.tolist()
    weights = {2: matrix[3][2], 3: -matrix[2][2]}  # with which the noise of clients 2 and 3 cancels
    parts = [sum(w * matrix[v][k] for v, w in weights.items()) for k in (0, 1)]
    four = sum(part * sum(masked[u][k] for u in range(4)) for k, part in enumerate(parts))
    four -= sum(w * int(sums[v][0]) for v, w in weights.items())
    found = sum(part * everybody[k] for k, part in enumerate(parts)) - four
    assert any(part % p for part in parts)
    assert (found - sum(part * int(vectors_of(5)[4, k]) for k, part in enumerate(parts))) % p == 0


def test_forged_votes_do_not_count() -> None:
    """The server cannot vote in the name of others, nor pass on a vote that was for somebody else."""
    this = five(StagedLightSecAgg(4))
    until(this, Stage.OPENING)
    requests = dict(this.ask())
    who, votes = Envelope(SCHEME, this.terms, Stage.OPENING, SERVER, 0).opened(requests[0], 2)
    for forged in (bytes(len(votes)), votes[TAG_BYTES:] + votes[:TAG_BYTES]):
        with pytest.raises(ProtocolError, match=r"a roster must have 4 votes before client 0 .*; found 1 for its own"):
            this.clients[0].reply(said(this.terms, Stage.OPENING, 0, [who, forged]))
    with pytest.raises(ProtocolError, match="found 3 for its own"):
        this.clients[0].reply(said(this.terms, Stage.OPENING, 0, [who[:8], votes[: 2 * TAG_BYTES]]))
    assert this.play().server.result().tolist() == vectors_of(5).sum(axis=0).tolist()


@pytest.mark.parametrize(
    ("roster", "message"),
    [
        ([1, 1, 0, 0, 0], "at least threshold = 3 senders; found 2"), ([0, 1, 1, 1, 1], "sender 0 must be on"),
        ([1, 1, 1, 2, 1], "0 or 1"), ([1, 1, 1, 1], "a byte for each of 5 clients; found 4"),
    ],
)  # fmt: skip
def test_rosters_that_break_a_rule_are_refused(roster: list[int], message: str) -> None:
    """Too short a sum, one without the client, one that says something else; a good one is answered afterwards."""
    this = five()
    until(this, Stage.AGREEMENT)
    with pytest.raises(ProtocolError, match=message):
        this.clients[0].reply(said(this.terms, Stage.AGREEMENT, 0, [bytes(roster)]))
    assert this.play().server.result().tolist() == vectors_of(5).sum(axis=0).tolist()


def test_a_vector_is_forgotten_when_it_is_sent_and_secrets_do_not_show() -> None:
    """The state after VECTORS is shorter by the vector; neither client nor server prints anything secret."""
    this = five()
    until(this, Stage.VECTORS)
    client, request = this.clients[1], this.server.requests()[1]
    vector = element_bytes(PrimeField(THREE.modulus), vectors_of(5)[1] % THREE.modulus)
    assert vector in client.state()
    client.reply(request)
    assert vector not in client.state()
    assert repr(client) == "StagedClient(lightsecagg, index=1, <secrets>)"
    assert repr(this.server) == "StagedServer(lightsecagg, sum=3, stage=VECTORS)"
    secrets = OwnSecrets.draw(SimulationCoins(0))
    assert repr(secrets) == "OwnSecrets()"


def test_the_driver_brings_a_sum_to_its_end() -> None:
    """Driven as in one process, with two clients that fall silent, it gives the sum of the others."""
    this = five()
    run(this.server, this.clients, {0: Stage.VECTORS, 3: Stage.OPENING})
    assert this.server.result().tolist() == vectors_of(5)[1:].sum(axis=0).tolist()
