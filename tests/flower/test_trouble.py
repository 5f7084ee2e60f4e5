"""Silos as processes over TLS, of which some are late and some are killed."""

import sys
from pathlib import Path

from tests.flower.processes import ROOT, run


def test_silos_bear_supernodes_that_are_late_or_restarted(tmp_path: Path) -> None:
    """Of three silos one comes late, and another is killed in a round and started again with its state.

    All rounds are those of one process. A node that is gone for good is named in `test_mailbox`.
    """
    command = [sys.executable, "run_here.py", "--method", "fedavg", "--rounds", "3", "--scheme", "plaintext"]
    done = run([*command, "--trouble", "late", "restart"], ROOT / "examples" / "flower_silos", tmp_path)
    assert done.returncode == 0, done.stdout
    for said in ("SuperNode 1 came late", "SuperNode 2 was started again", "RIGHT: the run is that of one process"):
        assert said in done.stdout, done.stdout
