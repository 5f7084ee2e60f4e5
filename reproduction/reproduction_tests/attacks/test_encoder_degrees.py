"""Structure encoders tell which degrees a client has, and their sum does not."""

from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import replace

import numpy as np
import pytest

from fgl_reproduction.attacks.encoder_degrees import TOLD, DegreeTruth, EncoderDegrees, GuessedDegrees
from fgl_reproduction.methods.fedstar.audit_target import encoder_start, present_degrees, reference
from fgl_reproduction.methods.fedstar.program import HONEST, clients_of
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import TooFewClientsError
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel, PublicParameters, Recording
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.parties import hierarchy_of
from tests.attacks.conformance import Claims, measured
from tests.attacks.recorded import Run
from tests.attacks.summand_conformance import SummandConformance

PRESET = replace(HONEST, epochs=1, degrees=8)
GRAPH = reference()


def record_round(
    scheme: Scheme | None = None,
    *,
    decay: float = PRESET.weight_decay,
    loss: Loss | None = None,
    recording: Recording | None = None,
) -> Run:
    """A first round of FedStar."""
    preset = replace(PRESET, weight_decay=decay)
    job = clients_of(GRAPH, scheme or Plaintext(), preset)
    channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0), recording or Recording.everything(1), loss)
    with suppress(TooFewClientsError) if loss else nullcontext():
        job.open(channel).round(0)
    truth = DegreeTruth(present_degrees(GRAPH, preset))
    return Run(GRAPH, PublicParameters(), channel.transcript, truth, (encoder_start(preset, 0),))


class TestEncoderDegrees(SummandConformance):
    attack = EncoderDegrees()

    def claims(self, guess: GuessedDegrees) -> Claims:
        return Counter(
            (client, *np.flatnonzero(row).tolist())
            for client, row in zip(guess.clients.tolist(), guess.present, strict=True)
        )

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        return record_round(loss=loss, recording=recording)

    @pytest.mark.parametrize("decay", [0.0, PRESET.weight_decay])
    def test_reads_every_degree_in_the_clear(self, decay: float) -> None:
        """With weight decay and without."""
        assert measured(self.attack, record_round(decay=decay))[TOLD].value == 1

    def test_says_of_a_sum_the_same_for_all_clients(self) -> None:
        """Which tells none of them from another."""
        assert measured(self.attack, record_round(PairwiseMasking()))[TOLD].value == 0

    def test_where_all_have_the_same_degrees_there_is_nothing_to_tell(self) -> None:
        guess = GuessedDegrees(np.arange(3), np.ones((3, 2), dtype=np.bool_))
        assert not self.attack.score(guess, DegreeTruth(guess.present))

    @pytest.mark.parametrize(("said", "value"), [([1, 0], 1), ([0, 1], -1), ([1, 1], 0), ([0, 0], 0)])
    def test_pairs_are_counted_by_who_is_said_to_have_a_degree(self, said: list[int], value: int) -> None:
        """The right one, the wrong one, or none of both more than the other."""
        truth = DegreeTruth(np.array([[True], [False]]))
        (found,) = self.attack.score(GuessedDegrees(np.arange(2), np.array(said, dtype=np.bool_)[:, None]), truth)
        assert found.value == value
