from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.attacks.gradients.sums import RoundDisaggregation, SolvedUpdates, exposure
from fgl_secure.errors import InputError
from tests.attacks.conformance import Claims, measured
from tests.attacks.gradients.gradient_conformance import SumConformance, gradient_references
from tests.attacks.gradients.gradient_runs import record_static
from tests.attacks.recorded import Run

__all__ = ["gradient_references"]


def at_random(rounds: int, clients: int, seed: int = 0) -> NDArray[np.bool_]:
    """Every client takes part in a round with probability one half."""
    return np.random.default_rng(seed).random((rounds, clients)) < 0.5


def in_groups(rounds: int, clients: int, size: int) -> NDArray[np.bool_]:
    """Fixed groups of some clients that take part together or not at all."""
    return np.repeat(at_random(rounds, clients // size), size, axis=1)


class TestRoundDisaggregation(SumConformance):
    attack = RoundDisaggregation()

    def record(self) -> Run:
        return record_static(at_random(16, 8))

    def claims(self, guess: SolvedUpdates) -> Claims:
        return Counter(zip(guess.clients.tolist(), map(tuple, np.round(guess.updates, 9).tolist()), strict=True))

    def test_groups_that_come_together_expose_nobody(self) -> None:
        """Under batch partitioning into groups of four no update is solved, and no leverage exceeds a quarter."""
        found = measured(self.attack, record_static(in_groups(60, 40, 4)))
        assert found["updates solved"].value == found["clients exposed"].value == 0
        assert "the largest leverage is 0.25." in found["clients exposed"].finding

    def test_updates_that_change_are_not_solved(self) -> None:
        """Who took part when exposes all, but what changes from round to round by a tenth is not recovered."""
        found = measured(self.attack, record_static(at_random(60, 40), drift=0.1))
        assert found["clients exposed"].value == 1
        assert found["updates solved"].value == 0

    def test_exposure_alone_is_no_evidence(self) -> None:
        """How many would be exposed describes the participation, and is marked so."""
        found = measured(self.attack, self.record())
        assert found["clients exposed"].context
        assert not found["updates solved"].context


def test_random_participation_exposes_all_after_about_as_many_rounds_as_clients() -> None:
    """Far fewer rounds than clients expose hardly anybody, a few more than clients expose everybody."""
    assert exposure(at_random(20, 40)).share == 0
    assert exposure(at_random(45, 40)).share == 1


@pytest.mark.parametrize("size", [2, 4, 8])
def test_groups_bound_leverages(size: int) -> None:
    """Groups of T keep every leverage at 1 / T or below, however many rounds there are."""
    found = exposure(in_groups(200, 40, size))
    assert found.largest == pytest.approx(1 / size)
    assert found.histogram(4).sum() == 40


def test_a_client_alone_or_left_out_is_exposed() -> None:
    """One that takes part alone is exposed, and so is one by which two rounds differ; those who always meet are not."""
    found = exposure(np.array([[1, 0, 0, 0], [0, 1, 1, 1], [0, 0, 1, 1]], dtype=np.bool_))
    assert found.exposed.tolist() == [True, True, False, False]
    assert found.leverages == pytest.approx([1, 1, 0.5, 0.5])


def test_nobody_took_part() -> None:
    """No rounds expose nobody."""
    assert exposure(np.zeros((0, 3), dtype=np.bool_)).share == 0
    assert exposure(np.zeros((0, 0), dtype=np.bool_)).share == 0


def test_refuses_what_is_no_participation() -> None:
    """Numbers, or a single row, are refused."""
    with pytest.raises(InputError, match=r"bool \[rounds, clients\]; found float64 of shape \[2, 2\]"):
        exposure(np.ones((2, 2)))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"found bool of shape \[2\]"):
        exposure(np.ones(2, dtype=np.bool_))
