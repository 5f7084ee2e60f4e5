"""`python -m benchmarks.exact_graphs`: how many graphs a gradient reveals exactly.

CiteSeer's graphs are drawn as in GRAIN's code (Drencheva et al., ICLR 2025): the nodes within three hops of a node
drawn uniformly, drawn again until their number is in the stratum; twice, the same around one of these nodes joins if
the union is not too large. Edges are all between them, and the degree among them is a feature. ZINC's molecules have
seven features of each atom, as one-hot codes, and the label whether their logP is above 2.
"""

from __future__ import annotations

import argparse
import gzip
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.linalg import block_diag
from torch.nn import functional
from torch_geometric.nn import GATConv, GCNConv

from fgl_secure.attacks.gradients.reconstruction import ReconstructedGraph, reconstruct_graph
from fgl_secure.cli.output import say
from fgl_secure.graph import Data
from fgl_secure.statistics.metrics import exact_proportion
from fgl_secure.typing import Floats, Ids

WIDTH = 300
DEGREES = {"CiteSeer": 100, "ZINC": 7}
STRATA = {
    "CiteSeer": {"1-10": 20, "10-20": 40, "20-30": 30, "30-40": 10},
    "ZINC": {"1-10": 20, "11-20": 20, "21-30": 20},
}
"""Sizes of graphs, and how many of each."""


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """Features [n, d], adjacency [n, n], and labels of nodes [n] or of the graph [1]."""

    features: Floats
    adjacency: Floats
    labels: Ids


