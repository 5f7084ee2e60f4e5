"""Shadow models: graph networks whose training nodes the attacker drew itself, trained side by side.

Each is a graph convolutional network of two layers (Kipf and Welling, ICLR 2017) on the subgraph that its own random
half of the nodes induces. Weights of all models of a batch lie beside each other, so that one sparse product serves
them all, and gradients are written out: two layers need no graph of operations.
"""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from scipy import sparse
from torch.nn import functional

from fgl_secure.errors import DeviceUnavailableError, InputError
from fgl_secure.graph import Graph
from fgl_secure.typing import Flags, Floats, Ids

BATCH = 16
"""Models that are trained together."""
SPARSE = 0.1
"""Features with a smaller share of entries other than zero are multiplied as a sparse matrix."""
_NAMES = ("members", "apart", "joined", "first", "first_bias", "second", "second_bias")

Singles = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


@dataclass(frozen=True, slots=True)
class ShadowTraining:
    """How shadow models are trained; what is known of the attacked model's training goes in here.

    Attributes:
        hidden: width of the hidden layer.
        epochs: steps of Adam, each over all training nodes.
        learning_rate: of Adam.
        weight_decay: of Adam.
        dropout: share of hidden entries that are dropped in a step.
        share: of the nodes that a model is trained on.
    """

    hidden: int = 64
    epochs: int = 200
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    dropout: float = 0.5
    share: float = 0.5

    def __post_init__(self) -> None:
        for name, value, rule, right in (
            ("hidden", self.hidden, "at least 1", self.hidden >= 1),
            ("epochs", self.epochs, "at least 1", self.epochs >= 1),
            ("learning_rate", self.learning_rate, "above 0", self.learning_rate > 0),
            ("weight_decay", self.weight_decay, "at least 0", self.weight_decay >= 0),
            ("dropout", self.dropout, "at least 0 and below 1", 0 <= self.dropout < 1),
            ("share", self.share, "above 0 and below 1", 0 < self.share < 1),
        ):
            if not right:
                raise InputError(f"{name} must be {rule}; found {value!r}")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Shadows:
    """Shadow models and what they answer.

    Attributes:
        members: bool [m, n], the nodes that each model was trained on.
        apart: float32 [m, n, c], log posteriors of all nodes, asked without edges.
        joined: float32 [m, n, c], log posteriors of all nodes, asked with all edges.
        weights: float32 [m, d, h], [m, h], [m, h, c] and [m, c]: weights and biases of both layers.
    """

    members: Flags
    apart: Singles
    joined: Singles
    weights: tuple[Singles, Singles, Singles, Singles]

    def select(self, models: Flags | Ids) -> Shadows:
        """Return some of the models."""
        weights = self.weights[0][models], self.weights[1][models], self.weights[2][models], self.weights[3][models]
        return Shadows(self.members[models], self.apart[models], self.joined[models], weights)

    def __repr__(self) -> str:
        return f"Shadows({len(self.members)} models, {self.members.shape[1]} nodes)"


def train_shadows(
    graph: Graph,
    count: int,
    *,
    training: ShadowTraining | None = None,
    seed: int = 0,
    device: str = "cpu",
    folder: Path | str | None = None,
) -> Shadows:
    """Train shadow models on random subsets of a graph's labelled nodes.

    Args:
        graph: features, labels and edges; their direction is ignored.
        count: number of models, at least 2.
        training: options of the training; those of `ShadowTraining` unless given.
        seed: of subsets, initial weights and dropout; batches draw apart, so that more models keep the earlier ones.
        device: "cpu" or "cuda".
        folder: each finished batch is kept here, and taken from here when the call is repeated.

    Returns:
        The models' training nodes and their answers.

    Raises:
        InputError: there are fewer than four labelled nodes or only one class, or the count is below 2.
        DeviceUnavailableError: the device is "cuda", and torch finds none.

    Examples:
        >>> from fgl_secure.graph import load
        >>> train_shadows(load("digits"), 2, training=ShadowTraining(epochs=1))
        Shadows(2 models, 1797 nodes)
    """
    if count < 2:
        raise InputError(f"count must be at least 2 shadow models; found {count}")
    if device == "cuda" and not torch.cuda.is_available():
        raise DeviceUnavailableError("device 'cuda' needs a CUDA device that torch can use; found none")
    options = training or ShadowTraining()
    batch = _Batch(graph, options, torch.device(device))
    parts = []
    for start in range(0, count, BATCH):
        path = None if folder is None else Path(folder) / f"{_key(graph, options, seed, start)}.npz"
        if path is not None and path.exists():
            with np.load(path, allow_pickle=False) as stored:
                parts.append([stored[name] for name in _NAMES])
            continue
        part = batch.train(np.random.default_rng([seed, start]))
        parts.append(part)
        if path is not None:
            _keep(path, part)
    members, apart, joined, *weights = (np.concatenate(each)[:count] for each in zip(*parts, strict=True))
    return Shadows(members, apart, joined, (weights[0], weights[1], weights[2], weights[3]))


