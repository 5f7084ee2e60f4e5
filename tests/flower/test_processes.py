"""The same code as processes that talk over TLS, on one network; runs of many processes mostly wait."""

import importlib
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from cryptography.x509 import load_pem_x509_certificate

from examples.local_federation import LocalFederation, LocalProcessError, as_toml, make_certificates, offline_variables
from fgl_secure.errors import InputError
from tests.error_codes import about
from tests.flower.processes import MARK, PATIENCE, ROOT, left_behind

SILOS = 4
CONFIG: dict[str, str | int] = {"method": "fedavg", "silos": SILOS, "rounds": 3, "scheme": "plaintext"}


def script(example: str, name: str) -> ModuleType:
    """A script of an example, with what it imports from its folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples" / example))
        return importlib.import_module(name)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the silos' files, which is also the mark of all processes."""
    return tmp_path_factory.mktemp("silos")


@pytest.fixture(scope="module")
def network(home: Path) -> Iterator[LocalFederation]:
    """A SuperLink and four SuperNodes, for the apps of both examples; ClientApps are forked with libraries loaded."""
    silos = script("flower_silos", "run_here")
    nodes = [{**node, "num-partitions": SILOS} for node in silos.prepare_parties(home, CONFIG)]
    libraries = [*silos.PRELOAD, "fgl_secure.flower", "torch_geometric.nn", "sklearn.neighbors", "sklearn.datasets"]
    variables = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", MARK: str(home)}
    with LocalFederation(nodes, variables, [str(silos.EXECUTOR), "--preload", *libraries]) as federation:
        yield federation


FAILING = {
    "pyproject.toml": """
[project]
name = "failing"
version = "1"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "tests"
[tool.flwr.app.components]
serverapp = "failing:server"
clientapp = "failing:client"
""",
    "failing.py": """
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client = ClientApp()
server = ServerApp()


@server.main()
def main(grid, context):
    raise ValueError("no round gave a mean")
""",
}


def test_a_run_whose_server_app_fails_ends_with_an_error(network: LocalFederation, tmp_path: Path) -> None:
    """Flower's own command exits with 0 then."""
    for name, text in FAILING.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(LocalProcessError, check=about("run")):
        network.run(tmp_path)


def test_killed_supernode_is_left_out_over_tls(
    network: LocalFederation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four SuperNodes over TLS, one killed after it shared its keys: the round completes with the others' mean."""
    example = script("flower_secagg", "run_tls")
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "flower_secagg"))
    assert example.run_on(network, example.options_of(["--kill", "2", "--timeout", str(PATIENCE)])) == 0
    printed = capsys.readouterr().out
    assert "killed in mid-round" in printed
    assert "RIGHT" in printed


