"""What FedSpray is compared with in its Table 2: the same networks, trained alone or by federated averaging."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import torch
from torch.nn import functional

from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedspray.client import adam, drawn_network
from fgl_secure.methods.fedspray.preset import FedSprayPreset
from fgl_secure.methods.fedspray.scoring import ChosenRounds, chosen
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime.packing import Array, Arrays, under, within
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job
from fgl_secure.training.parameters import flat, overwrite, remembered, remind
from fgl_secure.training.rounds import Figures


class Baseline(StrEnum):
    """What clients have in common; the value is what tables call it."""

    LOCAL = "Local"
    """Nothing: every client trains a network of its own."""
    FEDAVG = "FedAvg"
    """One network, averaged by numbers of nodes after the local epochs of a round (McMahan et al. 2017)."""


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
        self._shared = baseline is Baseline.FEDAVG
        drawn = 0 if self._shared else talk.silo.silo
        self.network = drawn_network(backbone, talk.silo.facts, preset, draws, drawn).to(place)
        self._parameters = list(self.network.parameters())
        self._steps = adam(self.network, preset.learning_rate)

    def train(self, number: int) -> Figures:  # noqa: ARG002  # every round is alike
        """Scores the network, trains it, and takes the mean of all where there is one."""
        self._predict()
        loss = self._train()
        if not self._shared:
            return self.added(loss)[1]
        weight = len(self.silo.nodes) / self.silo.facts.nodes
        part = weight * flat(self._parameters).astype(np.float64)
        (mean,), figures = self.added(loss, [part], np.array([weight]))
        overwrite(self._parameters, mean)
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


def plain_clients(
    baseline: Baseline,
    graph: FederatedGraph,
    scheme: Scheme,
    preset: FedSprayPreset,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
) -> Job:
    """The clients of a baseline; arguments as for `clients_of`.

    Raises:
        InputError: there is no validation node.
    """
    return chosen(
        graph,
        scheme,
        preset,
        lambda talk, _: PlainClient(talk, preset, baseline, backbone=backbone, seed=seed, device=device),
    )
