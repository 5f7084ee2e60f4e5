"""Exact reconstruction of a graph from one gradient of a graph neural network.

GRAIN (Drencheva et al., ICLR 2025, arXiv 2503.01838): features with discrete entries are found in the span of the first
layer's gradient, neighbourhoods by the rows that they give for the second, and a graph counts only if its own gradient
is the observed one. GRAIN searches depth first through prefixes of features and through building blocks; this attack
eliminates, see `discrete_rows` and `building_blocks`.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components
from torch.nn import functional

from fgl_secure.algebra.checks import as_floats
from fgl_secure.attacks.base import Measurement
from fgl_secure.attacks.gradients.building_blocks import (
    Activation,
    Layer,
    Neighbourhoods,
    Peeling,
    assemblies,
    count_nodes,
    first_kinds,
    second_kinds,
)
from fgl_secure.attacks.gradients.discrete_rows import Span, discrete_rows
from fgl_secure.attacks.gradients.model import gradient_parts
from fgl_secure.attacks.recovery import Result, largest_share, share_right
from fgl_secure.errors import InputError
from fgl_secure.typing import Floats, Ids

SAME = 1e-7
"""Relative distance up to which two float64 gradients are equal."""
LARGEST_NOISE = 0.1
"""If noise is a larger share of the gradient, equal gradients are no evidence of equal graphs."""
MOST_GRAPHS = 50
"""Graphs whose gradient is compared."""


class _Observed:
    """A model, its gradient by name, and how near the gradient of a graph comes to it."""

    def __init__(self, model: torch.nn.Module, gradient: Any, clients: int) -> None:
        self.model = copy.deepcopy(model).to(device="cpu", dtype=torch.float64).eval()
        trained = {name: value for name, value in self.model.named_parameters() if value.requires_grad}
        self.parameters, self.clients = tuple(trained.values()), clients
        self.parts = {name: part.numpy() for name, part in gradient_parts(gradient, trained).items()}
        self.goal = np.concatenate([part.ravel() for part in self.parts.values()])
        self.owner = list(trained)[-1].rpartition(".")[0]
        self.last = {name: value for name, value in trained.items() if name.rpartition(".")[0] == self.owner}
        modules = dict(self.model.named_modules())
        self.convolutions = [name for name, item in modules.items() if type(item).__name__ in ("GCNConv", "GATConv")]
        if len(self.convolutions) < 2:
            raise InputError(
                f"model must have two GCNConv or GATConv of PyTorch Geometric; found {len(self.convolutions)}"
            )
        for name in self.convolutions:
            _check_convolution(name, modules[name])
        self.first, self.second = (modules[name] for name in self.convolutions[:2])
        inside = tuple(f"{name}." for name in self.convolutions)
        linear = [
            name for name, item in modules.items() if type(item) is torch.nn.Linear and not name.startswith(inside)
        ]
        self.readout = linear[0] if linear else None

    def gradient_of(self, module: str) -> Floats:
        """The gradient of a module's weights, float64 [out, in]."""
        return np.asarray(self.parts[f"{module}.weight"])

    def logits(self, features: Floats, adjacency: NDArray[np.bool_]) -> torch.Tensor:
        """Logits of nodes [n, c], or of the graph [1, c]."""
        edges = torch.from_numpy(np.stack(np.nonzero(adjacency)))
        logits: torch.Tensor = self.model(torch.from_numpy(features), edges)
        return logits.reshape(-1, logits.shape[-1])

    def labels(self, features: Floats, adjacency: NDArray[np.bool_]) -> Ids:
        """Labels: the last layer's gradient is linear in softmax less one-hot."""
        logits, last = self.logits(features, adjacency), list(self.last.values())
        slopes = [
            torch.cat([part.ravel() for part in torch.autograd.grad(value, last, retain_graph=True)]).numpy()
            for value in logits.ravel()
        ]
        goal = np.concatenate([self.parts[name].ravel() for name in self.last])
        signals = np.linalg.lstsq(np.stack(slopes, axis=1), goal, rcond=1e-10)[0]
        shares = logits.detach().softmax(dim=1).numpy() - signals.reshape(logits.shape) / self._weights(
            adjacency, logits
        )
        labels = shares.argmax(axis=1)
        rows = np.round(logits.detach().numpy(), 9)
        for alike in np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1) == np.arange(len(rows))[:, None]:
            # Nodes that the model cannot tell apart have their labels' shares in common.
            ends = np.rint(shares[alike].sum(axis=0)).astype(np.int64).clip(0)
            if ends.sum() == alike.sum() > 1:
                labels[alike] = np.repeat(np.arange(len(ends)), ends)
        return np.asarray(labels, dtype=np.int64)

    def _weights(self, adjacency: NDArray[np.bool_], logits: torch.Tensor) -> Floats:
        """Of each label in the loss, float64 [n, 1]."""
        part = connected_components(adjacency)[1] if self.clients > 1 else np.zeros(len(logits), dtype=np.int64)
        return np.asarray(1 / np.bincount(part)[part])[:, None]

    def distance(self, features: Floats, adjacency: NDArray[np.bool_], labels: Ids) -> float:
        """||gradient of a graph - observed|| / ||observed||."""
        logits = self.logits(features, adjacency)
        losses = functional.cross_entropy(logits, torch.from_numpy(labels), reduction="none")
        loss = losses @ torch.from_numpy(self._weights(adjacency, logits)[:, 0])
        slopes = torch.autograd.grad(loss, self.parameters, materialize_grads=True)
        difference = np.concatenate([slope.numpy().ravel() for slope in slopes]) - self.goal
        return float(np.linalg.norm(difference) / np.linalg.norm(self.goal))

    def entering(self, activation: Activation) -> tuple[bool, bool] | None:
        """Whether rows enter the readout behind features, and whether activated; None where they are no nodes' rows."""
        if self.readout is None:
            return None
        features = torch.rand((3, self.first.lin.weight.shape[1]), dtype=torch.float64)
        rows, out = self._watch(features, torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), self.readout, None)
        for behind, activated in itertools.product((False, True), repeat=2):
            after = activation(out) if activated else out
            expected = torch.cat([features, after], dim=1) if behind else after
            if rows.shape == expected.shape and torch.equal(rows, expected):
                return behind, activated
        return None

    def counts(self, rows: Floats) -> Iterator[Ids]:
        """How many nodes enter the readout with each of these rows, float64 [k, m]; see `count_nodes`."""
        module = dict(self.model.named_modules())[self.owner]
        if type(module) is not torch.nn.Linear:
            return
        features = torch.zeros((len(rows), self.first.lin.weight.shape[1]), dtype=torch.float64)
        entered, _ = self._watch(features, torch.empty((2, 0), dtype=torch.int64), self.owner, torch.from_numpy(rows))
        if len(entered) != len(rows):
            return
        likely = module(entered).softmax(dim=1).detach().numpy()
        nodes = self.logits(features.numpy(), np.zeros((len(rows), len(rows)), dtype=np.bool_)).shape[0]
        yield from count_nodes(entered.numpy(), self.gradient_of(self.owner), likely if nodes > 1 else None)

    def _watch(
        self, features: torch.Tensor, edges: torch.Tensor, name: str, rows: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What enters a module, with the readout's input replaced by rows if given; what the second layer gives."""
        modules, seen = dict(self.model.named_modules()), dict[str, torch.Tensor]()
        hooks = [
            modules[str(self.readout)].register_forward_pre_hook(lambda _, given: given if rows is None else (rows,)),
            modules[name].register_forward_pre_hook(lambda _, given: seen.update(rows=given[0])),
            self.second.register_forward_hook(lambda _, __, out: seen.update(out=out)),
        ]
        try:
            with torch.no_grad():
                self.model(features, edges)
        finally:
            for hook in hooks:
                hook.remove()
        return seen["rows"], seen["out"]


def _check_convolution(name: str, module: Any) -> None:
    if type(module).__name__ == "GCNConv":
        plain = module.normalize and module.add_self_loops and not module.improved
    else:
        plain = module.add_self_loops and module.concat and not module.residual and module.lin is not None
    if not plain:
        raise InputError(f"model must have convolutions with loops, weights by degree or attention alone; found {name}")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ReconstructedGraph(Result):
    """A graph that a gradient was taken at.

    Attributes:
        features: float64 [n, d], zeros and ones; of single nodes only, if the graph is not complete.
        adjacency: bool [n, n], symmetric, without loops.
        labels: int64 [n] of nodes, or [1] of the graph; empty if the graph is not complete.
        exact: whether its gradient is the observed one, up to rounding or the stated noise.
        distance: between the two gradients, as a share of the observed one's length; infinite if not complete.
        same: whether the graph is isomorphic to the truth with equal features; None without one.
        agreement: F1 of nodes whose features agree, and whose neighbours up to 1 and 2 hops do; None without a truth.
    """

    features: Floats
    adjacency: NDArray[np.bool_]
    labels: Ids
    exact: bool
    distance: float
    same: bool | None
    agreement: tuple[float, float, float] | None


def reconstruct_graph(
    model: torch.nn.Module,
    gradient: Sequence[torch.Tensor | None] | Mapping[str, torch.Tensor] | torch.Tensor,
    degrees: slice,
    *,
    clients: int = 1,
    noise: float = 0.0,
    activation: Activation = torch.relu,
    truth: tuple[ArrayLike, ArrayLike] | None = None,
) -> ReconstructedGraph:
    """Reconstruct a graph exactly from a gradient, as a server does that follows the protocol.

    Features must be zeros and ones, and include the degree (GRAIN, Drencheva et al., ICLR 2025). Graphs whose gradients
    are equal cannot be told apart: under GCN for instance two nodes with the same neighbours and each other, unless
    features also enter the readout.

    Args:
        model: takes features [n, d] and edges int64 [2, m] to logits, of nodes [n, c] or of the graph [1, c]. Its first
            two layers are GCNConv or GATConv of PyTorch Geometric, and its parameters are those of the gradient.
        gradient: of the mean cross-entropy, as tensors in the order of `model.parameters()`, by name, or as one flat
            tensor, in double precision unless noise is given.
        degrees: columns of the features that are the one-hot degree 0, 1, ...
        clients: how many gradients of connected graphs with labels of nodes are in the sum.
        noise: standard deviation of an entry's error; of values rounded to multiples of s it is s / sqrt(12).
        activation: between the two layers.
        truth: features [n, d] and adjacency [n, n] of the graph, for the score.

    Returns:
        The graph. With a truth also the share of its nodes with features and two hops recovered; the baseline is the
        share of the most frequent row of features.

    Raises:
        InputError: shapes do not fit, a number is not finite, features of the truth are not 0 or 1, or the model has
            other layers.

    Examples:
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     from torch_geometric.nn import GCNConv, Sequential
        >>> layers = [(GCNConv(6, 32), "x, e -> x"), torch.nn.ReLU(), (GCNConv(32, 32), "x, e -> x"), torch.nn.ReLU()]
        >>> model = Sequential("x, e", [*layers, torch.nn.Linear(32, 2)]).double()
        >>> x = torch.tensor([[1, 0, 0, 0, 1, 0], [1, 1, 0, 0, 0, 1], [0, 1, 1, 0, 1, 0]]).double()
        >>> e = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> loss = functional.cross_entropy(model(x, e), torch.tensor([0, 1, 1]))
        >>> reconstruct_graph(model, torch.autograd.grad(loss, list(model.parameters())), slice(3, 6)).exact
        True
    """
    if not (isinstance(clients, int | np.integer) and clients >= 1):
        raise InputError(f"clients must be an integer of at least 1; found {clients!r}")
    if not (np.isfinite(noise) and noise >= 0):
        raise InputError(f"noise must be a finite number of at least 0; found {noise}")
    seen = _Observed(model, gradient, int(clients))
    width = seen.first.lin.weight.shape[1]
    columns = range(width)[degrees] if isinstance(degrees, slice) else range(0)
    if not columns or degrees.step not in (None, 1):
        raise InputError(f"degrees must be a slice of adjacent columns of {width}; found {degrees}")
    true = None if truth is None else _checked_truth(truth, width)
    tolerance = SAME + 1.5 * noise * math.sqrt(len(seen.goal)) / float(np.linalg.norm(seen.goal))
    best: tuple[Floats, NDArray[np.bool_], Ids, float] | None = None
    for features, adjacency in itertools.islice(_graphs(seen, degrees, noise, activation), MOST_GRAPHS):
        complete = len(features) and (adjacency.sum(axis=1) == features[:, degrees].argmax(axis=1)).all()
        labels = seen.labels(features, adjacency) if complete else np.empty(0, dtype=np.int64)
        distance = seen.distance(features, adjacency, labels) if complete else math.inf
        if best is None or distance < best[3]:
            best = features, adjacency, labels, distance
        if distance <= tolerance:
            break
    assert best is not None, "there is a first graph"
    measured, same, agreement = None, None, None
    if true is not None:
        measured, same, agreement = _score(best[0], best[1], *true)
    exact = best[3] <= tolerance <= LARGEST_NOISE
    return ReconstructedGraph(measured, *best[:3], exact, best[3], same, agreement)


def _graphs(
    seen: _Observed, degrees: slice, noise: float, activation: Activation
) -> Iterator[tuple[Floats, NDArray[np.bool_]]]:
    """Graphs that fit, as features and adjacency: first those whose nodes all differ."""
    entering, first_gradient = seen.entering(activation), seen.gradient_of(f"{seen.convolutions[0]}.lin")
    width = first_gradient.shape[1]
    if entering is not None and entering[0]:
        first_gradient = np.concatenate([first_gradient, seen.gradient_of(str(seen.readout))[:, :width]])
    features = discrete_rows(Span(first_gradient, noise), degrees)
    if not len(features):
        yield features, np.empty((0, 0), dtype=np.bool_)
        return
    degree = features[:, degrees].argmax(axis=1)
    second_gradient = seen.gradient_of(f"{seen.convolutions[1]}.lin")
    layer = Layer(seen.first, features, degree, activation)
    for trusting in (True, False):
        peeling = Peeling(Neighbourhoods(layer, Span(second_gradient, noise)))
        peeling.run(trusting=trusting)
        for adjacency in itertools.islice(peeling.adjacencies(), MOST_GRAPHS // 3):
            whole = adjacency.sum(axis=1) == degree
            if not whole.any() or adjacency[whole][:, ~whole].any():
                whole[:] = True
            kept = np.flatnonzero(whole)
            yield features[kept], adjacency[np.ix_(kept, kept)]
    if seen.clients == 1 and entering is not None:
        test = Neighbourhoods(layer, Span(second_gradient, noise))
        yield from _graphs_of_kinds(seen, features, test, entering, noise, activation)


def _graphs_of_kinds(
    seen: _Observed,
    features: Floats,
    test: Neighbourhoods,
    entering: tuple[bool, bool],
    noise: float,
    activation: Activation,
) -> Iterator[tuple[Floats, NDArray[np.bool_]]]:
    """Graphs that fit, some of whose nodes may be alike."""
    first = first_kinds(test)
    if not first:
        return
    rows = np.stack([test.layer.out(k.centre, np.array([k.neighbours], dtype=np.int64))[0] for k in first])
    before = features[[kind.centre for kind in first]] if entering[0] else np.empty((len(first), 0))
    degree = test.layer.degree[[kind.centre for kind in first]]
    after = activation if entering[1] else torch.clone
    layer = Layer(seen.second, rows, degree, after, before)
    gradient = seen.gradient_of(str(seen.readout))
    second = second_kinds(first, Neighbourhoods(layer, Span(gradient, noise)))
    if not second:
        return
    entered = np.stack([layer.out(k.centre, np.array([k.neighbours], dtype=np.int64))[0] for k in second])
    for counts in seen.counts(entered):
        for index, adjacency in assemblies(first, second, counts):
            yield features[index], adjacency


def _checked_truth(truth: tuple[ArrayLike, ArrayLike], width: int) -> tuple[Floats, NDArray[np.bool_]]:
    features, adjacency = (as_floats(part, "truth") for part in truth)
    if features.ndim != 2 or features.shape[1] != width or adjacency.shape != (len(features),) * 2:
        raise InputError(
            f"truth must be features [n, {width}] and an adjacency [n, n]; found {features.shape}, {adjacency.shape}"
        )
    if not np.isin(features, (0, 1)).all() or not np.isin(adjacency, (0, 1)).all():
        raise InputError("truth must have zeros and ones alone; found another number")
    return features, adjacency > 0


def _score(
    features: Floats, adjacency: NDArray[np.bool_], true: Floats, edges: NDArray[np.bool_]
) -> tuple[Measurement, bool, tuple[float, float, float]]:
    both = [_colours(*pair) for pair in ((features, adjacency), (true, edges))]
    common = [sum((Counter(one) & Counter(two)).values()) for one, two in zip(*both, strict=True)]
    size = len(features) + len(true)
    graphs = [nx.from_numpy_array(item) for item in (adjacency, edges)]
    for graph, colours in zip(graphs, both, strict=True):
        nx.set_node_attributes(graph, dict(enumerate(colours[2])), "colour")
    same = common[2] * 2 == size and nx.is_isomorphic(*graphs, node_match=lambda one, two: one == two)
    right = np.arange(len(true)) < common[2]
    finding = "nodes are recovered with their features and all neighbours up to two hops."
    measured = share_right("nodes", right, None, finding, prior=largest_share(true))
    one, two, three = (2 * item / size for item in common)
    return measured, same, (one, two, three)


def _colours(features: Floats, adjacency: NDArray[np.bool_]) -> list[list[Any]]:
    """For each node its features, then the same with those of its neighbours, then with theirs."""
    levels: list[list[Any]] = [[(row + 0.0).tobytes() for row in features]]
    for _ in range(2):
        levels.append([
            (levels[-1][node], tuple(sorted(levels[-1][item] for item in np.flatnonzero(adjacency[node]))))
            for node in range(len(features))
        ])  # fmt: skip
    return levels
