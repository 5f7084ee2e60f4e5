"""One silo's rounds of HiFGL (KDD 2024, 4.1 and 4.3): a pass, a step of its own, and the average of all models.

Models, or gradients where all silos share one model, are added up by a staged sum. With them go the loss and the counts
of right predictions: the server and the silos learn the sums alone.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import numpy as np

from fgl_secure.errors import InputError
from fgl_secure.methods.fedstruct.gradients import grid_for
from fgl_secure.methods.silos.hifgl_model import SiloModel
from fgl_secure.methods.silos.hifgl_pass import Pass
from fgl_secure.methods.silos.optimiser_state import flat, overwrite
from fgl_secure.methods.silos.parcels import Array, Arrays, under, within
from fgl_secure.methods.silos.program import Inbox, Machine, Outbox
from fgl_secure.methods.silos.scores import COUNTS, Counts, Scores, counts_of
from fgl_secure.methods.silos.share import SiloShare
from fgl_secure.methods.silos.sums import EVERYBODY, SiloSums
from fgl_secure.runtime import Step
from fgl_secure.training.presets import Federation, Preset


class _Due(IntEnum):
    START = 0
    TRAINING = 1
    JUDGING = 2
    SUM = 3
    LAST_PASS = 4
    LAST_SUM = 5


class HiFGLRounds(Machine):
    """All rounds of one silo.

    Args:
        share: what it holds.
        preset: how to train.
        sums: its part in sums of all silos.
        passes: its part in passes.
        make: makes the model as it is before the first round; asked when it is needed.

    Raises:
        InputError: the preset restricts messages to the nodes of one split, which no silo knows of foreign nodes.
    """

    def __init__(
        self, share: SiloShare, preset: Preset, sums: SiloSums, passes: Pass, make: Callable[[], SiloModel]
    ) -> None:
        if preset.split_restricted:
            raise InputError("split_restricted must be false where silos do not know each other's splits; found true")
        self._share, self._preset, self._sums, self._pass, self._make = share, preset, sums, passes, make
        company = sums.company
        self._grid = grid_for(company.largest, company.silos)
        self._scores, self._losses = Scores(preset.selection), np.empty(0, dtype=np.float64)
        self._due = _Due.START
        self._counts: Counts = np.zeros(COUNTS, dtype=np.int64)
        self._model: SiloModel | None = None
        self._kept: Arrays | None = None

    @property
    def model(self) -> SiloModel:
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
        if self._due is _Due.START:
            return self._next_round()
        if self._due in (_Due.SUM, _Due.LAST_SUM):
            out = self._sums.take(inbox)
            return self._summed() if out is None else out
        out = self._pass.take(inbox, lambda: self.model)
        return self._passed() if out is None else out

    def _next_round(self) -> Outbox | None:
        """The next training pass, or the last look at the model where there is none."""
        stale = (
            self._preset.patience is not None and self._rounds - 1 - self._scores.best_round >= self._preset.patience
        )
        over = self._rounds == self._preset.epochs or (self._rounds > 0 and stale)
        self._due = _Due.LAST_PASS if over else _Due.TRAINING
        out = self._pass.begin(self.model, Step(self._rounds, evaluation=over))
        return self._passed() if out is None else out

    def _passed(self) -> Outbox | None:
        if self._due is _Due.TRAINING and self._preset.dropout:
            self._due = _Due.JUDGING
            out = self._pass.begin(self.model, Step(self._rounds, evaluation=True))
            if out is not None:
                return out
        self._counts = counts_of(self._share, self._pass.logits.argmax(axis=1))
        if self._due is _Due.LAST_PASS:
            self._due = _Due.LAST_SUM
            return self._sums.begin({EVERYBODY: self._counts}, self._grid.largest, Step(self._rounds, evaluation=True))
        return self._step()

    def _step(self) -> Outbox:
        """The silo's own step, and what goes into the sum of all."""
        gradient = self._pass.gradient / np.float32(max(int(self._share.train.sum()), 1))
        shared = self._preset.federation is Federation.SHARED
        if not shared:
            self.model.step(gradient)
        self._due = _Due.SUM
        values = gradient if shared else flat(self.model.averaged)
        units = self._grid.encode(np.append(values.astype(np.float64), self._pass.loss))
        return self._sums.begin({EVERYBODY: np.append(units, self._counts)}, self._grid.largest, Step(self._rounds))

    def _summed(self) -> Outbox | None:
        total = self._sums.results[EVERYBODY]
        self._scores.see(self._rounds, total[-COUNTS:])
        if self._due is _Due.LAST_SUM:
            return None
        means = self._grid.decode(total[:-COUNTS])
        mean = (means[:-1] / self._share.facts.silos).astype(np.float32)
        if self._preset.federation is Federation.SHARED:
            self.model.step(mean)
        else:
            overwrite(self.model.averaged, mean)
        self._losses = np.append(self._losses, means[-1] / self._share.facts.labelled)
        return self._next_round()

    @property
    def report(self) -> dict[str, Array]:
        """Losses, the selected round and its accuracies, and the parameters after the last round."""
        return {"losses": self._losses, **self._scores.report, "theta": flat(self.model.parameters)}

    def state(self) -> dict[str, Array]:
        """How far training is; the model as it is."""
        model = self._kept if self._model is None else self._model.state()
        return {
            "due": np.asarray(self._due, dtype=np.int64),
            "losses": self._losses,
            "counts": self._counts,
            **under("scores", self._scores.state()),
            **under("pass", self._pass.state()),
            **({} if model is None else under("model", model)),
        }

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self._due, self._losses, self._counts = _Due(int(state["due"])), state["losses"], state["counts"]
        self._scores.restore(within("scores", state))
        self._pass.restore(within("pass", state))
        self._model, self._kept = None, within("model", state) or None
