"""FedStar (AAAI 2023) and its choices."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from fgl_secure.auditing.method import Method
from fgl_secure.config_fields import choice

if TYPE_CHECKING:
    from fgl_secure.auditing.method import AuditRequest
    from fgl_secure.auditing.plan import AuditPlan


@dataclass(frozen=True)
class FedStar(Method):
    """FedStar: clients average an encoder of structure, and keep the encoder of features that it is told to.

    Attributes:
        preset: "honest" or "paper".
        epochs: most training rounds; None takes the preset's.
        local_steps: steps of a client in a round; None takes the preset's.
        walks: n_rw, steps of the longest random walk; None takes the preset's.
        degrees: n_dg, columns of the one-hot degree; None takes the preset's.

    Raises:
        UnknownNameError: there is no such preset.
        InputError: a number is out of range.
    """

    name: ClassVar[str] = "fedstar"
    title: ClassVar[str] = "FedStar"
    task: ClassVar[str] = "node classification on local subgraphs with a shared encoder of structure (AAAI 2023)"
    summed: ClassVar[str] = "structure encoders for the server; feature encoders stay where they are"
    sees: ClassVar = MappingProxyType({
        "plaintext": "the server each client's structure encoder, so which degrees its nodes have",
        "pairwise-masking, lightsecagg, ckks-shared-key": "the server the sum of the structure encoders",
    })  # fmt: skip
    topologies: ClassVar[tuple[str, ...]] = ("server",)
    demonstrated: ClassVar[tuple[str, ...]] = ("plaintext", "pairwise-masking")
    trained: ClassVar[str] = "pairwise-masking"

    preset: str = choice(
        "honest", "honest (chosen on validation data) or paper (its public code)", known=("honest", "paper")
    )
    epochs: int | None = choice(None, "most training rounds; None takes the preset's", least=1, shown="N")
    local_steps: int | None = choice(None, "steps of a client in a round; None takes the preset's", least=1, shown="E")
    walks: int | None = choice(
        None, "n_rw: steps of the longest random walk; None takes the preset's", least=1, shown="N"
    )
    degrees: int | None = choice(
        None, "n_dg: columns of the one-hot degree; None takes the preset's", least=1, shown="N"
    )

    def make_plan(self, request: AuditRequest) -> AuditPlan:
        """See `Method.make_plan`."""
        from fgl_reproduction.methods.fedstar.audit_target import fedstar_plan

        return fedstar_plan(self, request)
