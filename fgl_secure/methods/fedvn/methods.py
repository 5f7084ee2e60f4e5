"""What FedVN (AAAI 2025) and the baselines of its Table 1 differ in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Shared(StrEnum):
    """Which parameters of the model the server averages."""

    ALL = "all"
    ALL_BUT_NORMS = "all but norms"
    """Scale and shift of batch normalisation stay with their client (FedBN, Li et al. 2021)."""
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class GraphMethod:
    """One line of the table.

    Attributes:
        name: as the paper calls it.
        virtual: whether there are virtual nodes and edge generators.
        shared: what the server averages.
        proximal: whether clients are held near the server's model (FedProx, Li et al. 2020).
    """

    name: str
    virtual: bool = False
    shared: Shared = Shared.ALL
    proximal: bool = False


FEDVN = GraphMethod("FedVN", virtual=True)
FEDAVG = GraphMethod("FedAvg")
FEDPROX = GraphMethod("FedProx", proximal=True)
FEDBN = GraphMethod("FedBN", shared=Shared.ALL_BUT_NORMS)
SELF_TRAINING = GraphMethod("Self-training", shared=Shared.NOTHING)

METHODS = (SELF_TRAINING, FEDAVG, FEDPROX, FEDBN, FEDVN)
