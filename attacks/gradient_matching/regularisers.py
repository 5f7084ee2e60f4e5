"""What reconstructions are expected to look like before any gradient is seen."""

from __future__ import annotations

import torch


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
