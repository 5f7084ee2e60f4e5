"""One client in training: its graphs, its model, its virtual nodes, and an edge generator that never leaves it."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fgl_secure.methods.fedvn.batches import GraphBatch, GraphStore
from fgl_secure.methods.fedvn.losses import contrast_loss, decoupling_loss, penalties, task_loss
from fgl_secure.methods.fedvn.methods import GraphMethod, Shared
from fgl_secure.methods.fedvn.models import EdgeGenerator, GraphModel
from fgl_secure.methods.fedvn.norms import BatchNorm, collecting
from fgl_secure.methods.fedvn.padding import graph_sums
from fgl_secure.methods.fedvn.pieces import Dropout
from fgl_secure.methods.fedvn.preset import FedVNPreset, LocalScore, Statistics
from fgl_secure.methods.fedvn.scoring import ClientScores
from fgl_secure.methods.fedvn.steps import descend, pulled

Ids = NDArray[np.int64]

FIRST_SCORE = 0.5
"""Every entry of s_local before the first batch."""


class GraphClient:
    """What a client does in a round.

    Args:
        store: makes batches.
        training: int64, its training graphs, at least one.
        method: what is trained, and which of it is shared.
        preset: how.
        model: the initial model, which is copied.
        draws: of the generator's initial weights, of the order of graphs, and of dropout.
        device: where the model lives.
    """

    def __init__(
        self,
        store: GraphStore,
        training: Ids,
        method: GraphMethod,
        preset: FedVNPreset,
        model: GraphModel,
        draws: np.random.Generator,
        device: torch.device,
    ) -> None:
        self._store, self._training, self._method, self._preset, self._draws = store, training, method, preset, draws
        self._drop = Dropout(preset.dropout, draws)
        self.model = copy.deepcopy(model)
        weights = torch.Generator().manual_seed(int(draws.integers(2**62)))
        self.generator = EdgeGenerator(store.width, preset, weights).to(device) if method.virtual else None
        self._shared = shared_parameters(self.model, method.shared)
        self.virtual = nn.Parameter(torch.zeros(preset.virtual_nodes, preset.hidden, device=device))
        self._local_score = torch.full((preset.virtual_nodes,), FIRST_SCORE, device=device)

    @property
    def shared(self) -> torch.Tensor:
        """The parameters that the server averages, float32 [P]."""
        return torch.cat([parameter.detach().reshape(-1) for parameter in self._shared]) if self._shared else _NONE

    @property
    def local_score(self) -> torch.Tensor:
        """The mean score vector s_local of its graphs, float32 [M]."""
        return self._local_score

    def receive(self, shared: torch.Tensor, virtual: torch.Tensor) -> None:
        """Takes over the server's parameters float32 [P] and virtual nodes [M, d]."""
        with torch.no_grad():
            sizes = [parameter.numel() for parameter in self._shared]
            for parameter, part in zip(self._shared, torch.split(shared, sizes), strict=True):
                parameter.copy_(part.reshape(parameter.shape))
            self.virtual.copy_(virtual)

    def train(self, global_score: torch.Tensor) -> float:
        """The two phases of a round (Eqs. 10 to 12).

        Args:
            global_score: s_global, float32 [M].

        Returns:
            The mean loss over the training graphs in the last epoch of the second phase.
        """
        if self.generator is not None:
            self.train_generator(global_score)
        return self.train_model()

    def scores(self, validation: Ids, test: Ids) -> ClientScores:
        """How good its predictions for these graphs are with the model that it has now."""
        models = self._models
        with torch.no_grad():
            if self._preset.statistics is Statistics.TRAINING:
                with collecting(*models):
                    for batch in self._batches(self._training):
                        self._outputs(batch)
            for model in models:
                model.eval()
            found = ClientScores(self._penalties(validation), self._penalties(test))
        for model in models:
            model.train()
        return found

    @property
    def _models(self) -> tuple[nn.Module, ...]:
        return (self.model,) if self.generator is None else (self.model, self.generator)

    def _penalties(self, ids: Ids) -> NDArray[np.float64]:
        found = [penalties(self._outputs(batch), batch.targets).cpu() for batch in self._batches(ids)]
        return torch.cat(found).double().numpy() if found else np.zeros(0)

    def train_generator(self, global_score: torch.Tensor) -> None:
        """Phase 1: the model and the virtual nodes are fixed, and the model drops nothing."""
        generator = self.generator
        assert generator is not None
        preset, weights = self._preset, tuple(generator.parameters())
        for _ in range(preset.local_epochs):
            total = torch.zeros_like(self._local_score)
            for batch in self._shuffled():
                scores = generator(batch, self._drop)
                outputs = self.model.augmented(batch, self.virtual, scores)
                sums = graph_sums(scores, batch)
                contrast = contrast_loss(sums, self._local_score, global_score, preset.temperature)
                loss = task_loss(outputs, batch.targets) + preset.contrast * contrast
                descend(weights, torch.autograd.grad(loss, weights), preset.learning_rate)
                total += sums.detach().sum(dim=0)
                if preset.local_score is LocalScore.LAST_BATCH:
                    self._local_score = sums.detach().mean(dim=0)
            if preset.local_score is LocalScore.EPOCH:
                self._local_score = total / len(self._training)

    def train_model(self) -> float:
        """Phase 2: the generator is fixed and drops nothing."""
        preset, model = self._preset, self.model
        weights = (*model.parameters(), *((self.virtual,) if self._method.virtual else ()))
        anchors = tuple(weight.detach().clone() for weight in weights) if self._method.proximal else ()
        total = 0.0
        for _ in range(preset.local_epochs):
            total = 0.0
            for batch in self._shuffled():
                loss = task_loss(self._outputs(batch, self._drop), batch.targets)
                if self._method.virtual:
                    loss = loss + preset.decoupling * decoupling_loss(self.virtual, preset.floor)
                gradients = torch.autograd.grad(loss, weights)
                if anchors:
                    gradients = pulled(gradients, weights, anchors, preset.proximal)
                descend(weights, gradients, preset.learning_rate)
                total += float(loss.detach()) * batch.graphs
        return total / len(self._training)

    def _outputs(self, batch: GraphBatch, drop: Dropout | None = None) -> torch.Tensor:
        if self.generator is None:
            found: torch.Tensor = self.model(batch, drop)
            return found
        with torch.no_grad():
            scores = self.generator(batch)
        return self.model.augmented(batch, self.virtual, scores, drop)

    def _shuffled(self) -> Iterator[GraphBatch]:
        return self._batches(self._draws.permutation(self._training))

    def _batches(self, ids: Ids) -> Iterator[GraphBatch]:
        for start in range(0, len(ids), self._preset.batch):
            yield self._store.batch(ids[start : start + self._preset.batch])


_NONE = torch.zeros(0)


def shared_parameters(model: GraphModel, shared: Shared) -> tuple[nn.Parameter, ...]:
    """The parameters of a model that the server averages, the bias of its last layer at the end."""
    if shared is Shared.NOTHING:
        return ()
    own = {id(parameter) for part in model.modules() if isinstance(part, BatchNorm) for parameter in part.parameters()}
    kept = own if shared is Shared.ALL_BUT_NORMS else set()
    return tuple(parameter for parameter in model.parameters() if id(parameter) not in kept)
