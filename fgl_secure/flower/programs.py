"""Programs of silos on Flower: a SuperNode for each silo and each relay, and a server that reads nothing."""

from __future__ import annotations

import logging
import math
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fgl_secure.coins import SystemCoins
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.flower.kept import state_file
from fgl_secure.flower.mailbox import Reports, SiloMailbox, fresh_session
from fgl_secure.flower.silos import silo_app
from fgl_secure.host import library_settings
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.runtime import Circumstance, Transcript
from fgl_secure.training.job import Job
from fgl_secure.training.loop import Accuracy, TrainingResult, compute_device
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.processes.process import SealedParty
from fgl_secure.training.processes.program_run import ProgramRun
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array

if TYPE_CHECKING:
    from fgl_secure.auditing.method import Method, Source
    from fgl_secure.auditing.train import TrainedRun
    from fgl_secure.schemes import Assignment

IDENTITIES = "identities"
"""The file of all parties' public keys, beside those of shares."""


def number_of(context: Context) -> int:
    """Which party a node is: silos come first, then relays."""
    return int(context.node_config["partition-id"])


def app_of(run: ProgramRun, shares: Path) -> ClientApp:
    """The ClientApp of all nodes.

    Args:
        run: what they are told.
        shares: folder in which each party finds the files of what it holds and of its identity, and reads no other's.
            Its state goes beside them.
    """

    def keep(context: Context) -> Path:
        return state_file(context) or shares.absolute() / f"state{number_of(context)}"

    def party(context: Context, session: bytes) -> SealedParty:
        number = number_of(context)
        signing = Identity.load(shares / f"identity{number}"), Identities.load(shares / IDENTITIES)
        return run.party(number, session, lambda: Silo.load(shares / f"silo{number}"), *signing)

    return silo_app(number_of, party, silos=lambda _context: run.silos, keep=keep)


def save_identities(parties: int, folder: Path) -> None:
    """Makes identities: a file of its own for each party, and one of their public keys for all."""
    identities = [Identity.generate(SystemCoins()) for _ in range(parties)]
    for number, identity in enumerate(identities):
        identity.save(folder / f"identity{number}")
    Identities({number: identity.public for number, identity in enumerate(identities)}).save(folder / IDENTITIES)


def save_shares(job: Job, folder: Path) -> None:
    """Writes a file for each silo."""
    for silo in range(job.graph.num_silos):
        job.share(silo).save(folder / f"silo{silo}")


def gpu_share(parties: int) -> float:
    """How much of a GPU a party's process takes, so that as many run at a time as the cores and the parties allow.

    Ray hides every GPU from processes that take none of any, and counts in units of a ten thousandth.
    """
    at_a_time = max(1, min(parties, os.cpu_count() or 1))
    return min(1.0, math.floor(1e4 * torch.cuda.device_count() / at_a_time) / 1e4)


def run_in_simulation(job: Job, timeout: float | None = None, *, gpu: bool = False) -> Reports:
    """Runs all turns in Flower's simulation engine.

    Args:
        job: what is run, and who holds what.
        timeout: seconds that a turn may take; None waits for ever.
        gpu: whether the job's models are computed on a GPU, of which every process takes a share then.

    Raises:
        InputError: it cannot be run with a process for each silo.
        RunStoppedError: a party failed, or was silent; it has what was finished.
    """
    run = ProgramRun(job.complete_task, job.graph.num_silos)
    from flwr.simulation import run_simulation  # noqa: PLC0415  # Ray comes with it

    result: dict[int, dict[str, Array]] = {}
    failed: list[Exception] = []
    server = ServerApp()

    @server.main()
    def serve(grid: Grid, _context: Context) -> None:
        try:
            result.update(SiloMailbox(grid, run.server(fresh_session()), run.parties, timeout).run())
        except Exception as error:  # the engine would swallow it
            failed.append(error)

    with tempfile.TemporaryDirectory() as folder:
        save_shares(job, Path(folder))
        save_identities(run.parties, Path(folder))
        run_simulation(
            server,
            app_of(run, Path(folder)),
            run.parties,
            backend_config={
                "client_resources": {"num_cpus": 1, "num_gpus": gpu_share(run.parties) if gpu else 0.0},
                "init_args": {"include_dashboard": False, "log_to_driver": False},
            },
        )
    if failed:
        raise failed[0]
    if not result:
        raise ProtocolError("the run must leave a report; it did not")
    return result


@library_settings()
def train_on_flower(
    method: Method,
    data: Source | str | None = None,
    scheme: str | Assignment | None = None,
    *,
    seed: int = 0,
    device: str = "auto",
    timeout: float | None = None,
) -> TrainedRun:
    """Trains a method once, with a process for each silo, to the bits of `fgl_secure.train`.

    Nobody but a silo knows its own accuracy there, and nobody counts messages: the result has neither.

    Args:
        method: what is trained, with its choices.
        data: as in `fgl_secure.audit`.
        scheme: as in `fgl_secure.train`.
        seed: of partition, split and initial weights.
        device: where model compute runs: "auto" (CUDA where there is one), "cpu" or "cuda".
        timeout: seconds that a turn may take; None waits for ever.

    Raises:
        FglSecureError: a choice breaks a rule, or a party failed.
    """
    from fgl_secure.auditing.method import check_method  # noqa: PLC0415  # processes of silos do without audits
    from fgl_secure.auditing.train import TrainedRun, silent  # noqa: PLC0415  # the same

    check_method(method)
    gpu = compute_device(device).type == "cuda"
    plan = method.plan(data, (method.trained if scheme is None else scheme,), seed=seed, device=device)
    (subject,) = plan.subjects
    job = subject.job
    if job is None:
        raise InputError(f"method must be a program of one silo for the engine flower; found {method.name}")
    start, log = time.perf_counter(), logging.getLogger("flwr")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        report = run_in_simulation(job, timeout, gpu=gpu)[0]
    finally:
        log.setLevel(level)
    seconds, rounds = time.perf_counter() - start, len(report["losses"])
    test, validation = (None if np.isnan(report[name]) else float(report[name]) for name in ("test", "validation"))
    result = TrainingResult(
        Accuracy(test, validation, ()),
        int(report["selected round"]),
        rounds,
        seconds,
        seconds / max(rounds, 1),
        tuple(report["losses"].tolist()),
        False,
        Transcript(hierarchy_of(plan.graph)),
        report,
    )
    leaks = subject.claims[subject.name].leaks_by_design
    hosted = tuple(leak.statement for leak in leaks if leak.circumstance is Circumstance.HOSTED_DEVICES)
    return TrainedRun(plan, subject.name, result, subject.privacy_cost(result, silent), hosted)
