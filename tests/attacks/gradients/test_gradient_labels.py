from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.attacks.base import guess_of
from fgl_secure.attacks.gradients.model import Convolution
from fgl_secure.attacks.gradients.scope import GradientKnowledge, client_gradients
from fgl_secure.attacks.gradients.single import GradientLabels, LabelCounts, counted, mean_predictions, rounded
from fgl_secure.errors import InputError
from fgl_secure.runtime import PublicParameters, Role
from tests.attacks.conformance import Claims, measured
from tests.attacks.gradients.gradient_conformance import GradientConformance, gradient_references
from tests.attacks.gradients.gradient_runs import Setting, clusters, model_of, record_round

__all__ = ["gradient_references"]


class TestGradientLabels(GradientConformance):
    attack = GradientLabels()

    def claims(self, guess: LabelCounts) -> Claims:
        pairs = zip(guess.members, guess.counts.tolist(), strict=True)
        return Counter((tuple(clients.tolist()), tuple(counts)) for clients, counts in pairs)

    @pytest.mark.parametrize("convolution", list(Convolution))
    @pytest.mark.parametrize("hidden", [0, 64])
    def test_reads_the_label_of_one_node(self, convolution: Convolution, hidden: int) -> None:
        """The only negative entry is the label, whatever the model."""
        if convolution is Convolution.SGC and hidden:
            return
        run = record_round(clusters(silos=20), Setting(convolution, hidden, batch=1, dtype="float32"))
        assert measured(self.attack, run)["labels of batches"].value == 1

    def test_counts_labels_of_sums(self) -> None:
        """A sum over clients gives the labels of all their batches together."""
        run = record_round(clusters(), Setting(batch=4, summed=True))
        assert measured(self.attack, run)["labels of batches"].value > 0.7

    def test_counts_large_batches(self) -> None:
        """Thirty labels are counted nearly as well as four."""
        run = record_round(clusters(), Setting(batch=30))
        found = measured(self.attack, run)["labels of batches"]
        assert found.value > 0.7 > found.prior + 0.3

    def test_needs_the_size_of_batches(self) -> None:
        """Whoever does not know how many nodes a batch has counts nothing."""
        run = self.run()
        seen = run.knows(GradientKnowledge)
        known = [replace(seen, model=replace(seen.model, sizes=()))]
        assert guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, known) is None


def test_whole_numbers_keep_their_sum() -> None:
    """The largest remainders round up, negative ones count as none, and nothing at all is spread evenly."""
    assert rounded(np.array([1.6, 0.7, 0.7]), 3).tolist() == [1, 1, 1]
    assert rounded(np.array([2.2, -1.0, 0.9]), 3).tolist() == [2, 0, 1]
    assert rounded(np.zeros(3), 4).sum() == 4


def test_one_node_goes_by_the_sign() -> None:
    """For one node predictions do not matter."""
    assert counted(np.array([0.4, -0.5, 0.1]), np.array([1.0, 0.0, 0.0]), 1).tolist() == [0, 1, 0]


def test_predictions_are_even_where_nobody_is_known() -> None:
    """Without public nodes every class is as likely."""
    model = model_of(clusters(), Setting())
    assert mean_predictions(model, None).tolist() == [0.25] * 4


def test_vectors_of_another_length_are_refused() -> None:
    """Gradients that do not go with the model are an error, and not read as something else."""
    run = record_round(clusters(nodes=80), Setting())
    wider = model_of(clusters(nodes=80), Setting(hidden=65))
    with pytest.raises(InputError, match=r"flat must have \d+ entries in its last axis; found shape \[4, \d+\]"):
        client_gradients(run.transcript.views(Role.SERVER), PublicParameters(), GradientKnowledge(wider))


def test_attacks_read_the_round_of_their_weights() -> None:
    """A model at the weights of a later round finds nothing in the first."""
    run = record_round(clusters(nodes=80), Setting())
    later = replace(run.knows(GradientKnowledge).model, round=1)
    view = run.transcript.views(Role.SERVER)
    assert client_gradients(view, PublicParameters(), GradientKnowledge(later)) is None
