"""Local differential privacy in training: devices perturb their features once, and means over neighbours smooth them.

Everything that is computed from perturbed rows, over however many rounds, costs no further epsilon (post-processing).
Noise averages out over as many rows as hops reach, so that what the graph says of a device is learnt, and little of
what its own features say: read accuracies beside those without features (Sajadmanesh and Gatica-Perez, CCS 2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fgl_secure.choices import check_choices, choice, required
from fgl_secure.errors import InputError

if TYPE_CHECKING:  # a command line's help does without numpy and torch
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from fgl_secure.coins import Coins
    from fgl_secure.dp.local import PerturbedRows
    from fgl_secure.training.collectives import Collectives

_PEAK = 8.0
"""Gaussian rows are divided by so many deviations while they are summed."""
NORM = 4.0
"""Of the rows that a model is trained on; so are those of bags of words and of digits, which ranges are made for."""


@dataclass(frozen=True, slots=True)
class LocalPerturbation:
    """Every device perturbs its features before anything is sent, and trusts nobody.

    The guarantee is epsilon for replacing one device's whole feature vector, against all others together. Labels,
    edges and the split are outside it, and so is how a device acts on its own copy of them.

    Attributes:
        epsilon: of each device, once, for the whole run.
        mechanism: "multi-bit" or "gaussian"; see `fgl_secure.perturb`.
        hops: means over neighbours, one after the other, of the perturbed rows; the last ones are what is trained on.
        least: smallest value of a feature, for multi-bit; public.
        largest: largest value of a feature, for multi-bit; public.
        clip: L2 norm to which feature vectors are clipped, for gaussian; public.
        delta: for gaussian; None takes 1 / (10 n).

    Raises:
        InputError: a number is out of range.
    """

    epsilon: float = required("of each device's features, once for the whole run", shown="E")
    mechanism: str = choice("multi-bit", "how features are perturbed", known=("multi-bit", "gaussian"))
    hops: int = choice(16, "means over neighbours of the perturbed features", least=0, shown="K")
    least: float = choice(0.0, "smallest value of a feature, under multi-bit", shown="A")
    largest: float = choice(1.0, "largest value of a feature, under multi-bit", shown="B")
    clip: float = choice(1.0, "L2 norm to which features are clipped, under gaussian", shown="C")
    delta: float | None = choice(None, "under gaussian; 1 / (10 n) unless given", shown="D")

    def __post_init__(self) -> None:
        check_choices(self)
        if not self.least < self.largest:
            raise InputError(f"largest must exceed least, {self.least:g}; found {self.largest:g}")
        if self.delta is not None and self.bounded:
            raise InputError(f"delta must not be given for multi-bit, which needs none; found {self.delta}")

    @property
    def bounded(self) -> bool:
        """Whether features are taken to lie in a range; else in a norm."""
        return self.mechanism == "multi-bit"

    def perturbed(self, rows: NDArray[Any], devices: int, coins: Coins | None = None) -> PerturbedRows:
        """Rows [m, d] of some of the run's devices, each perturbed on its own."""
        from fgl_secure.dp.local import perturb  # noqa: PLC0415  # as above

        if self.bounded:
            return perturb(rows, self.epsilon, bounds=(self.least, self.largest), coins=coins)
        delta = 1 / (10 * devices) if self.delta is None else self.delta
        return perturb(rows, self.epsilon, mechanism="gaussian", clip=self.clip, delta=delta, coins=coins)

    def inputs(self, rows: NDArray[Any], devices: int, coins: Coins | None = None) -> NDArray[np.float32]:
        """The same, centred and over their noise's deviation, as a model takes them."""
        found = self.perturbed(rows, devices, coins)
        middle = (self.least + self.largest) / 2 if self.bounded else 0.0
        return ((found.rows - middle) / found.deviation).astype("float32")


def mean_propagation(talk: Collectives, rows: torch.Tensor, hops: int, first_layer: int) -> torch.Tensor:
    """Means of neighbours' rows, hop after hop, then scaled to one norm; a device that gets no sum keeps its own row.

    Args:
        talk: the collectives of the run.
        rows: float [m, d], of the silo's devices.
        hops: how many means.
        first_layer: number of the first sum, beyond those of the model.
    """
    import torch  # noqa: PLC0415  # as above
    from torch.nn import functional  # noqa: PLC0415

    counts = torch.tensor(talk.summed[:, None], dtype=rows.dtype, device=rows.device)
    peak = max(math.sqrt(rows.shape[1]), _PEAK)  # public: no multi-bit row has a larger entry
    with torch.no_grad():
        rows = rows / peak
        for hop in range(hops):
            _, sums = talk.neighbours(rows, layer=first_layer + hop)
            rows = torch.where(counts > 0, sums / counts.clamp(min=1), rows)
    return functional.normalize(rows) * NORM
