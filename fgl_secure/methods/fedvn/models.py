"""FedVN's model, from batch normalisation up to what the server averages, the edge generator, and their losses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from fgl_secure.methods.fedvn.batches import GraphBatch, pad, to_nodes, to_virtual
from fgl_secure.methods.fedvn.preset import FedVNPreset, Injection, Statistics
from fgl_secure.training.sparse_products import multiply


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


def contrast_loss(sums: torch.Tensor, local: torch.Tensor, global_rows: torch.Tensor, tau: float) -> torch.Tensor:
    """Score-contrastive loss (Eq. 8): graphs' scores near their client's, and away from every party's.

    Args:
        sums: the sums of the score vectors of each graph's nodes, float32 [b, M].
        local: s_local, float32 [M].
        global_rows: s_global, float32 [M].
        tau: temperature.
    """
    near = functional.cosine_similarity(sums, local[None])
    to_global = functional.cosine_similarity(sums, global_rows[None])
    return functional.softplus((to_global - near) / tau).mean()


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


Tied = tuple[torch.Tensor, torch.Tensor]
"""Virtual nodes Q, float32 [M, hidden], and how each node is linked to them, s_vm, float32 [n, M]."""

EPSILON = 1e-5


class BatchNorm(nn.Module):
    """Every column to mean 0 and variance 1, then scale and shift.

    In training a batch is normalised by its own statistics. A batch of one row comes out as the shift: its variance is
    zero.

    Args:
        width: columns.
        tracked: whether statistics can be collected, which then normalise outside training; otherwise a batch's own do.
    """

    mean: torch.Tensor | None
    variance: torch.Tensor | None

    def __init__(self, width: int, *, tracked: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width) if tracked else None)
        self.register_buffer("variance", torch.ones(width) if tracked else None)
        self.collected: int | None = None

    def forward(self, rows: torch.Tensor, counts: torch.Tensor | None = None) -> torch.Tensor:
        """Normalises rows.

        Args:
            rows: float32 [r, width].
            counts: float32 [r], how often each row occurs; None counts every one once.
        """
        fixed = self.mean is not None and not self.training
        if not fixed and (counts is not None or len(rows) < 2):
            return self._normalise(rows, rows.new_ones(len(rows)) if counts is None else counts)
        statistics = (self.mean, self.variance) if fixed or self.collected is not None else (None, None)
        share = 0.0 if fixed else self._share()
        return functional.batch_norm(rows, *statistics, self.weight, self.bias, not fixed, share, EPSILON)

    def _share(self) -> float:
        """The weight of the current batch in the mean over all that were collected; 0 where none are."""
        if self.collected is None:
            return 0.0
        self.collected += 1
        return 1 / self.collected

    def _normalise(self, rows: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        total = counts.sum()
        share = counts / total
        mean = share @ rows
        centred = rows - mean
        variance = share @ centred.square()
        self._keep(mean, variance, float(total))
        return centred * (self.weight * torch.rsqrt(variance + EPSILON)) + self.bias

    def _keep(self, mean: torch.Tensor, variance: torch.Tensor, total: float) -> None:
        if self.collected is None or self.mean is None or self.variance is None or total < 2:
            return
        share = self._share()
        self.mean.lerp_(mean.detach(), share)
        self.variance.lerp_(variance.detach() * (total / (total - 1)), share)


@contextmanager
def collecting(*models: nn.Module) -> Iterator[None]:
    """Within it, batch norms that can keep statistics take the mean over the batches that they see."""
    norms = [part for model in models for part in model.modules() if isinstance(part, BatchNorm)]
    for norm in norms:
        norm.collected = 0 if norm.mean is not None else None
    yield
    for norm in norms:
        norm.collected = None


class GeneratorDropout:
    """Drops units by a generator of its own: equal seeds give equal bits on every device.

    Args:
        probability: of dropping a unit.
        draws: where masks come from.
    """

    def __init__(self, probability: float, draws: np.random.Generator) -> None:
        self._probability, self._draws = probability, draws

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """The values with some units zero and the others scaled up."""
        if self._probability == 0:
            return values
        mask = torch.from_numpy(self._draw_mask(values.numel())).reshape(values.shape).to(values.device)
        return values * (mask.to(values.dtype) * (1 / (1 - self._probability)))

    def _draw_mask(self, count: int) -> NDArray[np.uint8]:
        if self._probability == 0.5:  # one random bit a unit
            random_bytes = np.frombuffer(self._draws.bytes(-(-count // 8)), dtype=np.uint8)
            return np.unpackbits(random_bytes, count=count)
        return (self._draws.random(count, dtype=np.float32) >= self._probability).astype(np.uint8)


class Linear(nn.Module):
    """A linear layer with PyTorch's initial distribution, drawn from a generator."""

    def __init__(self, inputs: int, outputs: int, draws: torch.Generator) -> None:
        super().__init__()
        edge = 1 / np.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-edge, edge, generator=draws))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-edge, edge, generator=draws))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """From [..., inputs] to [..., outputs]."""
        return functional.linear(values, self.weight, self.bias)


