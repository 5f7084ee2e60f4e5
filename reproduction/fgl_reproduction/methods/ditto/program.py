"""Ditto as one client runs it: federated averaging, and a model v of the client's own.

In each round a client gets the common model w, takes part in federated averaging from there, and takes steps on
F(v) + lambda / 2 |v - w|^2, where F is its own loss: along grad F(v) + lambda (v - w). It predicts with v,
which no other party ever gets; it sends what it sends in federated averaging, to the bit, except for counts that are
v's.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from fgl_reproduction.methods.ditto.configuration import Ditto
from fgl_secure.auditing.method import AuditRequest
from fgl_secure.auditing.plan import AuditPlan
from fgl_secure.methods.fedavg.audit_target import fedavg_plan
from fgl_secure.methods.fedavg.program import FedAvgClient
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.loop import Figures
from fgl_secure.training.parameters import Adam, flat, optimiser_state, overwrite, remind
from fgl_secure.training.presets import Preset
from fgl_secure.typing import Array, Ids

OWN = 1
"""Tells draws of batches for personal models from those for the common one."""


class DittoClient(FedAvgClient):
    """One client's copy of the common model, and its own.

    Args:
        comm: the collectives of the run.
        preset: how to train; Adam takes steps on personal models at its rate.
        pull: lambda.
        steps: on the personal model in a round.
        seed: of initial weights and of batches; personal models start at the common one.
        rest: as for `FedAvgClient`.

    Attributes:
        personal: the client's own layers.
    """

    def __init__(
        self, comm: Collectives, preset: Preset, *rest: Any, pull: float, steps: int = 1, seed: int = 0, **more: Any
    ) -> None:
        super().__init__(comm, preset, *rest, seed=seed, **more)
        self._pull, self._steps = pull, steps
        self.personal = deepcopy(self.layers)
        self._own = list(self.personal.parameters())
        self._personal_steps = Adam(self._own, lr=preset.learning_rate)

    def train(self, number: int) -> Figures:
        """A round of federated averaging, and steps on the own model near the one that it began with."""
        common = [parameter.detach().clone() for parameter in self._parameters]
        figures = super().train(number)
        draws = np.random.default_rng((self._seed, self.silo.silo, number, OWN))
        for _ in range(self._steps):
            self._personal_step(common, self.silo.local(self._batch(draws)))
        return figures

    def _personal_step(self, common: list[torch.Tensor], places: Ids) -> None:
        loss = functional.cross_entropy(self.scores(self.personal)[places], self._labels[places])
        gradients = torch.autograd.grad(loss, self._own)
        for parameter, gradient, anchor in zip(self._own, gradients, common, strict=True):
            parameter.grad = gradient + self._pull * (parameter.detach() - anchor)
        self._personal_steps.step()

    def _predict(self) -> Ids:
        return self._classes(self.personal)

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, and the own model after the last round."""
        return {**super().report, "own theta": flat(self._own)}

    def state(self) -> dict[str, Array]:
        """The own model, too."""
        return {**super().state(), "own": flat(self._own), **under("own steps", optimiser_state(self._personal_steps))}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        overwrite(self._own, state["own"])
        remind(self._personal_steps, within("own steps", state))


NOTE = (
    "Clients send what they send in federated averaging, to the bit, and rounds that are run for attacks alone are its "
    "rounds; of personal models the figures that choose a round tell how often all of them together are right."
)


def ditto_plan(method: Ditto, request: AuditRequest) -> AuditPlan:
    """Checks every choice and loads the data; nothing is run."""
    plan = fedavg_plan(method, request, partial(DittoClient, pull=method.pull, steps=method.own_steps))
    return replace(plan, notes=(*plan.notes, NOTE))
