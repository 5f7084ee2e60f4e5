"""What the server sees of staged sums under CKKS: ciphertexts like uniform ring elements, the sum, and no key.

That ciphertexts hide anything rests on ring-LWE, which no sample shows. What samples and judges show is that nothing
around it is broken: randomness that serves twice, is missing or cancels, few keys, and keys in the wrong hands.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.crypto.ckks import PublicKey, ReceiverKey
from fgl_secure.crypto.ckks_seal import ring
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.staged.ciphertexts import client as ckks_client
from fgl_secure.protocols.staged.ciphertexts.plan import SCHEME, CkksPlan
from fgl_secure.protocols.staged.ciphertexts.wire import ciphertexts_from
from fgl_secure.protocols.staged.ckks import StagedCkks
from fgl_secure.protocols.staged.envelope import SERVER, Envelope
from fgl_secure.protocols.staged.interface import Stage
from fgl_secure.protocols.staged.recorded import run_recorded
from fgl_secure.runtime import Channel, Directory, Party, Phase, Role, Step
from fgl_secure.testing import Protocol, assert_same_trace, assert_simulatable, assert_statistically_private
from fgl_secure.testing.protocol import Inputs
from tests.protocols.staged import ciphertext_mutations as mutation
from tests.protocols.staged.ciphertext_mutations import Patch
from tests.protocols.staged.ciphertext_views import elements, rounded, solved
from tests.protocols.staged.rounds import Moment, Sum, moments_of, terms_of, vectors_of

Ints = NDArray[np.int64]

SCHEME_OF_TWO, OBSERVER = StagedCkks(), Party(Role.SERVER, 0)
TERMS = terms_of(SCHEME_OF_TWO, 2, 1)
PARAMETERS = CkksPlan.of(TERMS).parameters
RING = ring(PARAMETERS.chain)
DEGREE = PARAMETERS.chain.degree
PLACES = (0, DEGREE - 1, DEGREE)
"""Coefficients that statistics look at: the first of c0, where the entry is, the last, where none is, and one of c1."""
PARTIES = Directory.hierarchy(2, 1)
SILOS, HUB = PARTIES.ids(Role.SILO), PARTIES.ids(Role.SERVER)
STILL, SWAPPED = np.zeros((2, 1), dtype=np.int64), np.array([[1], [-1]])


def encrypted(key: PublicKey, vector: Ints) -> bytes:
    """The one ciphertext of a short vector, as clients make it in stage VECTORS."""
    sent = ckks_client.sender_ciphertexts(key, vector)  # type: ignore[attr-defined]  # where patches lie
    return bytes(next(iter(sent)))


def shown(channel: Channel, number: int, words: Ints, total: Ints) -> None:
    """One sum as the server sees it: ring elements of two clients, and the sum that both of them open.

    Args:
        channel: shows it.
        number: of the sum.
        words: int64 [2, places] below q. That of the entry is also shown in units, as whoever reads it would round.
        total: int64 [1].
    """
    units = np.concatenate([words, words[:, :1] // PARAMETERS.scale], axis=1)
    channel.send(Phase.CIPHERTEXTS, Step(number), SILOS, np.repeat(HUB, 2), units)
    channel.send(Phase.UNMASKING, Step(number), SILOS, np.repeat(HUB, 2), np.stack([total, total]))


def encrypted_sums(patch: Patch | None, name: str) -> Protocol:
    """Sums of two clients by the functions of clients, a key pair a sum; inputs [clients, sums].

    What is opened is the sum and no noise, as test_ckks.py shows, so nothing is decrypted here: it takes too long.
    """

    def play(values: Inputs, channel: Channel) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            if patch is not None:
                patch(monkeypatch)
            for number, column in enumerate(values.T):
                key = ReceiverKey.generate(PARAMETERS)
                sent = [encrypted(key.public, column[u : u + 1]) for u in range(2)]
                words = np.stack([elements(PARAMETERS, data, PLACES) for data in sent])
                shown(channel, number, words, column.sum(keepdims=True))

    return Protocol(play, PARTIES, RING.modulus, SILOS, batched=False, name=name)


def test_the_server_learns_the_sum_alone() -> None:
    """Ciphertexts of one sum do not tell who brought what; where two clients take one u, errors fresh, they do."""
    good, broken = encrypted_sums(None, "ckks"), encrypted_sums(mutation.one_u_for_every(1), "one u for two clients")
    assert_statistically_private(good, STILL, SWAPPED, (OBSERVER,), broken_twin=broken, advantage=0.8, pairs=12)


def one_key(patch: Patch | None) -> Patch:
    """All sums under one key pair, and perhaps a flaw more."""
    one_pair = mutation.one_key_for_all_sums(ReceiverKey.generate(PARAMETERS))

    def both(monkeypatch: pytest.MonkeyPatch) -> None:
        one_pair(monkeypatch)
        if patch is not None:
            patch(monkeypatch)

    return both


def test_a_key_pair_may_serve_two_sums_and_randomness_may_not() -> None:
    """Two sums under one key pair tell nothing, for it is public and made for many; with one randomness they do."""
    good = encrypted_sums(one_key(None), "ckks, one key pair")
    broken = encrypted_sums(one_key(mutation.one_randomness_for_every(2)), "the same randomness in two rounds")
    a, b = np.array([[0, 0], [0, 0]]), np.array([[0, 1], [0, -1]])
    assert_statistically_private(good, a, b, (OBSERVER,), broken_twin=broken, advantage=0.8, pairs=24)


def test_the_view_is_made_up_from_the_sum() -> None:
    """Uniform ring elements and the sum pass for the server's view; not where ciphertexts have no mask."""

    def simulator(total: Ints, channel: Channel) -> None:
        shown(channel, 0, channel.coins.uniform(RING.modulus, (2, len(PLACES))), total)

    good, broken = encrypted_sums(None, "ckks"), encrypted_sums(mutation.no_mask, "no mask")
    found = assert_simulatable(
        good, np.array([[3], [-1]]), (OBSERVER,), simulator, leakage=lambda values: values.sum(axis=0),
        broken_twin=broken, advantage=0.8, pairs=12,
    )  # fmt: skip
    assert found.check == "simulation, statistical"


