"""Federated averaging of one model whose clients each have a graph of their own."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.dropout import CoinDropout
from fgl_secure.training.loop import counts_of
from fgl_secure.training.node_models import NodeModel, Surroundings
from fgl_secure.training.optimisers import SGD, Adam
from fgl_secure.training.parameters import flat, optimiser_state, overwrite, remind
from fgl_secure.training.presets import AveragedPreset
from fgl_secure.training.rounds import Figures, TrainingRounds
from fgl_secure.training.server_sums import FRACTION_BITS
from fgl_secure.typing import Array, Ids

APART = 1_000_003
"""How far apart the seeds of clients are."""


@dataclass(frozen=True, slots=True)
class LocalSteps:
    """The steps that a client takes in a round.

    Attributes:
        learning_rate: of a step.
        weight_decay: factor of the L2 penalty.
        keep_moments: whether Adam goes on from round to round.
        steps: how many.
        descent: whether they are of gradient descent, and not of Adam.
    """

    learning_rate: float
    weight_decay: float
    keep_moments: bool = True
    steps: int = 1
    descent: bool = False


class Learner:
    """A model that every client has, and takes steps on.

    Args:
        talk: sums over clients.
        model: with its initial weights, the same for every client.
        local: what a client does in a round.
        dropout: of the client.
        device: where model compute runs.
    """

    def __init__(
        self, talk: Collectives, model: NodeModel, local: LocalSteps, dropout: CoinDropout, device: torch.device
    ) -> None:
        silo = talk.silo
        self._talk, self.model, self._local, self._dropout = talk, model.to(device), local, dropout
        self._optimiser = self._fresh()
        self._training = torch.from_numpy(np.flatnonzero(silo.train)).to(device)
        self._labels = torch.from_numpy(silo.labels[silo.train]).to(device)

    @property
    def training_nodes(self) -> int:
        """The client's training nodes."""
        return len(self._training)

    def step(self, graph: Surroundings) -> float:
        """Steps on the own graph, and the mean over the clients, weighted by labelled nodes; the loss before them.

        The mean is of what the model shares. A client without labelled nodes has nothing to learn from, and no weight.
        """
        if not self._local.keep_moments:
            self._optimiser = self._fresh()
        self.model.train()
        losses = [self._one_step(graph) for _ in range(self._local.steps if self.training_nodes else 0)]
        weight = self.training_nodes / self._talk.silo.facts.nodes
        shared = self.model.shared_parameters
        row = np.append(weight * flat(shared), weight)
        parts = [parameter.numel() for parameter in shared]
        sums, _ = self._talk.server(row, grid=self._talk.grid(FRACTION_BITS), parts=parts)
        overwrite(shared, (sums[:-1] / sums[-1]).astype(np.float32))
        return losses[0] if losses else 0.0

    def _one_step(self, graph: Surroundings) -> float:
        loss = functional.cross_entropy(self.model(graph, self._dropout)[self._training], self._labels)
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._optimiser.step()
        return float(loss.detach())

    def classes(self, graph: Surroundings) -> Ids:
        """int64 [m], what the model predicts for the own nodes, which come first in the graph."""
        self.model.eval()
        with torch.no_grad():
            scores = self.model(graph, self._dropout)[: len(self._talk.silo.nodes)]
        result: Ids = scores.argmax(dim=1).cpu().numpy()
        return result

    def _fresh(self) -> torch.optim.Optimizer:
        kind = SGD if self._local.descent else Adam
        return kind(self.model.parameters(), lr=self._local.learning_rate, weight_decay=self._local.weight_decay)

    @property
    def _parameters(self) -> list[torch.Tensor]:
        return list(self.model.parameters())

    def state(self) -> dict[str, Array]:
        """Parameters, what Adam remembers, and where dropout's coins are."""
        moments = under("optimiser", optimiser_state(self._optimiser))
        return {"theta": flat(self._parameters), "coins": self._dropout.position, **moments}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        overwrite(self._parameters, state["theta"])
        remind(self._optimiser, within("optimiser", state))
        self._dropout.position = state["coins"]


class AveragedRounds(TrainingRounds):
    """One client's part in training a model on its own graph; models are scored before each round and after the last.

    Args:
        talk: the collectives of the run.
        preset: how to train.
        model: with its initial weights, the same for every client.
        seed: of dropout and all else that is drawn.
        device: where model compute runs; the CPU by default.
    """

    def __init__(
        self,
        talk: Collectives,
        preset: AveragedPreset,
        model: NodeModel,
        *,
        seed: int = 0,
        device: torch.device | None = None,
    ) -> None:
        super().__init__(talk, preset.epochs, preset.selection, preset.patience)
        self.seed, self.device = seed, device or torch.device("cpu")
        local = LocalSteps(
            preset.learning_rate, preset.weight_decay, preset.keep_moments, preset.local_steps, preset.descent
        )
        dropout = CoinDropout(preset.dropout, seed + APART * (1 + self.silo.silo))
        self.learner = Learner(talk, model, local, dropout, self.device)
        self._graph: Surroundings | None = None

    @abstractmethod
    def surroundings(self) -> Surroundings:
        """What the client computes on; its own nodes come first. Nobody is asked any more."""

    @property
    def graph(self) -> Surroundings:
        """The same, made when it is first needed."""
        if self._graph is None:
            self._graph = self.surroundings()
        return self._graph

    def train(self, number: int) -> Figures:  # noqa: ARG002  # every round is alike
        """Scores the model, takes steps, and takes over the mean."""
        counts = counts_of(self.silo, self.learner.classes(self.graph))
        return self.figures(counts, self.learner.step(self.graph), self.learner.training_nodes)

    def judge(self, number: int) -> Figures:  # noqa: ARG002  # whenever it is
        """Scores the model as it is."""
        return self.figures(counts_of(self.silo, self.learner.classes(self.graph)))

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, and the model after the last round."""
        return {**super().report, "theta": flat(list(self.learner.model.parameters()))}

    def state(self) -> dict[str, Array]:
        """The model in training, and all that is kept."""
        return {**super().state(), **under("learner", self.learner.state())}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        self.learner.restore(within("learner", state))
        self._graph = None
