"""The plugin as a user meets it: a test file outside the package, run by a pytest of its own.

One run is a process, as a user's is; the others are a second pytest in this process, where all is loaded already.
"""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import fgl_secure

USERS_FILE = """
from functools import partial

import numpy as np

from fgl_secure.algebra import PrimeField
from fgl_secure.runtime import Directory, Party, Phase, Role, Step
from fgl_secure.testing import Protocol, assert_exactly_private, assert_statistically_private

PARTIES = Directory({Role.DEVICE: 2, Role.SERVER: 2})
SERVER = [Party(Role.SERVER, 0)]


def share(inputs, channel, p, masks=2):
    devices, servers = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SERVER)
    mask = np.broadcast_to(channel.coins.uniform(p, (masks,)), (*channel.batch_shape, 2))
    channel.send(Phase.CODES, Step(0), devices, servers[[0, 0]], PrimeField(p).add(inputs[devices], mask))
    channel.send(Phase.CODES, Step(0), devices, servers[[1, 1]], mask)

"""
PASSING = """
def test_one_server_learns_nothing():
    good = Protocol(partial(share, p=11), PARTIES)
    twin = Protocol(partial(share, p=11, masks=1), PARTIES)
    assert_exactly_private(good, [3, 4, 0, 0], [3, 5, 0, 0], SERVER, broken_twin=twin)
"""
FAILING = """
def test_a_server_learns_something():
    twin = Protocol(partial(share, p=11, masks=1), PARTIES)
    assert_exactly_private(twin, [3, 4, 0, 0], [3, 5, 0, 0], SERVER, broken_twin=twin)
"""
STATISTICAL = """
def test_one_server_learns_nothing_at_production_size():
    good, twin = (Protocol(partial(share, p=2**31 - 1, masks=m), PARTIES, 2**31 - 1) for m in (2, 1))
    assert_statistically_private(good, [3, 4, 0, 0], [3, 5, 0, 0], SERVER, broken_twin=twin, advantage=.1)
"""


OPTIONS = ("-p", "fgl_secure.testing.plugin", "-p", "no:cacheprovider", "-p", "no:faulthandler")
"""The plugin and no other, and nothing of the pytest around it."""


def words_for(folder: Path, tests: str, *options: str) -> list[str]:
    """What pytest is given to run a user's file, which is written."""
    (folder / "test_users.py").write_text(USERS_FILE + tests)
    return [*OPTIONS, *options, "--rootdir", str(folder), str(folder)]


def run_apart(folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    """Runs pytest on a user's file, in a process of its own."""
    paths = [str(Path(fgl_secure.__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    command = [sys.executable, "-m", "pytest", *words_for(folder, tests)]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Runs pytest on a user's file in this process: exit status, and what it printed."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.chdir(tmp_path)

    def run(tests: str, *options: str) -> tuple[int, str]:
        words = words_for(tmp_path, tests, "--import-mode", "importlib", "--capture", "no", *options)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            status = pytest.main(words)
        sys.modules.pop("test_users")  # the next file has its name
        return int(status), said.getvalue()

    return run


def test_a_users_protocol_passes_in_four_lines(tmp_path: Path) -> None:
    """The test passes, and the summary says what it would have found."""
    done = run_apart(tmp_path, PASSING)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "= privacy tests =" in done.stdout
    assert "exact privacy, share, server 0: no difference found (total variation 0 (0)" in done.stdout
    assert "detectable advantage: any" in done.stdout


def test_a_users_broken_protocol_fails_with_a_readable_message(run_here: Callable[..., tuple[int, str]]) -> None:
    """The failure points at the user's line and names coalition, statistic and advantage; -q counts checks."""
    status, said = run_here(FAILING + PASSING, "-q")
    assert status == 1
    assert "2 privacy checks; without -q each says what it detects" in said
    for part in ("coalition: server 0", "statistic: total variation 1 (1)", "detectable advantage: any"):
        assert part in said
    assert ">       assert_exactly_private(twin" in said
    assert "twins.py" not in said


TWICE = (
    STATISTICAL
    + """
def test_it_repeats():
    test_one_server_learns_nothing_at_production_size()
"""
)


def test_options_set_sample_and_seed(run_here: Callable[..., tuple[int, str]]) -> None:
    """A seed repeats a test to the digit, and a larger sample detects less."""
    status, said = run_here(TWICE, "--privacy-seed", "4", "--privacy-samples", "5000")
    assert status == 0, said
    lines = [line.partition(", share")[2] for line in said.splitlines() if "statistical privacy" in line]
    assert len(lines) == 2
    assert len(set(lines)) == 1
    assert "detectable advantage: 0.0636 in one bit" in lines[0]


def test_a_sample_that_is_too_small_is_refused(run_here: Callable[..., tuple[int, str]]) -> None:
    status, said = run_here(STATISTICAL, "--privacy-samples", "50")
    assert status == 1
    assert "SampleTooSmallError: samples must number at least 2021 per arm" in said


def test_the_plugin_loads_nothing_heavy() -> None:
    """Every pytest run of a user loads the plugin, so it imports the standard library and pytest alone."""
    heavy = {"numpy", "torch", "scipy", "sklearn", "numba"}
    code = f"import sys, fgl_secure.testing.plugin; print(*{heavy}.intersection(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(Path(fgl_secure.__file__).resolve().parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert done.stdout.split() == []


BOUNDED = """
from fgl_secure.ceilings import Bounded
from fgl_secure.testing import assert_below_ceilings


class Audit:
    def bounded(self):
        return [Bounded("membership.auc", "RMIA, asked with features", 0.6)]


def test_a_model_reveals_little():
    assert_below_ceilings(Audit())
"""


@pytest.mark.parametrize(("ceiling", "expected"), [("0.55", 1), ("0.65", 0)])
def test_ceilings_come_from_the_command_line(
    run_here: Callable[..., tuple[int, str]], ceiling: str, expected: int
) -> None:
    status, said = run_here(BOUNDED, f"--privacy-ceiling=membership.auc={ceiling}")
    assert status == expected
    assert f"ceilings membership.auc {ceiling}: " in said
    assert ("above the ceiling of 0.55 for membership.auc: RMIA, asked with features" in said) is bool(expected)