def whole_sum(patch: Patch | None, name: str) -> Protocol:
    """A sum of two clients message by message, all bytes on the channel; inputs [clients, length]."""

    def play(values: Inputs, channel: Channel) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            if patch is not None:
                patch(monkeypatch)
            run_recorded(SCHEME_OF_TWO, TERMS, values, channel, SILOS, int(HUB[0]), Step(0))

    return Protocol(play, PARTIES, RING.modulus, SILOS, batched=False, name=name)


def test_the_network_sees_the_same_messages() -> None:
    """Counts and sizes of all messages are those of any vectors; without frames those of SEAL's compression show."""
    broken = whole_sum(mutation.frames_cut_short, "frames cut short")
    far = np.array([[50], [-50]])
    assert_same_trace(whole_sum(None, "ckks"), STILL, far, broken_twin=broken)


THREE = StagedCkks(2)
PLAN = CkksPlan.of(terms_of(THREE, 3))
PLAIN = vectors_of(3)


def ciphertexts_of(moments: list[Moment], plan: CkksPlan = PLAN) -> list[Ints]:
    """What the server gets in stage VECTORS of a whole sum, as ring elements by client."""
    replies = next(moment.replies for moment in moments if moment.stage is Stage.VECTORS)
    fields = [Envelope(SCHEME, plan.terms, Stage.VECTORS, u, SERVER).opened(replies[u], 1)[0] for u in replies]
    return [elements(plan.parameters, ciphertexts_from(plan, field)[0]) for field in fields]