class NormalisedGINLayer(nn.Module):
    """Linear, batch norm, ReLU, linear of what a node hears from its neighbours and itself; batch norm.

    Args:
        hidden: width of what comes out.
        tracked: as for `BatchNorm`.
        draws: of the initial weights.
        inputs: width of what goes in; the same unless given.
    """

    def __init__(self, hidden: int, *, tracked: bool, draws: torch.Generator, inputs: int | None = None) -> None:
        super().__init__()
        self.first = Linear(inputs or hidden, 2 * hidden, draws)
        self.inner = BatchNorm(2 * hidden, tracked=tracked)
        self.second = Linear(2 * hidden, hidden, draws)
        self.outer = BatchNorm(hidden, tracked=tracked)

    def forward(self, projected: torch.Tensor, counts: torch.Tensor | None = None) -> torch.Tensor:
        """What comes after the first linear map.

        Args:
            projected: `first` of what nodes hear, float32 [r, 2 hidden].
            counts: how many nodes each row stands for, float32 [r]; None means one.
        """
        result: torch.Tensor = self.outer(self.second(functional.relu(self.inner(projected, counts))), counts)
        return result


class VirtualUpdate(nn.Module):
    """CB_vn of Eq. 6: linear, batch norm, ReLU, linear, batch norm, ReLU; every virtual node has its own norms."""

    def __init__(self, hidden: int, virtual_nodes: int, *, tracked: bool, draws: torch.Generator) -> None:
        super().__init__()
        self.first = Linear(hidden, 2 * hidden, draws)
        self.inner = BatchNorm(2 * hidden * virtual_nodes, tracked=tracked)
        self.second = Linear(2 * hidden, hidden, draws)
        self.outer = BatchNorm(hidden * virtual_nodes, tracked=tracked)

    def forward(self, received: torch.Tensor) -> torch.Tensor:
        """From h_m plus what it heard [b, M, hidden] to the next h_m."""
        inner = functional.relu(self.inner(self.first(received).flatten(1)))
        result: torch.Tensor = self.outer(self.second(inner.reshape(*received.shape[:2], -1)).flatten(1))
        return functional.relu(result).reshape(received.shape)


def active(values: torch.Tensor, drop: GeneratorDropout | None) -> torch.Tensor:
    """ReLU, and dropout in training."""
    return apply_dropout(functional.relu(values), drop)


def apply_dropout(values: torch.Tensor, drop: GeneratorDropout | None) -> torch.Tensor:
    """Dropout in training."""
    return values if drop is None else drop(values)


