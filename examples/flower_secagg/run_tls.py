"""Runs the app as separate processes over TLS, kills a SuperNode in mid-round if asked to, and checks the mean.

The check is part of the demonstration and not of the app: this script knows every silo's data and training is
repeatable, so it computes what each client's update must have been, in a process that no server ever sees.

    python run_tls.py                # four SuperNodes, all of them stay
    python run_tls.py --kill 2       # SuperNode 2 is killed after it shared its keys, before it hands in its update
    python run_tls.py --kill 2 --preload fgl_secure.flower torch_geometric.nn   # ClientApps start from loaded libraries
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import FglSecureError

sys.path.append(str(Path(__file__).resolve().parents[1]))
from local_federation import LocalFederation, LocalProcessError  # beside the folders of the examples

Arrays = dict[str, NDArray[Any]]

HERE = Path(__file__).resolve().parent
EXECUTOR = HERE.parent / "warm_executor.py"
"""Forks ClientApps from a process that has libraries loaded; for Flower 1.41 and 1.42."""
NODES = 4
TOLERANCE = 1e-5
"""Fixed point keeps 24 bits behind the binary point and float32 as many in all: 1e-6, and room for several rounds."""
SENT = "Sent successfully"
STAGES_BEFORE_UPDATES = 2
"""Keys, and shares of them."""


def main() -> int:
    """Returns 0 if the round completed with the right mean, 1 otherwise."""
    options = options_of()
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(1))  # so that the processes are stopped
    if not -1 <= options.kill < NODES:
        print(f"--kill must be one of 0..{NODES - 1}; found {options.kill}", file=sys.stderr)
        return 2
    nodes = [{"partition-id": i, "num-partitions": NODES} for i in range(NODES)]
    try:
        executor = [str(EXECUTOR), "--preload", *options.preload] if options.preload else []
        with LocalFederation(nodes, {"OMP_NUM_THREADS": "1"}, executor) as federation:
            print(f"SuperLink and {NODES} SuperNodes run over TLS, port {federation.port}", flush=True)
            return run_on(federation, options)
    except FglSecureError as error:
        print(error, file=sys.stderr)
        return 1


def run_on(federation: LocalFederation, options: argparse.Namespace) -> int:
    """Runs the app on a federation with a SuperNode for each silo; returns 0 if the mean is right, 1 otherwise.

    Args:
        federation: its nodes have `partition-id` and `num-partitions` in their configurations.
        options: see `options_of`.

    Raises:
        LocalProcessError: the run left no result.
    """
    stayed = [silo for silo in range(NODES) if silo != options.kill]
    end = time.monotonic() + options.timeout
    run, file = _start_run(federation, options)
    if options.kill >= 0:
        _kill_in_mid_round(federation, options.kill, end)
    expected = _expected_model(stayed, options.rounds)
    arrays, rounds = _result(federation, run, file, end)
    return _verdict(arrays, rounds, expected, stayed)


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of a command line, this process's unless given."""
    parser = argparse.ArgumentParser(description="The Flower app as processes over TLS on this machine.")
    parser.add_argument("--kill", type=int, default=-1, metavar="N", help="kill SuperNode N in the first round")
    parser.add_argument("--rounds", type=int, default=1, help="rounds of training")
    parser.add_argument("--timeout", type=float, default=240.0, help="seconds until a stage, and all, is given up")
    parser.add_argument("--grace", type=float, default=10.0, help="seconds that a stage waits once it has enough")
    parser.add_argument("--preload", nargs="*", default=[], metavar="MODULE", help="fork ClientApps with these loaded")
    return parser.parse_args(arguments)


def _start_run(federation: LocalFederation, options: argparse.Namespace) -> tuple[subprocess.Popen[bytes], Path]:
    """The process that follows the run, and the file that the run will leave."""
    file = federation.folder / "result.npz"
    config = {"num-server-rounds": options.rounds, "timeout": options.timeout, "grace": options.grace}
    return federation.start(HERE, {**config, "result": str(file)}), file


def _result(
    federation: LocalFederation, run: subprocess.Popen[bytes], file: Path, end: float
) -> tuple[Arrays, list[dict[str, int]]]:
    """The last model, and how many clients were in each round's mean."""
    while run.poll() is None and time.monotonic() < end:
        time.sleep(0.2)
    print(federation.log("run"))
    if not file.exists():
        raise LocalProcessError(f"the run must leave a result in time; it did not\n{federation.log('executor')}")
    with np.load(file) as result:
        return {name: result[name] for name in result.files if name != "__rounds__"}, json.loads(
            str(result["__rounds__"])
        )


def _kill_in_mid_round(federation: LocalFederation, node: int, end: float) -> None:
    """Waits until a SuperNode has sent its shares, and kills it: the others hold shares of its keys by then."""
    while federation.log(f"node{node}").count(SENT) < STAGES_BEFORE_UPDATES:
        if time.monotonic() > end or not federation.node_is_up(node):
            raise LocalProcessError(f"SuperNode {node} must share its keys in time; it did not")
        time.sleep(0.02)
    federation.kill_node(node)
    print(f"SuperNode {node} killed in mid-round, after it shared its keys", flush=True)


def _expected_model(silos: list[int], rounds: int) -> Arrays:
    """The model after some rounds of some silos, computed in the open."""
    # Imported here because it takes seconds, which pass while the round goes on.
    from digits_app import task  # noqa: PLC0415

    model = task.initial()
    for _ in range(rounds):
        trained = [task.train(model, silo, NODES) for silo in silos]
        total = sum(silo.examples for silo in trained)
        for name, value in model.items():
            mean = sum(silo.examples / total * silo.arrays[name].astype(np.float64) for silo in trained)
            model[name] = np.asarray(mean, dtype=value.dtype)
    return model


def _verdict(arrays: Arrays, rounds: list[dict[str, int]], expected: Arrays, stayed: list[int]) -> int:
    counts = [result["included"] for result in rounds]
    off = max(float(np.abs(arrays[name] - value).max()) for name, value in expected.items())
    print(f"clients in each round's mean: {counts}, expected {len(stayed)}")
    print(f"largest distance from the mean of silos {stayed} computed in the open: {off:.1e}")
    right = set(counts) == {len(stayed)} and off <= TOLERANCE
    print("RIGHT: the mean is that of the clients that stayed" if right else "WRONG", flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
