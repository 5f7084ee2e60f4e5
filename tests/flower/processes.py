"""Runs of Flower as processes of this machine, whose files and processes go with them."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE = 900.0
"""Seconds; a minute suffices where nothing else runs, and seven did not beside four other processes on two cores."""
MARK = "FGL_SECURE_TEST"


def left_behind(home: Path) -> list[int]:
    """Processes that inherited the mark of a test, where the system shows their variables."""
    found = []
    for variables in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"{MARK}={home}".encode() in variables.read_bytes():
                found.append(int(variables.parent.name))
    return found


def run(command: list[str], folder: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """What a command prints, with Flower's files in a folder of the test; its processes end with it."""
    variables = {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
        MARK: str(home),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    process = subprocess.Popen(
        command, cwd=folder, env=os.environ | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        printed, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        assert process.stdout is not None, "it is a pipe"
        process.stdout.close()
    return subprocess.CompletedProcess(command, process.returncode, printed, "")
