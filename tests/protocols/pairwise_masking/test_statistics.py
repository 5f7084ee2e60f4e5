"""What a server sees at production size, by statistics: nothing but sums."""

import numpy as np

from fgl_secure.crypto.cryptography import Cryptography
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.runtime import Channel, MessageBatch, Party, Phase, Role, Step
from fgl_secure.testing import Protocol, assert_same_trace, assert_statistically_private
from fgl_secure.testing.protocol import Inputs
from tests.power import Array, sampled_by_entries, seeing
from tests.protocols.pairwise_masking import flaws
from tests.protocols.secagg.rounds import directory_of, topology_of

SERVER = Party(Role.SERVER, 0)
STEPS = (Step(1), Step(2))


def two_steps(cryptography: type[Cryptography], name: str) -> Protocol:
    """Two sums of two clients, the masked vectors alone recorded; inputs [2, steps, 1]."""

    def run(values: Inputs, channel: Channel) -> None:
        topology = topology_of(2, length=values.shape[-1])
        collective = Collective(PairwiseMasking(cryptography=cryptography), topology, channel)
        for number, step in enumerate(STEPS):
            collective.sum(np.ascontiguousarray(values[:, number]), step)

    def masked(batch: MessageBatch) -> list[Array]:
        return [batch["vector"]] if batch.phase is Phase.MASKED_VECTORS else []

    senders = topology_of(2).senders
    return Protocol(sampled_by_entries(run, masked), directory_of(2), 2**61 - 1, senders, name=name)


GOOD = two_steps(Cryptography, "pairwise-masking")
TWIN = two_steps(flaws.SeedsKeptOverSteps, "masks of the first step")


@seeing
def test_statistics_find_nothing_at_production_size(advantage: float) -> None:
    """Over 2^61 - 1 elements masked vectors of two rounds tell nothing; with seeds kept over rounds they do."""
    a, b = np.zeros((2, 2, 1), dtype=np.int64), np.array([[[0], [1]], [[0], [-1]]])
    assert_statistically_private(GOOD, a, b, (SERVER,), broken_twin=TWIN, advantage=advantage, pairs=12)


def test_the_network_sees_the_same_whatever_is_summed() -> None:
    """Ends, counts and sizes of all messages; with another vector sent twice by whoever has something to say."""

    def run(values: Inputs, channel: Channel) -> None:
        collective = Collective(PairwiseMasking(), topology_of(3, length=1), channel)
        collective.sum(np.ascontiguousarray(values), STEPS[0])

    def talkative(values: Inputs, channel: Channel) -> None:
        run(values, channel)
        for client in np.flatnonzero(values[:, 0]).tolist():
            channel.send_sizes(Phase.VECTORS, STEPS[0], np.array([client + 1]), np.array([0]), 8)

    senders = topology_of(3, length=1).senders
    good = Protocol(run, directory_of(3), 2**61 - 1, senders, batched=False, name="pairwise-masking")
    broken = Protocol(talkative, directory_of(3), 2**61 - 1, senders, batched=False, name="talkative")
    a, b = np.array([[0], [0], [0]]), np.array([[1], [0], [2]])
    assert_same_trace(good, a, b, broken_twin=broken, runs=2)
