"""A device that departs from the protocol has its silo decode what it likes."""

from __future__ import annotations

import numpy as np

from fgl_secure.attacks.base import Attack, Card, Material, Measurement, Reference
from fgl_secure.attacks.recovery import RecoveredRows, score_recovered_rows
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import Circumstance, Phase, PublicParameters, Role, Secret, View

CHOSEN = "chosen neighbour"
"""Name of a deviating device's own row: the party identifier of the neighbour whose codes it had decoded."""


class MaliciousSingleNeighbour(Attack[RecoveredRows]):
    """A device with several neighbours sends the codes of one as its aggregate, and gets that one's embedding back.

    The silo cannot tell them from a sum by anything that the protocol has it check.
    """

    @property
    def card(self) -> Card:
        """Every device alone, and deviating."""
        return Card(
            "malicious-single-neighbour",
            "a deviating device has its silo decode the codes of one neighbour alone",
            "beyond HiFGL 3.3, where all parties are semi-honest: silos decode whatever a device sends",
            Role.DEVICE,
            Secret.EMBEDDING,
            Material.DEVIATION,
            Reference.DEVIATING,
            Circumstance.MALICIOUS_DEVICE,
        )

    def infer(self, view: View, public: PublicParameters) -> RecoveredRows | None:  # noqa: ARG002  # needs no parameter
        """Takes what the silo decoded for the embedding of the neighbour that was chosen."""
        chosen, decoded = view.own(CHOSEN), view.messages(Phase.DECODED)
        if not chosen or not decoded:
            return None
        neighbour = np.full(len(view.parties), -1, dtype=np.int64)
        neighbour[chosen[0].owners] = chosen[0].values
        sender = neighbour[decoded[0].receivers]
        rows = np.asarray(decoded[0].payload)[sender >= 0]
        return RecoveredRows(decoded[0].step, sender[sender >= 0], rows)

    def score(self, guess: RecoveredRows, truth: Truth) -> tuple[Measurement, ...]:
        """The share of rows that are exact, see `score_recovered_rows`."""
        return score_recovered_rows([guess], truth)
