"""The secrets of clients that answer about generators: the features of their nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Truth

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ClientRows(Truth):
    """Feature rows, and who has them.

    Attributes:
        silo_of: int64 [n], the client of each node.
        features: float [n, d].
    """

    silo_of: Ids
    features: NDArray[Any]

    def permuted(self, seed: int) -> ClientRows:  # noqa: ARG002  # clients move on by one
        """Every client's rows at the next client."""
        return replace(self, silo_of=(self.silo_of + 1) % (int(self.silo_of.max()) + 1))