def test_silos_bear_supernodes_that_are_late_or_restarted(
    network: LocalFederation, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of four silos one comes late, and another is killed in a round and started again with its state.

    All rounds are those of one process. A node that is gone for good is named in `test_mailbox`.
    """
    example = script("flower_silos", "run_here")
    for number in range(SILOS):
        if network.node_is_up(number) is (number == example.LATE):
            (network.kill_node if number == example.LATE else network.start_node)(number)
        (home / f"state{number}").unlink(missing_ok=True)  # of the run before, for a file serves one
    found = example.run_on(network, home, CONFIG, PATIENCE, ["late", "restart"])
    expected = example.job_of(CONFIG).train()
    assert example.verdict(found, expected) == 0
    printed = capsys.readouterr().out
    for said in ("SuperNode 1 came late", "SuperNode 2 was started again", "RIGHT: the run is that of one process"):
        assert said in printed
    found["0/losses"] = found["0/losses"] + np.array([0.0, 1e-3, 0.0])  # the control: a wrong loss is noticed
    assert example.verdict(found, expected) == 1
    assert "WRONG" in capsys.readouterr().out
    stopped = {"0/losses": np.array(expected.losses[:1])}
    assert example.verdict(stopped, expected) == 1
    assert "STOPPED: 1 of 3 rounds are over, as in one process" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--silos", "2"], ["--rounds", "0"]])
def test_options_of_the_example_out_of_range_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["run_here.py", *options])
    assert script("flower_silos", "run_here").main() == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)


def test_processes_end_with_their_network(network: LocalFederation, home: Path) -> None:
    """The last test of the network; what watches its parent needs a moment to see that it is gone."""
    assert left_behind(home)
    network.close()
    end = time.monotonic() + 60
    while left_behind(home) and time.monotonic() < end:
        time.sleep(0.2)
    assert left_behind(home) == []


def test_certificates_are_of_this_machine_only(tmp_path: Path) -> None:
    """A server certificate names localhost, is signed by the authority made with it, and its key is for its owner."""
    files = make_certificates(tmp_path)
    authority, server = (load_pem_x509_certificate(f.read_bytes()) for f in (files.authority, files.certificate))
    server.verify_directly_issued_by(authority)
    assert files.key.stat().st_mode & 0o077 == 0
    trust = ssl.create_default_context(cafile=str(files.authority))
    assert trust.verify_mode is ssl.CERT_REQUIRED
    with pytest.raises(ssl.SSLError):
        ssl.create_default_context(cafile=str(files.key))


class Quiet(LocalFederation):
    """A federation without processes."""

    def _start_link(self) -> None:
        pass


TERMINATED = """
import time
from tests.flower.test_processes import Quiet

with Quiet([]) as federation:
    print(federation.folder, flush=True)
    time.sleep({patience})
"""


def test_sigterm_leaves_no_key_behind() -> None:
    """A program that is told to end while a federation runs leaves no server.key and no folder."""
    # A program of its own: one forked from this one, whose libraries run threads, may wait for them for ever.
    command = [sys.executable, "-c", TERMINATED.format(patience=PATIENCE)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        folder = Path(process.stdout.readline().strip())
        there = (folder / "server.key").exists()
        process.terminate()
        code = process.wait(PATIENCE)
    left = folder.exists()
    shutil.rmtree(folder, ignore_errors=True)
    assert (there, left, code) == (True, False, 128 + signal.SIGTERM)


def test_a_handler_of_the_programs_own_stays() -> None:
    """Where the program handles SIGTERM, a federation leaves that alone; else the default is back afterwards."""
    kept = signal.getsignal(signal.SIGTERM)
    try:
        for own in (signal.SIG_IGN, signal.SIG_DFL):
            signal.signal(signal.SIGTERM, own)
            with Quiet([]):
                assert (signal.getsignal(signal.SIGTERM) is own) is (own is signal.SIG_IGN)
            assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, kept)


def test_federation_must_be_entered(tmp_path: Path) -> None:
    """A federation that was not entered starts nothing."""
    with pytest.raises(InputError, check=about("federation")):
        LocalFederation([{}]).start(tmp_path)
    with pytest.raises(LocalProcessError, check=about("node")):
        LocalFederation([{}]).kill_node(0)


def test_configuration_is_written_as_flower_reads_it() -> None:
    """Texts are quoted, truth values in lower case; what cannot be quoted is refused."""
    assert [as_toml(value) for value in ("a b", True, 3, 0.5)] == ['"a b"', "true", "3", "0.5"]
    with pytest.raises(InputError, check=about("text")):
        as_toml('a"b')


def test_flower_is_kept_offline_and_out_of_the_home_folder(tmp_path: Path) -> None:
    """Processes get a folder of their own and no telemetry, updates or proxies."""
    variables = offline_variables(tmp_path)
    assert variables["FLWR_HOME"] == str(tmp_path)
    assert (variables["FLWR_TELEMETRY_ENABLED"], variables["FLWR_DISABLE_UPDATE_CHECK"]) == ("0", "1")
    assert Path(offline_variables(Path("flwr"))["FLWR_HOME"]).is_absolute()
