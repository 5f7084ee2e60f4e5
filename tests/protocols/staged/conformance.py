"""What every staged scheme has to do: one suite that each inherits, with `make` set to the scheme."""

from __future__ import annotations

from abc import ABC

from tests.protocols.staged.conformance_dropouts import DropoutConformance
from tests.protocols.staged.conformance_fuzz import FuzzConformance
from tests.protocols.staged.conformance_inputs import InputConformance
from tests.protocols.staged.conformance_messages import MessageConformance
from tests.protocols.staged.conformance_states import StateConformance


class StagedConformance(
    DropoutConformance, MessageConformance, FuzzConformance, InputConformance, StateConformance, ABC
):
    """Tests that hold for every staged scheme; see the parents."""
