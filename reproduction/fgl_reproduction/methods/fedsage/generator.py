"""NeighGen, a client's generator of neighbours that its nodes miss (FedSage+, 4.2 and 4.3).

A client hides some of its nodes, and learns on the others how many hidden neighbours each has (dGen, smooth L1 loss)
and what features these have (fGen): with z the embedding of a node and e normal noise, fGen(z + e) is to be near one of
its hidden neighbours (greedy matching: the nearest counts), and near some node of every other client. Then it generates
neighbours for all of its nodes.

Where the paper leaves it open or the public code differs: each generated neighbour has noise of its own, where the code
makes all five of a node from one; while it learns, a node generates as many neighbours as were hidden and not as many
as are predicted; dGen and fGen end in a linear layer, for features need not lie in -1..1; squares are averaged over
features; the encoder, a GraphSAGE of two layers, learns from these losses alone and not from labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch.nn import functional

from fgl_secure.errors import InputError
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.dropout import CoinDropout
from fgl_secure.training.node_models import Matrix, Propagation, SageModel, Surroundings, degree_weights
from fgl_secure.training.parameters import Adam, flat, optimiser_state, overwrite, remind, unflatten
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array, Ids

Floats = NDArray[np.float32]

MENDING = 2**32
"""Stands for the number of a round where noise is drawn for the graph that is mended in the end."""


@dataclass(frozen=True, slots=True)
class GeneratorPreset:
    """How a client learns to generate the neighbours that its nodes miss (4.2).

    The public code (zkhku/fedsage) hides half of a client's nodes, generates five neighbours at most, has embeddings of
    width 128 from a hidden width of 32, gives every term of the loss weight 1, and takes 20 steps of Adam (.001, L2
    factor 1e-4) on a generator at home and 20 more together. Its classifier is GraphSAGE of width 64 on samples of five
    neighbours, averaged over 20 rounds. Which values the paper's tables were printed with is not known.

    Attributes:
        hidden_share: of the client's nodes, drawn at random, that are hidden from the others while it learns.
        most: neighbours that are generated for a node.
        encoder: hidden width of the encoder.
        latent: width of an embedding.
        width: hidden width of the generator of features.
        alone: steps that a client takes by itself, on all of its generator.
        rounds: steps on the generator of features that clients take together.
        learning_rate: of Adam, in both.
        weight_decay: factor of the L2 penalty.
        cross: alpha, the weight of another client's loss beside the own one.
    """

    hidden_share: float = 0.5
    most: int = 5
    encoder: int = 32
    latent: int = 128
    width: int = 128
    alone: int = 100
    rounds: int = 20
    learning_rate: float = 0.01
    weight_decay: float = 1e-4
    cross: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.hidden_share < 1:
            raise InputError(f"hidden_share must lie inside (0, 1); found {self.hidden_share}")
        for name, least in (("encoder", 1), ("latent", 1), ("width", 1), ("most", 0), ("alone", 0), ("rounds", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}; found {getattr(self, name)}")


@dataclass(frozen=True, slots=True, eq=False)
class HiddenNodes:
    """What a client hides from itself, by places among its own nodes.

    Attributes:
        kept: int64 [k], the nodes that stay, ascending.
        missing: int64 [k], how many hidden neighbours each has, at most as many as are generated.
        node: int64 [r], for each neighbour to generate the place among `kept` of its node.
        pairs: int64 [2, p], a neighbour to generate above a node that it may be near to.
    """

    kept: Ids
    missing: Ids
    node: Ids
    pairs: Ids

    @classmethod
    def of(cls, edges: Ids, nodes: int, share: float, most: int, draws: np.random.Generator) -> HiddenNodes:
        """Draws them.

        Args:
            edges: int64 [2, e], between own nodes, by their places.
            nodes: how many there are.
            share: of the nodes that are hidden; rounded, and one stays.
            most: neighbours that are generated for a node.
            draws: what is drawn from.
        """
        stays = np.ones(nodes, dtype=np.bool_)
        stays[draws.permutation(nodes)[: min(round(share * nodes), nodes - 1)]] = False
        kept = np.flatnonzero(stays)
        lost = np.unique(edges[:, ~stays[edges[0]] & stays[edges[1]]], axis=1)
        lost = lost[:, np.argsort(lost[1], kind="stable")]
        index = np.searchsorted(kept, lost[1])
        degree = np.bincount(index, minlength=len(kept))
        missing = np.minimum(degree, most).astype(np.int64)
        node = np.repeat(np.arange(len(kept)), missing)
        first = np.cumsum(degree) - degree
        rows = np.repeat(np.arange(len(node)), degree[node])
        within_node = np.arange(len(rows)) - np.repeat(np.cumsum(degree[node]) - degree[node], degree[node])
        return cls(kept, missing, node, np.stack([rows, lost[0][first[node[rows]] + within_node]]))


class NeighGen:
    """One client's generator.

    Args:
        silo: what the client holds; edges to other clients are not looked at.
        preset: how it learns.
        seed: of initial weights, hidden nodes and noise.
        device: where model compute runs.

    Attributes:
        theta: the parameters of fGen: weight [latent, width] and bias, weight [width, d] and bias.
    """

    def __init__(self, silo: Silo, preset: GeneratorPreset, seed: int, device: torch.device) -> None:
        self._silo, self._preset, self._seed, self._device = silo, preset, seed, device
        self._edges = silo.local(silo.edges[:, np.logical_and(*silo.inside)])
        nodes, draws = len(silo.nodes), np.random.default_rng((seed, silo.silo))
        self._hidden = HiddenNodes.of(self._edges, nodes, preset.hidden_share, preset.most, draws)
        coins = torch.Generator().manual_seed(int(draws.integers(2**62)))
        encoder = SageModel((silo.facts.features, preset.encoder, preset.latent), coins)
        self._encoder = encoder.to(device)
        widths = ((preset.latent, 1), (preset.latent, preset.width), (preset.width, silo.facts.features))
        drawn = [torch.nn.init.xavier_uniform_(torch.empty(shape), generator=coins) for shape in widths]
        layers = [part.to(device).requires_grad_() for item in drawn for part in (item, torch.zeros(item.shape[1]))]
        self._degree, self.theta = layers[:2], layers[2:]
        self._features = torch.from_numpy(silo.features.copy()).to(device)
        self._steps = Adam(self.theta, lr=preset.learning_rate, weight_decay=preset.weight_decay)
        self._embeddings: torch.Tensor | None = None

    @property
    def rows(self) -> int:
        """How many neighbours it learns to generate, r: as many as were hidden."""
        return len(self._hidden.node)

    def learn_alone(self) -> None:
        """Takes steps on all of it, on the client's own nodes."""
        everything = [*self._encoder.parameters(), *self._degree, *self.theta]
        steps = Adam(everything, lr=self._preset.learning_rate, weight_decay=self._preset.weight_decay)
        graph = self._impair_graph()
        missing = torch.from_numpy(self._hidden.missing.astype(np.float32)).to(self._device)
        for number in range(self._preset.alone):
            z = self._encode(graph)
            loss = functional.smooth_l1_loss(self._counts(z), missing)
            if self.rows:
                loss = loss + self._own_loss(z[self._hidden.node] + self._noise(self.rows, number))
            steps.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            steps.step()

    def inputs(self, number: int) -> Floats:
        """What it generates from in a round for all clients, float32 [r, latent]: embeddings under fresh noise."""
        if self._embeddings is None:
            with torch.no_grad():
                self._embeddings = self._encode(self._impair_graph())[self._hidden.node]
        noise = self._noise(self.rows, self._preset.alone + number)
        result: Floats = (self._embeddings + noise).cpu().numpy()
        return result

    def own_gradient(self, inputs: Floats) -> tuple[float, Array]:
        """The loss over the client's own hidden nodes, and its gradient, float32 [P]."""
        if not self.rows:
            return 0.0, np.zeros(sum(item.numel() for item in self.theta), dtype=np.float32)
        loss = self._own_loss(torch.from_numpy(inputs).to(self._device))
        return float(loss.detach()), flat(torch.autograd.grad(loss, self.theta))

    def gradient_for(self, theta: Array, inputs: Floats) -> Array:
        """What another client asks for: the gradient of its generator's loss over the nodes here, float32 [P].

        Args:
            theta: float32 [P], the parameters of the other client's fGen.
            inputs: float32 [r, latent], what it generates from.
        """
        if not len(inputs):
            return np.zeros(len(theta), dtype=np.float32)
        given = [item.requires_grad_() for item in unflatten(theta, self.theta)]
        rows = generate(given, torch.tensor(inputs).to(self._device))
        near = self._features[nearest(rows.detach(), self._features)]
        return flat(torch.autograd.grad(self._preset.cross * (rows - near).square().mean(), given))

    def step(self, gradient: Array) -> None:
        """One step on fGen along float [P]."""
        for parameter, part in zip(self.theta, unflatten(gradient, self.theta), strict=True):
            parameter.grad = part
        self._steps.step()

    def mend_graph(self) -> tuple[Floats, Ids]:
        """Features float32 [m + g, d] of own nodes and generated neighbours, and edges int64 [2, e] among them."""
        nodes = len(self._silo.nodes)
        with torch.no_grad():
            z = self._encode(self._graph(np.arange(nodes)))
            counts = self._counts(z).round().clamp(0, self._preset.most).long().cpu().numpy()
            node = np.repeat(np.arange(nodes), counts)
            rows = generate(self.theta, z[node] + self._noise(len(node), MENDING)).cpu().numpy()
        new = nodes + np.arange(len(node))
        edges = np.concatenate([self._edges, np.stack([node, new]), np.stack([new, node])], axis=1)
        return np.concatenate([self._silo.features, rows]), edges

    def _own_loss(self, inputs: torch.Tensor) -> torch.Tensor:
        rows, (row, near) = generate(self.theta, inputs), torch.from_numpy(self._hidden.pairs).to(self._device)
        apart = (rows[row] - self._features[near]).square().mean(dim=1)
        least = torch.full((self.rows,), torch.inf, device=self._device)
        return least.scatter_reduce(0, row, apart, "amin").mean()

    def _counts(self, z: torch.Tensor) -> torch.Tensor:
        return (z @ self._degree[0] + self._degree[1]).squeeze(1)

    def _encode(self, graph: Surroundings) -> torch.Tensor:
        result: torch.Tensor = self._encoder(graph, CoinDropout(0.0, 0))
        return result

    def _impair_graph(self) -> Surroundings:
        return self._graph(self._hidden.kept)

    def _graph(self, nodes: Ids) -> Surroundings:
        """Some own nodes, ascending, and the edges among them."""
        inside = np.isin(self._edges, nodes).all(axis=0)
        edges = np.searchsorted(nodes, self._edges[:, inside])
        return graph_of(self._silo.features[nodes], edges, Propagation.MEAN, self._device)

    def _noise(self, rows: int, number: int) -> torch.Tensor:
        draws = np.random.default_rng((self._seed, self._silo.silo, number))
        return torch.from_numpy(draws.standard_normal((rows, self._preset.latent), dtype=np.float32)).to(self._device)

    def state(self) -> dict[str, Array]:
        """All parameters, and what the optimiser of fGen remembers."""
        every = [*self._encoder.parameters(), *self._degree, *self.theta]
        return {"every": flat(every), **under("steps", optimiser_state(self._steps))}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        overwrite([*self._encoder.parameters(), *self._degree, *self.theta], state["every"])
        remind(self._steps, within("steps", state))
        self._embeddings = None


def generate(theta: Sequence[torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
    """What a generator of parameters theta makes of inputs [r, latent]: float [r, d]."""
    weight, bias, last, last_bias = theta
    return torch.relu(inputs @ weight + bias) @ last + last_bias


def nearest(rows: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
    """For each of some rows [r, d] the place of the nearest among features [m, d], int64 [r]."""
    return (features.square().sum(dim=1) - 2 * rows @ features.T).argmin(dim=1)


def graph_of(features: Floats, edges: Ids, kind: Propagation, device: torch.device) -> Surroundings:
    """Features [n, d] and edges [2, e] as a model computes on them."""
    source, target = edges
    degree = np.bincount(target, minlength=len(features)).astype(np.float64)
    weights = degree_weights(source, target, np.ones(len(source)), degree, kind)
    return Surroundings(Matrix(sparse.csr_array(features), device), Matrix(weights, device))
