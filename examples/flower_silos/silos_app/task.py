"""What is trained, on which graph, and who takes part; nothing in it is of Flower."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from fgl_secure.coins import SystemCoins
from fgl_secure.graph import FederatedGraph, Graph
from fgl_secure.graph.digits import load_digits_graph
from fgl_secure.graph.split import random_split
from fgl_secure.methods.fedavg.training import FedAvg
from fgl_secure.methods.fedstruct.presets import FedStructPreset, fedstruct_preset
from fgl_secure.methods.hifgl.program import HiFGL
from fgl_secure.methods.silos.fedstruct import FedStructSilo, FedStructTask
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS, SERVER
from fgl_secure.schemes import server_scheme
from fgl_secure.training.job import Task
from fgl_secure.training.presets import HONEST, Preset
from fgl_secure.training.processes.program_run import ProgramRun
from fgl_secure.training.processes.sealing import SealedParty
from fgl_secure.training.processes.sums import Company
from fgl_secure.training.silo import Silo

NODES = 300
RELAYS = RelayCoded()
MASKS = "pairwise-masking"


def federated(silos: int) -> FederatedGraph:
    """The first 300 digits and the edges between them, dealt out to the silos in turn."""
    digits = load_digits_graph()
    inside = (digits.edges < NODES).all(axis=0)
    graph = Graph.from_arrays("digits", digits.features[:NODES], digits.labels[:NODES], digits.edges[:, inside])
    return FederatedGraph.from_assignment(graph, np.arange(NODES) % silos, random_split(NODES, 0))


def fedstruct(rounds: int) -> FedStructPreset:
    """FedStruct with Hop2Vec, small."""
    usual = replace(fedstruct_preset("honest", "Cora"), epochs=rounds, learning_rate=0.02, hops=2, kept=None)
    return replace(usual, structure_width=8, structure_hidden=(16,), feature_hidden=(16,))


def small(rounds: int) -> Preset:
    """A small GCN, for HiFGL and for federated averaging."""
    return replace(HONEST, epochs=rounds, hidden=16)


def task(method: str, rounds: int, scheme: str = MASKS) -> Task:
    """What every silo is told: its program, and the schemes of its sums.

    Args:
        method: "fedavg" or "hifgl".
        rounds: of training.
        scheme: adds silos' vectors up.
    """
    if method == "fedavg":
        return Task(lambda talk, _: FedAvg(talk, small(rounds)), {SERVER: server_scheme(scheme)}, rounds)
    schemes = {NEIGHBOURS: RELAYS, MEMBERS: RELAYS, SERVER: server_scheme(scheme)}
    return Task(lambda talk, _: HiFGL(talk, small(rounds)), schemes, rounds)


def company(silos: int, session: bytes, scheme: str = MASKS) -> Company:
    """How silos add up."""
    return Company(silos, server_scheme(scheme), session)


def parties(method: str, silos: int) -> int:
    """Silos, and relays where the method has them."""
    return silos + (RELAYS.R if method == "hifgl" else 0)


def party(
    method: str, silos: int, rounds: int, number: int, session: bytes, share: str, scheme: str = MASKS
) -> SealedParty:
    """One of them, before its first turn.

    Args:
        method: "fedavg", "fedstruct" or "hifgl".
        silos: how many.
        rounds: of training.
        number: of the party: silos come first.
        session: of the run.
        share: file with what a silo holds; if empty it is cut out of the whole graph, which no silo would have.
        scheme: adds silos' vectors up.
    """

    def held() -> Silo:
        return Silo.load(Path(share)) if share else Silo.of(federated(silos), number)

    if method != "fedstruct":
        return ProgramRun(task(method, rounds, scheme), silos).party(number, session, held)
    coins = SystemCoins()
    program = FedStructSilo(held(), FedStructTask(fedstruct(rounds)), company(silos, session, scheme), coins)
    return SealedParty(number, silos, program, session, coins)
