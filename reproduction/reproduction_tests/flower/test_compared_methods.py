"""The compared methods with a node for each silo: what one process finds."""

from pathlib import Path

import pytest

from reproduction_tests.methods.test_compared_methods import each_method, graph_for, small
from tests.flower.test_programs import check, check_shares, check_told, job_of


@pytest.mark.parametrize("name", ["ditto", "fedgcn"])
def test_silos_apart_find_what_one_process_finds(name: str) -> None:
    """Under default secure schemes: sums at the server, and rows between silos."""
    check(small(name), None, graph_for(name))


@each_method
def test_silos_are_told_their_share_and_nothing_of_others(name: str, tmp_path: Path) -> None:
    """The graph is in the shares alone."""
    job = job_of(small(name), None, graph_for(name))
    check_shares(job, tmp_path)
    check_told(job)
