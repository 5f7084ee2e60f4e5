"""How Flower's processes are told where to listen, whom to trust, and to stay on this machine."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import fgl_secure
from fgl_secure.errors import InputError
from fgl_secure.flower.certificates import Certificates

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
