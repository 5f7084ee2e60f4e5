"""Where gradient matching starts, what it minimises and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.nn import functional

from fgl_secure.attacks.gradients.matching.reconstruction import SeenGradient


def squared_distance(found: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """||found - seen||^2 / ||seen||^2 of gradients [P]: that of DLG (Zhu et al. 2019, Eq. 4), in units of the seen."""
    return ((found - seen) ** 2).sum() / (seen**2).sum()


def cosine_distance(found: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """1 - cos(found, seen) of gradients [P], in 0..2 (Geiping et al. 2020, Eq. 4)."""
    cosine: torch.Tensor = (found @ seen) / (found.norm() * seen.norm())
    return 1 - cosine


def total_variation(rows: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    """Mean absolute difference of neighbouring pixels, of pictures [m, height * width] (Geiping et al. 2020, Eq. 4)."""
    pictures = rows.reshape(-1, *shape)
    across = (pictures[:, :, 1:] - pictures[:, :, :-1]).abs().mean()
    down = (pictures[:, 1:] - pictures[:, :-1]).abs().mean()
    return across + down


def smoothness(rows: torch.Tensor, adjacency: torch.Tensor) -> torch.Tensor:
    """tr(X^T L X) / m d, the squared differences over edges: neighbours are alike.

    Args:
        rows: float [m, d].
        adjacency: float [m, m], symmetric.
    """
    laplacian = torch.diag(adjacency.sum(dim=1)) - adjacency
    return (rows * (laplacian @ rows)).sum() / rows.numel()


def sparsity(adjacency: torch.Tensor) -> torch.Tensor:
    """||A||_1 / m of weights [m, m] in [0, 1], the mean degree: real graphs have few edges."""
    return adjacency.sum() / len(adjacency)


SPREAD = 0.1
"""Spread of first guesses of rows around 1/2. The papers start from unit spread, which no picture has."""
CERTAINTY = 2.0
"""Logit of a label that the last bias tells."""


def first_rows(seen: SeenGradient, start: torch.Generator) -> torch.Tensor:
    """A first guess of rows, float64 [m, d], a leaf that requires gradients."""
    shape = (seen.field.nodes, seen.model.widths[0])
    rows = 0.5 + SPREAD * torch.randn(shape, generator=start, dtype=torch.float64)
    return rows.requires_grad_()


def shuffled_labels(seen: SeenGradient, start: torch.Generator) -> torch.Tensor:
    """The labels that are known, in an order drawn from `start`: int64 [b]."""
    return torch.from_numpy(seen.labels)[torch.randperm(seen.field.batch, generator=start)]


def free_labels(seen: SeenGradient, start: torch.Generator) -> torch.Tensor:
    """Logits [b, c] of labels: a leaf that begins with those that are known, in an order drawn from `start`.

    The last bias tells which labels a batch has and not which row has which, so that labels fixed in a wrong order
    would stay wrong.
    """
    told = functional.one_hot(shuffled_labels(seen, start), seen.model.widths[-1])
    return (CERTAINTY * told.to(torch.float64)).requires_grad_()


def labels_from(logits: torch.Tensor) -> torch.Tensor:
    """Labels as the loss takes them: probabilities [b, c] of several nodes; of one node the label int64 [1] itself."""
    return logits.softmax(dim=1) if len(logits) > 1 else logits.argmax(dim=1)


Objective = Callable[[], torch.Tensor]

DECAY_AT = (3 / 8, 5 / 8, 7 / 8)
"""After these shares of the steps the step size falls to a tenth (Geiping et al. 2020, appendix)."""
DECAY = 0.1
HISTORY = 100


def quasi_newton(objective: Objective, leaves: Sequence[torch.Tensor], steps: int) -> None:
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


def signed_descent(
    objective: Objective, leaves: Sequence[torch.Tensor], boxed: torch.Tensor, steps: int, rate: float
) -> None:
    """Adam on the signs of gradients, in a box (Geiping et al. 2020, section 4.2).

    Args:
        objective: what is made small.
        leaves: tensors that change.
        boxed: the one of them that is kept in [0, 1].
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
        with torch.no_grad():
            boxed.clamp_(0, 1)
