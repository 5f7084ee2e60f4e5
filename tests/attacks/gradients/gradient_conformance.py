"""What every attack on the updates of federated averaging must keep: the same as others, on runs of another kind."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.attacks.base import Measurement, guess_of
from fgl_secure.attacks.gradients.fields import FieldGuess
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.runtime import MessageKind, Phase, Recording
from fgl_secure.runtime.channel import Loss
from tests.attacks.conformance import AttackConformance, References
from tests.attacks.gradients.gradient_runs import Setting, clusters, record_round, references
from tests.attacks.recorded import Run


@pytest.fixture(scope="session", name="references")
def gradient_references() -> References:
    """The runs that attacks on updates must break, recorded once."""
    return references()


class GradientConformance(AttackConformance):
    """Inherit as `Test...`, name the attack, list its claims and say how its run is recorded.

    Attributes:
        setting: how the round is trained that the attack reads.
    """

    rests_on: tuple[frozenset[MessageKind], ...] = (frozenset({Phase.VECTORS}),)
    needs_edges = False
    setting = Setting(batch=2)

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        """A round of four clients."""
        return record_round(clusters(nodes=80), self.setting, loss=loss, recording=recording)

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:
        """A round on a graph with other features."""
        everyone = np.ones(graph.num_devices, dtype=np.bool_)
        other = Graph.from_arrays("drawn", values.astype(np.float32), graph.labels, graph.edges)
        held = FederatedGraph.from_assignment(other, graph.silo_of, SplitMasks(everyone, ~everyone, ~everyone))
        return record_round(held, self.setting, **network)


class SumConformance(GradientConformance):
    """The same for attacks on sums, which the server notes and nobody sends."""

    rests_on = ()

    def record(self) -> Run:
        """What the attack reads."""
        raise NotImplementedError

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        """What the attack reads; nothing of it is sent, so a network loses nothing."""
        if recording is None:
            return self.record()
        return record_round(clusters(nodes=80), Setting(batch=2, summed=True), loss=loss, recording=recording)

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:  # noqa: ARG002  # for others
        """The same run."""
        return self.run(**network)

    def test_reads_no_gradients_in_the_clear(self) -> None:
        """Where every client's gradient arrives, there is no sum to attack."""
        plain = record_round(clusters(nodes=80), Setting(batch=2))
        view = plain.transcript.views(self.attack.card.observer)
        assert guess_of(self.attack, view, plain.public, self.run().knowledge) is None


def area_of(found: Measurement) -> float:
    """The area under the curve behind a figure."""
    return (found.value + 1) / 2


def pairs_of(guess: FieldGuess) -> list[tuple[int, int]]:
    """The pairs of a client and a node that are claimed."""
    assert guess.hits is not None
    rows, nodes = guess.hits.nonzero()
    return list(zip(guess.clients[rows].tolist(), nodes.tolist(), strict=True))
