"""Nodes sign their keys with identities that files name, say so where they don't, and agree on the configuration."""

import logging
from pathlib import Path

import pytest

from fgl_secure.flower.mailbox import RunStoppedError
from fgl_secure.flower.programs import app_of, save_identities, save_shares
from fgl_secure.methods import FedAvg
from fgl_secure.training.job import Job
from fgl_secure.training.processes.program_run import ProgramRun
from tests.flower.fake_federation import FakeGrid
from tests.flower.nodes import grid_of, mailbox_of
from tests.graphs import two_communities
from tests.training.processes.test_lying_server import job_of

SILOS = 3


@pytest.fixture(scope="module")
def job() -> Job:
    return job_of(FedAvg(epochs=1), "pairwise-masking", two_communities(devices=36, silos=SILOS))


def signed(job: Job, folder: Path) -> FakeGrid:
    """Nodes with files of identities."""
    grid = grid_of(job)
    save_identities(SILOS, folder)
    for number, context in enumerate(grid.contexts.values()):
        context.node_config |= {"identity": str(folder / f"identity{number}"), "identities": str(folder / "identities")}
    return grid


def unsigned_words(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What logs say of unsigned keys."""
    return [record.message for record in caplog.records if "unsigned" in record.message]


def test_nodes_say_whether_their_keys_are_signed(job: Job, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each node's log and the run's do, in plain words, and say nothing where keys are signed."""
    with caplog.at_level(logging.INFO, logger="flwr"):
        assert len(mailbox_of(job, signed(job, tmp_path)).run()) == SILOS
        assert unsigned_words(caplog) == []
        assert len(mailbox_of(job, grid_of(job)).run()) == SILOS
    told = unsigned_words(caplog)
    assert sum("a server in the middle could read messages between silos" in each for each in told) == SILOS
    assert sum("agreement on unsigned keys is due" in each for each in told) == 1


def test_the_apps_of_one_command_sign_keys(job: Job, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The command has a file of its own for each party, and signs without being asked to."""
    save_shares(job, tmp_path)
    save_identities(SILOS, tmp_path)
    run = ProgramRun(job.complete_task, SILOS)
    grid = FakeGrid([app_of(run, tmp_path) for _ in range(SILOS)])
    for number, context in enumerate(grid.contexts.values()):
        context.node_config["partition-id"] = number
    with caplog.at_level(logging.INFO, logger="flwr"):
        assert len(mailbox_of(job, grid).run()) == SILOS
    assert unsigned_words(caplog) == []


@pytest.mark.parametrize("change", ["unsigned", "another's", "one file", "stranger"])
def test_a_node_without_its_identity_has_no_run(job: Job, tmp_path: Path, change: str) -> None:
    """Others refuse keys that are unsigned or of a stranger; a node refuses files that are not its own."""
    grid = signed(job, tmp_path)
    config = next(iter(grid.contexts.values())).node_config
    if change == "unsigned":
        del config["identity"], config["identities"]
    elif change == "another's":
        config["identity"] = str(tmp_path / "identity1")
    elif change == "one file":
        del config["identities"]
    else:
        (tmp_path / "other").mkdir()
        save_identities(SILOS, tmp_path / "other")
        config |= {
            "identity": str(tmp_path / "other" / "identity0"),
            "identities": str(tmp_path / "other" / "identities"),
        }
    with pytest.raises(RunStoppedError, match=r"turn [01]"):
        mailbox_of(job, grid).run()


def test_nodes_under_different_configurations_have_no_run(job: Job) -> None:
    """One that was sent another configuration of the run, by which it could stand still; the control is above."""
    grid = grid_of(job)
    next(iter(grid.contexts.values())).run_config["rate"] = 0.0
    with pytest.raises(RunStoppedError, match="turn 2"):
        mailbox_of(job, grid).run()
