"""What every attack on summands of FedVN must keep: the same as others, on runs of another kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Measurement, guess_of
from fgl_secure.graph import FederatedGraph
from fgl_secure.learning.hifgl.program import hierarchy_of
from fgl_secure.runtime import Phase, PublicParameters, Recording, Role, Transcript
from fgl_secure.runtime.channel import Loss
from tests.attacks.conformance import AttackConformance, References
from tests.attacks.recorded import Run, random_graph
from tests.attacks.virtual_node_runs import Federation, record_rounds, references


@pytest.fixture(scope="session", name="references")
def virtual_node_references() -> References:
    """The runs that attacks on summands of FedVN must break, recorded once."""
    return references()


class VirtualNodeConformance(AttackConformance):
    """Inherit as `Test...`, name the attack, list its claims and say how its run is recorded.

    Attributes:
        setting: how the rounds are trained that the attack reads.
    """

    rests_on: tuple[frozenset[Phase], ...] = (frozenset({Phase.SUMMANDS}),)
    needs_edges = False
    setting = Federation()

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        """Rounds of a few clients."""
        return record_rounds(self.setting, loss=loss, recording=recording)

    def exchange(
        self,
        graph: FederatedGraph,  # noqa: ARG002  # graphs stay with clients
        values: NDArray[np.float64],  # noqa: ARG002
        loss: Loss | None = None,
        recording: Recording | None = None,
    ) -> Run:
        """The same rounds."""
        return self.run(loss, recording)

    def test_finds_nothing_in_an_empty_run(self) -> None:
        """A view of a run in which nothing was said gives no guess, whatever else the attacker knows."""
        view = Transcript(hierarchy_of(random_graph(0, directed=False))).views(self.attack.card.observer)
        assert guess_of(self.attack, view, PublicParameters(), self.run().auxiliary) is None

    def test_needs_to_know_where_things_lie(self) -> None:
        """Without the layout of a summand there is no guess."""
        run = self.run()
        assert self.attack.infer(run.transcript.views(Role.SERVER), run.public) is None


def measured(attack: Attack[Any], run: Run) -> dict[str, Measurement]:
    """The figures of an attack on a run, which must give a guess, by metric."""
    guess = guess_of(attack, run.transcript.views(Role.SERVER), run.public, run.auxiliary)
    assert guess is not None
    return {found.metric: found for found in attack.score(guess, run.truth)}
