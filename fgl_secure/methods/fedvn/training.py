"""FedVN's clients, ready to be trained."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fgl_secure.coins import Coins
from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.methods.fedvn.preset import FedVNPreset
from fgl_secure.methods.fedvn.program import ClientGraphs, FedVN
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import SERVER
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job, Task
from fgl_secure.training.one_process import OneProcess


class HandingOn(OneProcess):
    """Every client gets what the next one has after each round: graphs, models and all."""

    def round(self, number: int) -> bool:
        """One round of all clients, and what they have moves on by one place; whether there is another round."""
        goes_on = super().round(number)
        self.programs = (*self.programs[1:], *self.programs[:1])
        for program, talk in zip(self.programs, self._talks, strict=True):
            program.talk = talk
        return goes_on


def clients_of(
    sets: GraphSet,
    scheme: Scheme,
    preset: FedVNPreset,
    *,
    kind: Callable[..., FedVN] = FedVN,
    seed: int = 0,
    device: torch.device | None = None,
    passing: bool = False,
) -> Job:
    """The clients; models are scored before each round and after the last.

    The test accuracy is the plain mean over clients, as in the paper's table, off by 2^-24 at most; where targets are
    values, all accuracies are mean absolute errors. Under "last" reports have the figures after the last round.

    Args:
        sets: who has which graphs.
        scheme: of what clients send the server.
        preset: how to train, and what selects a round.
        kind: makes a client's program, as `FedVN` does.
        seed: of initial weights, batches and dropout; coins come from the channel.
        device: where model compute runs; the CPU by default.
        passing: whether clients hand all they have to the next one after each round, so that what comes from a place
            says nothing of what came from it before; for null controls.
    """

    def make(talk: Collectives, _coins: Coins) -> FedVN:
        return kind(talk, ClientGraphs.held_by(talk.silo), preset, seed=seed, device=device)

    driver = HandingOn if passing else OneProcess
    shares = tuple(ClientGraphs.share_of(sets, client) for client in range(sets.num_clients))
    return Job(Task(make, {SERVER: scheme}, preset.epochs), sets.union(), shares=shares, driver=driver)
