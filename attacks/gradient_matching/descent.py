"""The two optimisers of gradient matching."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

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
