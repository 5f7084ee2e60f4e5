"""How far a gradient is from the one that was seen."""

from __future__ import annotations

import torch


def squared_distance(found: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """||found - seen||^2 / ||seen||^2 of gradients [P]: that of DLG (Zhu et al. 2019, Eq. 4), in units of the seen."""
    return ((found - seen) ** 2).sum() / (seen**2).sum()


def cosine_distance(found: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """1 - cos(found, seen) of gradients [P], in 0..2 (Geiping et al. 2020, Eq. 4)."""
    cosine: torch.Tensor = (found @ seen) / (found.norm() * seen.norm())
    return 1 - cosine
