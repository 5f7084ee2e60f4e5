"""Gradients of a generator tell rows of whoever answers, and their sum does not."""

from collections import Counter
from dataclasses import replace

import numpy as np

from fgl_reproduction.attacks.generators import SEVERAL, ClaimedRows, ClientRows, GeneratorGradientRows, GeneratorShape
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.runtime import Recording, Role
from fgl_secure.runtime.channel import Loss
from reproduction_tests.attacks.generator_runs import GRAPH, SETTINGS, record_round
from tests.attacks.conformance import Claims, measured
from tests.attacks.recorded import Run
from tests.attacks.summand_conformance import SummandConformance

EXACT = "exact recovery"


class TestGeneratorGradientRows(SummandConformance):
    attack = GeneratorGradientRows()

    def claims(self, guess: ClaimedRows) -> Claims:
        rows = map(tuple, guess.values.round(3).tolist())
        return Counter(zip(guess.observers.tolist(), guess.clients.tolist(), rows, strict=True))

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        return record_round(loss=loss, recording=recording)

    def test_reads_every_nearest_row_in_the_clear(self) -> None:
        """Each generated row has one at each other client, and all are read."""
        run = record_round()
        assert measured(self.attack, run)[EXACT].value == 1
        guess = self.attack.infer_with(run.transcript.views(Role.SILO), run.public, run.knows(GeneratorShape))
        assert guess is not None
        assert SEVERAL not in guess.clients
        assert set(guess.clients.tolist()) == set(guess.observers.tolist()) == {0, 1, 2}

    def test_reads_no_row_out_of_a_sum(self) -> None:
        """Under masks a client gets the sum alone, and claims means that are nobody's row."""
        assert measured(self.attack, record_round(PairwiseMasking()))[EXACT].value == 0

    def test_catches_clients_that_leak_under_masks(self) -> None:
        """The broken twin of a hidden sum: the gradients go along with it."""
        assert measured(self.attack, record_round(PairwiseMasking(), leaking=True))[EXACT].value == 1

    def test_reads_what_is_determined_of_more_rows_than_the_layer_is_wide(self) -> None:
        """Of a narrow layer nothing is, and nothing is claimed."""
        narrow = record_round(settings=replace(SETTINGS, width=1))
        assert not self.read(narrow)

    def test_one_other_client_is_no_sum(self) -> None:
        """The sum of one gradient is that gradient: this is why two clients are refused."""
        run = record_round(graph=replace(GRAPH, silo_of=np.minimum(GRAPH.silo_of, 1)))
        assert measured(self.attack, run)[EXACT].value == 1

    def test_claims_of_common_rows_have_a_prior(self) -> None:
        """Rows that clients share could be guessed: where all rows are equal, all of it."""
        run = record_round()
        guess = self.attack.infer_with(run.transcript.views(Role.SILO), run.public, run.knows(GeneratorShape))
        assert guess is not None
        alike = ClientRows(GRAPH.silo_of, np.ones_like(GRAPH.features))
        (found,) = self.attack.score(guess, alike)
        assert found.prior == 1
