"""What every attack on FedStruct's structure features must keep: the same as others, on runs of another kind."""

from abc import abstractmethod
from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import Recording
from fgl_secure.runtime.channel import Loss
from tests.attacks.conformance import AttackConformance, References
from tests.attacks.recorded import Run
from tests.attacks.structure.structure_runs import communities, references


@pytest.fixture(scope="session", name="references")
def structure_references() -> References:
    """The runs that attacks on structure features must break, recorded once."""
    return references()


class StructureConformance(AttackConformance):
    """Inherit as `Test...`, name the attack, list its claims and say how its run is recorded."""

    @abstractmethod
    def recorded(self, graph: FederatedGraph, **network: Any) -> Run:
        """What is recorded for the attack on a graph."""

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        """A run on a small graph of communities."""
        return self.recorded(communities(3, nodes=60), loss=loss, recording=recording)

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:  # noqa: ARG002  # for others
        """A run on a graph."""
        return self.recorded(graph, **network)


def claimed(*columns: NDArray[Any]) -> Counter[Any]:
    """Rows of columns of equal length as claims."""
    return Counter(zip(*(column.tolist() for column in columns), strict=True))
