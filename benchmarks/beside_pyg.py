"""Test accuracy of HiFGL's backbones beside PyG's own layers, which have the whole graph in one place.

Splits, widths, epochs, rates and the choice of the round are the same. A layer of PyG has one head. Example:
`python benchmarks/beside_pyg.py --dataset Cora --seeds 5`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from torch.nn import functional
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from fgl_secure.graph import Data
from fgl_secure.methods.hifgl.audit_target import HiFGLSubject
from fgl_secure.methods.hifgl.configuration import HiFGL
from fgl_secure.methods.hifgl.program import silos_of
from fgl_secure.protocols.plaintext import Plaintext

LAYERS: dict[str, Callable[[int, int], Any]] = {"gcn": GCNConv, "sage": SAGEConv, "gat": GATConv}


def main() -> None:
    """Trains every backbone under each seed in three ways, and prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--dataset", default="Cora", help="data set")
    parser.add_argument("--silos", type=int, default=5, help="number of silos")
    parser.add_argument("--seeds", type=int, default=5, help="of partition, split and weights")
    parser.add_argument("--data-root", type=Path, default=None, help="folder of raw data sets")
    args = parser.parse_args()
    result: dict[str, dict[str, list[float]]] = {}
    for backbone, layer in LAYERS.items():
        ways = result.setdefault(backbone, {"silos": [], "one silo": [], "PyG": []})
        for seed in range(args.seeds):
            data = Data(args.dataset, silos=args.silos, root=args.data_root)
            (subject,) = HiFGL(backbone=backbone).plan(data, ("plaintext",), seed=seed).subjects
            prepared = cast(HiFGLSubject, subject)
            one = prepared.graph.in_one_silo()
            whole = silos_of(one, Plaintext(), prepared.preset, backbone=backbone, seed=seed).train()
            ways["silos"].append(cast(float, subject.train().accuracy.test))
            ways["one silo"].append(cast(float, whole.accuracy.test))
            ways["PyG"].append(plain(prepared, layer, seed))
    print(json.dumps(result))


def plain(prepared: HiFGLSubject, layer: Callable[[int, int], Any], seed: int) -> float:
    """The accuracy of two layers of PyG on test nodes, in the round that is the best one on validation nodes."""
    graph, preset = prepared.graph, prepared.preset
    torch.manual_seed(seed)
    x, labels, edges = (torch.tensor(item) for item in (graph.features, graph.labels, graph.edges))
    train, validation, test = (
        torch.tensor(item) for item in (graph.train_mask, graph.validation_mask, graph.test_mask)
    )
    layers = torch.nn.ModuleList([layer(x.shape[1], preset.hidden), layer(preset.hidden, graph.num_classes)])
    optimiser, result = torch.optim.Adam(layers.parameters(), lr=preset.learning_rate), list[tuple[float, int, float]]()
    for number in range(preset.epochs + 1):
        logits = layers[1](torch.relu(layers[0](x, edges)), edges)
        right = (logits.argmax(1) == labels).double()
        result.append((float(right[validation].mean()), -number, float(right[test].mean())))
        optimiser.zero_grad()
        functional.cross_entropy(logits[train], labels[train]).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if (number + 1) % preset.decay_every == 0:
            optimiser.param_groups[0]["lr"] *= preset.decay
    return max(result)[-1]


if __name__ == "__main__":
    main()
