"""What one client of FedStruct computes with: f of its own nodes, g of structure features (ICLR 2025, Eq. 6 to 10)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn
from torch.nn import functional

from fgl_secure.errors import InputError
from fgl_secure.graph.structure_features import hop2vec_start
from fgl_secure.methods.fedstruct.models import (
    FixedRows,
    LearntRows,
    NodeModel,
    Perceptron,
    Rows,
    Sage,
    feature_model,
)
from fgl_secure.methods.fedstruct.presets import FedStructPreset, Stepping, Weighting
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.dropout import Dropout
from fgl_secure.training.optimisers import SGD, Adam
from fgl_secure.training.parameters import flat, overwrite, remembered, remind, unflatten
from fgl_secure.training.silo import Silo
from fgl_secure.training.sparse_products import SparseMatrix
from fgl_secure.typing import Array

Reals = NDArray[np.floating[Any]]


def first_features(silo: Silo, preset: FedStructPreset, seed: int) -> NDArray[np.float32]:
    """What Hop2Vec starts from for the nodes of a client, float32 [m, d_s]; one seed for all clients."""
    width = silo.facts.classes if preset.structure_hidden is None else preset.structure_width
    return hop2vec_start(silo.facts.nodes, width, seed)[silo.nodes]


class ClientModel:
    """The models of one client; all take the same step on the same sums.

    Args:
        silo: what the client holds.
        preset: how to train.
        features: float32 [n, d_s] or [m, d_s], structure features of all nodes, or of own nodes where it has those
            alone; None leaves f alone.
        learnt: whether they are learnt (Hop2Vec).
        seed: of initial weights and dropout; the same everywhere.
        device: where the models live.
        owner: whether the client steps on the features of its own nodes alone, and is told the others.
        alone: whether it is trained on its own loss alone.
        known: CSR [n, n], means over the neighbours of all nodes, where g is a GraphSAGE on the whole graph (App. H);
            None has a perceptron for it.
    """

    def __init__(
        self,
        silo: Silo,
        preset: FedStructPreset,
        features: NDArray[np.float32] | None,
        *,
        learnt: bool,
        seed: int,
        device: torch.device,
        owner: bool = False,
        alone: bool = False,
        known: sparse.csr_array | None = None,
    ) -> None:
        self._silo, self._preset, self._device = silo, preset, device
        self._rows = None if features is None else _rows(features, preset, device, learnt=learnt)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            f = feature_model(silo.alone, preset, device, silo.facts.classes)
            g = None if self._rows is None else _structure_model(self._rows, silo.facts.classes, preset, device, known)
        self._models = nn.ModuleList(model for model in (f, g) if model is not None)
        self._features = FixedRows(silo.features, device)
        members = torch.tensor(silo.nodes, device=device)
        self._dropout = Dropout(preset.dropout, seed, members, silo.facts.nodes)
        labelled = np.flatnonzero(silo.train)
        self._labelled = torch.from_numpy(labelled).to(device)
        self._labels = torch.from_numpy(silo.labels[labelled]).to(device)
        self._weight = loss_weight(silo, preset.weighting, alone=alone)
        self._own = self.learnt.detach()[members].clone() if owner and self.learnt is not None else None
        stepped = self.learnt if self._own is None else self._own
        self._optimiser = _stepper(self.theta, stepped, preset)

    @property
    def theta(self) -> list[nn.Parameter]:
        """The model parameters, theta_f before theta_s."""
        return list(self._models.parameters())

    @property
    def learnt(self) -> torch.Tensor | None:
        """Learnt structure features, as many rows as were given; None where there are none."""
        return self._rows.values if isinstance(self._rows, LearntRows) else None

    @property
    def own_features(self) -> NDArray[np.float32] | None:
        """A copy of the learnt structure features of own nodes, float32 [m, d_s]; None where none are learnt."""
        found = self.learnt if self._own is None else self._own
        if found is None:
            return None
        table = found.detach().cpu().numpy().copy()
        return table if len(table) == len(self._silo.nodes) else table[self._silo.nodes]

    def take_features(self, table: NDArray[np.float32]) -> None:
        """Takes the features of all nodes float32 [n, d_s], as their owners have them."""
        assert self.learnt is not None, "whoever learns none is told none"
        overwrite([self.learnt], table.reshape(-1))

    def embedding_model(self) -> Perceptron | None:
        """A copy of g as it is now, without dropout, which all parties hold; None where it is the identity."""
        g = self._models[1] if len(self._models) > 1 else None
        return copy.deepcopy(g).eval() if isinstance(g, Perceptron) else None

    def train(self, mode: bool = True) -> None:
        """Whether units are dropped."""
        self._models.train(mode)

    def scores(self) -> torch.Tensor:
        """F of own nodes, float [m, classes]."""
        scores: torch.Tensor = self._models[0](self._features, self._dropout)
        return scores

    def embeddings(self) -> torch.Tensor:
        """g(s_u) of the nodes whose features the client has, float [., classes]."""
        if len(self._models) == 1:
            assert self.learnt is not None, "fixed features have g"
            return self.learnt
        found: torch.Tensor = self._models[1](self._rows, self._dropout)
        return found

    def loss(self, scores: torch.Tensor) -> torch.Tensor:
        """This client's part of the loss, from scores [m, classes]: a number."""
        labelled = scores[self._labelled]
        labelled = torch.softmax(labelled, dim=1) if self._preset.double_softmax else labelled
        return (functional.cross_entropy(labelled, self._labels, reduction="none") * self._weight).sum()

    def forget(self) -> None:
        """No gradients are left of the last round."""
        for leaf in [*self.theta, *([] if self.learnt is None else [self.learnt])]:
            leaf.grad = None

    def gradient(self) -> NDArray[np.float32]:
        """Of theta, float32 [|theta|]; what no loss goes through counts as 0."""
        return flat([torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in self.theta])

    def structure_gradient(self) -> NDArray[np.float32]:
        """Of learnt structure features, float32, as many rows as there are."""
        assert self.learnt is not None, "it is asked of those alone that learn some"
        found = torch.zeros_like(self.learnt) if self.learnt.grad is None else self.learnt.grad
        return found.cpu().numpy()

    def step(self, theta: Reals, structure: Reals | None) -> None:
        """Takes the step of all clients.

        Args:
            theta: [|theta|], the sum of their gradients.
            structure: of the structure features that this client steps on; None where it learns none.
        """
        for leaf, gradient in zip(self.theta, unflatten(theta, self.theta), strict=True):
            leaf.grad = gradient
        stepped = self.learnt if self._own is None else self._own
        if structure is not None and stepped is not None:
            stepped.grad = torch.from_numpy(structure.astype(np.float32)).to(self._device)
        self._optimiser.step()

    @property
    def _leaves(self) -> list[torch.Tensor]:
        return [*self.theta, *(each for each in (self.learnt, self._own) if each is not None)]

    def parameters(self) -> dict[str, Array]:
        """Theta, and learnt structure features as the client has them, float32."""
        own = self.own_features
        return {"theta": flat(self.theta), **({} if own is None else {"structure": own})}

    def take(self, theta: Reals, *, norms: bool = True) -> None:
        """Goes on with other parameters theta [|theta|], such as the mean over clients.

        Args:
            theta: the parameters.
            norms: whether those of LayerNorms are taken as well; else they stay.
        """
        modules = () if norms else self._models.modules()
        staying = {id(leaf) for each in modules if isinstance(each, nn.LayerNorm) for leaf in each.parameters()}
        with torch.no_grad():
            for leaf, values in zip(self.theta, unflatten(theta, self.theta), strict=True):
                if id(leaf) not in staying:
                    leaf.copy_(values)

    def state(self) -> dict[str, Array]:
        """Parameters, what the optimiser remembers, and where dropout's coins are."""
        values = {"values": flat(self._leaves), "coins": self._dropout.position}
        return {**values, **under("optimiser", remembered(self._optimiser))}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        overwrite(self._leaves, state["values"])
        self._dropout.position = state["coins"]
        remind(self._optimiser, within("optimiser", state))


