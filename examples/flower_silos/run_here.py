"""Runs the app on this machine and checks that it trained what one process trains.

    python run_here.py                              # FedStruct, each silo a SuperNode of its own, over TLS
    python run_here.py --method hifgl               # HiFGL, with two relays as SuperNodes too
    python run_here.py --engine simulation          # the same in Flower's simulation engine

Each silo is handed a file with its own part of the graph; the whole graph is in this script alone, for the check.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from silos_app import task
from silos_app.client_app import number_of

from fgl_secure.coins import SimulationCoins, SystemCoins
from fgl_secure.errors import FglSecureError
from fgl_secure.flower.local_processes import LocalFederation, LocalProcessError
from fgl_secure.flower.mailbox import SiloMailbox, fresh_session
from fgl_secure.flower.silos import silo_app
from fgl_secure.methods.fedstruct.exchange import RowExchange, run_fedstruct
from fgl_secure.methods.hifgl.training import silos_of
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.topology import NEIGHBOURS, SERVER
from fgl_secure.runtime import Channel
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.processes.sealing import SealedParty
from fgl_secure.training.processes.sum_server import SumServer
from fgl_secure.training.silo import Silo

HERE = Path(__file__).parent
TOLERANCE = 1e-5
FEWEST = 3
"""Silos; two know each other by their sum."""
PRELOAD = ("torch", "torch._dynamo", "fgl_secure.methods.silos.fedstruct", "fgl_secure.methods.hifgl.program")


def main() -> int:
    """Returns 0 if the losses and accuracies are those of one process, 1 otherwise, 2 for options out of range."""
    parser = argparse.ArgumentParser(description="HiFGL or FedStruct with silos as SuperNodes, on this machine.")
    parser.add_argument("--method", choices=("fedstruct", "hifgl"), default="fedstruct")
    parser.add_argument("--engine", choices=("processes", "simulation"), default="processes")
    parser.add_argument("--silos", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=1200.0, help="seconds until all is given up")
    options = parser.parse_args()
    if options.silos < FEWEST or options.rounds < 1:
        print(f"--silos must be at least {FEWEST} and --rounds at least 1; found {options.silos} and {options.rounds}",
              file=sys.stderr)  # fmt: skip
        return 2
    config = {"method": options.method, "silos": options.silos, "rounds": options.rounds}
    start = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory() as folder:
            run = _processes if options.engine == "processes" else _simulation
            found = run(Path(folder), config, options.timeout)
    except FglSecureError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{options.engine}: {time.perf_counter() - start:.0f} s", flush=True)
    return _verdict(found, _expected(options.method, options.silos, options.rounds))


def _shares(folder: Path, silos: int) -> list[str]:
    """A file for each silo."""
    graph = task.federated(silos)
    for silo in range(silos):
        Silo.of(graph, silo).save(folder / f"silo{silo}")
    return [str(folder / f"silo{silo}") for silo in range(silos)]


def _processes(folder: Path, config: dict[str, str | int], timeout: float) -> dict[str, np.ndarray]:
    silos, result = int(config["silos"]), folder / "result.npz"
    shares = _shares(folder, silos)
    nodes: list[dict[str, str | int | float | bool]] = [
        {"partition-id": number, "share": shares[number] if number < silos else ""}
        for number in range(task.parties(str(config["method"]), silos))
    ]
    with LocalFederation(nodes, {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}, PRELOAD) as federation:
        print(f"SuperLink and {len(nodes)} SuperNodes run over TLS, port {federation.port}", flush=True)
        print(federation.run(HERE, {**config, "result": str(result)}, timeout))
    if not result.exists():
        raise LocalProcessError("the run must leave a result; it did not")
    with np.load(result) as file:
        return dict(file)


def _simulation(folder: Path, config: dict[str, str | int], timeout: float) -> dict[str, np.ndarray]:
    from flwr.simulation import run_simulation  # noqa: PLC0415  # for this engine alone

    method, silos, rounds = str(config["method"]), int(config["silos"]), int(config["rounds"])
    shares, parties = _shares(folder, silos), task.parties(method, silos)
    found: dict[str, np.ndarray] = {}
    server = ServerApp()

    def party(context: Context, session: bytes) -> SealedParty:
        number = number_of(context)
        return task.party(method, silos, rounds, number, session, shares[number] if number < silos else "")

    @server.main()
    def serve(grid: Grid, _context: Context) -> None:
        sums = SumServer(task.company(silos, fresh_session()), SystemCoins())
        for silo, report in SiloMailbox(grid, sums, parties, timeout).run().items():
            found.update({f"{silo}/{name}": value for name, value in report.items()})

    run_simulation(
        server,
        silo_app(number_of, party, silos=lambda _context: silos),
        parties,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": 1, "include_dashboard": False, "log_to_driver": False},
        },
    )
    if not found:
        raise LocalProcessError("the run must leave a result; it did not")
    return found


def _expected(method: str, silos: int, rounds: int) -> TrainingResult:
    graph = task.federated(silos)
    if method == "hifgl":
        channel = Channel(hierarchy_of(graph, task.RELAYS.helpers), SimulationCoins(0))
        schemes = {NEIGHBOURS: task.RELAYS, SERVER: PairwiseMasking()}
        return silos_of(graph, schemes, task.hifgl(rounds)).train(channel)
    masks = PairwiseMasking()
    channel = Channel(hierarchy_of(graph), SimulationCoins(0))
    return run_fedstruct(graph, task.fedstruct(rounds), RowExchange(masks, masks), channel)


def _verdict(found: dict[str, np.ndarray], expected: TrainingResult) -> int:
    off = float(np.abs(found["0/losses"] - np.array(expected.losses)).max())
    print(f"losses are off by {off:.1e} from those of one process")
    print(f"accuracy on test nodes {float(found['0/test']):.4f}, in one process {expected.accuracy.test:.4f}")
    right = off <= TOLERANCE and float(found["0/test"]) == expected.accuracy.test
    print("RIGHT: the run is that of one process" if right else "WRONG", flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
