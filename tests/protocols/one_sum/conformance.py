"""What every scheme for one sum over clients has to do: one suite that each inherits."""

from tests.protocols.one_sum.dropouts import DropoutConformance
from tests.protocols.one_sum.messages import MessageConformance
from tests.protocols.one_sum.states import StateConformance


class OneSumConformance(DropoutConformance, MessageConformance, StateConformance):
    """All of it."""