def _key(graph: Graph, options: ShadowTraining, seed: int, start: int) -> str:
    """A name for one batch: equal for equal inputs."""
    digest = sha256(json.dumps([asdict(options), seed, start, BATCH]).encode())
    for values in (graph.labels, graph.edges, graph.features):
        digest.update(np.ascontiguousarray(values).tobytes())
    return f"shadows-{digest.hexdigest()[:32]}-{start}"


def _keep(path: Path, part: list[np.ndarray]) -> None:
    """Write a batch whole or not at all, so that a call that is killed leaves no half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}.tmp")
    with unfinished.open("wb") as file:
        np.savez(file, allow_pickle=False, **dict(zip(_NAMES, part, strict=True)))
    unfinished.replace(path)


class _Layers:
    """Two convolutions of many models on subgraphs of one graph."""

    def __init__(self, graph: Graph, device: torch.device) -> None:
        n, self._device = graph.num_nodes, device
        ends = np.concatenate([graph.edges, graph.edges[::-1], np.tile(np.arange(n), (2, 1))], axis=1)
        adjacency = sparse.csr_array((np.ones(ends.shape[1], np.float32), (ends[1], ends[0])), shape=(n, n))
        adjacency.data[:] = 1  # an edge in both directions is one edge
        self._adjacency = _to_torch(adjacency, device)
        features = sparse.csr_array(graph.features)
        self._sparse = features.nnz < SPARSE * n * features.shape[1]
        dense = torch.from_numpy(np.array(graph.features, dtype=np.float32)).to(device)
        self._features = _to_torch(features, device) if self._sparse else dense
        self._transposed = _to_torch(sparse.csr_array(features.T), device) if self._sparse else dense.T

    def scale(self, present: torch.Tensor) -> torch.Tensor:
        """Of each node's row and column in the normalised adjacency of the subgraph: 0 for absent nodes [n, b]."""
        return present * (self._adjacency @ present).clamp(min=1).rsqrt()

    def project(self, first: torch.Tensor) -> torch.Tensor:
        """Features times the first weights [d, b, h]: [n, b, h]."""
        return (self._features @ first.flatten(1)).view(-1, *first.shape[1:])

    def propagate(self, values: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
        """Each model's normalised adjacency times its values [n, b, k]; None stands for no edges."""
        if scale is None:
            return values
        scaled = values * scale[:, :, None]
        return (self._adjacency @ scaled.flatten(1)).view_as(values) * scale[:, :, None]

    def answer(
        self, projected: torch.Tensor, rest: tuple[torch.Tensor, ...], scale: torch.Tensor | None
    ) -> torch.Tensor:
        """Log posteriors [n, b, c] from projected features and the other weights."""
        first_bias, second, second_bias = rest
        hidden = (self.propagate(projected, scale) + first_bias).relu()
        return (self.propagate(_times(hidden, second), scale) + second_bias).log_softmax(dim=2)


class SubgraphAnswers:
    """What shadow models answer on the subgraphs that sets of nodes induce.

    Args:
        shadows: the models.
        graph: the graph that they were trained on.
        device: "cpu" or "cuda".
    """

    def __init__(self, shadows: Shadows, graph: Graph, device: str = "cpu") -> None:
        self._layers, self._models = _Layers(graph, torch.device(device)), []
        self._device, self._labels = device, torch.from_numpy(np.maximum(graph.labels, 0)).to(device)
        for start in range(0, len(shadows.members), BATCH):
            some = (torch.from_numpy(each[start : start + BATCH]).to(device) for each in shadows.weights)
            first, first_bias, second, second_bias = some
            projected = self._layers.project(first.transpose(0, 1).contiguous())
            self._models.append((projected, (first_bias, second, second_bias)))

    def log_probabilities(self, present: Flags) -> Floats:
        """Of each node's label: float64 [m, n], void for absent nodes."""
        here = torch.from_numpy(present.astype(np.float32)).to(self._device)[:, None]
        scale = self._layers.scale(here)
        out = []
        for projected, rest in self._models:
            answers = self._layers.answer(projected, rest, scale)
            out.append(answers.gather(2, self._labels[:, None, None].expand(-1, answers.shape[1], 1))[:, :, 0].T)
        return np.asarray(torch.cat(out).double().cpu().numpy())


class _Batch(_Layers):
    """Trains `BATCH` models at a time on one graph."""

    def __init__(self, graph: Graph, options: ShadowTraining, device: torch.device) -> None:
        self._labelled = np.flatnonzero(graph.labels >= 0)
        self._classes = int(graph.labels.max(initial=-1)) + 1
        if len(self._labelled) < 4:
            raise InputError(f"graph must have at least 4 labelled nodes; found {len(self._labelled)}")
        if len(np.unique(graph.labels[self._labelled])) < 2:
            raise InputError("graph must have nodes of at least 2 classes; found 1")
        super().__init__(graph, device)
        self._options = options
        self._onehot = functional.one_hot(torch.from_numpy(np.maximum(graph.labels, 0)), self._classes)
        self._onehot = self._onehot.to(device=device, dtype=torch.float32)[:, None]

    def train(self, rng: np.random.Generator) -> list[np.ndarray]:
        """What `Shadows` holds, of `BATCH` models."""
        options, n, d = self._options, self._onehot.shape[0], self._features.shape[1]
        members = np.zeros((BATCH, n), dtype=np.bool_)
        size = min(max(round(options.share * len(self._labelled)), 1), len(self._labelled) - 1)
        for row in members:
            row[rng.permutation(self._labelled)[:size]] = True
        mask = torch.from_numpy(members.T.astype(np.float32)).to(self._device)
        scale = self.scale(mask)
        generator = torch.Generator(self._device).manual_seed(int(rng.integers(2**62)))
        shapes = ((d, BATCH, options.hidden), (BATCH, 1, options.hidden), (BATCH, options.hidden, self._classes))
        first, _, second = (torch.empty(shape, device=self._device) for shape in shapes)
        for weights, ends in ((first, d + options.hidden), (second, options.hidden + self._classes)):
            weights.uniform_(-((6 / ends) ** 0.5), (6 / ends) ** 0.5, generator=generator)
        biases = (
            torch.zeros(BATCH, options.hidden, device=self._device),
            torch.zeros(BATCH, self._classes, device=self._device),
        )
        parameters = (first, biases[0], second, biases[1])
        adam = torch.optim.Adam(parameters, lr=options.learning_rate, weight_decay=options.weight_decay)
        weight = (mask / size)[:, :, None]
        for _ in range(options.epochs):
            self._set_gradients(parameters, scale, weight, generator)
            adam.step()
        projected, joined = self.project(first), self.scale(torch.ones_like(mask[:, :1]))
        answers = [self.answer(projected, parameters[1:], scale).transpose(0, 1) for scale in (None, joined)]
        return [
            members,
            *(each.contiguous().cpu().numpy() for each in (*answers, first.transpose(0, 1), *parameters[1:])),
        ]

    def _set_gradients(
        self,
        parameters: tuple[torch.Tensor, ...],
        scale: torch.Tensor,
        weight: torch.Tensor,
        generator: torch.Generator,
    ) -> None:
        """The gradient of each model's mean cross-entropy over its own training nodes."""
        first, first_bias, second, second_bias = parameters
        z = self.propagate(self.project(first), scale) + first_bias
        passes = (z > 0).to(z.dtype)
        if self._options.dropout:
            passes *= torch.rand(z.shape, generator=generator, device=z.device) >= self._options.dropout
            passes /= 1 - self._options.dropout
        hidden = z * passes
        logits = self.propagate(_times(hidden, second), scale) + second_bias
        slope = (logits.softmax(dim=2) - self._onehot) * weight
        second_bias.grad = slope.sum(dim=0)
        slope = self.propagate(slope, scale)
        second.grad = torch.einsum("nbh,nbc->bhc", hidden, slope)
        slope = _times(slope, second.transpose(1, 2)) * passes
        first_bias.grad = slope.sum(dim=0)
        slope = self.propagate(slope, scale)
        first.grad = (self._transposed @ slope.flatten(1)).view_as(first)


def _times(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Each model's values [n, b, h] times its weights [b, h, c]."""
    return torch.einsum("nbh,bhc->nbc", values, weights)


def _to_torch(matrix: sparse.csr_array, device: torch.device) -> torch.Tensor:
    starts, columns = (torch.from_numpy(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        values = torch.from_numpy(matrix.data.astype(np.float32))
        return torch.sparse_csr_tensor(starts, columns, values, size=matrix.shape, device=device)
