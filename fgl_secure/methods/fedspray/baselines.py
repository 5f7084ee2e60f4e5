"""What FedSpray is compared with in its Table 2: the same networks, alone or with means of them."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import torch
from torch.nn import functional

from fgl_secure.methods.fedspray.client import adam, drawn_network
from fgl_secure.methods.fedspray.networks import Network
from fgl_secure.methods.fedspray.preset import FedSprayPreset
from fgl_secure.methods.fedspray.scoring import ChosenRounds
from fgl_secure.methods.fedspray.structured import structured_network
from fgl_secure.runtime.packing import Array, Arrays, under, within
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.parameters import flat, overwrite, remembered, remind
from fgl_secure.training.rounds import Figures


class Baseline(StrEnum):
    """What clients have in common; the value is what tables call it."""

    LOCAL = "Local"
    """Nothing: every client trains a network of its own."""
    FEDAVG = "FedAvg"
    """One network, averaged by numbers of nodes after the local epochs of a round (McMahan et al. 2017)."""
    GCFL = "GCFL"
    """A mean of networks for each cluster of clients, split as GCFL+ does it (Xie et al. 2021)."""
    FEDSTAR = "FedStar"
    """An encoder of structure beside each network, which alone is averaged (Tan et al. 2023)."""


class PlainClient(ChosenRounds):
    """A network that learns from labels alone.

    Args:
        talk: the collectives of the run.
        preset: rate and local epochs.
        baseline: what clients have in common; one network for all is that of client 0 at the start.
        backbone: "gcn", "sgc" or "sage".
        seed: of initial weights.
        device: where model compute runs.
    """

    def __init__(
        self,
        talk: Collectives,
        preset: FedSprayPreset,
        baseline: Baseline,
        *,
        backbone: str = "gcn",
        seed: int = 0,
        device: torch.device | None = None,
    ) -> None:
        place, draws = device or torch.device("cpu"), torch.Generator().manual_seed(seed)
        super().__init__(talk, preset, place)
        self._averaged: list[torch.Tensor] = []
        if baseline is Baseline.FEDSTAR:
            structured = structured_network(backbone, talk.silo, preset, draws)
            self._averaged = list(structured.structure.parameters())
            self.network: Network = structured.to(place)
        else:
            alone = baseline is Baseline.LOCAL
            drawn = talk.silo.silo if alone else 0
            self.network = drawn_network(backbone, talk.silo.facts, preset, draws, drawn).to(place)
            self._averaged = [] if alone else list(self.network.parameters())
        self._parameters = list(self.network.parameters())
        self._steps = adam(self.network, preset.learning_rate)

    def train(self, number: int) -> Figures:
        """Scores the network, trains it, and takes the mean of all where there is one."""
        self._predict()
        loss = self._train()
        return self._federated(loss, number) if self._averaged else self.added(loss)[1]

    def _federated(self, loss: float, number: int) -> Figures:  # noqa: ARG002  # every round is alike
        weight = len(self.silo.nodes) / self.silo.facts.nodes
        part = weight * flat(self._averaged).astype(np.float64)
        (mean,), figures = self.added(loss, [part], np.array([weight]))
        overwrite(self._averaged, mean)
        return figures

    def judge(self, number: int) -> Figures:  # noqa: ARG002  # whenever it is
        """Scores the network as it is."""
        self._predict()
        return self.added(0.0)[1]

    def _predict(self) -> None:
        with torch.no_grad():
            self.predictions = self.network.scores(self.subgraph)

    def _train(self) -> float:
        """The local epochs of a round; the loss before the last step."""
        labelled, labels = self.subgraph.labelled, self.subgraph.labelled_labels
        loss = torch.empty(0)
        for _ in range(self.preset.local_epochs):
            self._steps.zero_grad()
            loss = functional.cross_entropy(self.network.scores(self.subgraph)[labelled], labels)
            loss.backward()  # type: ignore[no-untyped-call]
            self._steps.step()
        return loss.item()

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, and the parameters after the last round."""
        return {**super().report, "theta": flat(self._parameters)}

    def state(self) -> dict[str, Array]:
        """Parameters, and what the optimiser remembers."""
        return {**super().state(), "values": flat(self._parameters), **under("optimiser", remembered(self._steps))}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        overwrite(self._parameters, state["values"])
        remind(self._steps, within("optimiser", state))
