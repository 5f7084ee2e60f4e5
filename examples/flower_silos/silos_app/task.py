"""What is trained, on which graph, and who takes part; nothing in it is of Flower."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from fgl_secure.graph import FederatedGraph, Graph
from fgl_secure.graph.datasets import load_digits_graph
from fgl_secure.graph.partition import random_split
from fgl_secure.methods.fedavg.program import FedAvgClient
from fgl_secure.methods.fedstruct.exchange import RowExchange
from fgl_secure.methods.fedstruct.preset import fedstruct_preset
from fgl_secure.methods.fedstruct.program import FedStructClient, FedStructTask
from fgl_secure.methods.hifgl.program import HiFGLSilo
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS, SERVER
from fgl_secure.schemes import server_scheme
from fgl_secure.training.job import Task
from fgl_secure.training.presets import HONEST, Preset
from fgl_secure.training.processes.program_run import ProgramRun
from fgl_secure.training.silo import Silo

NODES = 300
RELAYS = RelayCoded(profile=Profile.SHOWN)
MASKS = "pairwise-masking"


def load_graph(silos: int) -> FederatedGraph:
    """The first 300 digits and the edges between them, dealt out to the silos in turn."""
    digits = load_digits_graph()
    inside = (digits.edges < NODES).all(axis=0)
    graph = Graph.from_arrays("digits", digits.features[:NODES], digits.labels[:NODES], digits.edges[:, inside])
    return FederatedGraph.from_assignment(graph, np.arange(NODES) % silos, random_split(NODES, 0))


def fedstruct(rounds: int, scheme: str) -> FedStructTask:
    """FedStruct with Hop2Vec, small; terms for one client and gradients for the server go under one scheme."""
    usual = replace(fedstruct_preset("honest", "Cora"), epochs=rounds, learning_rate=0.02, hops=2, kept=None)
    chosen = replace(usual, structure_width=8, structure_hidden=(16,), feature_hidden=(16,))
    return FedStructTask(chosen, RowExchange(server_scheme(scheme), server_scheme(scheme)))


def small(rounds: int) -> Preset:
    """A small GCN, for HiFGL and for federated averaging."""
    return replace(HONEST, epochs=rounds, hidden=16)


def task(method: str, rounds: int, scheme: str = MASKS) -> Task:
    """What every silo is told: its program, and the schemes of its sums.

    Args:
        method: "fedavg", "fedstruct" or "hifgl".
        rounds: of training.
        scheme: adds silos' vectors up.
    """
    if method == "fedavg":
        return Task(lambda talk, _: FedAvgClient(talk, small(rounds)), {SERVER: server_scheme(scheme)}, rounds)
    if method == "fedstruct":
        chosen = fedstruct(rounds, scheme)
        return Task(lambda talk, _: FedStructClient(talk, chosen), chosen.exchange.schemes, rounds)
    schemes = {NEIGHBOURS: RELAYS, MEMBERS: RELAYS, SERVER: server_scheme(scheme)}
    return Task(lambda talk, _: HiFGLSilo(talk, small(rounds)), schemes, rounds)


def run_of(config: Mapping[str, str | int | float | bool]) -> ProgramRun:
    """What every process is told, from the run's configuration."""
    return ProgramRun(task(str(config["method"]), int(config["rounds"]), str(config["scheme"])), int(config["silos"]))


def load_silo(number: int, silos: int, share: str) -> Silo:
    """What a silo holds.

    Args:
        number: of the silo.
        silos: how many.
        share: file with it; if empty it is cut out of the whole graph, which no silo would have.
    """
    return Silo.load(Path(share)) if share else Silo.of(load_graph(silos), number)
