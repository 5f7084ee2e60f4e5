"""How the gradients of FedStruct's clients are added up: of theta for the server, of S for whoever updates it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.methods.fedstruct.traffic import FedStructTraffic
from fgl_secure.runtime import Step


class GradientSum(ABC):
    """The sum of one vector a client."""

    @abstractmethod
    def __call__(self, rows: NDArray[np.float32], step: Step) -> NDArray[np.floating[Any]]:
        """Adds up the clients' vectors.

        Args:
            rows: float32 [K, d], one a client.
            step: the round.

        Returns:
            float [d].
        """


class StructureDelivery(ABC):
    """How gradients of structure features reach whoever updates these, and updates reach whoever uses them."""

    @abstractmethod
    def __call__(self, rows: Sequence[NDArray[np.float32]], step: Step) -> NDArray[np.floating[Any]]:
        """Adds up the clients' gradients.

        Args:
            rows: K matrices float32 [n, d_s], one a client.
            step: the round.

        Returns:
            float [n, d_s], the gradient that each row of S is updated with.
        """

    def updated(self, values: NDArray[np.float32], step: Step) -> None:  # noqa: B027  # most have nothing to add
        """Told of the structure features float32 [n, d_s] after every step; `step` is of the round that uses them."""


@dataclass(frozen=True, slots=True, eq=False)
class ClientSums:
    """Both sums of a round.

    Attributes:
        theta: adds up gradients of the model parameters.
        structure: adds up gradients of learnt structure features.
        structure_at_owners: whether the gradient of z goes back to the owners of the nodes that it came from, who go on
            from their own g(s_u), as where nobody but its owner has s_u; otherwise every client holds all of S and
            differentiates its own loss through it.
    """

    theta: GradientSum
    structure: StructureDelivery
    structure_at_owners: bool = False


class ClearSum(GradientSum):
    """Every client sends its gradient to the server in the clear (Algorithms 1 and 2).

    Args:
        traffic: records the messages; None says nothing.
    """

    def __init__(self, traffic: FedStructTraffic | None = None) -> None:
        self._traffic = traffic

    def __call__(self, rows: NDArray[np.float32], step: Step) -> NDArray[np.floating[Any]]:
        """The plain sum."""
        if self._traffic is not None:
            self._traffic.gradients_up(rows, step)
        total: NDArray[np.floating[Any]] = rows.sum(axis=0)
        return total


class ServerBroadcast(StructureDelivery):
    """Clients send their gradients of S to the server, which sends the sum to all of them (Algorithm 2).

    Args:
        traffic: records the messages; None says nothing.
    """

    def __init__(self, traffic: FedStructTraffic | None = None) -> None:
        self._traffic = traffic

    def __call__(self, rows: Sequence[NDArray[np.float32]], step: Step) -> NDArray[np.floating[Any]]:
        """The plain sum."""
        if self._traffic is not None:
            self._traffic.structure_gradients_to_server(rows, step)
        return _sum(rows)


class OwnerAddressed(StructureDelivery):
    """Clients send the gradient of s_u to the owner of u, who updates s_u and sends it to the other clients.

    Args:
        traffic: records the messages; None says nothing.
    """

    def __init__(self, traffic: FedStructTraffic | None = None) -> None:
        self._traffic = traffic

    def __call__(self, rows: Sequence[NDArray[np.float32]], step: Step) -> NDArray[np.floating[Any]]:
        """The plain sum."""
        if self._traffic is not None:
            self._traffic.structure_gradients_to_owners(rows, step)
        return _sum(rows)

    def updated(self, values: NDArray[np.float32], step: Step) -> None:
        """Owners share what they have updated."""
        if self._traffic is not None:
            self._traffic.features_shared(values, step)


class AtOwners(StructureDelivery):
    """Gradients of s_u arise where s_u is: there is nothing to send."""

    def __call__(self, rows: Sequence[NDArray[np.float32]], step: Step) -> NDArray[np.floating[Any]]:  # noqa: ARG002
        """The rows of each client are zero outside its own nodes; together they are all rows."""
        return _sum(rows)


def _sum(rows: Sequence[NDArray[np.float32]]) -> NDArray[np.floating[Any]]:
    total: NDArray[np.floating[Any]] = np.sum(rows, axis=0)
    return total
