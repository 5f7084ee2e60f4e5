"""Runs of FedVN that attacks on its summands must break."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.attacks.virtual_nodes.knowledge import FEDVN, FEDVN_SKEWED
from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.graph.motif import MotifEnvironment, motif_set
from fgl_secure.methods.fedvn.preset import FedVNPreset
from fgl_secure.methods.fedvn.scenarios import Setting, recorded_rounds
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.training.presets import Selection

GRAPHS = 60
"""Of a client."""
SMALL, LARGE = (7, 1), (15, 3)
"""Widths of bases, and how far around: half of the clients have small ones."""
FAVOURITES = (0, 1, 0, 2, 0)
"""The commonest label of each fifth client; the first is the commonest of all."""
FAVOURED, OTHERS = 14, 3
"""Training graphs of a client's favourite label, and of each other."""

WHOLE = FedVNPreset(
    "honest", 10, batch=GRAPHS, hidden=16, layers=2, dropout=0.0, virtual_nodes=4, selection=Selection.TEST
)
"""One step a round on all training graphs: what a client's graphs say is all that a summand tells."""


@cache
def _graphs() -> GraphSet:
    """Ten clients, whose graphs have bases of five kinds and of two sizes."""
    sizes = [(base, *size) for size in (SMALL, LARGE) for base in ("wheel", "tree", "ladder", "star", "path")]
    environments = [MotifEnvironment((base,), (width,), spread) for base, width, spread in sizes]
    return motif_set("reference", environments, "basis and size", 0, GRAPHS, 0.0)


@cache
def _rounds() -> RecordedRun:
    return _recorded(_graphs(), WHOLE, "reference, rounds of FedVN in the clear, a step on all graphs")


@cache
def _skewed() -> RecordedRun:
    graphs = _graphs()
    train = skewed(graphs)
    held = replace(graphs, train=train, test=~train)
    return _recorded(held, replace(WHOLE, epochs=6, batch=10), "reference, rounds of FedVN in the clear, skewed labels")


def skewed(graphs: GraphSet) -> NDArray[np.bool_]:
    """Which graphs train: at each client many of its favourite label, and a few of each other, bool [g]."""
    train = np.zeros(graphs.num_graphs, dtype=np.bool_)
    for client in range(graphs.num_clients):
        own = graphs.graphs_of(client)
        for label in range(graphs.num_classes):
            same = own[graphs.targets[own] == label]
            favoured = label == FAVOURITES[client % len(FAVOURITES)]
            train[same[: FAVOURED if favoured else OTHERS]] = True
    return train


def _recorded(graphs: GraphSet, preset: FedVNPreset, what: str) -> RecordedRun:
    setting = Setting(graphs, graphs.union(), preset, 0, torch.device("cpu"))
    return recorded_rounds(setting, Plaintext(), "drawn for attacks", what, preset.epochs)


CONTROLS: Makers = MappingProxyType({FEDVN: _rounds, FEDVN_SKEWED: _skewed})
"""What attacks on virtual nodes must break, by name; each is made when it is first asked for."""
