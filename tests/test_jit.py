"""Loops are compiled wherever they can be kept, and where they can't."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile

from fgl_secure import threads
from fgl_secure.errors import InputError
from tests.error_codes import about

READ_ONLY = """
import os, sys, tempfile
open_file = tempfile.TemporaryFile
def refuse(*arguments, dir=None, **options):
    if not os.path.realpath(dir).startswith(os.path.realpath(sys.argv[1])):
        raise OSError(30, "Read-only file system")
    return open_file(*arguments, dir=dir, **options)
tempfile.TemporaryFile = refuse  # by which numba finds out whether it can write to a folder
import numpy as np
from fgl_secure.crypto.aes_instructions import add_words
print(add_words(np.zeros(5, np.int64), np.arange(5), np.int64(7), 3, False))
"""


def double(values: Any) -> Any:
    """A loop."""
    return 2 * values


def read_only(tmp_path: Path, **variables: str) -> tuple[str, str, list[str]]:
    """What a program prints where loops can be kept in one folder alone: both streams, and what is in the folder."""
    folder = tmp_path / "cache"
    folder.mkdir(exist_ok=True)
    unset = ("NUMBA_CACHE_DIR", "FGL_SECURE_CACHE")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    command = [sys.executable, "-W", "error", "-c", READ_ONLY, str(folder)]
    run = subprocess.run(
        command, env={**environment, **variables}, capture_output=True, text=True, check=True, timeout=120
    )
    return run.stdout, run.stderr, sorted(path.name for path in folder.rglob("*.nbi"))


def test_a_read_only_installation_compiles_in_memory_and_says_so(tmp_path: Path) -> None:
    """The result is printed, and what to set."""
    out, err, kept = read_only(tmp_path)
    assert (out, kept) == ("2\n", [])
    assert len(err.splitlines()) == 1
    assert "NUMBA_CACHE_DIR" in err


def test_a_read_only_installation_keeps_loops_in_the_cache(tmp_path: Path) -> None:
    """Of this package, if numba has no folder of its own."""
    out, err, kept = read_only(tmp_path, FGL_SECURE_CACHE=str(tmp_path / "cache"))
    assert (out, err) == ("2\n", "")
    assert kept


def test_a_full_disk_costs_time_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that cannot be kept is compiled all the same."""

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(IndexDataCacheFile, "save", full)
    assert threads.njit()(double)(np.arange(3)).tolist() == [0, 2, 4]


def test_a_loop_without_a_source_file_is_compiled(caplog: pytest.LogCaptureFixture) -> None:
    found: dict[str, Any] = {}
    exec(compile("def triple(values):\n    return 3 * values", "<frozen>", "exec"), found)  # noqa: S102
    with caplog.at_level(logging.WARNING, "fgl_secure"):
        assert threads.njit()(found["triple"])(np.arange(3)).tolist() == [0, 3, 6]
    assert "NUMBA_CACHE_DIR" in caplog.text


def test_numbas_switch_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's integers do not wrap around: loops that are not compiled would give other results."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    with pytest.raises(InputError, check=about("NUMBA_DISABLE_JIT")):
        threads.njit()
