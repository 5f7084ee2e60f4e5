from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.attacks.base import guess_of
from fgl_secure.attacks.gradients.model import Convolution
from fgl_secure.attacks.gradients.scope import GradientKnowledge
from fgl_secure.attacks.gradients.single import (
    GradientSingleNeighbours,
    GradientSingleRow,
    SingleFields,
    SingleRows,
    parts_of,
)
from fgl_secure.runtime import PublicParameters, Role
from tests.attacks.conformance import Claims, measured
from tests.attacks.gradients.gradient_conformance import GradientConformance, gradient_references
from tests.attacks.gradients.gradient_runs import Setting, clusters, record_round
from tests.attacks.recorded import Run

__all__ = ["gradient_references"]

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
    attack = GradientSingleRow()

    def claims(self, guess: SingleRows) -> Claims:
        laid = np.hstack(list(guess.rows.values()))
        return Counter((client, tuple(row)) for client, row in zip(guess.clients.tolist(), laid.tolist(), strict=True))

    @pytest.mark.parametrize("setting", MODELS)
    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    def test_reads_the_rows_of_every_model(self, setting: Setting, dtype: str) -> None:
        """Averaged rows, and a node's own row and its neighbours' mean, are read under every convolution."""
        run = record_round(clusters(silos=20), replace(setting, dtype=dtype))
        assert measured(self.attack, run)["entering rows"].value == 1

    def test_reads_to_the_last_digits(self) -> None:
        """In double precision no entry is off by more than 1e-14."""
        run = record_round(clusters(silos=20), SINGLE)
        guess = guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, run.knowledge)
        assert guess is not None
        nodes = np.concatenate([batch.nodes for batch in run.truth.batches])
        assert np.abs(guess.rows["0.weight"] - run.truth.entering["0.weight"][nodes]).max() < 1e-14

    def test_a_client_that_is_not_read_counts(self) -> None:
        """Half of the clients read are half of the rows."""
        run = record_round(clusters(silos=20), SINGLE)
        guess = guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, run.knowledge)
        assert guess is not None
        half = replace(guess, clients=guess.clients[:10], rows={name: rows[:10] for name, rows in guess.rows.items()})
        (found,) = self.attack.score(half, run.truth)
        assert found.value == 0.5


class TestGradientSingleNeighbours(OfSingleNodes):
    attack = GradientSingleNeighbours()

    def claims(self, guess: SingleFields) -> Claims:
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


def test_sums_are_taken_apart() -> None:
    """The rows of a sum with positive weights are found among many."""
    rng = np.random.default_rng(0)
    words = (rng.random((300, 200)) < 0.05).astype(np.float64)
    assert parts_of(0.5 * words[3] + 0.2 * words[70] + 0.1 * words[299], words, np.ones(300, bool)).tolist() == [
        3,
        70,
        299,
    ]


@pytest.mark.parametrize("why", ["nothing", "not eligible", "does not fit", "too many"])
def test_sums_that_do_not_fit_are_left_alone(why: str) -> None:
    """A row of zeros, a part that is not eligible, an entry that nobody has, or too many rows give no claim."""
    words = np.eye(4, 5)
    eligible = np.ones(4, dtype=np.bool_)
    total = words[0] + words[1]
    if why == "nothing":
        total = np.zeros(5)
    elif why == "not eligible":
        eligible[0] = False
    elif why == "does not fit":
        total = total + np.eye(5)[4]
    else:
        words = np.tile(words, (3, 1))
        eligible = np.ones(12, dtype=np.bool_)
    assert parts_of(total, words, eligible).tolist() == []
