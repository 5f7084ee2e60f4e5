"""What is trained, on which graph, and who takes part; nothing in it is of Flower."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from fgl_secure.coins import SystemCoins
from fgl_secure.graph import FederatedGraph, Graph
from fgl_secure.graph.digits import load_digits_graph
from fgl_secure.graph.split import random_split
from fgl_secure.methods.fedstruct.exchange import RowExchange
from fgl_secure.methods.fedstruct.presets import fedstruct_preset
from fgl_secure.methods.fedstruct.program import FedStruct, FedStructTask
from fgl_secure.methods.hifgl.program import HiFGL
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.training.presets import HONEST, Preset
from fgl_secure.training.processes.relay import RelayProcess, RelaySums
from fgl_secure.training.processes.sealing import SealedParty
from fgl_secure.training.processes.silo_process import SiloProcess
from fgl_secure.training.processes.sums import Company
from fgl_secure.training.silo import Silo

NODES = 300
RELAYS = RelayCoded()


def federated(silos: int) -> FederatedGraph:
    """The first 300 digits and the edges between them, dealt out to the silos in turn."""
    digits = load_digits_graph()
    inside = (digits.edges < NODES).all(axis=0)
    graph = Graph.from_arrays("digits", digits.features[:NODES], digits.labels[:NODES], digits.edges[:, inside])
    return FederatedGraph.from_assignment(graph, np.arange(NODES) % silos, random_split(NODES, 0))


def fedstruct(rounds: int) -> FedStructTask:
    """FedStruct with Hop2Vec, small; everything that is added up is masked."""
    usual = replace(fedstruct_preset("honest", "Cora"), epochs=rounds, learning_rate=0.02, hops=2, kept=None)
    small = replace(usual, structure_width=8, structure_hidden=(16,), feature_hidden=(16,))
    return FedStructTask(small, RowExchange(PairwiseMasking(), PairwiseMasking()))


def hifgl(rounds: int) -> Preset:
    """HiFGL with a small GCN."""
    return replace(HONEST, epochs=rounds, hidden=16)


def company(silos: int, session: bytes) -> Company:
    """Silos add up under pairwise masking."""
    return Company(silos, PairwiseMasking(), session)


def parties(method: str, silos: int) -> int:
    """Silos, and relays where the method has them."""
    return silos + (RELAYS.R if method == "hifgl" else 0)


def party(method: str, silos: int, rounds: int, number: int, session: bytes, share: str) -> SealedParty:
    """One of them, before its first turn.

    Args:
        method: "fedstruct" or "hifgl".
        silos: how many.
        rounds: of training.
        number: of the party: silos come first.
        session: of the run.
        share: file with what a silo holds; if empty it is cut out of the whole graph, which no silo would have.
    """
    coins = SystemCoins()
    if number >= silos:
        relay = RelayProcess(number - silos, silos, RELAYS, session, coins)
        return SealedParty(number, parties(method, silos), relay, session, coins)
    held = Silo.load(Path(share)) if share else Silo.of(federated(silos), number)
    if method == "hifgl":
        sums = RelaySums(held, RELAYS, session, coins)
        preset = hifgl(rounds)
        program = SiloProcess(held, lambda talk: HiFGL(talk, preset), company(silos, session), coins, sums, RELAYS)
    else:
        chosen = fedstruct(rounds)
        program = SiloProcess(held, lambda talk: FedStruct(talk, chosen), company(silos, session), coins)
    return SealedParty(number, parties(method, silos), program, session, coins)
