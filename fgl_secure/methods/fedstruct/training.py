"""FedStruct from the first message to the last, with all clients in one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.structure_features import structure_features
from fgl_secure.methods.fedstruct.exchange import Exchange, HopwiseExchange, NoExchange
from fgl_secure.methods.fedstruct.presets import FedStructPreset
from fgl_secure.methods.fedstruct.program import HOP2VEC, FedStruct, FedStructTask, Given, Shown, own_features
from fgl_secure.runtime import Channel
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.loop import Progress, TrainingResult
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parties import note_own_graph
from fgl_secure.training.rounds import run
from fgl_secure.training.silo import Silo

Table = NDArray[np.float32]


def clients_of(
    graph: FederatedGraph,
    task: FedStructTask,
    channel: Channel,
    *,
    device: torch.device | None = None,
    given: Callable[[Silo], Given] | None = None,
) -> OneProcess:
    """The clients, ready for their first message.

    Args:
        graph: who has what.
        task: what is trained.
        channel: between the parties of `hierarchy_of(graph, ...)` and the helpers of the exchange.
        device: where model compute runs; the CPU by default.
        given: what clients need not find out; by default what the `paper` preset gives them.

    Raises:
        InputError: rows travel hop by hop along edges that have no other direction.
    """
    hopwise, tell = isinstance(task.exchange, HopwiseExchange), given or published_features(graph, task)
    if hopwise and not graph.graph.is_symmetric:
        raise InputError("graph must have every edge in both directions where embeddings travel; it has not")
    if not isinstance(task.exchange, NoExchange):
        note_own_graph(channel, graph)

    def make(talk: Collectives) -> FedStruct:
        return FedStruct(talk, task, device=device, given=tell(talk.silo))

    return OneProcess(graph, task.exchange.schemes, channel, make, width=graph.num_classes, crossing=hopwise)


def published_features(graph: FederatedGraph, task: FedStructTask) -> Callable[[Silo], Given]:
    """What clients are given: under the `paper` preset fixed features of the whole graph; under others nothing.

    That is how the public code has them, and what no client could compute.
    """
    if task.preset.name != "paper" or task.learns or isinstance(task.exchange, NoExchange):
        return lambda _silo: Given()
    table = structure_features(task.features, graph.graph, task.preset.structure_width, task.seed)
    return lambda silo: Given(features=table[silo.nodes])


def client_features(graph: FederatedGraph, preset: FedStructPreset, name: str, seed: int) -> Table:
    """Fixed structure features of all nodes float32 [n, d_s], each row as its client has it."""
    task = FedStructTask(preset, NoExchange(), name, seed)
    if preset.name == "paper":
        return structure_features(name, graph.graph, preset.structure_width, seed)
    shares = [Silo.of(graph, silo) for silo in range(graph.num_silos)]
    parts = [own_features(silo, task) for silo in shares]
    order = np.argsort(np.concatenate([silo.nodes for silo in shares]))
    return np.concatenate(parts)[order]


def train_fedstruct(
    graph: FederatedGraph,
    preset: FedStructPreset,
    exchange: Exchange | NoExchange,
    channel: Channel,
    *,
    features: str = HOP2VEC,
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
    shown: Shown | None = None,
    given: Callable[[Silo], Given] | None = None,
) -> TrainingResult:
    """Exchanges structure, trains, and selects a round as the preset says.

    Args:
        graph: who has what.
        preset: how to train; `hops` and `kept` say what is exchanged.
        exchange: how.
        channel: between the parties of `hierarchy_of(graph, helpers_of(exchange))`.
        features: name of the structure features; "hop2vec" learns them.
        seed: of initial weights, learnt structure features, node2vec's walks and dropout.
        device: where model compute runs; the CPU by default.
        progress: called after each round.
        shown: shown the clients before the first round, and after the last.
        given: see `clients_of`.

    Returns:
        The record of the run; `accuracy.test` is averaged as the preset says, and `selected_round` counts the steps
        that the reported model has taken.
    """
    task = FedStructTask(preset, exchange, features, seed)
    process = clients_of(graph, task, channel, device=device, given=given)

    def show() -> None:
        if shown is not None:
            shown(cast("tuple[FedStruct, ...]", process.programs))

    return run(process, preset.epochs, channel.transcript, progress, shown=show)
