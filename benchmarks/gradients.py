"""Parameter gradients over relays: coded products against dense ones, against none summed, and plain PyG's epoch."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import cast

import numpy as np
import torch

from benchmarks.pieces import COPY, BenchPart, Piece, measure_copy
from benchmarks.secmp import CLEAR, DATASETS, ONCE, Round, plain_epoch, seconds_of
from benchmarks.timing import BoundedFigure, BoundSide, Timing, measure
from fgl_secure.algebra.residues import Remainders
from fgl_secure.errors import DataNotFoundError
from fgl_secure.methods.hifgl.audit_target import HiFGLSubject
from fgl_secure.methods.hifgl.configuration import HiFGL
from fgl_secure.methods.hifgl.program import silos_of
from fgl_secure.protocols.coded_products import CodedProducts, OuterProduct, ProductCode, ProductLayout
from fgl_secure.protocols.coded_products.code import relay_products
from fgl_secure.protocols.topology import MEMBERS
from fgl_secure.runtime import Channel, Phase
from fgl_secure.schemes import Assignment

EPOCHS, DENSE_EPOCHS = 9, 2
"""Rounds of each; the first, which compiles, agrees on keys and shares what is static, is apart."""
NUMBERS_BOUND, DENSE_BOUND = 1.0, 1.0
ROWS = "relay-coded[k_min=1,graph-shown]"
"""Neighbours' rows at their cheapest, so that gradients are what is compared."""


def _pieces() -> dict[str, Callable[[], Piece]]:
    """Every data set that is there, at hidden width 64 and T = 1, with GCN."""
    return {COPY: measure_copy()} | {dataset: partial(_dataset, dataset) for dataset in DATASETS}


def _dataset(dataset: str) -> Piece:
    try:
        runs = {name: _prepare_subject(dataset, *choice) for name, choice in CASES.items()}
    except DataNotFoundError:
        return Piece(
            (), (BoundedFigure(f"{dataset}: coded over dense epoch", None, BoundSide.AT_MOST, DENSE_BOUND, "no data"),)
        )
    return _measure_runs(runs)


CASES = {
    "coded gradients": ("coded", ROWS),
    "gradients in the clear": ("coded", f"{ROWS},members=plaintext"),
    "dense gradients": ("dense", ROWS),
}


COUNTED = {
    "coded gradients": ONCE,
    "gradients in the clear": f"{ONCE}; {CLEAR}",
    "dense gradients": ONCE,
}
"""What of an epoch is counted and not done, by case."""


def _prepare_subject(dataset: str, gradients: str, schemes: str) -> HiFGLSubject:
    (subject,) = HiFGL(gradients=gradients).plan(dataset, (schemes,)).subjects
    return cast(HiFGLSubject, subject)


def _measure_runs(runs: dict[str, HiFGLSubject]) -> Piece:
    prepared = next(iter(runs.values()))
    name, seconds, timings = prepared.graph.graph.name, dict[str, list[float]](), list[Timing]()
    works = {case: _epoch(item, item.schemes) for case, item in runs.items()}
    epochs = {"plain PyG": plain_epoch(prepared)} | {case: work for case, (work, _) in works.items()}
    for case, work in epochs.items():
        first, counted = [seconds_of(work, 0)], COUNTED.get(case, "")
        timings.append(Timing.of(f"{name}: first epoch with set-up, {case}", first, counted=counted))
        rounds = DENSE_EPOCHS if case == "dense gradients" else EPOCHS
        seconds[case] = [seconds_of(work, number) for number in range(1, rounds + 1)]
        timings.append(Timing.of(f"{name}: epoch, {case}", seconds[case], counted=counted))
    scheme = prepared.schemes[MEMBERS]
    assert isinstance(scheme, CodedProducts), "gradients are coded"
    timings.append(_relay(prepared, scheme))
    medians = {case: statistics.median(item) for case, item in seconds.items()}
    everything = "all parties' work in one process: three relays, and every device's shares and masks"
    coded, dense, plain = (medians[case] for case in ("coded gradients", "dense gradients", "plain PyG"))
    counted = COUNTED["coded gradients"]
    figures = [
        BoundedFigure(
            f"{name}: coded over dense epoch", coded / dense, BoundSide.AT_MOST, DENSE_BOUND, everything, counted
        ),
        BoundedFigure(
            f"{name}: coded over plain PyG's epoch", coded / plain, BoundSide.AT_MOST, 3.0, everything, counted
        ),
    ]
    return Piece(tuple(timings), (*figures, *_traffic_figures(prepared, works["coded gradients"][1])))


def _epoch(prepared: HiFGLSubject, schemes: Assignment) -> tuple[Round, Channel]:
    job = silos_of(prepared.graph, schemes, prepared.preset, device=torch.device("cpu"))
    channel = job.channel()
    return job.open(channel).round, channel


def _traffic_figures(prepared: HiFGLSubject, channel: Channel) -> list[BoundedFigure]:
    """Numbers of the first layer that a device shares, and bytes that it sends each round, against a dense gradient."""
    features, hidden, *_ = prepared.preset.widths(prepared.graph.graph.num_features, prepared.graph.num_classes)
    name, dense = prepared.graph.graph.name, features * hidden
    shares = [b for b in channel.transcript.messages if b.phase is Phase.FACTOR_SHARES]
    devices = prepared.graph.num_devices
    sent = {r: sum(b.bytes for b in shares if b.step.round == r) // devices for r in (0, 1)}
    return [
        BoundedFigure(
            f"{name}: numbers of the first layer that a device shares, over {dense:,}",
            (features + hidden) / dense,
            BoundSide.AT_MOST,
            NUMBERS_BOUND,
            basis=f"{features + hidden:,} in the first round and {hidden} in others; a device sends relays "
            f"{sent[0]:,} bytes of all layers in the first round and {sent[1]:,} in others",
        )
    ]


def _relay(prepared: HiFGLSubject, scheme: CodedProducts) -> Timing:
    """One relay's multiplications of the first layer in a round, for all silos."""
    features, hidden, *_ = prepared.preset.widths(prepared.graph.graph.num_features, prepared.graph.num_classes)
    sizes = np.bincount(prepared.graph.silo_of).tolist()
    product = OuterProduct(1, features, hidden, static=True, left_bits=prepared.graph.graph.feature_bits)
    layout = ProductLayout((product,))
    code = ProductCode.for_sums(
        left=scheme.left, right=scheme.right, terms=max(sizes), product=scheme.product, primes=scheme.primes
    ).of(product)
    silos = [[tuple(_shares(f.modulus, n, w) for f in code.fields) for w in (features, hidden)] for n in sizes]

    def work() -> None:
        for static, fresh in silos:
            relay_products(layout, static, fresh)

    name = f"{prepared.graph.graph.name}: one relay's products, first layer, {len(code.fields)} primes"
    return measure(work, name, multiply_adds=len(code.fields) * sum(sizes) * features * hidden)


def _shares(modulus: int, rows: int, width: int) -> Remainders:
    half = modulus // 2
    return np.random.default_rng(rows).integers(-half, half, (rows, width), endpoint=True).astype(np.int8)


PART = BenchPart(_pieces)
