"""FedStar as one client runs it, and its clients, ready for their first message.

A client takes steps of Adam on all of its model, and the structure encoder alone is averaged, weighted by labelled
nodes. What is learnt on features never leaves a client, and predictions are its own model's.
"""

from __future__ import annotations

import torch

from fgl_secure.coins import Coins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstar.models import FedStarModel, StructuredGraph
from fgl_secure.methods.fedstar.preset import FedStarPreset
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import SERVER
from fgl_secure.runtime.packing import Array
from fgl_secure.training.averaging import APART, Averaged
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job, Task
from fgl_secure.training.parameters import flat


class FedStar(Averaged):
    """One client of FedStar.

    Args:
        talk: the collectives of the run.
        preset: how to train.
        seed: of initial weights and dropout; where a client's own part of the model begins, it alone knows.
        device: where model compute runs; the CPU by default.
    """

    def __init__(
        self, talk: Collectives, preset: FedStarPreset, *, seed: int = 0, device: torch.device | None = None
    ) -> None:
        facts, own = talk.silo.facts, seed + APART * (1 + talk.silo.silo)
        coins = (torch.Generator().manual_seed(each) for each in (seed, own))
        super().__init__(
            talk, preset, FedStarModel(facts.features, facts.classes, preset, *coins), seed=seed, device=device
        )
        self._structure = preset

    def surroundings(self) -> StructuredGraph:
        """The client's nodes and the edges between them."""
        return StructuredGraph.of(self.silo.features, self.silo.alone.edges, self._structure, self.device)

    @property
    def report(self) -> dict[str, Array]:
        """As of averaging: "theta" is the structure encoder after the last round; and the whole model."""
        model = self.learner.model
        return {**super().report, "theta": flat(model.shared), "own theta": flat(list(model.parameters()))}


def clients_of(
    graph: FederatedGraph,
    scheme: Scheme,
    preset: FedStarPreset,
    *,
    seed: int = 0,
    device: torch.device | None = None,
) -> Job:
    """The clients, each with its own subgraph.

    Args:
        graph: who has what; edges between clients go unused.
        scheme: adds up structure encoders, and figures.
        preset: how to train.
        seed: of initial weights and dropout.
        device: where model compute runs; the CPU by default.
    """

    def make(talk: Collectives, _coins: Coins) -> FedStar:
        return FedStar(talk, preset, seed=seed, device=device)

    return Job(Task(make, {SERVER: scheme}, preset.epochs), graph, heard=graph.restricted_to_silos())
