"""What a protocol costs: the median training round under it, as a ratio to the same round in plaintext.

Both train from the same seed in the same process, and so does plain PyTorch Geometric. They take turns, round by
round, so that whatever else the machine does hits all; a ratio is the median of the pairs. Accuracies of the first two
must agree up to fixed-point error where a scheme keeps every neighbour; one that hides the graph lets some go.
Models of all three are computed on one device. Example:
`python benchmarks/epoch_ratio.py --dataset PubMed --epochs 50 --device cuda`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.secmp import plain_epoch, seconds_of
from fgl_secure.coins import SystemCoins
from fgl_secure.graph import Data
from fgl_secure.methods.hifgl.audit_target import HiFGLSubject
from fgl_secure.methods.hifgl.configuration import HiFGL
from fgl_secure.training.loop import DEVICES
from fgl_secure.training.one_process import OneProcess

BASELINE, PYG = "plaintext", "plain PyG"


def main() -> None:
    """Times one epoch under each protocol and prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--dataset", default="digits", help="data set")
    parser.add_argument("--scheme", default="secmp", help="scheme to compare with plaintext")
    parser.add_argument("--backbone", default="gcn", help="gcn or sage")
    parser.add_argument("--epochs", type=int, default=50, help="training rounds")
    parser.add_argument("--seed", type=int, default=0, help="of partition, split and weights")
    parser.add_argument("--device", default="auto", choices=DEVICES, help="where models are computed")
    parser.add_argument("--data-root", type=Path, default=None, help="folder of raw data sets")
    args = parser.parse_args()
    data = Data(args.dataset, root=args.data_root)
    method = HiFGL(backbone=args.backbone, epochs=args.epochs)
    plan = method.plan(data, (args.scheme, BASELINE), seed=args.seed, device=args.device)
    prepared = cast(HiFGLSubject, plan.subjects[0])
    secured, clear = (_silos(cast(HiFGLSubject, subject)) for subject in plan.subjects)
    works = {args.scheme: secured.round, BASELINE: clear.round, PYG: plain_epoch(prepared, prepared.device)}
    seconds = np.array([[seconds_of(work, n) for work in works.values()] for n in range(args.epochs)])
    report = {
        "dataset": prepared.graph.graph.name,
        "device": _device_name(prepared.device),
        "devices": prepared.graph.num_devices,
        "messages_per_layer": int(prepared.message_graph.edges.shape[1]),
        "epochs": args.epochs,
        "test_accuracy": {args.scheme: _accuracy(secured, args.epochs), BASELINE: _accuracy(clear, args.epochs)},
        "seconds_per_round": dict(zip(works, np.median(seconds, axis=0).tolist(), strict=True)),
        "over_plaintext": _quartiles(seconds[:, 0] / seconds[:, 1]),
        "over_plain_pyg": _quartiles(seconds[:, 0] / seconds[:, 2]),
    }
    print(json.dumps(report, indent=2))


def _quartiles(ratios: NDArray[np.float64]) -> list[float]:
    """Lower, median and upper."""
    return [round(float(item), 3) for item in np.quantile(ratios, (0.25, 0.5, 0.75))]


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name() if device.type == "cuda" else device.type


def _silos(subject: HiFGLSubject) -> OneProcess:
    return subject.job.open(subject.job.channel(SystemCoins()))


def _accuracy(silos: OneProcess, number: int) -> float:
    """On test nodes, in the round that the preset chooses."""
    while silos.round(number):
        number += 1
    return float(silos.programs[0].report["test"])


if __name__ == "__main__":
    main()