def _rows(features: NDArray[np.float32], preset: FedStructPreset, device: torch.device, *, learnt: bool) -> Rows:
    if learnt:
        return LearntRows(torch.tensor(features).to(device).requires_grad_())
    if preset.structure_hidden is None:
        raise InputError("structure_hidden must name the layers of g where features are fixed; found None")
    return FixedRows(features, device)


def _structure_model(
    rows: Rows, classes: int, preset: FedStructPreset, device: torch.device, known: sparse.csr_array | None
) -> NodeModel | None:
    """The model g with initial weights from torch's generator; None where it is the identity."""
    if known is not None:
        return Sage((rows.width, *preset.sage_widths), classes, SparseMatrix(known, device))
    if preset.structure_hidden is None:
        return None
    return Perceptron((rows.width, *preset.structure_hidden, classes)).to(device)


def _stepper(
    theta: Sequence[torch.Tensor], learnt: torch.Tensor | None, preset: FedStructPreset
) -> torch.optim.Optimizer:
    groups: list[dict[str, Any]] = [{"params": list(theta), "lr": preset.learning_rate}]
    if learnt is not None:
        groups.append({"params": [learnt], "lr": preset.structure_rate})
    if preset.stepping is Stepping.ADAM:
        return Adam(groups, weight_decay=preset.weight_decay)
    return SGD(groups, lr=preset.learning_rate, weight_decay=preset.weight_decay)


def loss_weight(silo: Silo, weighting: Weighting, *, alone: bool = False) -> float:
    """With which weight every labelled node's loss of a client enters the sum of all, or its own; as float32 has it."""
    labelled = max(int(silo.train.sum()), 1)
    if alone:
        return float(np.float32(1 / labelled))
    if weighting is Weighting.LABELLED:
        return float(np.float32(1 / silo.facts.labelled))
    return float(np.float32(len(silo.nodes) / silo.facts.nodes / labelled))
