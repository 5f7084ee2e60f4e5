"""A SuperLink and its SuperNodes as processes of this machine, over TLS, offline, gone when the block is left."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

import fgl_secure
from fgl_secure.errors import FglSecureError, InputError
from fgl_secure.flower.kept import STATE_VARIABLE
from fgl_secure.private_files import write_private

LIFETIME = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files that a server on this machine, and those who trust it, need.

    Attributes:
        authority: certificate of the authority, PEM.
        certificate: of the server, for localhost, 127.0.0.1 and ::1, PEM.
        key: private key of the server, PEM, readable by its owner only.
    """

    authority: Path
    certificate: Path
    key: Path


def make_certificates(folder: Path) -> Certificates:
    """A fresh authority and a server certificate signed by it; the authority's key is not kept.

    Args:
        folder: where the three files go.
    """
    files = Certificates(folder / "authority.pem", folder / "server.pem", folder / "server.key")
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name, server_name = _name("fgl-secure local authority"), _name("localhost")
    authority = (
        _builder(authority_name, authority_name, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .sign(authority_key, SHA256())
    )
    server = (
        _builder(server_name, authority_name, server_key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(_addresses()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, SHA256())
    )
    files.authority.write_bytes(authority.public_bytes(Encoding.PEM))
    files.certificate.write_bytes(server.public_bytes(Encoding.PEM))
    write_private(files.key, server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _addresses() -> list[x509.GeneralName]:
    numbers = [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", "::1")]
    return [x509.DNSName("localhost"), *numbers]


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


NO_PROXY = "127.0.0.1,localhost"


def offline_variables(home: Path) -> dict[str, str]:
    """This process's variables, and those that keep Flower offline and its files in one folder.

    Args:
        home: where Flower keeps its configuration and the apps that it runs.
    """
    package = str(Path(fgl_secure.__file__).parent.parent)
    paths = [package, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return os.environ | {
        "FLWR_HOME": str(home.absolute()),  # a relative one would be made in whatever folder a process runs in
        STATE_VARIABLE: str(home.absolute() / "states"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.3",
        "NO_PROXY": NO_PROXY,
        "no_proxy": NO_PROXY,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONUNBUFFERED": "1",
    }


def serving_options(files: Certificates) -> list[str]:
    """Options of a process that serves over TLS, and tells those that it starts whom to trust."""
    options = ["--ssl-certfile", str(files.certificate), "--ssl-keyfile", str(files.key)]
    return [*options, "--ssl-ca-certfile", str(files.authority)]


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def as_toml(value: str | int | float | bool) -> str:
    """A value as Flower's command line reads it.

    Raises:
        InputError: a text with a quotation mark or a line break, which cannot be written there.
    """
    if isinstance(value, str) and ('"' in value or "\n" in value):
        raise InputError(f"text must be without quotation marks and line breaks; found {value!r}")
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


COMPLETED = "finished:completed"
"""Status of a run that ended without an error, in Flower's words."""
START_SECONDS = 150.0
STOP_SECONDS = 5.0
POLL_SECONDS = 0.1


class LocalProcessError(FglSecureError):
    """A process of a local federation did not start, or ended before its time."""


class LocalFederation:
    """One SuperLink and several SuperNodes over TLS on free ports of 127.0.0.1.

    Everything that the processes write goes to one temporary folder (`folder`, with logs in `*.log`), which is removed
    on leaving, as are all processes, also after errors and, where the program has no other use for it, on SIGTERM.
    Nothing leaves the machine: telemetry, update checks and
    installation of dependencies are off. Apps run in processes of their own, a fresh one for each message.

    Args:
        nodes: node configuration of each SuperNode, e.g. `{"partition-id": 0}`.
        environment: variables for all processes, beside those of this one.
        executor: Python script, with its options, of a SuperExec that runs the ClientApps of all SuperNodes; it gets
            `--root-certificates FILE ADDRESS...` behind them. `examples/warm_executor.py` is one that forks processes
            with libraries loaded, which saves seconds per message. Empty for Flower's own.
        late: numbers of SuperNodes that `start_node` starts, and not the block.

    Example:
        with LocalFederation([{"partition-id": i} for i in range(4)]) as federation:
            federation.run(Path("examples/flower_secagg"), {"num-server-rounds": 1})
    """

    def __init__(
        self,
        nodes: Sequence[Mapping[str, str | int | float | bool]],
        environment: Mapping[str, str] | None = None,
        executor: Sequence[str] = (),
        late: Collection[int] = (),
    ) -> None:
        self._nodes, self._late = [dict(node) for node in nodes], frozenset(late)
        self._ports: list[int] = []
        self._executor = tuple(executor)
        self._environment = dict(environment or {})
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._certificates: Certificates | None = None
        self._on_termination = False
        self.folder = Path()
        self.port = 0

    def __enter__(self) -> LocalFederation:
        self._leave_on_termination()
        self.folder = Path(tempfile.mkdtemp(prefix="fgl-secure-flower-"))
        try:
            self._certificates = make_certificates(self.folder)
            self._start_link()
            self._ports = [free_port() for _ in self._nodes]
            for index in range(len(self._nodes)):
                if index not in self._late:
                    self.start_node(index)
            if self._executor:
                self._start_executor([f"127.0.0.1:{port}" for port in self._ports])
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(
        self, app: Path, config: Mapping[str, str | int | float | bool] | None = None, timeout: float = 600.0
    ) -> str:
        """Runs a Flower app to its end, as `flwr run --stream` does, and returns what it printed.

        Args:
            app: folder with the app's pyproject.toml.
            config: overrides of the run configuration.
            timeout: seconds.

        Raises:
            LocalProcessError: it could not be submitted, did not end in time, or failed.
        """
        process = self.start(app, config)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise LocalProcessError(f"run must end within {timeout} s; it did not\n{self.log('run')}") from error
        if process.returncode:
            raise LocalProcessError(f"run must end with 0; found {process.returncode}\n{self.log('run')}")
        status = self._status()
        if status != COMPLETED:  # `flwr run` exits with 0 whatever becomes of the run
            raise LocalProcessError(f"run must be {COMPLETED} in the end; found {status}\n{self.log('run')}")
        return self.log("run")

    def _status(self) -> str:
        """Return the status of the run that was submitted last, as Flower names it."""
        process = self._spawn("list", ["flwr", "ls", "local", "--limit", "1", "--format", "json"])
        try:
            process.wait(START_SECONDS)
            return str(json.loads(self.log("list"))["runs"][0]["status"])
        except (subprocess.TimeoutExpired, ValueError, LookupError, TypeError) as error:
            raise LocalProcessError(f"runs must be listed by Flower; they are not\n{self.log('list')}") from error
        finally:
            self._kill("list")

    def start(self, app: Path, config: Mapping[str, str | int | float | bool] | None = None) -> subprocess.Popen[bytes]:
        """Submits a Flower app and returns the process that streams its log to `log("run")` until it ends.

        The process that followed a run before is ended.
        """
        if "run" in self._processes:
            self._kill("run")
        overrides = " ".join(f"{key}={as_toml(value)}" for key, value in (config or {}).items())
        command = ["flwr", "run", str(app), "local", "--stream"]
        return self._spawn("run", [*command, "--run-config", overrides] if overrides else command)

    def kill_node(self, index: int) -> None:
        """Kills a SuperNode and all that it started, without warning; forked ClientApps have nobody to answer then.

        Raises:
            LocalProcessError: there is none of that number, or it was killed before.
        """
        if f"node{index}" not in self._processes:
            raise LocalProcessError(f"node must be one that was started and not yet killed; found {index}")
        self._kill(f"node{index}")

    def start_node(self, index: int) -> None:
        """Starts a SuperNode that is late, or once more one that was killed; Flower gives it a number of its own.

        Raises:
            LocalProcessError: it is up.
        """
        if self.node_is_up(index):
            raise LocalProcessError(f"node must not be up before it is started; {index} is")
        files, port = self._files(), self._ports[index]
        config = " ".join(f"{key}={as_toml(value)}" for key, value in self._nodes[index].items())
        command = ["flower-supernode", "--superlink", f"127.0.0.1:{self.port}", "--host", "127.0.0.1"]
        command += ["--port", str(port), "--root-certificates", str(files.authority), *serving_options(files)]
        command += ["--isolation", "process"] if self._executor else []
        self._spawn(f"node{index}", [*command, *(["--node-config", config] if config else [])])

    def node_is_up(self, index: int) -> bool:
        """Whether a SuperNode's process still runs."""
        process = self._processes.get(f"node{index}")
        return process is not None and process.poll() is None

    def log(self, name: str) -> str:
        """What "link", "run", "executor" or "node0", "node1", ... has printed so far."""
        file = self.folder / f"{name}.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def close(self) -> None:
        """Kills every process and removes the folder; a second call does nothing."""
        for name in reversed(list(self._processes)):
            self._kill(name)
        if self.folder != Path():
            shutil.rmtree(self.folder, ignore_errors=True)
        self._certificates = None  # or a process that is started now would have no folder
        if self._on_termination:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._on_termination = False

    def _leave_on_termination(self) -> None:
        """SIGTERM leaves the block as an error does: by default it would leave the server's private key behind."""
        here = threading.current_thread() is threading.main_thread()  # no other may set handlers
        if here and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
            self._on_termination = True

    def _start_link(self) -> None:
        files = self._files()
        self.port = free_port()
        home = self.folder / "flwr"
        home.mkdir()
        (home / "config.toml").write_text(
            '[superlink]\ndefault = "local"\n\n[superlink.local]\n'
            f'address = "127.0.0.1:{self.port}"\nroot-certificates = "{files.authority}"\n'
        )
        command = ["flower-superlink", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--disable-runtime-dependency-installation", *serving_options(files)]
        self._spawn("link", command)
        self._await_link()

    def _await_link(self) -> None:
        trust = ssl.create_default_context(cafile=str(self._files().authority))
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self._processes["link"].poll() is None:
            with suppress(urllib.error.URLError, OSError):
                opener = urllib.request.build_opener(
                    urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
                )
                opener.open(f"https://127.0.0.1:{self.port}/health", timeout=1).close()
                return
            time.sleep(POLL_SECONDS)
        raise LocalProcessError(f"SuperLink must start within {START_SECONDS} s; it did not\n{self.log('link')}")

    def _start_executor(self, addresses: Sequence[str]) -> None:
        command = [Path(sys.executable).name, *self._executor]
        self._spawn("executor", [*command, "--root-certificates", str(self._files().authority), *addresses])

    def _files(self) -> Certificates:
        if self._certificates is None:
            raise InputError("federation must be entered with `with` before it is used")
        return self._certificates

    def _spawn(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        """A process that leads a group of its own, so that all it starts can be killed with it."""
        self._files()
        binary = str(Path(sys.executable).parent / command[0])
        with (self.folder / f"{name}.log").open("ab" if name.startswith("node") else "wb") as log:
            self._processes[name] = subprocess.Popen(  # noqa: S603  # our own command
                [binary, *command[1:]],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=offline_variables(self.folder / "flwr") | self._environment,
                cwd=self.folder,
                start_new_session=True,
            )
        return self._processes[name]

    def _kill(self, name: str) -> None:
        """Ends a process and its group. The link has detached processes of its own, and stops them when asked to."""
        process = self._processes.pop(name)  # its number may be another's from now on
        if name == "link":
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
