"""Ditto (ICML 2021) and its choices."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from fgl_secure.config_fields import choice
from fgl_secure.errors import InputError
from fgl_secure.methods.fedavg.configuration import FedAvg

if TYPE_CHECKING:
    from fgl_secure.auditing.method import AuditRequest
    from fgl_secure.auditing.plan import AuditPlan


@dataclass(frozen=True)
class Ditto(FedAvg):
    """Ditto: beside federated averaging each client trains a model of its own, which is pulled to the common one.

    Attributes:
        pull: lambda, the weight of half the squared distance to the common model in a client's own loss; 0 leaves
            clients to themselves.
        own_steps: steps of Adam on the own model in a round.

    Raises:
        UnknownNameError: there is no such backbone.
        InputError: a number is out of range, or there is a clip without noise.
    """

    name: ClassVar[str] = "ditto"
    title: ClassVar[str] = "Ditto"
    task: ClassVar[str] = "node classification on local subgraphs with personal models near a common one (ICML 2021)"
    summed: ClassVar[str] = "updates of the common model for the server; personal models stay where they are"
    sees: ClassVar = MappingProxyType({
        "plaintext": "the server each client's update of the common model",
        "pairwise-masking, lightsecagg, ckks-shared-key": "the server the sum of the updates",
    })  # fmt: skip

    pull: float = choice(0.1, "lambda: how strongly personal models are pulled to the common one", shown="L")
    own_steps: int = choice(1, "steps on the personal model in a round", least=1, shown="S")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isfinite(self.pull) and self.pull >= 0):
            raise InputError(f"pull must be zero or positive; found {self.pull}")

    def make_plan(self, request: AuditRequest) -> AuditPlan:
        """See `Method.make_plan`."""
        from fgl_reproduction.methods.ditto.program import ditto_plan

        return ditto_plan(self, request)
