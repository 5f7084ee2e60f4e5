"""The compared methods with a node for each silo: what one process finds."""

from pathlib import Path

import pytest

from reproduction_tests.methods.test_compared_methods import each_method, graph_for, small
from tests.flower.test_programs import check, check_shares, check_told, job_of


@each_method
@pytest.mark.parametrize("scheme", [None, "plaintext"])
def test_silos_apart_find_what_one_process_finds(name: str, scheme: str | None) -> None:
    """Under its default secure schemes, and in the clear."""
    check(small(name), scheme, graph_for(name))


@each_method
def test_silos_are_told_their_share_and_nothing_of_others(name: str, tmp_path: Path) -> None:
    """The graph is in the shares alone."""
    job = job_of(small(name), None, graph_for(name))
    check_shares(job, tmp_path)
    check_told(job)
