"""Reading what arrives in the clear: trivial, and the measure of what a protocol is for."""

from __future__ import annotations

import numpy as np

from fgl_secure.attacks.base import Attack, Card, Material, Measurement, Reference
from fgl_secure.attacks.recovery import RecoveredRows, score_recovered_rows
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import Phase, PublicParameters, Role, Secret, View


class ClearValues(Attack[tuple[RecoveredRows, ...]]):
    """A device takes every value that it receives in the clear for what it is."""

    @property
    def card(self) -> Card:
        """Every device alone."""
        return Card(
            "clear-values",
            "a device reads the embeddings and gradients that reach it in the clear",
            "what every protocol is measured against",
            Role.DEVICE,
            Secret.EMBEDDING,
            Material.TRAINING,
            Reference.PLAINTEXT,
        )

    def infer(
        self,
        view: View,
        public: PublicParameters,  # noqa: ARG002  # needs no parameter
    ) -> tuple[RecoveredRows, ...] | None:
        """Reads every message of values; None where there are none."""
        found = [RecoveredRows(b.step, b.senders, np.asarray(b.payload)) for b in view.messages(Phase.VALUES)]
        return tuple(found) or None

    def score(self, guess: tuple[RecoveredRows, ...], truth: Truth) -> tuple[Measurement, ...]:
        """The share of rows that are exact, see `score_recovered_rows`."""
        return score_recovered_rows(guess, truth)
