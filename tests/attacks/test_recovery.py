from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.attacks.recovery import (
    ClaimedTerms,
    RecoveredRows,
    largest_share,
    score_claimed_terms,
    score_recovered_rows,
)
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Direction, Role, Step
from tests.attacks.recorded import record, star_and_path, whole_numbers


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=12))
def test_largest_share_counts_equal_rows(rows: list[tuple[int, int]]) -> None:
    """The most frequent row is found as a count over tuples finds it."""
    assert largest_share(np.array(rows, dtype=np.int32)) == max(map(rows.count, rows)) / len(rows)


def test_no_rows_have_no_largest_share() -> None:
    """Without rows the share is 0."""
    assert largest_share(np.empty((0, 3), dtype=np.int8)) == 0


def test_prior_is_the_most_frequent_row_of_the_attacked_messages() -> None:
    """Three messages with one row and one with another: naming the first is right in three of four."""
    values = np.array([[1.0], *[[2.0]] * 8])
    run = record(star_and_path(), Plaintext(), values)
    devices = run.transcript.parties.ids(Role.DEVICE)
    guess = RecoveredRows(Step(0, 0), devices[[0, 1, 2, 3]], values[[0, 1, 2, 0]])
    (found,) = score_recovered_rows([guess], run.truth)
    assert found.value == pytest.approx(3 / 4)
    assert found.prior == pytest.approx(3 / 4)
    assert found.random == 0
    assert found.finding.startswith("3 of 4 rows of 1 coordinates read exactly")
    assert "33.3% of all such messages" in found.finding  # 4 of the 12 that were sent


def test_gradients_are_scored_apart_from_embeddings() -> None:
    """What was read on the way back has a figure of its own, which misses on the way there leave alone."""
    forward, backward = Step(0, 0), Step(0, 0, Direction.BACKWARD)
    run = record(star_and_path(), Plaintext(), whole_numbers(9, 4, 40))
    embeddings = run.truth.embeddings[forward]
    truth = replace(run.truth, embeddings={forward: embeddings, backward: -embeddings})
    devices = run.transcript.parties.ids(Role.DEVICE)
    guess = [RecoveredRows(forward, devices, embeddings + 1), RecoveredRows(backward, devices, -embeddings)]
    found = score_recovered_rows(guess, truth)
    assert [(each.metric, each.value, each.n) for each in found] == [
        ("exact recovery", 0, 9),
        ("exact gradients", 1, 9),
    ]
    assert [each.metric for each in score_recovered_rows(guess[1:], truth)] == ["exact gradients"]


def test_rows_of_zeros_count_neither_for_nor_against() -> None:
    """A row of zeros is no secret: reading it is no success, misreading it no failure, and alone it is no figure."""
    values = whole_numbers(9, 4, 40)
    values[[0, 1]] = 0
    run = record(star_and_path(), Plaintext(), values)
    devices, read = run.transcript.parties.ids(Role.DEVICE), values.copy()
    read[[1, 2]] += 1
    (found,) = score_recovered_rows([RecoveredRows(Step(0, 0), devices, read)], run.truth)
    assert found.value == pytest.approx(6 / 7)
    assert found.n == 7
    assert found.prior == pytest.approx(1 / 7)
    assert score_recovered_rows([RecoveredRows(Step(0, 0), devices[:2], values[:2])], run.truth) == ()


def test_claimed_terms_are_matched_as_multisets() -> None:
    """A row that two neighbours have counts twice if claimed twice, and once if claimed once or in another sum."""
    values = np.array([[1.0], [2.0], [2.0], [3.0], [4.0], *[[9.0]] * 4])
    run = record(star_and_path(), Plaintext(), values)
    devices = run.transcript.parties.ids(Role.DEVICE)
    centre = devices[[0, 0, 0, 0, 6]]
    guess = ClaimedTerms(Step(0, 0), centre, np.array([[2.0], [2.0], [2.0], [5.0], [3.0]]))
    read, exact = score_claimed_terms(guess, run.truth)
    assert (read.metric, read.context, exact.metric, exact.context) == ("messages read", False, "precision", True)
    assert read.value == pytest.approx(2 / 12)
    assert exact.value == pytest.approx(2 / 5)
    assert read.prior == exact.prior == pytest.approx(4 / 12)  # the ends of the path and its middle share a row
    assert read.finding == "2 of 12 rows are read exactly out of sums; 2 of 5 rows that are claimed are right."


def test_no_claimed_terms_have_no_precision() -> None:
    """Without a claim nothing is read, and there is no share of right claims."""
    run = record(star_and_path(), Plaintext(), whole_numbers(9, 2, 9))
    nothing = ClaimedTerms(Step(0, 0), np.empty(0, dtype=np.int64), np.empty((0, 2)))
    (read,) = score_claimed_terms(nothing, run.truth)
    assert (read.metric, read.value) == ("messages read", 0)
