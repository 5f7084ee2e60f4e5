"""FedStruct (ICLR 2025, section 5): every client's own features and edges, plus structure that all clients share.

The prediction of a node is softmax(f(v) + z_v) with z = A-bar g(S) (Eq. 6 to 10). All clients hold one and the same
theta = (theta_f, theta_s) and, under Hop2Vec, one and the same S; they take the same step on the same sum of gradients.
So one copy of both stands for all, and the sum can be had in two ways that agree: by one backward pass, or by one for
each client and whatever adds them up.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.structure_features import hop2vec_start
from fgl_secure.methods.fedstruct.gradients import ClientSums
from fgl_secure.methods.fedstruct.models import Dropout, FixedRows, LearntRows, Perceptron, Rows, feature_model
from fgl_secure.methods.fedstruct.presets import FedStructPreset, Stepping
from fgl_secure.methods.fedstruct.shares import ClientGradients, GradientShares, loss_weights
from fgl_secure.methods.fedstruct.structure_sum import StructureSum
from fgl_secure.runtime import Step


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """What FedStruct adds to a client's own features and edges.

    Attributes:
        combine: z = A-bar G, however it comes about.
        features: [n, d_s], fixed structure features of all nodes; None learns them (Hop2Vec).
    """

    combine: StructureSum
    features: NDArray[np.float32] | None = None


def structure_rows(
    features: NDArray[np.float32] | None, n: int, classes: int, preset: FedStructPreset, seed: int, device: torch.device
) -> Rows:
    """The rows that g is applied to: fixed ones, or those that Hop2Vec starts from.

    Args:
        features: [n, d_s], fixed structure features of all nodes; None learns them.
        n: nodes.
        classes: of labels.
        preset: how to train.
        seed: of what Hop2Vec starts from.
        device: where they live.

    Raises:
        InputError: features are fixed and the preset leaves g out.
    """
    if features is not None:
        if preset.structure_hidden is None:
            raise InputError("structure_hidden must name the layers of g where features are fixed; found None")
        return FixedRows(features, device)
    width = classes if preset.structure_hidden is None else preset.structure_width
    return LearntRows(torch.from_numpy(hop2vec_start(n, width, seed)).to(device).requires_grad_())


def structure_model(rows: Rows, classes: int, preset: FedStructPreset, device: torch.device) -> Perceptron | None:
    """The model g with initial weights from torch's generator; None where it is the identity."""
    if preset.structure_hidden is None:
        return None
    return Perceptron((rows.width, *preset.structure_hidden, classes)).to(device)


def stepper(
    theta: Sequence[torch.Tensor], learnt: torch.Tensor | None, preset: FedStructPreset
) -> torch.optim.Optimizer:
    """What takes the steps of a preset.

    Args:
        theta: the model parameters.
        learnt: learnt structure features; None where there are none.
        preset: rates, decay and kind.
    """
    groups: list[dict[str, Any]] = [{"params": list(theta), "lr": preset.learning_rate}]
    if learnt is not None:
        groups.append({"params": [learnt], "lr": preset.structure_rate})
    if preset.stepping is Stepping.ADAM:
        return torch.optim.Adam(groups, weight_decay=preset.weight_decay)
    return torch.optim.SGD(groups, lr=preset.learning_rate, weight_decay=preset.weight_decay)


class Trainee(ABC):
    """What is trained in rounds and scored in between."""

    @property
    @abstractmethod
    def parameters(self) -> int:
        """Numbers in the model that the server sends out."""

    @abstractmethod
    def round(self, number: int) -> float:
        """One round, counted from 0; its loss."""

    @abstractmethod
    def predict(self, step: Step) -> torch.Tensor:
        """The scores of all nodes, float [n, classes]."""


