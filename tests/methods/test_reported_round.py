"""Which round is reported if there are no nodes to choose it on, if scores tie, and if they are no numbers."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from fgl_secure import train
from fgl_secure.auditing.method import Method
from fgl_secure.cli.printing import describe
from fgl_secure.methods import Fed2GNN, FedAvg, FedSpray, FedStruct, HiFGL
from fgl_secure.methods.fed2gnn import audit_target
from fgl_secure.training.loop import Scores
from fgl_secure.training.presets import Selection
from tests.graphs import two_communities
from tests.methods.fed2gnn.small import hurried_preset

WHOLE = two_communities(60, 3)
NONE = np.zeros_like(WHOLE.train_mask)
ROUNDS = 3


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_target, "fed2gnn_preset", hurried_preset)


@pytest.mark.parametrize("kind", [HiFGL, FedStruct, FedSpray, Fed2GNN, FedAvg])
def test_without_validation_nodes_every_method_reports_its_last_round(kind: Any) -> None:
    """Trained, as long as it goes; FedSpray counts rounds from 0."""
    check_last_round(kind(epochs=ROUNDS), from_0=kind is FedSpray)


def check_last_round(method: Method, *, from_0: bool = False) -> None:
    """It is said in the result, in JSON and in print."""
    done = train(method, replace(WHOLE, validation_mask=NONE), "plaintext", device="cpu")
    result = done.result
    assert result.selected_round == result.rounds - from_0 > 0
    assert result.accuracy.validation is None
    assert result.accuracy.test is not None
    said = "no validation nodes: the last round"
    assert done.to_json()["chosen_on"] == said
    assert said in describe(done)


@pytest.mark.parametrize("kind", [partial(HiFGL, preset="public-code"), partial(FedStruct, preset="paper")])
def test_presets_that_choose_on_test_nodes_report_the_last_round_without_any(kind: Any) -> None:
    """As without validation nodes; there is no test accuracy then."""
    done = train(kind(epochs=ROUNDS), replace(WHOLE, test_mask=NONE), "plaintext", device="cpu")
    assert done.result.selected_round == done.result.rounds
    assert done.accuracy.test is None
    assert str(done.to_json()["chosen_on"]).endswith("the last round")


def test_the_last_round_is_that_of_training_with_validation_nodes() -> None:
    """The masks of other nodes change no model: the test accuracy is that of the last of the same rounds."""
    rounds = [
        train(FedAvg(epochs=epochs), replace(WHOLE, validation_mask=NONE), "plaintext", device="cpu").accuracy.test
        for epochs in range(1, 7)
    ]
    chosen = train(FedAvg(epochs=6), WHOLE, "plaintext", device="cpu")
    assert chosen.accuracy.test == rounds[chosen.result.selected_round - 1]
    assert rounds[-1] is not None
    assert rounds[-1] > 0.5


def test_some_silos_without_validation_nodes_change_nothing() -> None:
    graph = replace(WHOLE, validation_mask=WHOLE.validation_mask & (WHOLE.silo_of == 0))
    done = train(FedAvg(epochs=ROUNDS), graph, "plaintext", device="cpu")
    assert done.accuracy.validation is not None
    assert done.to_json()["chosen_on"] == "chosen on validation accuracy"


def seen(scores: Scores, *rounds: tuple[int, float | None]) -> int:
    """The round that is kept of some, each with right predictions of two validation nodes and a score."""
    for number, (right, score) in enumerate(rounds):
        scores.see(number, np.array([right, 2, 0, 0]), score=score)
    return scores.best_round


def test_no_score_that_is_no_number_is_chosen() -> None:
    """Losses that overflow: a round before or after them is kept, and the first if there is no other."""
    nan = float("nan")
    assert seen(Scores(Selection.VALIDATION), (1, nan), (1, -9.0), (1, nan), (1, -8.0), (1, nan)) == 3
    assert seen(Scores(Selection.VALIDATION), (1, -9.0), (1, nan)) == 0


def test_equal_scores_keep_the_first_trained_model() -> None:
    """One validation node that is predicted right, or wrong, all along doesn't choose the untrained model."""
    for right in (0, 1, 2):
        assert seen(Scores(Selection.VALIDATION), (right, None), (right, None), (right, None)) == 1
    assert seen(Scores(Selection.VALIDATION), (2, None), (1, None), (2, None)) == 2
    assert seen(Scores(Selection.VALIDATION), (1, None), (2, None), (2, None)) == 1
