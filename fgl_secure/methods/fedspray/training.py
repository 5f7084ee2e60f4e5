"""FedSpray's clients, ready to be trained."""

from __future__ import annotations

import torch

from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedspray.client import FedSpray
from fgl_secure.methods.fedspray.preset import FedSprayPreset
from fgl_secure.methods.fedspray.scoring import chosen
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.training.job import Job


def clients_of(
    graph: FederatedGraph,
    scheme: Scheme,
    preset: FedSprayPreset,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
) -> Job:
    """The clients; one round is reported for all of them, chosen as the preset says.

    Args:
        graph: who has what; edges between clients go unused.
        scheme: adds the clients' vectors up.
        preset: how to train.
        backbone: "gcn", "sgc" or "sage".
        seed: of initial weights.
        device: where model compute runs; the CPU by default.
    """
    return chosen(
        graph,
        scheme,
        preset,
        lambda talk, _: FedSpray(talk, preset, backbone=backbone, seed=seed, device=device),
    )