class FedStruct(Trainee):
    """One federated model in training.

    Args:
        graph: who has what.
        preset: how to train.
        structure: what clients share; None leaves f alone, which is FedSGD on local subgraphs.
        seed: of initial weights, learnt structure features and dropout.
        device: where model compute runs.
        sums: how clients' gradients are added up; None adds them by one backward pass.
    """

    def __init__(
        self,
        graph: FederatedGraph,
        preset: FedStructPreset,
        structure: Structure | None,
        *,
        seed: int = 0,
        device: torch.device | None = None,
        sums: ClientSums | None = None,
    ) -> None:
        self._device = device or torch.device("cpu")
        self._preset, self._sums, self._seed = preset, sums, seed
        self._combine = None if structure is None else structure.combine
        self._features = FixedRows(graph.features, self._device)
        self._rows: Rows | None = None
        self._dropout = Dropout(preset.dropout, seed, self._device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            f = feature_model(graph, preset, self._device)
            g = None if structure is None else self._structure_model(graph, structure)
        self._models = nn.ModuleList(model for model in (f, g) if model is not None)
        self._place(graph)
        self._optimiser = self._stepper()

    def _structure_model(self, graph: FederatedGraph, structure: Structure) -> Perceptron | None:
        preset, n = self._preset, graph.num_devices
        if structure.features is not None and len(structure.features) != n:
            raise InputError(f"features must have {n} rows, one a node; found {len(structure.features)}")
        self._rows = structure_rows(structure.features, n, graph.num_classes, preset, self._seed, self._device)
        return structure_model(self._rows, graph.num_classes, preset, self._device)

    def _place(self, graph: FederatedGraph) -> None:
        labelled = np.flatnonzero(graph.train_mask)
        self._labelled = torch.from_numpy(labelled).to(self._device)
        self._labels = torch.from_numpy(graph.labels[labelled]).to(self._device)
        self._weights = torch.from_numpy(loss_weights(graph, self._preset.weighting)).to(self._device)
        self._split = GradientShares(graph, self._device)

    def _stepper(self) -> torch.optim.Optimizer:
        return stepper(self.theta, self._learnt, self._preset)

    @property
    def theta(self) -> list[nn.Parameter]:
        """The model parameters, theta_f before theta_s."""
        return list(self._models.parameters())

    @property
    def parameters(self) -> int:
        """|theta|."""
        return sum(parameter.numel() for parameter in self.theta)

    @property
    def structure_features(self) -> NDArray[np.float32] | None:
        """A copy of the learnt structure features, float32 [n, d_s]; None where none are learnt."""
        return None if self._learnt is None else self._learnt.detach().cpu().numpy().copy()

    @property
    def structure_gradient(self) -> NDArray[np.float32] | None:
        """A copy of the last round's summed gradient of the learnt structure features; None where there is none."""
        learnt = self._learnt
        return None if learnt is None or learnt.grad is None else learnt.grad.cpu().numpy().copy()

    def embedding_model(self) -> Perceptron | None:
        """A copy of g as it is now, without dropout, which all parties hold; None where it is the identity."""
        return None if len(self._models) == 1 else copy.deepcopy(cast("Perceptron", self._models[1])).eval()

    @property
    def _learnt(self) -> torch.Tensor | None:
        return self._rows.values if isinstance(self._rows, LearntRows) else None

    def round(self, number: int) -> float:
        """One round: the clients' losses, the sum of their gradients, and one step of all.

        Args:
            number: of the round, from 0.

        Returns:
            The loss that the step was taken on, weighed as the preset says.
        """
        step = Step(number)
        self._models.train()
        losses = self._losses(step)
        self._optimiser.zero_grad()
        if self._sums is None:
            losses.sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        else:
            self._set_gradients(list(self._shares(losses)), self._sums, step)
        self._optimiser.step()
        if self._sums is not None and (values := self.structure_features) is not None:
            self._sums.structure.updated(values, Step(number + 1))
        return float(losses.detach().sum())

    def client_gradients(self, step: Step) -> Iterator[ClientGradients]:
        """Each client's gradients at the current parameters, while training; nothing is changed.

        Args:
            step: of the forward pass.

        Yields:
            One record a client, in their order; all of them add up to the gradient of the whole loss.
        """
        self._models.train()
        yield from self._shares(self._losses(step))

    def predict(self, step: Step) -> torch.Tensor:
        """The scores of all nodes without dropout, float [n, classes]."""
        self._models.eval()
        with torch.no_grad():
            return self._scores(step)

    def _scores(self, step: Step) -> torch.Tensor:
        scores: torch.Tensor = self._models[0](self._features, self._dropout)
        if self._combine is None:
            return scores
        self._embeddings = self._structure_embeddings()
        return scores + self._combine(self._embeddings, step)

    def _structure_embeddings(self) -> torch.Tensor:
        if isinstance(self._rows, LearntRows) and len(self._models) == 1:
            return self._rows.values
        embeddings: torch.Tensor = self._models[1](self._rows, self._dropout)
        return embeddings

    def _losses(self, step: Step) -> torch.Tensor:
        """The weighed loss of every labelled node, float [m]."""
        scores = self._scores(step)[self._labelled]
        scores = torch.softmax(scores, dim=1) if self._preset.double_softmax else scores
        return functional.cross_entropy(scores, self._labels, reduction="none") * self._weights

    def _shares(self, losses: torch.Tensor) -> Iterator[ClientGradients]:
        theta, learnt = self.theta, self._learnt
        tail = [] if learnt is None else [learnt]
        if self._sums is None or not self._sums.structure_at_owners:
            each = self._split.by_loss(losses, [*theta, *tail])
        elif self._combine is None:
            raise InputError("structure_at_owners must be false where clients share no structure; found true")
        else:
            f = list(self._models[0].parameters())
            each = self._split.by_owner(losses, self._embeddings, f, [*theta[len(f) :], *tail])
        for gradients in each:
            yield ClientGradients.flattened(theta, gradients, learnt)

    def _set_gradients(self, shares: list[ClientGradients], sums: ClientSums, step: Step) -> None:
        total = torch.from_numpy(sums.theta(np.stack([share.theta for share in shares]), step).astype(np.float32))
        sizes = [parameter.numel() for parameter in self.theta]
        for parameter, part in zip(self.theta, torch.split(total, sizes), strict=True):
            parameter.grad = part.reshape(parameter.shape).to(self._device)
        rows = [share.structure for share in shares if share.structure is not None]
        if self._learnt is not None:
            summed = sums.structure(rows, step).astype(np.float32)
            self._learnt.grad = torch.from_numpy(summed).to(self._device)