class GraphModel(torch.nn.Module):
    """Two convolutions and two linear layers, of width 300; features enter these again unless `plain`."""

    def __init__(self, convolution: Callable[[int, int], torch.nn.Module], features: int, classes: int,
                 *, plain: bool, pooled: bool) -> None:  # fmt: skip
        super().__init__()
        self.plain, self.pooled = plain, pooled
        self.first, self.second = convolution(features, WIDTH), convolution(WIDTH, WIDTH)
        self.readout = torch.nn.Linear(WIDTH + (0 if plain else features), WIDTH)
        self.last = torch.nn.Linear(WIDTH, classes)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Logits [n, c] of nodes, or [1, c] of the graph."""
        h = self.second(torch.relu(self.first(x, edges)), edges)
        h = torch.relu(h) if self.plain else torch.cat([x, h], dim=1)
        logits: torch.Tensor = self.last(torch.relu(self.readout(h)))
        return logits.mean(dim=0, keepdim=True) if self.pooled else logits

    def gradient(self, example: Example) -> list[torch.Tensor]:
        """Of the mean cross-entropy."""
        edges = torch.from_numpy(np.stack(np.nonzero(example.adjacency)))
        loss = functional.cross_entropy(
            self(torch.from_numpy(example.features), edges), torch.from_numpy(example.labels)
        )
        return list(torch.autograd.grad(loss, list(self.parameters())))


def citeseer(low: int, high: int, rng: np.random.Generator) -> Iterator[Example]:
    """Graphs of that many nodes, without end."""
    graph = Data("CiteSeer", silos=1).load(0).graph
    words, ends = (np.asarray(graph.features) != 0).astype(np.float64), np.asarray(graph.edges)
    near: list[set[int]] = [set() for _ in words]
    for one, two in ends.T.tolist():
        if one != two:
            near[one].add(two)
            near[two].add(one)

    def ball(centre: int) -> set[int]:
        result = front = {centre}
        for _ in range(3):
            front = set().union(*(near[item] for item in front)) - result
            result = result | front
        return result

    while True:
        nodes = ball(int(rng.integers(len(words))))
        if not low <= len(nodes) <= high:
            continue
        for _ in range(2):
            more = nodes | ball(int(rng.choice(sorted(nodes))))
            nodes = more if len(more) <= high else nodes
        order = sorted(nodes)
        adjacency = np.array([[float(two in near[one]) for two in order] for one in order])
        degree = np.eye(DEGREES["CiteSeer"])[adjacency.sum(axis=1).astype(int)]
        yield Example(np.concatenate([words[order], degree], axis=1), adjacency, np.asarray(graph.labels)[order])


def zinc(low: int, high: int, rng: np.random.Generator) -> Iterator[Example]:
    """Molecules of that many atoms without hydrogen, in an order drawn at random."""
    from fgl_reproduction.datasets.zinc import atom_types, bonds, parse_smiles, solubility_terms  # noqa: PLC0415  # RDKit

    path = Path(os.environ["FGL_SECURE_DATA"]) / "ZINC" / "raw" / "250k_rndm_zinc_drugs_clean.smi.gz"
    with gzip.open(path, "rt") as file:
        lines = np.array(file.read().split())
    sizes = np.array([len(re.findall("Br|Cl|[BCNOFPSIcnops]", line)) for line in lines])
    for line in rng.permutation(lines[(low <= sizes) & (sizes <= high)]):
        molecule = parse_smiles(str(line))
        atoms, (one, two, _) = molecule.GetAtoms(), bonds(molecule)
        adjacency = np.zeros((len(atom_types(molecule)),) * 2)
        adjacency[one, two] = 1
        codes = [
            [int(item) for item in (kind, atom.GetTotalNumHs(), atom.GetChiralTag(), atom.GetIsAromatic(),
                                    atom.GetHybridization(), atom.IsInRing())]
            for kind, atom in zip(atom_types(molecule), atoms, strict=True)
        ]  # fmt: skip
        degree = np.eye(DEGREES["ZINC"])[adjacency.sum(axis=1).astype(int)]
        features = [
            *(np.eye(28 if not i else 9)[list(code)] for i, code in enumerate(zip(*codes, strict=True))),
            degree,
        ]
        label = np.array([int(solubility_terms(molecule)[0] > 2)])
        yield Example(np.concatenate([*features, degree], axis=1), adjacency, label)


def attack(chosen: argparse.Namespace, stratum: str, count: int) -> list[ReconstructedGraph]:
    """Draw graphs, take gradients at fresh models, and reconstruct the graphs."""
    low, high = map(int, stratum.split("-"))
    rng = np.random.default_rng(chosen.seed)
    source = (citeseer if chosen.data == "CiteSeer" else zinc)(low, high, rng)
    convolution = {"gcn": GCNConv, "gat": GATConv}[chosen.model]
    result = []
    for index in range(count):
        examples = [next(source) for _ in range(chosen.clients)]
        width, pooled = examples[0].features.shape[1], chosen.data == "ZINC"
        torch.manual_seed(index)
        model = GraphModel(convolution, width, 2 if pooled else 6, plain=chosen.plain, pooled=pooled).double()
        gradient = [torch.stack(parts).sum(dim=0) for parts in zip(*map(model.gradient, examples), strict=True)]
        noise = 0.0
        if chosen.bits:
            step = max(float(part.abs().max()) for part in gradient) / (2 ** (chosen.bits - 1) - 1)
            gradient, noise = [torch.round(part / step) * step for part in gradient], step / math.sqrt(12)
        elif chosen.noise:
            size, length = (
                sum(part.numel() for part in gradient),
                math.sqrt(sum(float(p.square().sum()) for p in gradient)),
            )
            noise = chosen.noise * length / math.sqrt(size)
            gradient = [part + noise * torch.from_numpy(rng.standard_normal(part.shape)) for part in gradient]
        truth = np.concatenate([item.features for item in examples]), block_diag(*(item.adjacency for item in examples))
        degrees = slice(width - DEGREES[chosen.data], width)
        result.append(reconstruct_graph(model, gradient, degrees, clients=chosen.clients, noise=noise, truth=truth))
    return result


def main(words: Sequence[str] | None = None) -> None:
    """Print a row of figures for each stratum."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exact_graphs", description=__doc__)
    add = parser.add_argument
    add("data", choices=tuple(STRATA), help="where graphs come from")
    add("--model", choices=("gcn", "gat"), default="gcn", help="the two convolutions")
    add("--plain", action="store_true", help="features do not enter the readout")
    add("--strata", nargs="*", default=None, metavar="LOW-HIGH", help="sizes of graphs; all when left out")
    add(
        "--graphs",
        type=int,
        default=None,
        metavar="N",
        help="graphs of each size, or sums; GRAIN's numbers when left out",
    )
    add("--clients", type=int, default=1, metavar="K", help="gradients in a sum")
    add("--bits", type=int, default=0, metavar="B", help="bits of an entry of the gradient; 0 for double precision")
    add("--noise", type=float, default=0.0, metavar="Z", help="length of Gaussian noise, in lengths of the gradient")
    add("--seed", type=int, default=0, metavar="S", help="of graphs and noise")
    chosen = parser.parse_args(words)
    torch.set_default_dtype(torch.float64)
    for stratum in chosen.strata or STRATA[chosen.data]:
        start, count = time.process_time(), chosen.graphs or STRATA[chosen.data][stratum]
        graphs = attack(chosen, stratum, count)
        full = exact_proportion(sum(bool(item.same) for item in graphs), count)
        cells: list[Any] = [
            stratum, count, f"{full.value:.3f}", f"{full.interval.low:.3f} to {full.interval.high:.3f}",
            f"{sum(item.exact for item in graphs) / count:.3f}",
            *(f"{np.mean([item.agreement[hops] for item in graphs if item.agreement]):.3f}" for hops in range(3)),
            f"{(time.process_time() - start) / count:.1f}",
        ]  # fmt: skip
        say(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main(sys.argv[1:])
