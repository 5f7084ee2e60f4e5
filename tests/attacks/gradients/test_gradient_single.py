from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fgl_secure.attacks.base import guess_of
from fgl_secure.attacks.gradients.knowledge import GradientKnowledge, client_gradients
from fgl_secure.attacks.gradients.model import Convolution
from fgl_secure.attacks.gradients.single import mean_predictions
from fgl_secure.attacks.registry import attack as named
from fgl_secure.errors import InputError
from fgl_secure.runtime import PublicParameters, Role
from tests.attacks.conformance import Claims, measured
from tests.attacks.gradients.gradient_runs import GradientConformance, Setting, clusters, model_of, record_round
from tests.attacks.recorded import Run
from tests.error_codes import about


class TestGradientLabels(GradientConformance):
    attack = named("gradient-labels")

    def claims(self, guess: Any) -> Claims:
        pairs = zip(guess.members, guess.counts.tolist(), strict=True)
        return Counter((tuple(clients.tolist()), tuple(counts)) for clients, counts in pairs)

    @pytest.mark.parametrize(
        ("convolution", "hidden"), [(Convolution.GCN, 64), (Convolution.SAGE, 64), (Convolution.SGC, 0)]
    )
    def test_reads_the_label_of_one_node(self, convolution: Convolution, hidden: int) -> None:
        """The only negative entry is the label, whatever the model."""
        run = record_round(clusters(silos=20), Setting(convolution, hidden, batch=1, dtype="float32"))
        assert measured(self.attack, run)["labels of batches"].value == 1

    def test_counts_labels_of_sums(self) -> None:
        """A sum over clients gives the labels of all their batches together."""
        run = record_round(clusters(), Setting(batch=4, summed=True))
        assert measured(self.attack, run)["labels of batches"].value > 0.7

    def test_needs_the_size_of_batches(self) -> None:
        """Whoever does not know how many nodes a batch has counts nothing."""
        run = self.run()
        seen = run.knows(GradientKnowledge)
        known = [replace(seen, model=replace(seen.model, sizes=()))]
        assert guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, known) is None


def test_predictions_are_even_where_nobody_is_known() -> None:
    """Without public nodes every class is as likely."""
    model = model_of(clusters(), Setting())
    assert mean_predictions(model, None).tolist() == [0.25] * 4


def test_vectors_of_another_length_are_refused() -> None:
    """Gradients that do not go with the model are an error, and not read as something else."""
    run = record_round(clusters(nodes=80), Setting())
    wider = model_of(clusters(nodes=80), Setting(hidden=65))
    with pytest.raises(InputError, check=about("flat")):
        client_gradients(run.transcript.views(Role.SERVER), PublicParameters(), GradientKnowledge(wider))


def test_attacks_read_the_round_of_their_weights() -> None:
    """A model at the weights of a later round finds nothing in the first."""
    run = record_round(clusters(nodes=80), Setting())
    later = replace(run.knows(GradientKnowledge).model, round=1)
    view = run.transcript.views(Role.SERVER)
    assert client_gradients(view, PublicParameters(), GradientKnowledge(later)) is None


SINGLE = Setting(hidden=0, batch=1)
MODELS = [SINGLE, replace(SINGLE, convolution=Convolution.SAGE), replace(SINGLE, convolution=Convolution.SGC, hops=2)]


class OfSingleNodes(GradientConformance):
    """What attacks on gradients of single nodes keep."""

    setting = SINGLE

    def read_nothing(self, run: Run) -> bool:
        """Whether the attack has no guess on a run."""
        return guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, run.knowledge) is None

    @pytest.mark.parametrize("other", [Setting(batch=1), replace(SINGLE, batch=2), replace(SINGLE, summed=True)])
    def test_needs_one_layer_and_one_node(self, other: Setting) -> None:
        """Two layers, two nodes in a batch, or a sum over clients give no guess."""
        assert self.read_nothing(record_round(clusters(nodes=80), other))

    def test_noise_spoils_outer_products(self) -> None:
        """A gradient under a thousandth of noise is no outer product, and nothing is claimed."""
        assert self.read_nothing(record_round(clusters(nodes=80), replace(SINGLE, noise=1e-3)))


class TestGradientSingleRow(OfSingleNodes):
    attack = named("gradient-single-row")

    def claims(self, guess: Any) -> Claims:
        laid = np.hstack(list(guess.rows.values()))
        return Counter((client, tuple(row)) for client, row in zip(guess.clients.tolist(), laid.tolist(), strict=True))

    @pytest.mark.parametrize("setting", [*MODELS, replace(SINGLE, dtype="float32")])
    def test_reads_the_rows_of_every_model(self, setting: Setting) -> None:
        """Averaged rows, and a node's own row and its neighbours' mean, are read under every convolution."""
        run = record_round(clusters(silos=20), setting)
        assert measured(self.attack, run)["entering rows"].value == 1

    def test_a_client_that_is_not_read_counts(self) -> None:
        """Half of the clients read are half of the rows."""
        run = record_round(clusters(silos=20), SINGLE)
        guess = self.guess(run)
        half = replace(guess, clients=guess.clients[:10], rows={name: rows[:10] for name, rows in guess.rows.items()})
        (found,) = self.attack.score(half, run.truth)
        assert found.value == 0.5


class TestGradientSingleNeighbours(OfSingleNodes):
    attack = named("gradient-single-neighbours")

    def claims(self, guess: Any) -> Claims:
        pairs = zip(guess.clients.tolist(), guess.fields, strict=True)
        return Counter((client, tuple(field.tolist())) for client, field in pairs if len(field))

    @pytest.mark.parametrize("setting", MODELS)
    def test_finds_neighbourhoods_of_every_model(self, setting: Setting) -> None:
        """Nodes and their neighbours are found under every convolution, also by whoever knows no owners."""
        found = measured(self.attack, record_round(clusters(silos=20), replace(setting, owners=False)))
        assert found["neighbourhoods found"].value > 0.98
        assert found["neighbourhoods claimed"].value > 0.98

    def test_reads_no_edges(self) -> None:
        """The attack gives the same guess where it knows no edges at all."""
        run = record_round(clusters(silos=20), SINGLE)
        known = run.knows(GradientKnowledge)
        assert known.candidates is not None
        bare = replace(known, candidates=replace(known.candidates, edges=np.empty((2, 0), dtype=np.int64)))
        assert self.read(run.told(bare)) == self.read(run)

    def test_needs_public_features(self) -> None:
        """Without them a row is not taken apart."""
        run = self.run()
        known = [GradientKnowledge(run.knows(GradientKnowledge).model)]
        assert guess_of(self.attack, run.transcript.views(Role.SERVER), PublicParameters(), known) is None
