"""What Flower's processes set up before any message is made, and what happens where Flower is missing."""

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

HAS_FLOWER = find_spec("flwr") is not None


class WithoutFlower(pytest.Module):
    """A file of tests that are skipped before it is imported."""

    def collect(self) -> Iterable[pytest.Item]:
        """Skips."""
        pytest.skip("flwr is not installed: it comes with fgl-secure[flower]")


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Skips every file of this folder by its name where Flower is not installed."""
    return None if HAS_FLOWER else WithoutFlower.from_parent(parent, path=module_path)


@pytest.fixture(scope="session", autouse=True)
def _states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Files of nodes' states go to a folder of the tests, not to the user's; in memory, for there are thousands."""
    memory = Path("/dev/shm")  # noqa: S108  # the folder within it has a name of its own
    root = memory if memory.is_dir() else tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory(dir=root) as folder:
        patch.setenv("FGL_SECURE_STATE", folder)
        yield


@pytest.fixture(autouse=True)
def _task_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages take their run from a global that the process of a run sets."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
