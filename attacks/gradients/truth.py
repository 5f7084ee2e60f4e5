"""The secrets of clients that send gradients or updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from fgl_secure.attacks.base import Truth
from fgl_secure.attacks.truth import moved_on
from fgl_secure.graph import FederatedGraph, within_silos
from fgl_secure.typing import Ids


@dataclass(frozen=True, slots=True, eq=False)
class ClientBatch:
    """What one client took its gradient over in one round.

    Attributes:
        round: the training round.
        client: index of the silo.
        nodes: int64 [b], device indices of the labelled nodes of the batch, each once.
        receptive: int64 [r], device indices of all nodes at which the gradient of the first layer's outputs can be
            non-zero: those at most (layers of parameters - 1) hops from the batch in the client's own graph, the
            batch included. With one layer, and under SGC, that is the batch itself.
    """

    round: int
    client: int
    nodes: Ids
    receptive: Ids


@dataclass(frozen=True, slots=True, eq=False)
class GradientTruth(Truth):
    """What gradients were taken over.

    Attributes:
        silo_of: int64 [n], the silo index of each device.
        edges: int64 [2, m], source above target, device indices, over which clients aggregate.
        labels: int64 [n], the label of each device.
        features: float [n, d], the features of each device.
        batches: what each client took its gradient over, by round and client, those present that took part.
        entering: by name of each first weight, float [n, d_in], the row by which it is multiplied for each node; what
            `Candidates.entering` gives for the true features and edges.
        fields: by index of the client, int64 [m], the device behind each row of the receptive field that attackers may
            know the shape of, the batch first.
    """

    silo_of: Ids
    edges: Ids
    labels: Ids
    features: NDArray[Any]
    batches: tuple[ClientBatch, ...] = ()
    entering: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    fields: Mapping[int, Ids] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: FederatedGraph) -> GradientTruth:
        """The truth of a graph over which nobody has taken a gradient yet."""
        return cls(graph.silo_of, graph.edges, graph.labels, graph.features)

    def permuted(self, seed: int) -> GradientTruth:
        """The devices of each silo shuffled among themselves."""
        swap = within_silos(self.silo_of, seed)
        return replace(
            self,
            edges=swap[self.edges],
            labels=self.labels[swap],
            features=self.features[swap],
            batches=tuple(
                replace(batch, nodes=swap[batch.nodes], receptive=swap[batch.receptive]) for batch in self.batches
            ),
            entering={name: values[swap] for name, values in self.entering.items()},
            fields={client: swap[members] for client, members in self.fields.items()},
        )


@dataclass(frozen=True, slots=True, eq=False)
class UpdateTruth(Truth):
    """What each client put into sums of updates.

    Attributes:
        updates: by round, float64 [clients, P]; rows of NaN where a client took no part.
    """

    updates: Mapping[int, NDArray[Any]]

    def permuted(self, seed: int) -> UpdateTruth:  # noqa: ARG002  # clients move on by one
        """Every client's updates at the next client."""
        return UpdateTruth({number: moved_on(values) for number, values in self.updates.items()})