class GraphEncoder(nn.Module):
    """Node embeddings.

    Args:
        inputs: features of a node, the constant one included.
        preset: widths and layers.
        virtual: whether there are virtual nodes.
        draws: of the initial weights.
        bonds: number of edge types. If above 0, a neighbour's message is relu(h_j + e_ij), where each layer learns an
            embedding e per type (GINE, Hu et al. 2020); if 0, it is h_j.
    """

    def __init__(
        self, inputs: int, preset: FedVNPreset, *, virtual: bool, draws: torch.Generator, bonds: int = 0
    ) -> None:
        super().__init__()
        tracked, hidden = preset.statistics is Statistics.TRAINING, preset.hidden
        self.input = nn.Parameter(torch.empty(hidden, inputs).uniform_(-1, 1, generator=draws) / np.sqrt(inputs - 1))
        self.layers = nn.ModuleList(
            NormalisedGINLayer(hidden, tracked=tracked, draws=draws) for _ in range(preset.layers)
        )
        updates = preset.layers - 1 if virtual else 0
        self.updates = nn.ModuleList(
            VirtualUpdate(hidden, preset.virtual_nodes, tracked=tracked, draws=draws) for _ in range(updates)
        )
        self._injection = preset.injection
        bound = np.sqrt(6 / (bonds + hidden))  # as Glorot and Bengio draw
        self.bonds = nn.ParameterList(
            torch.empty(bonds, hidden).uniform_(-bound, bound, generator=draws)
            for _ in range(preset.layers if bonds else 0)
        )

    def forward(self, batch: GraphBatch, drop: GeneratorDropout | None = None) -> torch.Tensor:
        """Embeddings of all nodes without virtual nodes, float32 [n, hidden]."""
        h = self._first(batch)
        for number in range(1, len(self.layers)):
            h = self._layer(number, active(h, drop), batch)
        return apply_dropout(h, drop)

    def embed_nodes(
        self, batch: GraphBatch, virtual: torch.Tensor, scores: torch.Tensor, drop: GeneratorDropout | None = None
    ) -> torch.Tensor:
        """Embeddings of all nodes with virtual nodes (Eqs. 5 and 6), float32 [n, hidden].

        Args:
            batch: the graphs.
            virtual: Q, float32 [M, hidden].
            scores: s_vm, float32 [n, M].
            drop: dropout in training.
        """
        padded = pad(scores, batch)
        before = self._injection is Injection.INPUT
        state = virtual.expand(batch.graphs, -1, -1)
        received = to_virtual(padded, batch.features, batch) @ self.input.T
        h = self._first_injected(batch, virtual, scores) if before else self._first(batch)
        for number in range(1, len(self.layers)):
            h = active(h, drop)
            h = h if before else h + to_nodes(padded, state, batch)
            state = apply_dropout(self.updates[number - 1](state + received), drop)
            if number < len(self.layers) - 1:
                received = to_virtual(padded, h, batch)
            h = self._layer(number, h + to_nodes(padded, state, batch) if before else h, batch)
        h = apply_dropout(h, drop)
        return h if before else h + to_nodes(padded, state, batch)

    def _layer(self, number: int, h: torch.Tensor, batch: GraphBatch) -> torch.Tensor:
        layer = self._at(number)
        result: torch.Tensor = layer(layer.first(self._add_messages(number, h, batch)))
        return result

    def _add_messages(self, number: int, h: torch.Tensor, batch: GraphBatch) -> torch.Tensor:
        """Add its neighbours' messages to each node's row, float32 [n, hidden]."""
        if not self.bonds or batch.bonds is None:
            return multiply(batch.reach, batch.reach, h)
        edges, table = batch.bonds, self.bonds[number]
        # one-hot rows, since a product repeats its bits on any device and a gather's gradient does not
        bonds = functional.one_hot(edges.types, len(table)).to(h.dtype) @ table
        messages = functional.relu(multiply(edges.sources, edges.outgoing, h) + bonds)
        return h + multiply(edges.incoming, edges.targets, messages)

    def _first(self, batch: GraphBatch) -> torch.Tensor:
        if self.bonds:
            return self._layer(0, batch.features @ self.input.T, batch)
        layer = self._at(0)
        projected = layer.first(batch.summed_rows @ self.input.T)
        if batch.kind_of is None:
            result: torch.Tensor = layer(projected)
            return result
        item: torch.Tensor = batch.kind_of @ layer(projected, batch.kind_of.sum(dim=0))
        return item

    def _first_injected(self, batch: GraphBatch, virtual: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """The first layer of (I + A)(h + S Q), h being linear in the features: no matrix as wide as h is needed."""
        if self.bonds:
            return self._layer(0, batch.features @ self.input.T + scores @ virtual, batch)
        layer = self._at(0)
        plain = layer.first(batch.summed_rows @ self.input.T)
        plain = plain if batch.kind_of is None else batch.kind_of @ plain
        reached = multiply(batch.reach, batch.reach, scores)
        result: torch.Tensor = layer(plain + reached @ (virtual @ layer.first.weight.T))
        return result

    def _at(self, number: int) -> NormalisedGINLayer:
        layer = self.layers[number]
        assert isinstance(layer, NormalisedGINLayer)
        return layer


class GraphModel(nn.Module):
    """The model theta that the server averages: encoder, mean pooling, and a head of two layers.

    Args:
        encoder: of nodes.
        outputs: classes, or 1 for a value.
        hidden: width of the encoder's output and of the head.
        draws: of the initial weights of the head.
    """

    def __init__(self, encoder: nn.Module, outputs: int, hidden: int, draws: torch.Generator) -> None:
        super().__init__()
        self.encoder = encoder
        self.hidden = Linear(hidden, hidden, draws)
        self.output = Linear(hidden, outputs, draws)

    def forward(
        self, batch: GraphBatch, drop: GeneratorDropout | None = None, links: Tied | None = None
    ) -> torch.Tensor:
        """Outputs of all graphs, float32 [b, outputs]; arguments as for `embed_graphs`."""
        result: torch.Tensor = self.output(active(self.hidden(self.embed_graphs(batch, drop, links)), drop))
        return result

    def embed_graphs(
        self, batch: GraphBatch, drop: GeneratorDropout | None = None, links: Tied | None = None
    ) -> torch.Tensor:
        """Embeddings of all graphs, the means of their nodes', float32 [b, hidden].

        Args:
            batch: the graphs.
            drop: dropout in training.
            links: virtual nodes and scores, as for the encoder; None where there are none.
        """
        if links is None:
            nodes = self.encoder(batch, drop)
        else:
            assert isinstance(self.encoder, GraphEncoder)
            nodes = self.encoder.embed_nodes(batch, *links, drop)
        return multiply(batch.mean, batch.spread, nodes)
