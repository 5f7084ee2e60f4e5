"""Gradient matching: inputs are sought whose gradient is the one that was seen.

Deep leakage from gradients (DLG, Zhu et al. 2019, with labels read first in iDLG, Zhao et al. 2020) is L-BFGS on the
squared distance of gradients; inverting gradients (Geiping et al. 2020) is signed descent on their angle. The papers'
inputs are pictures; here they are the rows of a receptive field with known edges. Rows that a gradient does not
determine (neighbours that enter through an average alone) stay near the first guess.

Features and edges of a field are sought together from its sizes alone: every pair of nodes has a weight sigmoid(theta),
the same in both directions, and neighbours are taken to be alike and few (GLG, Sinha et al. 2024; FedGIG, Xiao et al.
2024). Only edges that some average of the batch depends on can be found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from fgl_secure.attacks.gradients.model import GradientModel, ReceptiveField
from fgl_secure.errors import InputError
from fgl_secure.typing import Floats, Ids


class _MatchingObjective(Protocol):
    """A gradient that was seen, and what inputs would have shown: all that a try needs."""

    @property
    def goal(self) -> torch.Tensor:
        """Float64 [P], the gradient."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the inputs; each is along the first axis."""

    @property
    def classes(self) -> int:
        """How many labels there are."""

    @property
    def labels(self) -> Ids:
        """int64 [b], the labels of the batch as its observer reads them, in no order of significance."""

    @property
    def box(self) -> tuple[float, float] | None:
        """Least and largest entry of an input; None where they may be any number."""

    def gradient_of(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The gradient [P] of inputs and of labels, int64 [b] or probabilities [b, c]."""

    def prior(self, x: torch.Tensor) -> torch.Tensor:
        """How unlikely inputs are; chooses among those with one gradient."""


@dataclass(frozen=True, slots=True, eq=False)
class ObservedGradient:
    """A gradient, and what its observer knows of the small graph behind it."""

    model: GradientModel  # the model, at the weights that the gradient was taken at
    gradient: Floats  # float64 [P], in the order of the model's layout, of the mean loss over the batch
    field: ReceptiveField  # the nodes behind it. Attacks that also look for edges use its sizes alone.
    labels: Ids  # int64 [b], the labels of the batch as its observer reads them, in no order of significance
    image_shape: tuple[int, int] | None = None  # (height, width) where the rows are pictures, else None
    clip: float | None = None  # the norm that the gradient was cut down to if it was longer, else None

    def __post_init__(self) -> None:
        if self.gradient.shape != (self.model.layout.size,):
            raise InputError(f"gradient must have shape [{self.model.layout.size}]; found {list(self.gradient.shape)}")

        if self.labels.shape != (self.field.batch,):
            raise InputError(f"labels must have shape [{self.field.batch}]; found {list(self.labels.shape)}")

    def of(self, x: torch.Tensor, adjacency: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """What rows [m, d], an adjacency as the model takes it, and labels of the batch would have shown: [P]."""
        gradient = self.model.gradient(x, adjacency, labels, torch.arange(self.field.batch))
        return gradient if self.clip is None else gradient * (self.clip / gradient.norm()).clamp(max=1)

    @property
    def goal(self) -> torch.Tensor:
        """See `_MatchingObjective.goal`."""
        return torch.from_numpy(self.gradient)

    @property
    def shape(self) -> tuple[int, ...]:
        """See `_MatchingObjective.shape`: the rows of the field."""
        return self.field.nodes, self.model.widths[0]

    @property
    def classes(self) -> int:
        """See `_MatchingObjective.classes`."""
        return self.model.widths[-1]

    @property
    def box(self) -> tuple[float, float] | None:
        """See `_MatchingObjective.box`."""
        return 0.0, 1.0

    def gradient_of(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """See `_MatchingObjective.gradient_of`: over the edges of the field."""
        return self.of(x, torch.from_numpy(self.field.edges_with_loops), labels)

    def prior(self, x: torch.Tensor) -> torch.Tensor:
        """See `_MatchingObjective.prior`: neighbours are alike, and pictures smooth."""
        unlikely = ALIKE * _smoothness(x, torch.from_numpy(self.field.adjacency))
        return unlikely if self.image_shape is None else unlikely + VARIATION * total_variation(x, self.image_shape)


@dataclass(frozen=True, slots=True, eq=False)
class Reconstruction:
    """What an attack makes of one gradient."""

    features: Floats  # float64 [m, d], the rows of the field, those of the batch first
    labels: Ids  # int64 [b], of the batch
    distance: float  # between the gradient of these inputs and the one that was seen, as the attack measures it
    # float64 [m, m], a weight in [0, 1] for every pair where edges were looked for, else None
    adjacency: Floats | None = None


@dataclass(frozen=True, slots=True)
class Effort:
    """How long an attack tries."""

    steps: int  # of the optimiser, in each try
    restarts: int = 1  # tries, of which the one with the least distance is kept
    seed: int = 0  # of the first guesses

    def __post_init__(self) -> None:
        if self.steps < 1 or self.restarts < 1 or self.seed < 0:
            raise InputError(
                f"steps and restarts must be at least 1 and seed 0; found {self.steps}, {self.restarts}, {self.seed}"
            )

    def starts(self) -> tuple[torch.Generator, ...]:
        """One source of first guesses for each try; no privacy rests on them."""
        return tuple(torch.Generator().manual_seed(self.seed + item) for item in range(self.restarts))


def _reconstruction(
    x: torch.Tensor, logits: torch.Tensor, distance: torch.Tensor, adjacency: torch.Tensor | None = None
) -> Reconstruction:
    """What a try has arrived at: rows [m, d], labels as the largest of logits [b, c], and weights of pairs [m, m].

    A try that left the finite numbers is as far from the gradient as can be.
    """
    rows, last = x.detach().numpy().copy(), float(distance.detach())
    diverged = not (math.isfinite(last) and np.isfinite(rows).all())
    weights = None if adjacency is None else adjacency.detach().numpy().copy()
    labels = logits.detach().argmax(dim=1).numpy().astype(np.int64)
    return Reconstruction(np.nan_to_num(rows), labels, math.inf if diverged else last, weights)


def _squared_distance(result: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """||found - seen||^2 / ||seen||^2 of gradients [P]: that of DLG (Zhu et al. 2019, Eq. 4), in units of the seen."""
    return ((result - target) ** 2).sum() / (target**2).sum()


def _cosine_distance(result: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """1 - cos(found, seen) of gradients [P], in 0..2 (Geiping et al. 2020, Eq. 4)."""
    cosine: torch.Tensor = (result @ target) / (result.norm() * target.norm())
    return 1 - cosine


def total_variation(rows: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    """Mean absolute difference of neighbouring pixels, of pictures [m, height * width] (Geiping et al. 2020, Eq. 4)."""
    pictures = rows.reshape(-1, *shape)
    across = (pictures[:, :, 1:] - pictures[:, :, :-1]).abs().mean()
    down = (pictures[:, 1:] - pictures[:, :-1]).abs().mean()
    return across + down


def _smoothness(rows: torch.Tensor, adjacency: torch.Tensor) -> torch.Tensor:
    """tr(X^T L X) / m d, the squared differences over edges: neighbours are alike.

    Args:
        rows: float [m, d].
        adjacency: float [m, m], symmetric.
    """
    laplacian = torch.diag(adjacency.sum(dim=1)) - adjacency
    return (rows * (laplacian @ rows)).sum() / rows.numel()


def _sparsity(adjacency: torch.Tensor) -> torch.Tensor:
    """||A||_1 / m of weights [m, m] in [0, 1], the mean degree: real graphs have few edges."""
    return adjacency.sum() / len(adjacency)


SPREAD = 0.1
"""Spread of first guesses in a box, in units of it. The papers start from unit spread, which no picture has."""
CERTAINTY = 2.0
"""Logit of a label that the last bias tells."""


def _first_rows(objective: _MatchingObjective, start: torch.Generator) -> torch.Tensor:
    """A first guess of inputs, float64, a leaf that requires gradients: near the middle of the box, if there is one."""
    rows = torch.randn(objective.shape, generator=start, dtype=torch.float64)
    if objective.box is not None:
        least, largest = objective.box
        rows = (least + largest) / 2 + SPREAD * (largest - least) * rows
    return rows.requires_grad_()


def _shuffled_labels(objective: _MatchingObjective, start: torch.Generator) -> torch.Tensor:
    """The labels that are known, in an order drawn from `start`: int64 [b]."""
    return torch.from_numpy(objective.labels)[torch.randperm(len(objective.labels), generator=start)]


def _free_labels(objective: _MatchingObjective, start: torch.Generator) -> torch.Tensor:
    """Logits [b, c] of labels: a leaf that begins with those that are known, in an order drawn from `start`.

    The last bias tells which labels a batch has and not which row has which, so that labels fixed in a wrong order
    would stay wrong.
    """
    one_hot = functional.one_hot(_shuffled_labels(objective, start), objective.classes)
    return (CERTAINTY * one_hot.to(torch.float64)).requires_grad_()


def _labels_from(logits: torch.Tensor) -> torch.Tensor:
    """Labels as the loss takes them: probabilities [b, c] of several nodes; of one node the label int64 [1] itself."""
    return logits.softmax(dim=1) if len(logits) > 1 else logits.argmax(dim=1)


Objective = Callable[[], torch.Tensor]

DECAY_AT = (3 / 8, 5 / 8, 7 / 8)
"""After these shares of the steps the step size falls to a tenth (Geiping et al. 2020, appendix)."""
DECAY = 0.1
HISTORY = 100


def _quasi_newton(objective: Objective, leaves: Sequence[torch.Tensor], steps: int) -> None:
    """L-BFGS with strong Wolfe line search (Zhu et al. 2019), up to so many steps."""
    optimiser = torch.optim.LBFGS(
        leaves, max_iter=steps, history_size=HISTORY, tolerance_grad=0, tolerance_change=0,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        value = objective()
        for leaf, slope in zip(leaves, torch.autograd.grad(value, leaves), strict=True):
            leaf.grad = slope
        return value

    optimiser.step(closure)  # type: ignore[no-untyped-call]


def _signed_descent(
    objective: Objective,
    leaves: Sequence[torch.Tensor],
    boxed: torch.Tensor,
    box: tuple[float, float] | None,
    steps: int,
    rate: float,
) -> None:
    """Adam on the signs of gradients, in a box (Geiping et al. 2020, section 4.2).

    Args:
        objective: what is made small.
        leaves: tensors that change.
        boxed: the one of them that is kept in the box.
        box: least and largest entry; None for no limit.
        steps: how many.
        rate: size of the first steps.
    """
    optimiser = torch.optim.Adam(leaves, lr=rate)
    marks = [round(share * steps) for share in DECAY_AT]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, marks, gamma=DECAY)
    for _ in range(steps):
        for leaf, slope in zip(leaves, torch.autograd.grad(objective(), leaves), strict=True):
            leaf.grad = slope.sign()
        optimiser.step()
        schedule.step()
        if box is not None:
            with torch.no_grad():
                boxed.clamp_(*box)


def deep_leakage(objective: _MatchingObjective, steps: int, start: torch.Generator) -> Reconstruction:
    """One try of DLG: rows and soft labels together."""
    x, shape = _first_rows(objective, start), (len(objective.labels), objective.classes)
    logits = torch.randn(shape, generator=start, dtype=torch.float64).requires_grad_()

    def distance() -> torch.Tensor:
        return _squared_distance(objective.gradient_of(x, logits.softmax(dim=1)), objective.goal)

    _quasi_newton(distance, (x, logits), steps)
    return _reconstruction(x, logits, distance())


def improved_deep_leakage(objective: _MatchingObjective, steps: int, start: torch.Generator) -> Reconstruction:
    """One try of iDLG: labels from the last bias, then rows alone.

    The paper is about one node. Of several the last bias does not tell which row has which label, so that every try
    draws an order, and the try with the nearest gradient is kept.
    """
    x, labels = _first_rows(objective, start), _shuffled_labels(objective, start)

    def distance() -> torch.Tensor:
        return _squared_distance(objective.gradient_of(x, labels), objective.goal)

    _quasi_newton(distance, (x,), steps)
    return _reconstruction(x, functional.one_hot(labels, objective.classes), distance())


RATE = 0.1
"""Size of the first steps, of features in [0, 1] (the paper's)."""
VARIATION = 1e-4
"""Weight of total variation where rows are pictures; the paper's range is 1e-6 to 1e-1."""
ALIKE = 1e-4
"""Weight of smoothness over the known edges, which chooses among the rows that give one average."""


def inverting_gradients(seen: _MatchingObjective, steps: int, start: torch.Generator) -> Reconstruction:
    """One try of rows in a box; the label of one node as the last bias tells it, those of several free from there on.

    The paper takes labels as known.
    """
    x, logits = _first_rows(seen, start), _free_labels(seen, start)

    def distance() -> torch.Tensor:
        return _cosine_distance(seen.gradient_of(x, _labels_from(logits)), seen.goal)

    def objective() -> torch.Tensor:
        return distance() + seen.prior(x)

    _signed_descent(objective, (x, logits) if len(logits) > 1 else (x,), x, seen.box, steps, RATE)
    return _reconstruction(x, logits, distance())


JOINT_RATE = 0.05
GUESSED_ALIKE = 1e-2
"""Weight of smoothness over the guessed edges."""
FEW = 1e-3
"""Weight of the mean degree."""
DOUBT = 0.3
"""Spread of the first guesses of theta around 0, an even chance."""
MOST_NODES = 64
"""Larger fields have more pairs than a gradient can tell apart."""


def likeliest_edges(weights: NDArray[np.float64], pairs: int) -> NDArray[np.bool_]:
    """The so many pairs of largest weight as a symmetric matrix [m, m]: a threshold at a known number of edges."""
    size = len(weights)
    rows, columns = np.triu_indices(size, 1)
    remaining = np.argsort(-weights[rows, columns], kind="stable")[:pairs]
    selected_edges = np.zeros((size, size), dtype=np.bool_)
    selected_edges[rows[remaining], columns[remaining]] = True
    return np.asarray(selected_edges | selected_edges.T)


def features_and_edges(seen_gradient: ObservedGradient, steps: int, start: torch.Generator) -> Reconstruction:
    """One try of rows in [0, 1], labels and a weight for every pair; reads of the field its sizes only."""
    x, logits = _first_rows(seen_gradient, start), _free_labels(seen_gradient, start)
    size = seen_gradient.field.nodes
    ends = torch.triu_indices(size, size, 1)
    theta = (DOUBT * torch.randn(ends.shape[1], generator=start, dtype=torch.float64)).requires_grad_()

    def adjacency() -> torch.Tensor:
        upper = torch.zeros((size, size), dtype=torch.float64).index_put((ends[0], ends[1]), theta.sigmoid())
        return upper + upper.T

    def distance(weights: torch.Tensor) -> torch.Tensor:
        return _cosine_distance(seen_gradient.of(x, weights, _labels_from(logits)), seen_gradient.goal)

    def objective() -> torch.Tensor:
        weights = adjacency()
        prior = GUESSED_ALIKE * _smoothness(x, weights) + FEW * _sparsity(weights)
        if seen_gradient.image_shape is not None:
            prior = prior + VARIATION * total_variation(x, seen_gradient.image_shape)
        return distance(weights) + prior

    leaves = [x, *([theta] if ends.shape[1] else []), *([logits] if len(logits) > 1 else [])]
    _signed_descent(objective, leaves, x, seen_gradient.box, steps, JOINT_RATE)
    edges = adjacency().detach()
    return _reconstruction(x, logits, distance(edges), edges)
