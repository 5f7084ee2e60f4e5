"""One client in training: its graphs, its model, its virtual nodes, and an edge generator that never leaves it."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from fgl_secure.methods.fedvn.batches import GraphBatch, GraphStore, graph_sums
from fgl_secure.methods.fedvn.models import BatchNorm, Dropout, EdgeGenerator, GraphModel, collecting
from fgl_secure.methods.fedvn.preset import FedVNPreset, GraphMethod, LocalScore, Shared, Statistics
from fgl_secure.methods.fedvn.scoring import ClientScores


def decoupling_loss(virtual: torch.Tensor, floor: float = 1e-12) -> torch.Tensor:
    """Mean squared correlation of virtual nodes (Eq. 7), ||Sigma||_F^2 / M^2.

    The correlation with a virtual node whose entries are all equal is undefined; it counts as 0. So at the initial
    Q = 0 the loss and its gradient are zero, and the task's loss moves Q first. Behind that the gradient is as large
    as virtual nodes are short, without end unless short ones count as longer than they are.

    Args:
        virtual: Q, float32 [M, d].
        floor: centred virtual nodes that are shorter than this count as so long.
    """
    centred = functional.normalize(virtual - virtual.mean(dim=1, keepdim=True), eps=floor)
    return (centred @ centred.T).square().mean()


def contrast_loss(sums: torch.Tensor, local: torch.Tensor, everywhere: torch.Tensor, tau: float) -> torch.Tensor:
    """Score-contrastive loss (Eq. 8): graphs' scores near their client's, and away from everybody's.

    Args:
        sums: the sums of the score vectors of each graph's nodes, float32 [b, M].
        local: s_local, float32 [M].
        everywhere: s_global, float32 [M].
        tau: temperature.
    """
    near = functional.cosine_similarity(sums, local[None])
    far = functional.cosine_similarity(sums, everywhere[None])
    return functional.softplus((far - near) / tau).mean()


def task_loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy for labels int64 [b], squared error for values float32 [b]."""
    if targets.is_floating_point():
        return functional.mse_loss(outputs[:, 0], targets)
    return functional.cross_entropy(outputs, targets)


def penalties(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """What a prediction is scored by, float32 [b]: 1 where a label is right, or the absolute error of a value."""
    if targets.is_floating_point():
        return (outputs[:, 0] - targets).abs()
    return (outputs.argmax(dim=1) == targets).to(outputs.dtype)


Weights = tuple[torch.Tensor, ...]


def descend(weights: Weights, gradients: Weights, rate: float) -> None:
    """One step of gradient descent, in place."""
    with torch.no_grad():
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.sub_(gradient, alpha=rate)


def pulled(gradients: Weights, weights: Weights, anchors: Weights, mu: float) -> Weights:
    """The gradients with that of FedProx's term (mu / 2) |w - w_server|^2 added (Li et al. 2020, Eq. 2)."""
    return tuple(
        gradient + mu * (weight.detach() - anchor)
        for gradient, weight, anchor in zip(gradients, weights, anchors, strict=True)
    )


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
