"""FedStruct from the first message to the last, with all clients in one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.coins import Coins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.structure_features import structure_features
from fgl_secure.methods.fedstruct.exchange import HopwiseExchange, NoExchange
from fgl_secure.methods.fedstruct.presets import FedStructPreset
from fgl_secure.methods.fedstruct.program import FedStruct, FedStructTask, Given, Shown, own_features
from fgl_secure.runtime import Channel
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job, Task
from fgl_secure.training.parties import note_own_graph
from fgl_secure.training.silo import Silo

Table = NDArray[np.float32]


def clients_of(
    graph: FederatedGraph,
    task: FedStructTask,
    *,
    device: torch.device | None = None,
    given: Callable[[Silo], Given] | None = None,
    shown: Shown | None = None,
) -> Job:
    """The clients: structure is exchanged, and models are trained; a round is selected as the preset says.

    `accuracy.test` is averaged as the preset says, and `selected_round` counts the steps that the reported model has
    taken.

    Args:
        graph: who has what.
        task: what is trained.
        device: where model compute runs; the CPU by default.
        given: what clients need not find out, in one process; by default what the `paper` preset gives them.
        shown: shown the clients before the first round, and after the last.

    Raises:
        InputError: rows travel hop by hop along edges that have no other direction.
    """
    hopwise, tell = isinstance(task.exchange, HopwiseExchange), given or published
    if hopwise and not graph.graph.is_symmetric:
        raise InputError("graph must have every edge in both directions where embeddings travel; it has not")

    def settle(channel: Channel) -> None:
        if not isinstance(task.exchange, NoExchange):
            note_own_graph(channel, graph)

    def make(talk: Collectives, _coins: Coins) -> FedStruct:
        return FedStruct(talk, task, device=device, given=tell(talk.silo))

    told = Task(make, task.exchange.schemes, task.preset.epochs, graph.num_classes, crossing=hopwise)
    show = None if shown is None else lambda programs: shown(cast("tuple[FedStruct, ...]", programs))
    return Job(told, graph, settle=settle, shares=shares_of(graph, task), shown=show)


PUBLISHED = "published features"


def shares_of(graph: FederatedGraph, task: FedStructTask) -> tuple[Silo, ...]:
    """What clients hold: under the `paper` preset with it their rows of fixed features of the whole graph.

    That is how the public code has them, and what no client could compute.
    """
    shares = tuple(Silo.all_of(graph))
    if task.preset.name != "paper" or task.learns or isinstance(task.exchange, NoExchange):
        return shares
    table = structure_features(task.features, graph.graph, task.preset.structure_width, task.seed)
    return tuple(replace(silo, own={PUBLISHED: table[silo.nodes]}) for silo in shares)


def published(silo: Silo) -> Given:
    """What a client's share has of what it could not compute."""
    return Given(features=silo.own[PUBLISHED]) if PUBLISHED in silo.own else Given()


def client_features(graph: FederatedGraph, preset: FedStructPreset, name: str, seed: int) -> Table:
    """Fixed structure features of all nodes float32 [n, d_s], each row as its client has it."""
    task = FedStructTask(preset, NoExchange(), name, seed)
    if preset.name == "paper":
        return structure_features(name, graph.graph, preset.structure_width, seed)
    shares = Silo.all_of(graph)
    parts = [own_features(silo, task) for silo in shares]
    order = np.argsort(np.concatenate([silo.nodes for silo in shares]))
    return np.concatenate(parts)[order]
