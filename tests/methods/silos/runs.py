"""Runs of FedStruct with a process for each silo, for the tests."""

from __future__ import annotations

from dataclasses import replace

from fgl_secure.coins import SystemCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstruct.presets import FedStructPreset, fedstruct_preset
from fgl_secure.methods.silos.fedstruct import FedStructSilo, FedStructTask
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.training.silo import Silo
from tests.training.processes.runs import Make, company

FEDSTRUCT: FedStructPreset = replace(
    fedstruct_preset("honest", "Cora"), epochs=3, hops=3, kept=None, structure_width=8, structure_hidden=(8,),
    feature_hidden=(8,), dropout=0.3, learning_rate=0.05, structure_rate=0.05,
)  # fmt: skip


def fedstruct_makes(graph: FederatedGraph, task: FedStructTask, scheme: Scheme) -> dict[int, Make]:
    """What makes each silo's program; what it holds is cut out once."""

    def make(silo: int) -> Make:
        share, coins = Silo.of(graph, silo), SystemCoins()
        return lambda: FedStructSilo(share, task, company(graph, scheme), coins)

    return {silo: make(silo) for silo in range(graph.num_silos)}
