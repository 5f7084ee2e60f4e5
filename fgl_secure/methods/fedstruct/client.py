"""What one client of FedStruct computes with: f of its own nodes, g of structure features (ICLR 2025, Eq. 6 to 10)."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn
from torch.nn import functional

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.structure_features import hop2vec_start, normalised_adjacency
from fgl_secure.methods.fedstruct.preset import FeatureModelKind, FedStructPreset, Stepping, Weighting
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.dropout import CoinDropout
from fgl_secure.training.parameters import SGD, Adam, flat, optimiser_state, overwrite, remind, unflatten
from fgl_secure.training.silo import Silo
from fgl_secure.training.sparse_products import MOST_DENSE, SparseMatrix
from fgl_secure.typing import Array

EPSILON = 1e-5
"""Added to the variance, as torch's LayerNorm does."""


class _Rows(ABC):
    """One row of inputs a node."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of inputs of a node."""

    @abstractmethod
    def product(self, norm: nn.LayerNorm, linear: nn.Linear) -> torch.Tensor:
        """The layer `linear` of the rows under `norm`: float [n, d_out]."""


class FixedRows(_Rows):
    """Rows that never change.

    With x^ the standardised rows, LayerNorm and layer are (x^ * gain + shift) W + b = x^ (gain * W) + shift W + b.

    Args:
        rows: [n, d].
        device: where model compute runs.
    """

    def __init__(self, rows: NDArray[np.float32], device: torch.device) -> None:
        values = rows.astype(np.float64)
        mean, scale = values.mean(axis=1, keepdims=True), 1 / np.sqrt(values.var(axis=1, keepdims=True) + EPSILON)
        self._width = int(rows.shape[1])
        self._matrix: SparseMatrix | None = None
        if np.count_nonzero(rows) <= MOST_DENSE * rows.size:
            self._matrix = SparseMatrix(sparse.csr_array(values * scale), device)
            self._offset = torch.from_numpy((-mean * scale).astype(np.float32)).to(device)
        else:
            self._dense = torch.from_numpy(((values - mean) * scale).astype(np.float32)).to(device)

    @property
    def width(self) -> int:
        """The number of inputs of a node."""
        return self._width

    def product(self, norm: nn.LayerNorm, linear: nn.Linear) -> torch.Tensor:
        """The layer of the normalised rows."""
        weight = norm.weight[:, None] * linear.weight.T
        shift = functional.linear(norm.bias, linear.weight, linear.bias)
        if self._matrix is None:
            return self._dense @ weight + shift
        return self._matrix(weight) + self._offset * weight.sum(dim=0) + shift


class LearntRows(_Rows):
    """Rows that training changes: Hop2Vec's structure features (section 5.5).

    Args:
        values: float [n, d], a leaf that wants gradients.
    """

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values

    @property
    def width(self) -> int:
        """The number of inputs of a node."""
        return int(self.values.shape[1])

    def product(self, norm: nn.LayerNorm, linear: nn.Linear) -> torch.Tensor:
        """The layer of the normalised rows."""
        return cast("torch.Tensor", linear(norm(self.values)))


class _NodeModel(nn.Module, ABC):
    """From rows to one output a class and node."""

    @abstractmethod
    def forward(self, rows: _Rows, dropout: CoinDropout) -> torch.Tensor:
        """The outputs, float [n, classes]; units are dropped in training mode alone."""


class NodePerceptron(_NodeModel):
    """LayerNorm, then linear layers with ReLU and dropout between them.

    Args:
        widths: of the input, of the hidden layers and of the output.
    """

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(widths[0], eps=EPSILON)
        self.layers = nn.ModuleList(nn.Linear(d_in, d_out) for d_in, d_out in pairwise(widths))

    def forward(self, rows: _Rows, dropout: CoinDropout) -> torch.Tensor:
        """The outputs, float [n, d_out]."""
        hidden = rows.product(self.norm, cast("nn.Linear", self.layers[0]))
        for layer in self.layers[1:]:
            hidden = layer(dropout(torch.relu(hidden), training=self.training))
        return hidden


