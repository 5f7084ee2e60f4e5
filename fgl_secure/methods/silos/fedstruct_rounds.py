"""One silo's part in FedStruct's training (Algorithms 1 and 2), every sum of gradients a staged sum.

With the gradients go the loss and the counts of right predictions of the model that they were taken at: nobody says
what only it needs to know. All silos get the sum and take the same step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.methods.fedstruct.presets import Averaging, FedStructPreset
from fgl_secure.methods.silos.fedstruct_model import ClientModel
from fgl_secure.runtime import Step
from fgl_secure.runtime.packing import Array, Arrays, under, within
from fgl_secure.training.processes.process import Inbox, Outbox, Part
from fgl_secure.training.processes.sums import EVERYBODY, SiloSums
from fgl_secure.training.scoring import COUNTS, Scores
from fgl_secure.training.server_sums import grid_for


class FedStructRounds(Part):
    """All rounds of one client.

    Args:
        preset: rounds and selection.
        sums: its part in sums.
        make: makes the model as it is before the first round; asked when it is needed.
    """

    def __init__(self, preset: FedStructPreset, sums: SiloSums, make: Callable[[], ClientModel]) -> None:
        if preset.averaging is not Averaging.POOLED:
            raise InputError(
                f"averaging must be {Averaging.POOLED} where counts are added up; found {preset.averaging}"
            )
        self._preset, self._sums, self._make = preset, sums, make
        company = sums.company
        self._grid = grid_for(company.scheme, company.silos)
        self._scores, self._losses = Scores(preset.selection), np.empty(0, dtype=np.float64)
        self._begun = False
        self._model: ClientModel | None = None
        self._kept: Arrays | None = None

    @property
    def model(self) -> ClientModel:
        """The model as it is."""
        if self._model is None:
            self._model = self._make()
            if self._kept is not None:
                self._model.restore(self._kept)
        return self._model

    @property
    def _rounds(self) -> int:
        return len(self._losses)

    def take(self, inbox: Inbox) -> Outbox | None:
        """One turn; None when all rounds are over."""
        if self._begun:
            out = self._sums.take(inbox)
            if out is not None:
                return out
            total = self._sums.results[EVERYBODY]
            self._see(total[-COUNTS:])
            if self._rounds == self._preset.epochs:
                return None
            self._step(self._grid.decode(total[:-COUNTS]))
        self._begun = True
        return self._add_up()

    def _add_up(self) -> Outbox:
        counts = self.model.counts() if self._scored else np.zeros(COUNTS, dtype=np.int64)
        if self._rounds == self._preset.epochs:
            return self._sums.begin({EVERYBODY: counts}, self._grid.largest, Step(self._rounds, evaluation=True))
        gradient, loss = self.model.gradient()
        units = self._grid.encode(np.append(gradient.astype(np.float64), loss))
        return self._sums.begin({EVERYBODY: np.append(units, counts)}, self._grid.largest, Step(self._rounds))

    @property
    def _scored(self) -> bool:
        """Whether the model as it is now is scored: after each round where one is selected, else after the last."""
        selects = self._preset.selection is not None and self._rounds > 0
        return selects or self._rounds == self._preset.epochs

    def _see(self, counts: NDArray[np.int64]) -> None:
        if self._scored:
            self._scores.see(self._rounds, counts)

    def _step(self, total: NDArray[np.float64]) -> None:
        self.model.step(total[:-1])
        self._losses = np.append(self._losses, total[-1])

    @property
    def report(self) -> dict[str, Array]:
        """Losses, the selected round and its accuracies, and the parameters after the last round."""
        return {"losses": self._losses, **self._scores.report, **self.model.parameters()}

    def state(self) -> dict[str, Array]:
        """How far training is; the model as it is."""
        model = self._kept if self._model is None else self._model.state()
        return {
            "begun": np.asarray(self._begun),
            "losses": self._losses,
            **under("scores", self._scores.state()),
            **({} if model is None else under("model", model)),
        }

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self._begun, self._losses = bool(state["begun"]), state["losses"]
        self._scores.restore(within("scores", state))
        self._model, self._kept = None, within("model", state) or None
