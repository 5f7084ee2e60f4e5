"""FED-PUB's clients, ready for their first message."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from fgl_secure.coins import Coins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedpub.preset import FedPubPreset
from fgl_secure.methods.fedpub.program import FedPub
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import CLIENTS, SERVER
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job, Task

CLEAR = Plaintext.label
LEAST = 3
"""Clients, where sums are not in the clear: with two, the sum of the others is one model."""


def clients_of(
    graph: FederatedGraph,
    schemes: Mapping[str, Scheme],
    preset: FedPubPreset,
    *,
    seed: int = 0,
    device: torch.device | None = None,
) -> Job:
    """The clients, each with its own subgraph.

    Args:
        graph: who has what; edges between clients go unused.
        schemes: of "clients", averages, and of "server", figures; what is not there is in the clear.
        preset: how to train.
        seed: of initial weights, of the public graph and of dropout.
        device: where model compute runs; the CPU by default.

    Raises:
        InputError: there are too few clients.
    """
    schemes = {CLIENTS: Plaintext(), SERVER: Plaintext(), **schemes}
    least = 2 if schemes[CLIENTS].label == CLEAR else LEAST
    if graph.num_silos < least:
        raise InputError(
            f"silos must be at least {least} for fedpub under {schemes[CLIENTS].name}, where a client gets a sum of "
            f"the others' models; found {graph.num_silos}"
        )

    def make(talk: Collectives, _coins: Coins) -> FedPub:
        return FedPub(talk, preset, seed=seed, device=device)

    return Job(Task(make, schemes, preset.epochs), graph, heard=graph.restricted_to_silos())
