"""What the server sees of sums under a CKKS key that clients share: uniform ring elements, the sum, and no key.

That ciphertexts hide anything rests on ring-LWE, which no sample shows. What samples and judges show is that nothing
around it is broken: randomness that serves twice, is missing or cancels, few keys, and keys in the wrong hands.
"""

import contextlib
import itertools
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.coins import SystemCoins
from fgl_secure.crypto.ckks import PublicKey, ReceiverKey, ring
from fgl_secure.crypto.ckks_parameters import Parameters
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.ckks import SharedKeyCkks
from fgl_secure.protocols.ckks.shared_machines import SharedKeyClients
from fgl_secure.protocols.ckks.wire import ciphertexts_of, encrypt
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Channel, Directory, Party, Phase, Recording, Role, Step, decode
from fgl_secure.testing import Protocol, assert_same_trace, assert_simulatable, assert_statistically_private
from fgl_secure.testing.protocol import Inputs
from tests.error_codes import about
from tests.power import runs_of, seeing
from tests.protocols.ckks import flaws
from tests.protocols.ckks.ciphertext_views import elements, rounded, solved
from tests.protocols.ckks.flaws import Encrypt, clients_with
from tests.protocols.secagg.rounds import SESSION, Sent, Sum, topology_of, vectors_of

Ints = NDArray[np.int64]

