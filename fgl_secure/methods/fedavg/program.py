"""Federated averaging as one client runs it, and training to the end.

Every client has the subgraph of its own nodes, and edges between clients are lost. In each round a client takes one or
more steps of gradient descent from the common model and adds the sum of its gradients, which is how far it went over
the learning rate, to a mean weighted by numbers of nodes, which are hidden; along the mean goes a step of Adam
(FedAdam, Reddi et al. 2021). With one local step that is FedSGD, and the update is a gradient, which is what gradient
inversion reads. Of several, FedProx (Li et al. 2020) pulls each to the common model that the round began with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from fgl_secure.aggregation.privacy import DistributedNoise
from fgl_secure.algebra import FixedPoint
from fgl_secure.coins import Coins
from fgl_secure.dp import Perturbation, rounded_at_random
from fgl_secure.dp.mechanisms import DiscreteGaussian
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import SERVER
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.backbones import LAYERS, Degrees, MessageLayer, make_layers
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job, Task
from fgl_secure.training.loop import Figures, TrainingRounds, counts_of, probabilities
from fgl_secure.training.parameters import Adam, as_shared_tensor, flat, optimiser_state, overwrite, remind, unflatten
from fgl_secure.training.presets import Preset
from fgl_secure.training.sparse_products import SparseMatrix
from fgl_secure.typing import Array, Floats, Ids

GRID_SIGMA = 1024.0
"""Standard deviation of the noise in steps of the grid that gradients are rounded to."""
LEAST, MOST = 1e-4, 16.0
"""Noise multipliers that may be asked for: noise that hides nothing, and noise that leaves nothing."""


@dataclass(frozen=True, slots=True)
class GradientNoise:
    """Every client cuts its gradient down to a norm and adds discrete Gaussian noise.

    Attributes:
        multiplier: z, the noise's standard deviation over the clipping norm.
        clip: the L2 norm.
    """

    multiplier: float
    clip: float = 1.0

    def __post_init__(self) -> None:
        if not LEAST <= self.multiplier <= MOST:
            raise InputError(f"noise must lie in {LEAST:g}..{MOST:g}; found {self.multiplier}")
        if not (math.isfinite(self.clip) and self.clip > 0):
            raise InputError(f"clip must be positive; found {self.clip}")

    def epsilon(self, entries: int, delta: float) -> float:
        """What one release costs whose neighbours are with and without the client's gradient.

        Rounding to the grid adds at most half a step an entry to the norm, and that is counted.

        Args:
            entries: P, of a gradient.
            delta: inside (0, 1).
        """
        l2 = self.clip / self._step + math.sqrt(entries) / 2
        return DiscreteGaussian(GRID_SIGMA).account(1, l2, math.sqrt(entries) * l2).epsilon(1, delta)

    def apply(self, rows: NDArray[np.float32], coins: Coins) -> NDArray[np.float32]:
        """Rows [K, P] cut down, rounded to the grid, with noise on them."""
        norms = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
        cut = rows / np.maximum(norms / self.clip, 1)
        units = np.rint(cut / self._step) + DiscreteGaussian(GRID_SIGMA).sample(coins, rows.shape)
        return np.asarray(units * self._step, dtype=np.float32)

    @property
    def _step(self) -> float:
        return self.multiplier * self.clip / GRID_SIGMA


class NoisyUpdates:
    """Updates clipped and under noise, of which the server learns the mean; every client counts alike.

    Args:
        noise: clip, and what all rounds may cost.
        threshold: least clients of a sum.
        coins: give a client's noise, or that of all clients of one process.
    """

    def __init__(self, noise: DistributedNoise, threshold: int, coins: Coins) -> None:
        self._noise, self._threshold, self._coins = noise, threshold, coins
        self._perturbation: Perturbation | None = None

    def mean(self, comm: Collectives, update: NDArray[np.float32], number: int) -> Floats:
        """Clips, rounds, adds the client's share of the noise, and takes part in the mean.

        Args:
            comm: the collectives of the run.
            update: float32 [P].
            number: of the round.
        """
        if not np.isfinite(update).all():
            raise InputError("updates must be finite; at least one entry is not")
        if number >= self._noise.rounds:
            raise InputError(
                f"rounds must number at most the {self._noise.rounds} that the budget is for; this is one more"
            )
        if self._perturbation is None:
            self._perturbation = self._noise.perturbation(len(update), self._threshold)
        perturbation = self._perturbation
        bits, bound = perturbation.fraction_bits, perturbation.grid_clip + perturbation.noise.largest
        units = rounded_at_random(update, self._noise.clip, perturbation.grid_clip, bits, self._coins)
        noisy = units + perturbation.noise.sample(self._coins, units.shape)
        return comm.mean(np.ldexp(noisy, -bits), 1, 1, FixedPoint(None, bound * 2.0**-bits, bits, what="noisy updates"))


@dataclass(frozen=True, slots=True)
class LocalTraining:
    """What a client does in a round.

    Attributes:
        steps: of gradient descent.
        rate: learning rate of these steps; of no account where there is one.
        batch: labelled nodes drawn anew for each step; None takes all.
        proximal: mu of FedProx, which adds mu (w - w_server) to every gradient; 0 adds nothing.
    """

    steps: int = 1
    rate: float = 0.1
    batch: int | None = None
    proximal: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("steps", self.steps), ("batch", self.batch)):
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1; found {value}")
        if not (np.isfinite(self.rate) and self.rate > 0):
            raise InputError(f"rate must be positive; found {self.rate}")
        if not (np.isfinite(self.proximal) and self.proximal >= 0):
            raise InputError(f"proximal must be zero or positive; found {self.proximal}")


@dataclass(frozen=True, slots=True)
class UpdateRule:
    """How updates become their mean.

    Attributes:
        scheme: how they are summed.
        noise: what clients add to them; None for nothing. Wants a scheme that sums integers.
    """

    scheme: Scheme = field(default_factory=Plaintext)
    noise: DistributedNoise | None = None

    def __post_init__(self) -> None:
        if self.noise is not None and self.scheme.precision is not None:
            raise InputError(
                f"precision must not be given where there is noise, which makes the grid that updates are rounded to; "
                f"found {self.scheme.name}"
            )


def batch_of(labelled: Ids, most: int | None, draws: np.random.Generator) -> Ids:
    """So many of the labelled nodes at random, ascending; all where there are no more, or None are asked for."""
    if most is None or most >= len(labelled):
        return labelled
    return np.sort(draws.choice(labelled, most, replace=False))


def draws_of(seed: int, client: int, number: int) -> np.random.Generator:
    """What a client draws its batches of a round with."""
    return np.random.default_rng((seed, client, number))


class FedAvgClient(TrainingRounds):
    """One client's copy of the model in training.

    Args:
        comm: the collectives of the run.
        preset: how to train: width, layers, rate, rounds and selection.
        local: what a client does in a round.
        backbone: "gcn" or "sage".
        seed: of initial weights and of batches.
        device: where model compute runs.
        noise: what is added to updates; None for nothing.
        first: int64 [b], the client's nodes that each round begins with; drawn unless given.

    Raises:
        UnknownNameError: there is no such backbone.
        InputError: the client has no labelled node.
    """

    def __init__(
        self,
        comm: Collectives,
        preset: Preset,
        local: LocalTraining | None = None,
        *,
        backbone: str = "gcn",
        seed: int = 0,
        device: torch.device | None = None,
        noise: NoisyUpdates | None = None,
        first: Ids | None = None,
    ) -> None:
        super().__init__(comm, preset.epochs, preset.selection, preset.patience)
        if backbone not in LAYERS:
            raise UnknownNameError("backbone", backbone, tuple(LAYERS))
        silo, place = comm.silo, device or torch.device("cpu")
        if not silo.train.any():
            raise InputError(f"masks.train must mark at least one node of every client; client {silo.silo} has none")
        self._preset, self._local, self._seed = preset, local or LocalTraining(), seed
        self._noise, self._first, self._labelled = noise, first, silo.nodes[silo.train]
        self.layers = make_layers(LAYERS[backbone], preset.widths(silo.facts.features, silo.facts.classes), seed)
        self.layers.to(place)
        self._parameters = list(self.layers.parameters())
        self._optimiser = Adam(self._parameters, lr=preset.learning_rate)
        self._features, self._labels = as_shared_tensor(silo.features, place), torch.tensor(silo.labels).to(place)
        inner_edges = silo.edges[:, np.logical_and(*silo.inside)]
        self._neighbours = SparseMatrix.of_edges(silo.local(inner_edges), len(silo.nodes), place)
        counts = np.bincount(silo.local(inner_edges[1]), minlength=len(silo.nodes)).astype(np.float32)[:, None]
        self._degrees = Degrees(*[torch.from_numpy(counts).to(place)] * 3)

    def train(self, number: int) -> Figures:
        """The client's update goes into the mean of all, along which every copy of the model takes the same step."""
        draws = draws_of(self._seed, self.silo.silo, number)
        batch = self._batch(draws) if self._first is None else self._first
        counts, start = counts_of(self.silo, self._predict()), flat(self._parameters)
        update, loss = self._update(batch, draws)
        overwrite(self._parameters, start)
        mean = self._mean(update, len(batch), number)
        figures = self.figures(counts, loss, len(batch))
        self._step(mean, number)
        return figures

    def judge(self, number: int) -> Figures:  # noqa: ARG002  # whenever it is
        """Scores the model as it is."""
        return self.figures(counts_of(self.silo, self._predict()))

    def scores(self, layers: nn.ModuleList | None = None) -> torch.Tensor:
        """Class scores of the client's nodes on its subgraph, float32 [m, c]; by the common layers unless given."""
        h, model = self._features, layers or self.layers
        for number, layer in enumerate(model):
            assert isinstance(layer, MessageLayer)
            state = layer.local_state(h)
            messages = layer.message(state, self._degrees)
            h = layer.update(state, self._neighbours(messages), self._degrees)
            h = functional.relu(h) if number < len(model) - 1 else h
        return h

    def answers(self) -> Mapping[str, Floats]:
        """See `TrainingRounds.answers`."""
        return {"features and edges": probabilities(self.scores())}

    def _predict(self) -> Ids:
        return self._classes(self.layers)

    def _classes(self, layers: nn.ModuleList) -> Ids:
        with torch.no_grad():
            classes: Ids = self.scores(layers).argmax(dim=1).cpu().numpy()
        return classes

    def _batch(self, draws: np.random.Generator) -> Ids:
        return batch_of(self._labelled, self._local.batch, draws)

    def _update(self, batch: Ids, draws: np.random.Generator) -> tuple[Array, float]:
        """The sum of the gradients of the client's steps, float32 [P], and the loss before the first."""
        total, losses = [torch.zeros_like(item) for item in self._parameters], []
        server, mu = [item.detach().clone() for item in self._parameters], self._local.proximal
        for step in range(self._local.steps):
            places = self.silo.local(batch if not step else self._batch(draws))
            loss = functional.cross_entropy(self.scores()[places], self._labels[places])
            losses.append(float(loss.detach()))
            gradients = torch.autograd.grad(loss, self._parameters)
            with torch.no_grad():
                for parameter, gradient, so_far, anchor in zip(self._parameters, gradients, total, server, strict=True):
                    pulled = gradient + mu * (parameter - anchor) if mu else gradient
                    so_far.add_(pulled)
                    parameter.sub_(self._local.rate * pulled)
        return flat(total), losses[0]

    def _mean(self, update: Array, weight: int, number: int) -> Floats:
        if self._noise is not None:
            return self._noise.mean(self.comm, update, number)
        sizes = [parameter.numel() for parameter in self._parameters]
        return self.comm.mean(update, weight, self.silo.facts.nodes, parts=sizes)

    def _step(self, mean: Floats, number: int) -> None:
        for parameter, part in zip(self._parameters, unflatten(mean, self._parameters), strict=True):
            parameter.grad = part
        self._optimiser.step()
        if (number + 1) % self._preset.decay_every == 0:
            self._optimiser.param_groups[0]["lr"] *= self._preset.decay

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, and the parameters after the last round."""
        return {**super().report, "theta": flat(self._parameters)}

    def state(self) -> dict[str, Array]:
        """Parameters, what the optimiser remembers, and its rate."""
        rate = np.array(self._optimiser.param_groups[0]["lr"], dtype=np.float64)
        optimiser = under("optimiser", optimiser_state(self._optimiser))
        return {**super().state(), "values": flat(self._parameters), "rate": rate, **optimiser}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        overwrite(self._parameters, state["values"])
        remind(self._optimiser, within("optimiser", state))
        self._optimiser.param_groups[0]["lr"] = float(state["rate"])


def clients_of(
    graph: FederatedGraph,
    rule: UpdateRule,
    preset: Preset,
    local: LocalTraining | None = None,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
    first: Sequence[Ids] | None = None,
    kind: Callable[..., FedAvgClient] = FedAvgClient,
) -> Job:
    """Federated averaging of all clients: scored before each round and after the last.

    Args:
        graph: who has what; edges between clients go unused.
        rule: how updates become their mean; its scheme adds figures up as well.
        preset: see `FedAvgClient`, as for the rest.
        local: what a client does in a round.
        backbone: "gcn" or "sage".
        seed: of initial weights and of batches.
        device: where model compute runs; the CPU by default.
        first: for each client the nodes that its rounds begin with.
        kind: makes a client's program, as `FedAvgClient` does.
    """
    threshold = rule.scheme.threshold_for(graph.num_silos)

    def make(comm: Collectives, coins: Coins) -> FedAvgClient:
        noise = None if rule.noise is None else NoisyUpdates(rule.noise, threshold, coins)
        initial = None if first is None else first[comm.silo.silo]
        return kind(comm, preset, local, backbone=backbone, seed=seed, device=device, noise=noise, first=initial)

    return Job(Task(make, {SERVER: rule.scheme}, preset.epochs), graph, message_graph=graph.restricted_to_silos())
