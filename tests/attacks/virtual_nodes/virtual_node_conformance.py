"""What every attack on summands of FedVN must keep: the same as others, on runs of another kind."""

import pytest

from fgl_secure.runtime import Recording
from fgl_secure.runtime.channel import Loss
from tests.attacks.conformance import References
from tests.attacks.recorded import Run
from tests.attacks.summand_conformance import SummandConformance
from tests.attacks.virtual_nodes.virtual_node_runs import Federation, record_rounds, references


@pytest.fixture(scope="session", name="references")
def virtual_node_references() -> References:
    """The runs that attacks on summands of FedVN must break, recorded once."""
    return references()


class VirtualNodeConformance(SummandConformance):
    """Inherit as `Test...`, name the attack, list its claims and say how its run is recorded.

    Attributes:
        setting: how the rounds are trained that the attack reads.
    """

    setting = Federation()

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        """Rounds of a few clients."""
        return record_rounds(self.setting, loss=loss, recording=recording)
