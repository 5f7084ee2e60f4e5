"""`fgl_secure.train` with a SuperNode for each silo, in Flower's simulation engine."""

from __future__ import annotations

import logging
import time

import numpy as np

from fgl_secure.auditing.method import Method, Source, check_method
from fgl_secure.auditing.train import Trained, silent
from fgl_secure.errors import InputError
from fgl_secure.flower.programs import run_in_simulation
from fgl_secure.host import library_settings
from fgl_secure.runtime import Circumstance, Transcript
from fgl_secure.schemes import Assignment
from fgl_secure.training.loop import Accuracy, TrainingResult, compute_device
from fgl_secure.training.parties import hierarchy_of


@library_settings()
def train_on_flower(
    method: Method,
    data: Source | str | None = None,
    scheme: str | Assignment | None = None,
    *,
    seed: int = 0,
    device: str = "auto",
    timeout: float | None = None,
) -> Trained:
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
    return Trained(plan, subject.name, result, subject.privacy_cost(result, silent), hosted)