def differences(sent: list[Ints]) -> Ints:
    """What a server takes for the differences of vectors: c0 - c0', which is m - m' under one mask."""
    return np.stack([rounded(PLAN.parameters, here[0] - there[0], 2) for here, there in itertools.pairwise(sent)])


def plaintexts(sent: list[Ints]) -> Ints:
    """What it takes for the vectors: c0, which is m without a mask."""
    return np.stack([rounded(PLAN.parameters, words[0], 2) for words in sent])


READINGS: dict[str, tuple[Patch, Callable[[list[Ints]], Ints], Ints]] = {
    "randomness reused between clients": (mutation.one_randomness_for_every(1), differences, -np.diff(PLAIN, axis=0)),
    "u reused between clients": (mutation.one_u_for_every(1), differences, -np.diff(PLAIN, axis=0)),
    "no mask": (mutation.no_mask, plaintexts, PLAIN),
}


@pytest.mark.parametrize("name", READINGS)
def test_a_server_reads_nothing_in_messages_of_a_whole_sum(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is the server reads no vector in what it is sent; with the flaw it reads all, and the sum is right."""
    patch, reading, truth = READINGS[name]
    assert (reading(ciphertexts_of(moments_of(Sum.of(THREE, PLAN.terms, PLAIN)))) != truth).any(axis=1).all()
    patch(monkeypatch)
    run = Sum.of(THREE, PLAN.terms, PLAIN)
    assert (reading(ciphertexts_of(moments_of(run))) == truth).all()
    assert run.server.result().tolist() == PLAIN.sum(axis=0).tolist()


def read_in_two_rounds(patch: Patch | None, monkeypatch: pytest.MonkeyPatch) -> tuple[bool, list[int]]:
    """What the server makes of one client in two sums, each under a key pair of its own.

    Returns:
        whether u, solved for as if it were the same in both, is ternary; the first vector, as it follows from it.
    """
    if patch is not None:
        patch(monkeypatch)
    keys = tuple(ReceiverKey.generate(PLAN.parameters).public for _ in range(2))
    first, second = (encrypted(key, PLAIN[at]) for at, key in enumerate(keys))
    u, left = solved((keys[0], keys[1]), (first, second))
    return bool((np.abs(u) <= 1).all()), rounded(PLAN.parameters, left, 2).tolist()


def test_fresh_randomness_cannot_be_solved_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ciphertexts of two sums give no ternary u, and nothing of a vector."""
    ternary, vector = read_in_two_rounds(None, monkeypatch)
    assert not ternary
    assert vector != PLAIN[0].tolist()


def test_one_randomness_in_two_rounds_opens_vectors_under_fresh_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: u is solved for from c1 - c1' = (p1 - p1') u, and with it each vector, not a difference."""
    assert read_in_two_rounds(mutation.one_randomness_for_all_keys, monkeypatch) == (True, PLAIN[0].tolist())


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (mutation.no_second_polynomial, "must hide its plaintext; found one that anybody can read"),
        (mutation.mask_added_twice, "found a ciphertext whose content doesn't"),
    ],
    ids=["c1 = 0", "a mask added twice"],
)
def test_masks_that_are_missing_or_do_not_cancel_end_the_sum(
    patch: Patch, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With c1 = 0 the server refuses the ciphertext, with a mask added twice clients refuse what they decrypt."""
    Sum.of(THREE, PLAN.terms, PLAIN).play()
    patch(monkeypatch)
    with pytest.raises(ProtocolError, match=message):
        Sum.of(THREE, PLAN.terms, PLAIN).play()


def test_a_vector_added_twice_shows_in_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: nobody can refuse what is a ciphertext like others, but the sum is not that of the vectors."""
    mutation.vector_added_twice(monkeypatch)
    found = Sum.of(THREE, PLAN.terms, PLAIN).play().server.result().tolist()
    assert found == (2 * PLAIN).sum(axis=0).tolist() != PLAIN.sum(axis=0).tolist()