class DecoupledGCN(_NodeModel):
    """A perceptron whose outputs are multiplied by D^-1 (A + I) of the local edges, `hops` times.

    Args:
        widths: of the perceptron.
        local: the normalised local adjacency.
        hops: how often.
    """

    def __init__(self, widths: tuple[int, ...], local: SparseMatrix, hops: int) -> None:
        super().__init__()
        self.perceptron = NodePerceptron(widths)
        self._local, self._hops = local, hops

    def forward(self, rows: _Rows, dropout: CoinDropout) -> torch.Tensor:
        """The outputs, float [n, classes]."""
        outputs: torch.Tensor = self.perceptron(rows, dropout)
        for _ in range(self._hops):
            outputs = self._local(outputs)
        return outputs


class SageLayer(nn.Module):
    """W_own h + W_neighbours mean(h of the neighbours) + b (Hamilton et al. 2017); no neighbours have mean 0."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.own = nn.Linear(d_in, d_out, bias=False)
        self.neighbours = nn.Linear(d_in, d_out, bias=False)
        self.bias = nn.Parameter(torch.empty(d_out).uniform_(-(d_in**-0.5), d_in**-0.5))


class Sage(_NodeModel):
    """LayerNorm, GraphSAGE layers with ReLU and dropout between them, and a linear layer.

    Args:
        widths: of the input and of every GraphSAGE layer.
        classes: outputs.
        mean: the matrix that takes means over neighbours.
    """

    def __init__(self, widths: tuple[int, ...], classes: int, mean: SparseMatrix) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(widths[0], eps=EPSILON)
        self.layers = nn.ModuleList(SageLayer(d_in, d_out) for d_in, d_out in pairwise(widths))
        self.head = nn.Linear(widths[-1], classes)
        self._mean = mean

    def forward(self, rows: _Rows, dropout: CoinDropout) -> torch.Tensor:
        """The outputs, float [n, classes]."""
        first = cast("SageLayer", self.layers[0])
        neighbour_sums = rows.product(self.norm, first.neighbours)
        hidden = rows.product(self.norm, first.own) + self._mean(neighbour_sums) + first.bias
        for item in self.layers[1:]:
            layer = cast("SageLayer", item)
            hidden = dropout(torch.relu(hidden), training=self.training)
            hidden = layer.own(hidden) + self._mean(layer.neighbours(hidden)) + layer.bias
        return cast("torch.Tensor", self.head(hidden))


def feature_model(
    graph: FederatedGraph, preset: FedStructPreset, device: torch.device, classes: int | None = None
) -> _NodeModel:
    """The model f of a preset on the local edges of all clients; draws initial weights from torch's generator.

    Args:
        graph: who has what.
        preset: which kind of model.
        device: where it lives.
        classes: outputs; None takes as many as the graph has, which may be a part of it.
    """
    local = graph.restricted_to_silos()
    features, classes = graph.graph.num_features, graph.num_classes if classes is None else classes
    perceptron = (features, *preset.feature_hidden, classes)
    if preset.feature_model is FeatureModelKind.SAGE:
        return Sage((features, *preset.sage_widths), classes, SparseMatrix(neighbour_means(local), device)).to(device)
    adjacency = normalised_adjacency(local.graph)
    if preset.forgotten_loops:
        adjacency = without_last_loops(adjacency, local)
    return DecoupledGCN(perceptron, SparseMatrix(adjacency, device), preset.feature_hops).to(device)


def without_last_loops(adjacency: sparse.csr_array, local: FederatedGraph) -> sparse.csr_array:
    """The local adjacency without the loops of each client's nodes that come after its last node with an edge.

    The public code has self-loops added without saying how many nodes there are, so that they end with the last node
    that an edge within the client names. Later nodes get an empty row, and f(v) = 0.

    Args:
        adjacency: D^-1 (A + I) of the local edges.
        local: the graph with local edges alone.
    """
    joined = np.unique(local.edges)
    last = np.full(local.num_silos, -1, dtype=np.int64)
    np.maximum.at(last, local.silo_of[joined], joined)
    mask = np.arange(local.num_devices) <= last[local.silo_of]
    return sparse.csr_array(sparse.diags_array(mask.astype(np.float64)) @ adjacency)


def neighbour_means(graph: FederatedGraph) -> sparse.csr_array:
    """The matrix [n, n] that takes, for every node, the mean over the sources of the edges that end in it."""
    source, target = graph.edges
    values = 1 / np.maximum(graph.in_degree, 1)[target]
    return sparse.csr_array((values, (target, source)), shape=(graph.num_devices, graph.num_devices))


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

    Attributes:
        models: f, and g where there is one.
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
        self.models = nn.ModuleList(model for model in (f, g) if model is not None)
        self._features = FixedRows(silo.features, device)
        members = torch.tensor(silo.nodes, device=device)
        self._dropout = CoinDropout(preset.dropout, seed, members, silo.facts.nodes)
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
        return list(self.models.parameters())

    @property
    def learnt(self) -> torch.Tensor | None:
        """Learnt structure features, as many rows as were given; None where there are none."""
        return self._rows.values if isinstance(self._rows, LearntRows) else None

    @property
    def own_features(self) -> NDArray[np.float32] | None:
        """A copy of the learnt structure features of own nodes, float32 [m, d_s]; None where none are learnt."""
        result = self.learnt if self._own is None else self._own
        if result is None:
            return None
        table = result.detach().cpu().numpy().copy()
        return table if len(table) == len(self._silo.nodes) else table[self._silo.nodes]

    def take_features(self, table: NDArray[np.float32]) -> None:
        """Takes the features of all nodes float32 [n, d_s], as their owners have them."""
        assert self.learnt is not None, "whoever learns none is told none"
        overwrite([self.learnt], table.reshape(-1))

    def embedding_model(self) -> NodePerceptron | None:
        """A copy of g as it is now, without dropout, which all parties hold; None where it is the identity."""
        g = self.models[1] if len(self.models) > 1 else None
        return copy.deepcopy(g).eval() if isinstance(g, NodePerceptron) else None

    def train(self, mode: bool = True) -> None:
        """Whether units are dropped."""
        self.models.train(mode)

    def scores(self) -> torch.Tensor:
        """F of own nodes, float [m, classes]."""
        scores: torch.Tensor = self.models[0](self._features, self._dropout)
        return scores

    def embeddings(self) -> torch.Tensor:
        """g(s_u) of the nodes whose features the client has, float [., classes]."""
        if len(self.models) == 1:
            assert self.learnt is not None, "fixed features have g"
            return self.learnt
        result: torch.Tensor = self.models[1](self._rows, self._dropout)
        return result

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
        result = torch.zeros_like(self.learnt) if self.learnt.grad is None else self.learnt.grad
        return result.cpu().numpy()

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
        return [*self.theta, *(item for item in (self.learnt, self._own) if item is not None)]

    def parameters(self) -> dict[str, Array]:
        """Theta, and learnt structure features as the client has them, float32."""
        features = self.own_features
        return {"theta": flat(self.theta), **({} if features is None else {"structure": features})}

    def state(self) -> dict[str, Array]:
        """Parameters, what the optimiser remembers, and where dropout's coins are."""
        values = {"values": flat(self._leaves), "coins": self._dropout.position}
        return {**values, **under("optimiser", optimiser_state(self._optimiser))}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        overwrite(self._leaves, state["values"])
        self._dropout.position = state["coins"]
        remind(self._optimiser, within("optimiser", state))


def _rows(features: NDArray[np.float32], preset: FedStructPreset, device: torch.device, *, learnt: bool) -> _Rows:
    if learnt:
        return LearntRows(torch.tensor(features).to(device).requires_grad_())
    if preset.structure_hidden is None:
        raise InputError("structure_hidden must name the layers of g where features are fixed; found None")
    return FixedRows(features, device)


def _structure_model(
    rows: _Rows, classes: int, preset: FedStructPreset, device: torch.device, known: sparse.csr_array | None
) -> _NodeModel | None:
    """The model g with initial weights from torch's generator; None where it is the identity."""
    if known is not None:
        return Sage((rows.width, *preset.sage_widths), classes, SparseMatrix(known, device))
    if preset.structure_hidden is None:
        return None
    return NodePerceptron((rows.width, *preset.structure_hidden, classes)).to(device)


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
