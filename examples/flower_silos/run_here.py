"""Runs the app on this machine and checks that it trained what one process trains.

    python run_here.py                              # FedStruct, each silo a SuperNode of its own, over TLS
    python run_here.py --method hifgl               # HiFGL, with two relays as SuperNodes too
    python run_here.py --method fedavg              # federated averaging
    python run_here.py --engine simulation          # the same in Flower's simulation engine
    python run_here.py --trouble late restart       # one SuperNode comes late, another is killed and started again
    python run_here.py --trouble dead --rounds 20   # one is killed for good: the run stops, and says where

Each silo is handed a file with its own part of the graph; the whole graph is in this script alone, for the check.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from silos_app import task

from fgl_secure.errors import FglSecureError
from fgl_secure.flower.programs import IDENTITIES, run_in_simulation, save_identities, save_shares
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult

sys.path.append(str(Path(__file__).resolve().parents[1]))
from local_federation import LocalFederation, LocalProcessError  # beside the folders of the examples

HERE = Path(__file__).resolve().parent
EXECUTOR = HERE.parent / "warm_executor.py"
"""Forks ClientApps from a process that has libraries loaded; for Flower 1.41 and 1.42."""
TOLERANCE = 1e-5
LATE_BY, DEAD_AFTER = 2.0, 40.0
"""Seconds: what a node is late by, and what a turn may take where a node dies."""
LATE, KILLED = 1, 2
"""The SuperNodes that trouble is made with."""
FEWEST = 3
"""Silos; two know each other by their sum."""
PRELOAD = (
    "torch",
    "torch._dynamo",
    "fgl_secure.methods.fedstruct.program",
    "fgl_secure.methods.hifgl.program",
    "fgl_secure.methods.fedavg.program",
)


def main() -> int:
    """Returns 0 if the losses and accuracies are those of one process, 1 otherwise, 2 for options out of range."""
    parser = argparse.ArgumentParser(description="Methods with silos as SuperNodes, on this machine.")
    parser.add_argument("--method", choices=("fedavg", "fedstruct", "hifgl"), default="fedstruct")
    parser.add_argument("--engine", choices=("processes", "simulation"), default="processes")
    parser.add_argument("--silos", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--scheme", default=task.MASKS, help="adds silos' vectors up; pairwise-masking unless given")
    parser.add_argument("--timeout", type=float, default=1200.0, help="seconds until all is given up")
    parser.add_argument("--trouble", nargs="+", choices=("late", "restart", "dead"), default=[], help="with processes")
    options = parser.parse_args()
    if options.silos < FEWEST or options.rounds < 1:
        print(f"--silos must be at least {FEWEST} and --rounds at least 1; found {options.silos} and {options.rounds}",
              file=sys.stderr)  # fmt: skip
        return 2
    config = {name: getattr(options, name) for name in ("method", "silos", "rounds", "scheme")}
    start = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory() as folder:
            if options.engine == "processes":
                result = _processes(Path(folder), config, options.timeout, options.trouble)
            else:
                result = _simulation(config, options.timeout)
    except FglSecureError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{options.engine}: {time.perf_counter() - start:.0f} s", flush=True)
    return verdict(result, job_of(config).train())


def _processes(
    folder: Path, config: dict[str, str | int], timeout: float, trouble: Sequence[str]
) -> dict[str, np.ndarray]:
    nodes = prepare_parties(folder, config)
    variables, late = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}, [LATE] if "late" in trouble else []
    with LocalFederation(nodes, variables, [str(EXECUTOR), "--preload", *PRELOAD], late) as federation:
        print(f"SuperLink and {len(nodes) - len(late)} SuperNodes run over TLS, port {federation.port}", flush=True)
        return run_on(federation, folder, config, timeout, trouble)


def prepare_parties(folder: Path, config: dict[str, str | int]) -> list[dict[str, str | int | float | bool]]:
    """Writes the files of all parties; returns the configurations of their SuperNodes, which name them."""
    parties = task.run_of(config).parties
    save_shares(job_of(config), folder)
    save_identities(parties, folder)
    return [
        {
            "partition-id": number,
            "share": str(folder / f"silo{number}"),
            "state": str(folder / f"state{number}"),
            "identity": str(folder / f"identity{number}"),
            "identities": str(folder / IDENTITIES),
        }
        for number in range(parties)
    ]


def run_on(
    federation: LocalFederation, folder: Path, config: dict[str, str | int], timeout: float, trouble: Sequence[str]
) -> dict[str, np.ndarray]:
    """Runs the app on a federation of SuperNodes that are configured as `prepare_parties` says; returns silos' reports.

    Args:
        federation: without its node LATE if one is to come late.
        folder: for the result.
        config: of the run.
        timeout: seconds.
        trouble: see the option.

    Raises:
        LocalProcessError: the run did not end in time, or left no result.
    """
    result = folder / "result.npz"
    waits = {"timeout": DEAD_AFTER} if "dead" in trouble else {}
    process = federation.start(HERE, {**config, **waits, "result": str(result)})
    _make_trouble(federation, process, trouble)
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired as error:
        raise LocalProcessError(f"run must end within {timeout} s; it did not\n{federation.log('run')}") from error
    print(federation.log("run"))
    if not result.exists():
        raise LocalProcessError("the run must leave a result; it did not")
    with np.load(result) as file:
        return dict(file)


def _make_trouble(federation: LocalFederation, process: subprocess.Popen[bytes], trouble: Sequence[str]) -> None:
    """A node that comes late; one that is killed in the last but one round or before, and started again or not."""
    if "late" in trouble:
        time.sleep(LATE_BY)
        federation.start_node(LATE)
        print(f"SuperNode {LATE} came late", flush=True)
    for what in ("restart", "dead"):
        if what not in trouble or not _next_round(federation, process):
            continue
        federation.kill_node(KILLED)
        print(f"SuperNode {KILLED} was killed", flush=True)
        if what == "restart":
            time.sleep(LATE_BY)
            federation.start_node(KILLED)
            print(f"SuperNode {KILLED} was started again", flush=True)


def _next_round(federation: LocalFederation, process: subprocess.Popen[bytes]) -> bool:
    """Waits until one round more is over, and another one has begun; false where the run ends before."""
    before = _last_round(federation)
    while process.poll() is None:
        if _last_round(federation) > max(before, 0):
            return True
        time.sleep(0.2)
    return False


def _last_round(federation: LocalFederation) -> int:
    """The round that was the last one to begin, as the run's log has it; -1 before any."""
    return max(map(int, re.findall(r"silos: .* in round (\d+) is due", federation.log("run"))), default=-1)