OBSERVER = Party(Role.SERVER, 0)
PARAMETERS = Parameters.for_sums(2, 50, length=1)
RING = ring(PARAMETERS.chain)
DEGREE = PARAMETERS.chain.degree
PLACES = np.array([0, DEGREE // 2, DEGREE])
"""Coefficients that statistics look at of the first entry: of c0 where it is, of c0 where none is, and of c1. Those of
the next entries are the next ones."""
PARTIES = Directory.hierarchy(2, 1)
SILOS, HUB = PARTIES.ids(Role.SILO), PARTIES.ids(Role.SERVER)
STILL, SWAPPED = np.zeros((2, 1), dtype=np.int64), np.array([[1], [-1]])


def shown(channel: Channel, number: int, words: Ints, total: Ints) -> None:
    """One sum as the server sees it: ring elements of two clients, and the sum that both of them open.

    Args:
        channel: shows it.
        number: of the sum.
        words: int64 [samples, 2, places] below q. That of the entry is also shown in units, as whoever reads it would
            round.
        total: int64 [1].
    """
    units = np.concatenate([words, words[..., :1] // PARAMETERS.scale], axis=-1)
    channel.send(Phase.CIPHERTEXTS, Step(number), SILOS, np.repeat(HUB, 2), units)
    sums = np.broadcast_to(total, (*channel.batch_shape, 2, 1))
    channel.send(Phase.UNMASKING, Step(number), SILOS, np.repeat(HUB, 2), sums.copy())


def fresh() -> ReceiverKey:
    """A key pair."""
    return ReceiverKey.generate(PARAMETERS)


def encrypted_sums(make: Callable[[], Encrypt], name: str, key_of: Callable[[], ReceiverKey] = fresh) -> Protocol:
    """Sums of two clients by the functions of clients, a key pair a sum; inputs [clients, sums].

    What is opened is the sum and no noise, as test_shared_key.py shows, so nothing is decrypted here: it takes too
    long. A run gives a sample an entry, all of them the same: one coefficient holds one, and there are many.
    """

    def once(values: Inputs, entries: int) -> Ints:
        """int64 [sums, entries, clients, places]."""
        encrypt, looked_at = make(), (PLACES + np.arange(entries)[:, None]).reshape(-1)  # nothing is kept between runs
        found = []
        for column in values.T:
            public = key_of().public
            sent = [next(iter(encrypt(public, np.repeat(column[u], entries)))) for u in range(2)]
            found.append([elements(PARAMETERS, data, looked_at.tolist()).reshape(entries, -1) for data in sent])
        return np.array(found).swapaxes(1, 2)

    def play(values: Inputs, channel: Channel) -> None:
        (samples,) = channel.batch_shape
        words = np.concatenate([once(values, entries) for entries in runs_of(samples)], axis=1)
        for number, column in enumerate(values.T):
            shown(channel, number, words[number], column.sum(keepdims=True))

    return Protocol(play, PARTIES, RING.modulus, SILOS, name=name)


def honest() -> Encrypt:
    """As clients encrypt."""
    return encrypt


@seeing
def test_the_server_learns_the_sum_alone(advantage: float) -> None:
    """Ciphertexts of one sum do not tell who brought what; where two clients take one u, errors fresh, they do."""
    good = encrypted_sums(honest, "ckks")
    broken = encrypted_sums(lambda: flaws.one_u_for_every(1), "one u for two clients")
    assert_statistically_private(good, STILL, SWAPPED, (OBSERVER,), broken_twin=broken, advantage=advantage, pairs=12)


@seeing
def test_a_key_pair_may_serve_two_sums_and_randomness_may_not(advantage: float) -> None:
    """Two sums under one key pair tell nothing, for it is public and made for many; with one randomness they do."""
    one = fresh()
    good = encrypted_sums(honest, "ckks, one key pair", lambda: one)
    broken = encrypted_sums(lambda: flaws.one_randomness_for_every(2), "the same randomness in two rounds", lambda: one)
    a, b = np.array([[0, 0], [0, 0]]), np.array([[0, 1], [0, -1]])
    assert_statistically_private(good, a, b, (OBSERVER,), broken_twin=broken, advantage=advantage, pairs=24)


@seeing
def test_the_view_is_made_up_from_the_sum(advantage: float) -> None:
    """Uniform ring elements and the sum pass for the server's view; not where ciphertexts have no mask."""

    def simulator(total: Ints, channel: Channel) -> None:
        shown(channel, 0, channel.coins.uniform(RING.modulus, (2, len(PLACES))), total)

    good, broken = encrypted_sums(honest, "ckks"), encrypted_sums(flaws.no_mask, "no mask")
    found = assert_simulatable(
        good, np.array([[3], [-1]]), (OBSERVER,), simulator, leakage=lambda values: values.sum(axis=0),
        broken_twin=broken, advantage=advantage, pairs=12,
    )  # fmt: skip
    assert found.check == "simulation, statistical"


def whole_sum(clients: type[SharedKeyClients], name: str) -> Protocol:
    """A sum of two clients by the machines, all messages on the channel; inputs [clients, length]."""

    def play(values: Inputs, channel: Channel) -> None:
        topology = Topology.to_server(PARTIES, values.shape[1], 50)
        with contextlib.suppress(ProtocolError):  # a server refuses what is cut
            Collective(SharedKeyCkks(clients=clients), topology, channel).sum(values, Step(0))

    return Protocol(play, PARTIES, RING.modulus, SILOS, batched=False, name=name)


def talkative(values: Inputs, channel: Channel) -> None:
    """The same sum, and one message more of whoever has something to say."""
    whole_sum(SharedKeyClients, "ckks").run(values, channel)
    for client in np.flatnonzero(values[:, 0]).tolist():
        channel.send_sizes(Phase.VECTORS, Step(0), SILOS[[client]], HUB, 8)


def test_the_network_sees_the_same_messages() -> None:
    """Counts and sizes of all messages are those of any vectors, in every run; the twin says more for more."""
    broken = Protocol(talkative, PARTIES, RING.modulus, SILOS, batched=False)
    far = np.array([[50], [-50]])
    found = assert_same_trace(whole_sum(SharedKeyClients, "ckks"), STILL, far, broken_twin=broken)
    assert found.statistic.startswith("1 different traces")


def test_frames_are_filled_up() -> None:
    """Cut to their lengths the compression of ciphertexts shows in their sizes, which differ from run to run."""
    cut, filled = (
        {
            tuple(batch.item_bytes for batch in protocol.transcript(STILL, SystemCoins(), Recording()).messages)
            for _ in range(6)
        }
        for protocol in (whole_sum(flaws.FramesCutShort, "frames cut short"), whole_sum(SharedKeyClients, "ckks"))
    )
    assert len(cut) > 1
    assert len(filled) == 1


PLAIN = vectors_of(3)
OF_THREE = Parameters.for_sums(3, 50, length=2)


def three(clients: type[SharedKeyClients] = SharedKeyClients) -> Sum:
    """Three clients, two of whom must be left."""
    return Sum.of(SharedKeyCkks(2, clients), topology_of(3), PLAIN)


def ciphertexts_in(log: list[Sent]) -> list[Ints]:
    """What the server gets of vectors in a whole sum, as ring elements by client."""
    sent = [decode(one.data, SESSION) for one in log if one.phase is Phase.CIPHERTEXTS]
    return [elements(OF_THREE, ciphertexts_of(one, 0)[0]) for one in sent]


def differences(sent: list[Ints]) -> Ints:
    """What a server takes for the differences of vectors: c0 - c0', which is m - m' under one mask."""
    return np.stack([rounded(OF_THREE, here[0] - there[0], 2) for here, there in itertools.pairwise(sent)])


def plaintexts(sent: list[Ints]) -> Ints:
    """What it takes for the vectors: c0, which is m without a mask."""
    return np.stack([rounded(OF_THREE, words[0], 2) for words in sent])


READINGS: dict[str, tuple[Callable[[], Encrypt], Callable[[list[Ints]], Ints], Ints]] = {
    "randomness reused": (lambda: flaws.one_randomness_for_every(1), differences, -np.diff(PLAIN, axis=0)),
    "u reused between clients": (lambda: flaws.one_u_for_every(1), differences, -np.diff(PLAIN, axis=0)),
    "no mask": (flaws.no_mask, plaintexts, PLAIN),
}


@pytest.mark.parametrize("name", READINGS)
def test_a_server_reads_nothing_in_messages_of_a_whole_sum(name: str) -> None:
    """As it is the server reads no vector in what it is sent; with the flaw it reads all, and the sum is right."""
    make, reading, truth = READINGS[name]
    assert (reading(ciphertexts_in(three().play().log)) != truth).any(axis=1).all()
    run = three(clients_with(make())).play()
    assert (reading(ciphertexts_in(run.log)) == truth).all()
    assert run.result == PLAIN.sum(axis=0).tolist()


def read_in_two_rounds(encrypt: Encrypt) -> tuple[bool, list[int]]:
    """What the server makes of one client in two sums, each under a key pair of its own.

    Returns:
        whether u, solved for as if it were the same in both, is ternary; the first vector, as it follows from it.
    """
    keys: tuple[PublicKey, ...] = tuple(ReceiverKey.generate(OF_THREE).public for _ in range(2))
    first, second = (next(iter(encrypt(key, PLAIN[at]))) for at, key in enumerate(keys))
    u, left = solved((keys[0], keys[1]), (first, second))
    return bool((np.abs(u) <= 1).all()), rounded(OF_THREE, left, 2).tolist()


def test_fresh_randomness_cannot_be_solved_for() -> None:
    """Ciphertexts of two sums give no ternary u, and nothing of a vector."""
    ternary, vector = read_in_two_rounds(encrypt)
    assert not ternary
    assert vector != PLAIN[0].tolist()


def test_one_randomness_in_two_rounds_opens_vectors_under_fresh_keys() -> None:
    """The broken twin: u is solved for from c1 - c1' = (p1 - p1') u, and with it each vector, not a difference."""
    assert read_in_two_rounds(flaws.one_randomness_for_all_keys()) == (True, PLAIN[0].tolist())


def test_masks_that_are_missing_end_the_sum() -> None:
    """With c1 = 0 the server refuses the ciphertext."""
    with pytest.raises(ProtocolError, check=about("ciphertext")):
        three(clients_with(flaws.no_second_polynomial)).play()
