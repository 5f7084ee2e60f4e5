"""The space in which decoders work: the directions in which neighbours differ most, of one client's or of all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from fgl_secure.methods.fed2gnn.neighbourhoods import Neighbourhoods
from fgl_secure.typing import Floats

TINY = 1e-6
UNDECIDED = 1e-3
"""What principal directions are decided by where nothing varies, as a share of the mean variance."""


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """The space in which networks work: the directions in which neighbours differ most.

    Attributes:
        basis: float32 [K, w, r], orthonormal directions for each part of an element.
        centre: float32 [K, r], the mean element.
        unit: float32 [K, 1], the root mean square of its parts about that.
    """

    basis: torch.Tensor
    centre: torch.Tensor
    unit: torch.Tensor

    @classmethod
    def of(cls, data: Neighbourhoods, most: int, device: torch.device) -> Coordinates:
        """Those of a client's elements, at most so many a part; of no account where there are none."""
        basis = np.stack([directions(part.T @ part, most) for part in data.deviations().transpose(1, 0, 2)])
        inside = np.einsum("ekw,kwr->ekr", data.elements, basis)
        centre = inside.mean(axis=0) if len(inside) else np.zeros(inside.shape[1:])
        squares = ((inside - centre) ** 2).mean(axis=(0, 2)) if len(inside) else np.ones(inside.shape[1])
        return cls.on(basis, centre, squares, device)

    @classmethod
    def on(cls, basis: Floats, centre: Floats, squares: Floats, device: torch.device) -> Coordinates:
        """Those with the basis [K, w, r], the mean element [K, r] in it, and mean squares [K] about that."""
        unit = np.sqrt(np.maximum(squares, TINY))[:, None]
        return cls(*(torch.from_numpy(each.astype(np.float32)).to(device) for each in (basis, centre, unit)))

    @property
    def width(self) -> int:
        """Coordinates r of a part."""
        return int(self.basis.shape[2])

    def into(self, elements: torch.Tensor) -> torch.Tensor:
        """Elements or means of elements, float [b, k, w] of the first k parts, to [b, k, r]."""
        parts = elements.shape[1]
        inside = torch.einsum("bkw,kwr->bkr", elements, self.basis[:parts])
        return (inside - self.centre[:parts]) / self.unit[:parts]

    def out(self, deviations: torch.Tensor) -> torch.Tensor:
        """Differences of elements, float [..., K, r] to [..., K, w]."""
        return torch.einsum("...kr,kwr->...kw", deviations * self.unit, self.basis)


def directions(spread: Floats, most: int) -> Floats:
    """float64 [w, r], at most so many principal directions of rows whose products sum to `spread` [w, w]."""
    width = len(spread)
    if width <= most:
        return np.eye(width)
    floor = UNDECIDED * np.trace(spread) / width * np.linspace(2, 1, width)
    _, vectors = np.linalg.eigh(spread + np.diag(floor))  # where data don't decide, neither does rounding
    chosen = vectors[:, : -most - 1 : -1]
    largest = chosen[np.abs(chosen).argmax(axis=0), np.arange(most)]
    found: Floats = np.ascontiguousarray(chosen * np.sign(largest))
    return found