def _simulation(config: dict[str, str | int], timeout: float) -> dict[str, np.ndarray]:
    reports = run_in_simulation(job_of(config), timeout)
    return {f"{silo}/{name}": value for silo, report in reports.items() for name, value in report.items()}


def job_of(config: dict[str, str | int]) -> Job:
    """Return what is run, and which silo holds what."""
    return Job(task.run_of(config).task, task.load_graph(int(config["silos"])))


def verdict(result: dict[str, np.ndarray], expected: TrainingResult) -> int:
    """Compares what came of the run with one process: all of it, or the rounds before it stopped."""
    rounds = len(result.get("0/losses", ()))
    if rounds < expected.rounds:
        same = rounds == 0 or _off(result, expected) <= TOLERANCE
        words = "as in one process" if same else "and they are not those of one process"
        print(f"STOPPED: {rounds} of {expected.rounds} rounds are over, {words}", flush=True)
        return 1
    print(f"losses are off by {_off(result, expected):.1e} from those of one process")
    print(f"accuracy on test nodes {float(result['0/test']):.4f}, in one process {expected.accuracy.test:.4f}")
    right = _off(result, expected) <= TOLERANCE and float(result["0/test"]) == expected.accuracy.test
    print("RIGHT: the run is that of one process" if right else "WRONG", flush=True)
    return 0 if right else 1


def _off(result: dict[str, np.ndarray], expected: TrainingResult) -> float:
    losses = result["0/losses"]
    return float(np.abs(losses - np.array(expected.losses[: len(losses)])).max())


if __name__ == "__main__":
    sys.exit(main())
