"""FedSage+'s clients, ready for their first message."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from fgl_secure.coins import Coins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedsage.preset import FedSagePreset
from fgl_secure.methods.fedsage.program import FedSage
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import CLIENTS, SERVER
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job, Task


def clients_of(
    graph: FederatedGraph,
    schemes: Mapping[str, Scheme],
    preset: FedSagePreset,
    *,
    backbone: str = "sage",
    seed: int = 0,
    device: torch.device | None = None,
) -> Job:
    """The clients: they learn generators, alone and together, mend their graphs and train.

    Args:
        graph: who has what; edges between clients go unused.
        schemes: of "clients", gradients of generators, and of "server", models; what is not there is in the clear.
        preset: how to train.
        backbone: of the classifier: "gcn", "sage" or "dagnn".
        seed: of initial weights, hidden nodes, noise and dropout.
        device: where model compute runs; the CPU by default.
    """

    def make(talk: Collectives, _coins: Coins) -> FedSage:
        return FedSage(talk, preset, backbone=backbone, seed=seed, device=device)

    chosen = {CLIENTS: Plaintext(), SERVER: Plaintext(), **schemes}
    rounds = preset.rounds_together + preset.epochs
    return Job(Task(make, chosen, rounds), graph, heard=graph.restricted_to_silos())
