"""What a protocol costs: the median training round under it, as a ratio to the same round in the clear.

Both train from the same seed in the same process and take turns, round by round, so that whatever else the machine
does hits both; the ratio is the median of the pairs. Their accuracies must agree up to fixed-point error. Example:
`python benchmarks/epoch_ratio.py --dataset PubMed --epochs 50`.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import cast

import numpy as np

from fgl_secure.coins import SystemCoins
from fgl_secure.graph import Data
from fgl_secure.methods.hifgl.configuration import HiFGL
from fgl_secure.methods.hifgl.prepared import Prepared
from fgl_secure.methods.hifgl.subjects import HiFGLSubject
from fgl_secure.methods.hifgl.training import silos_of
from fgl_secure.runtime import Channel
from fgl_secure.schemes import Assignment
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parties import helpers_of, hierarchy_of

BASELINE = "plaintext"


def main() -> None:
    """Times one epoch under each protocol and prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--dataset", default="digits", help="data set")
    parser.add_argument("--scheme", default="secmp", help="scheme to compare with plaintext")
    parser.add_argument("--backbone", default="gcn", help="gcn or sage")
    parser.add_argument("--epochs", type=int, default=50, help="training rounds")
    parser.add_argument("--seed", type=int, default=0, help="of partition, split and weights")
    parser.add_argument("--data-root", type=Path, default=None, help="folder of raw data sets")
    chosen = parser.parse_args()
    data = Data(chosen.dataset, root=chosen.data_root)
    method = HiFGL(backbone=chosen.backbone, epochs=chosen.epochs)
    first, *_ = method.plan(data, (chosen.scheme, BASELINE), seed=chosen.seed).subjects
    prepared = cast(HiFGLSubject, first).prepared
    secured, plain = (_silos(prepared, run) for run in prepared.runs)
    pairs = np.array([(_seconds(secured, n), _seconds(plain, n)) for n in range(chosen.epochs)])
    ratios = pairs[:, 0] / pairs[:, 1]
    report = {
        "dataset": prepared.graph.graph.name,
        "devices": prepared.graph.num_devices,
        "messages_per_layer": int(prepared.heard.edges.shape[1]),
        "epochs": chosen.epochs,
        "test_accuracy": {
            chosen.scheme: _accuracy(secured, chosen.epochs),
            BASELINE: _accuracy(plain, chosen.epochs),
        },
        "seconds_per_round": {chosen.scheme: float(np.median(pairs[:, 0])), BASELINE: float(np.median(pairs[:, 1]))},
        "ratio": float(np.median(ratios)),
        "ratio_quartiles": [float(q) for q in np.quantile(ratios, (0.25, 0.75))],
    }
    print(json.dumps(report, indent=2))


def _silos(prepared: Prepared, run: Assignment) -> OneProcess:
    channel = Channel(hierarchy_of(prepared.graph, helpers_of(run.values())), SystemCoins())
    return silos_of(
        prepared.graph,
        run,
        prepared.preset,
        backbone=prepared.method.backbone,
        seed=prepared.seed,
        device=prepared.device,
    ).opened(channel)


def _seconds(silos: OneProcess, number: int) -> float:
    start = time.perf_counter()
    silos.round(number)
    return time.perf_counter() - start


def _accuracy(silos: OneProcess, number: int) -> float:
    """On test nodes, in the round that the preset chooses."""
    while silos.round(number):
        number += 1
    return float(silos.programs[0].report["test"])


if __name__ == "__main__":
    main()
