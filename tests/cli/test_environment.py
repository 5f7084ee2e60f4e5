"""The command line under odd encodings and streams: it works, or names what to change."""

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fgl_secure.cli.main import BAD_INPUT, OK, main
from tests.graphs import two_communities

NAME = "Zürich-图"
QUICK = ("--silos", "2", "--epochs", "1", "--scheme", "plaintext", "--device", "cpu")
AUDIT = ("audit", "fedspray", *QUICK, "--attack", "proxy-classes", "--out", "report")
TRAIN = ("train", "fedavg", *QUICK, "--quiet")
FULL = Path("/dev/full")
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A graph whose name no encoding of few letters has, in the working directory."""
    graph = two_communities()
    np.savez(tmp_path / f"{NAME}.npz", x=graph.features, y=graph.labels, edge_index=graph.edges)
    monkeypatch.chdir(tmp_path)
    return f"{NAME}.npz"


class Terminal(io.TextIOWrapper):
    """A standard output of some encoding."""

    def __init__(self, encoding: str) -> None:
        super().__init__(io.BytesIO(), encoding, "strict")

    @property
    def text(self) -> str:
        """What was printed."""
        self.seek(0)
        return self.read()


def test_figures_of_a_run_are_printed_in_any_encoding(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With question marks for letters that it lacks."""
    terminal = Terminal("latin-1")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main([*TRAIN, "--dataset", file]) == OK
    assert "Zürich-?" in terminal.text


def test_findings_are_printed_in_any_encoding(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the report's files are in UTF-8."""
    terminal = Terminal("ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main([*AUDIT, "--dataset", file]) == OK
    assert terminal.errors == "strict"  # as the caller had it
    assert "report.html" in terminal.text
    assert "???" not in terminal.text  # lines of tables are of letters that the encoding has
    assert NAME in Path("report/report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_closed_stream_changes_nothing(file: str, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends as ever, and the streams are as they were."""
    monkeypatch.setattr(sys, stream, None)
    assert main([*TRAIN, "--dataset", file]) == OK
    assert getattr(sys, stream) is None


def separate(words: tuple[str, ...], redirected: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command as a process of its own, with streams as a shell sets them."""
    script = f'exec "$@" {redirected}'
    return subprocess.run(  # our own program
        ["/bin/sh", "-c", script, "sh", sys.executable, "-m", "fgl_secure", *words],
        env={**os.environ, **variables}, capture_output=True, text=True, check=False, timeout=240, errors="replace",
    )  # fmt: skip


@pytest.mark.skipif(os.name != "posix", reason="needs a shell of POSIX")
def test_a_process_in_a_c_locale_without_streams_writes_its_files(file: str) -> None:
    """The bytes of a file's name are UTF-8 again in the report; what libraries print goes into no file."""
    assert separate((*AUDIT, "--dataset", file), "<&- >&- 2>&-", **C_LOCALE).returncode == OK
    report = Path("report/report.md").read_bytes().decode("utf-8")
    assert NAME in report
    assert f"{NAME}.npz" in Path("report/run.toml").read_bytes().decode("utf-8")


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
def test_a_full_error_stream_changes_nothing(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress and warnings are lost, and figures are not."""
    with FULL.open("w", encoding="utf-8", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        warning = "from outside"
        print(warning, file=sys.stderr, end="")
        assert main([*TRAIN[:-1], "--dataset", file]) == OK


def test_names_that_the_system_cannot_spell_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With what to set; here by a letter that UTF-8 lacks, as a C locale lacks most."""
    assert main([*AUDIT[:-1], "\ud800"]) == BAD_INPUT
    assert "PYTHONUTF8" in capsys.readouterr().err


def test_a_deleted_working_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Products of matrices would end the process there."""
    before, gone = Path.cwd(), tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    try:
        gone.rmdir()
        assert main(["list", "methods"]) == BAD_INPUT
    finally:
        os.chdir(before)
    assert "working directory" in capsys.readouterr().err
