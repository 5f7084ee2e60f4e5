"""The same code as processes that talk over TLS; a file for each run of many processes, which wait for each other."""

import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cryptography.x509 import load_pem_x509_certificate

from examples.local_federation import (
    LocalFederation,
    LocalProcessError,
    as_toml,
    make_certificates,
    offline_variables,
)
from fgl_secure.errors import InputError
from tests.error_codes import about
from tests.flower.processes import PATIENCE, ROOT, left_behind, run


def test_killed_supernode_is_left_out_over_tls(tmp_path: Path) -> None:
    """Four SuperNodes over TLS, one killed after it shared its keys: the round completes with the others' mean."""
    command = [sys.executable, "run_tls.py", "--kill", "2", "--preload", "fgl_secure.flower", "torch_geometric.nn"]
    done = run([*command, "sklearn.neighbors", "sklearn.datasets"], ROOT / "examples" / "flower_secagg", tmp_path)
    assert done.returncode == 0, done.stdout
    assert "killed in mid-round" in done.stdout
    assert "RIGHT" in done.stdout
    end = time.monotonic() + 60
    while left_behind(tmp_path) and time.monotonic() < end:
        time.sleep(0.2)  # what watches its parent needs a moment to see that it is gone
    assert left_behind(tmp_path) == []


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


def test_a_run_whose_server_app_fails_ends_with_an_error(tmp_path: Path) -> None:
    """Flower's own command exits with 0 then."""
    for name, text in FAILING.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with LocalFederation([]) as federation, pytest.raises(LocalProcessError, check=about("run")):
        federation.run(tmp_path)


TERMINATED = """
import sys, time
from examples.local_federation import LocalFederation

class Quiet(LocalFederation):
    def _start_link(self):
        pass

with Quiet([]) as federation:
    print(federation.folder, flush=True)
    time.sleep(600)
"""


def test_sigterm_leaves_no_key_behind() -> None:
    """A program that is told to end while a federation runs leaves no server.key and no folder."""
    variables = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen([sys.executable, "-c", TERMINATED], env=variables, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process, process.stdout:
        folder = Path(process.stdout.readline().strip())
        there = (folder / "server.key").exists()
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
    left = folder.exists()
    shutil.rmtree(folder, ignore_errors=True)
    assert (there, left, process.returncode) == (True, False, 128 + signal.SIGTERM)


def test_a_handler_of_the_programs_own_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the program handles SIGTERM, a federation leaves that alone; else the default is back afterwards."""
    monkeypatch.setattr(LocalFederation, "_start_link", lambda _self: None)
    kept = signal.getsignal(signal.SIGTERM)
    try:
        for own in (signal.SIG_IGN, signal.SIG_DFL):
            signal.signal(signal.SIGTERM, own)
            with LocalFederation([]):
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
