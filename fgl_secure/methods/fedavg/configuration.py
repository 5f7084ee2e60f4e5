"""Federated averaging and its choices."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from fgl_secure.auditing.method import Method
from fgl_secure.config_fields import choice
from fgl_secure.errors import InputError

if TYPE_CHECKING:
    from fgl_secure.auditing.method import AuditRequest
    from fgl_secure.auditing.plan import AuditPlan

CLIP = 1.0


@dataclass(frozen=True)
class FedAvg(Method):
    """Federated averaging on local subgraphs: clients train on the edges between their own nodes.

    Attributes:
        backbone: graph neural network.
        epochs: most training rounds; None takes 50.
        batch: labelled nodes that a client takes a step on; None takes all.
        local_steps: steps that a client takes in a round.
        local_rate: learning rate of these steps.
        proximal: mu of FedProx (MLSys 2020): steps go along the gradient of the loss and of mu / 2 times the squared
            distance to the server's model; 0 is federated averaging.
        noise: sigma of the noise on the sum of the updates over the clip; None for no noise.
        clip: L2 norm to which updates are clipped where there is noise.

    Raises:
        UnknownNameError: there is no such backbone.
        InputError: a number is out of range, or there is a clip without noise, or mu with one local step.

    Examples:
        train(FedAvg(epochs=20), "digits").accuracy.test
    """

    name: ClassVar[str] = "fedavg"
    title: ClassVar[str] = "FedAvg"
    task: ClassVar[str] = "node classification on local subgraphs, as existing loops do it (AISTATS 2017)"
    summed: ClassVar[str] = "model updates for the server"
    sees: ClassVar = MappingProxyType({
        "plaintext": "the server each client's update",
        "pairwise-masking, lightsecagg, ckks-shared-key": "the server the sum of the updates",
    })  # fmt: skip
    topologies: ClassVar[tuple[str, ...]] = ("server",)
    demonstrated: ClassVar[tuple[str, ...]] = ("plaintext", "pairwise-masking")
    trained: ClassVar[str] = "pairwise-masking"

    backbone: str = choice("gcn", "graph neural network", known=("gcn", "sage"))
    epochs: int | None = choice(None, "most training rounds; None takes 50", least=1, shown="N")
    batch: int | None = choice(None, "labelled nodes of a client's step; None takes all", shown="B")
    local_steps: int = choice(1, "steps that a client takes in a round", shown="E")
    local_rate: float = choice(0.1, "learning rate of these steps", shown="R")
    proximal: float = choice(0.0, "mu of FedProx: how strongly steps are pulled to the server's model", shown="MU")
    noise: float | None = choice(
        None, "noise on the sum of the updates: its standard deviation over the clip; None for no noise", shown="Z"
    )
    clip: float = choice(CLIP, "L2 norm to which updates are clipped under --noise", shown="C")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isfinite(self.proximal) and self.proximal >= 0):
            raise InputError(f"proximal must be zero or positive; found {self.proximal}")
        if self.proximal and self.local_steps < 2:
            raise InputError(
                "proximal must go with local_steps of 2 or more, for the first one starts at the server's model and is "
                f"not pulled; found {self.proximal} with {self.local_steps}"
            )
        if self.noise is not None and not (isfinite(self.noise) and self.noise > 0):
            raise InputError(f"noise must be positive; found {self.noise}")
        if self.noise is None and self.clip != CLIP:
            raise InputError(f"clip must go with noise, without which nothing is clipped; found {self.clip}")

    def make_plan(self, request: AuditRequest) -> AuditPlan:
        """See `Method.make_plan`."""
        from fgl_secure.methods.fedavg.audit_target import fedavg_plan

        return fedavg_plan(self, request)
