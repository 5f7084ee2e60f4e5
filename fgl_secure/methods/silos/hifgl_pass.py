"""One pass of HiFGL through a silo: forward to the logits, and back to the gradients where it is for training."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import numpy as np

from fgl_secure.methods.silos.hifgl_model import Gradient, Rows, SiloModel
from fgl_secure.methods.silos.neighbour_sums import NeighbourSums
from fgl_secure.methods.silos.parcels import Array, Arrays
from fgl_secure.methods.silos.program import Inbox, Outbox
from fgl_secure.runtime import Direction, Step


class _Way(IntEnum):
    FORWARD = 0
    BACKWARD = 1


class Pass:
    """The passes of one silo, one after the other.

    Args:
        features: float32 [m, d], of own devices.
        sums: computes sums over neighbours.
        static: whether the sums of the first layer are of features, and kept.

    Attributes:
        logits: float32 [m, classes], of the last pass.
        gradient: float32, by all parameters, of the last training pass.
        loss: of the last training pass, summed over own training devices.
    """

    def __init__(self, features: Rows, sums: NeighbourSums, *, static: bool) -> None:
        self._features, self._sums, self._static = features, sums, static
        self._way, self._layer, self._step = _Way.FORWARD, 0, Step(0)
        self._h: list[Rows] = []
        self._arrived: list[Rows] = []
        self._dropped: list[Rows] = []
        self._held: Rows | None = None
        self._of: Rows = np.empty((0, 0), dtype=np.float32)
        self.logits: Rows = np.empty((0, 0), dtype=np.float32)
        self.gradient: Gradient = np.empty(0, dtype=np.float32)
        self.loss = 0.0

    def begin(self, model: SiloModel, step: Step) -> Outbox | None:
        """Starts a pass; one whose step is an evaluation goes forward alone.

        Returns:
            What leaves; None where the pass is over without a message.
        """
        self._way, self._layer, self._step = _Way.FORWARD, 0, step
        self._h, self._arrived, self._dropped = [self._features], [], []
        if self._static and self._held is not None:
            return self._up(model, self._held)
        return self._send_up(model)

    def take(self, inbox: Inbox, at: Callable[[], SiloModel]) -> Outbox | None:
        """One turn, with the model at hand where it is needed; None when the pass is over."""
        out = self._sums.take(inbox)
        if out is not None:
            return out
        arrived, model = self._sums.result.astype(np.float32), at()
        if self._way is _Way.BACKWARD:
            return self._down(model, arrived)
        if self._static and self._layer == 0:
            self._held = arrived
        return self._up(model, arrived)

    def _send_up(self, model: SiloModel) -> Outbox:
        once = self._static and self._layer == 0
        step = Step(0, 0) if once else Step(self._step.round, self._layer, evaluation=self._step.evaluation)
        return self._sums.begin(model.message(self._layer, self._h[-1]), step)

    def _up(self, model: SiloModel, arrived: Rows) -> Outbox | None:
        """The outputs of a layer, whose sums have arrived."""
        evaluation, empty = self._step.evaluation, np.empty((0, 0), dtype=np.float32)
        dropped = empty if evaluation else model.dropped(self._layer)
        self._arrived.append(arrived)
        self._dropped.append(dropped)
        out = model.output(self._layer, self._h[-1], arrived, dropped)
        if not model.is_last(self._layer):
            self._layer += 1
            self._h.append(out)
            return self._send_up(model)
        self.logits = out
        if evaluation:
            return None
        self._way, self.gradient = _Way.BACKWARD, np.zeros(model.size, dtype=np.float32)
        self.loss, of = model.loss(out)
        return self._send_down(model, of)

    def _send_down(self, model: SiloModel, of: Rows) -> Outbox | None:
        """The gradients of a layer whose outputs have the gradient `of`, as far as they are known here."""
        layer = self._layer
        by_h, by_sums, own = model.output_gradients(
            layer, self._h[layer], self._arrived[layer], self._dropped[layer], of
        )
        self.gradient = self.gradient + own
        self._of = by_h
        if self._static and layer == 0:
            return None
        return self._sums.begin(by_sums, Step(self._step.round, layer, Direction.BACKWARD))

    def _down(self, model: SiloModel, arrived: Rows) -> Outbox | None:
        by_h, own = model.message_gradients(self._layer, self._h[self._layer], arrived)
        self.gradient = self.gradient + own
        if self._layer == 0:
            return None
        self._layer -= 1
        return self._send_down(model, self._of + by_h)

    def state(self) -> dict[str, Array]:
        """Inputs and sums of every layer so far, and gradients."""
        where = [self._way, self._layer, self._step.round, self._step.evaluation]
        layers = {f"h{n}": h for n, h in enumerate(self._h[1:])}
        layers |= {f"arrived{n}": sums for n, sums in enumerate(self._arrived)}
        layers |= {f"dropped{n}": dropped for n, dropped in enumerate(self._dropped)}
        found = {"of": self._of, "logits": self.logits, "gradient": self.gradient}
        held = {} if self._held is None else {"held": self._held}
        numbers = {"where": np.array(where, dtype=np.int64), "loss": np.asarray(self.loss, dtype=np.float64)}
        return {**numbers, **layers, **found, **held}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        way, self._layer, number, evaluation = state["where"].tolist()
        self._way, self._step = _Way(way), Step(number, evaluation=bool(evaluation))
        self._h = [self._features, *_numbered(state, "h")]
        self._arrived, self._dropped = _numbered(state, "arrived"), _numbered(state, "dropped")
        self._of, self.logits, self.gradient = state["of"], state["logits"], state["gradient"]
        self.loss, self._held = float(state["loss"]), state.get("held")


def _numbered(state: Arrays, name: str) -> list[Rows]:
    found: list[Rows] = []
    while f"{name}{len(found)}" in state:
        found.append(state[f"{name}{len(found)}"])
    return found
