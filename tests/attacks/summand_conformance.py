"""What every attack on summands for a server must keep, whatever the method: the same as others, without edges."""

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import MessageKind, Phase, Recording
from fgl_secure.runtime.channel import Loss
from tests.attacks.conformance import AttackConformance
from tests.attacks.recorded import Run


class SummandConformance(AttackConformance):
    """Inherit with a `run` of the method's own."""

    rests_on: tuple[frozenset[MessageKind], ...] = (frozenset({Phase.VECTORS}),)
    needs_edges = False

    @abstractmethod
    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        """Recorded rounds of the method."""

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:  # noqa: ARG002  # for others
        """The same rounds."""
        return self.run(**network)
