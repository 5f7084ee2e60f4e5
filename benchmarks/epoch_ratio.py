"""What a protocol costs: the median training round under it, as a ratio to the same round in the clear.

Both runs train from the same seed in the same process, so their accuracies are printed too: they must agree up to
fixed-point error. Example: `python benchmarks/epoch_ratio.py --dataset PubMed --epochs 50`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from fgl_secure.commands.options import Options, prepare
from fgl_secure.commands.train import train

BASELINE = "plaintext"


def main() -> None:
    """Times one epoch under each protocol and prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--dataset", default="digits", help="data set")
    parser.add_argument("--protocol", default="secmp", help="protocol to compare with plaintext")
    parser.add_argument("--backbone", default="gcn", help="gcn or sage")
    parser.add_argument("--epochs", type=int, default=50, help="training rounds")
    parser.add_argument("--seed", type=int, default=0, help="of partition, split and weights")
    parser.add_argument("--data-root", type=Path, default=None, help="folder of raw data sets")
    chosen = parser.parse_args()
    options = Options(
        dataset=chosen.dataset,
        backbone=chosen.backbone,
        epochs=chosen.epochs,
        seed=chosen.seed,
        data_root=chosen.data_root,
    )
    prepared = prepare(options, (chosen.protocol, BASELINE))
    rows = {scheme.name: train(prepared, scheme) for scheme in prepared.schemes}
    secured, plain = rows.values()
    report = {
        "dataset": prepared.graph.graph.name,
        "devices": prepared.graph.num_devices,
        "messages_per_layer": int(prepared.heard.edges.shape[1]),
        "epochs": chosen.epochs,
        "test_accuracy": {name: row.accuracy.test for name, row in rows.items()},
        "seconds_per_round": {name: row.seconds_per_round for name, row in rows.items()},
        "seconds": {name: row.seconds for name, row in rows.items()},
        "ratio_of_rounds": secured.seconds_per_round / plain.seconds_per_round,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
