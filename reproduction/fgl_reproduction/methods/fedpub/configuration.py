"""FED-PUB (ICML 2023) and its choices."""

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


@dataclass(frozen=True)
class FedPub(Method):
    """FED-PUB: each client masks weights that are averaged for it alone, by how alike clients' models behave.

    A scheme for "clients" computes each client's average; one for "server" adds up losses and counts of right answers,
    in plaintext beside averages in plaintext and under pairwise masking beside others, unless it is named.

    Attributes:
        preset: "honest" or "paper".
        epochs: most training rounds; None takes the preset's.
        local_steps: steps of a client in a round; None takes the preset's.
        temperature: tau; weights are the soft-max of tau times cosines. None takes the preset's.
        sparsity: lambda_1, the factor of the masks' magnitudes in a client's loss. None takes the preset's.

    Raises:
        UnknownNameError: there is no such preset.
        InputError: a number is out of range.
    """

    name: ClassVar[str] = "fedpub"
    title: ClassVar[str] = "FED-PUB"
    task: ClassVar[str] = "node classification on local subgraphs with a weighted average and a mask each (ICML 2023)"
    summed: ClassVar[str] = "models times a weight for each other client, for that client; counts for the server"
    sees: ClassVar = MappingProxyType({
        "plaintext": "a client every other client's model (as published the server does)",
        "pairwise-masking, lightsecagg, ckks": "a client one weighted sum of the others' models; the server no model",
    })  # fmt: skip
    tells: ClassVar = MappingProxyType({
        ("functional embeddings", "silo", "silo"): "what its model makes of a public random graph on average, every "
        "round: weights are cosines between them",
    })  # fmt: skip
    topologies: ClassVar[tuple[str, ...]] = ("clients", "server")
    demonstrated: ClassVar[tuple[str, ...]] = ("plaintext", "pairwise-masking")
    trained: ClassVar[str] = "pairwise-masking"

    preset: str = choice(
        "honest", "honest (chosen on validation data) or paper (its public code)", known=("honest", "paper")
    )
    epochs: int | None = choice(None, "most training rounds; None takes the preset's", least=1, shown="N")
    local_steps: int | None = choice(None, "steps of a client in a round; None takes the preset's", least=1, shown="E")
    temperature: float | None = choice(
        None, "tau: how much more the likest clients weigh; None takes the preset's", shown="TAU"
    )

    sparsity: float | None = choice(
        None, "lambda_1: how much masks are drawn to zero; None takes the preset's", shown="L"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("temperature", "sparsity"):
            value = getattr(self, name)
            if value is not None and not (isfinite(value) and value >= 0):
                raise InputError(f"{name} must be zero or positive; found {value}")

    def make_plan(self, request: AuditRequest) -> AuditPlan:
        """See `Method.make_plan`."""
        from fgl_reproduction.methods.fedpub.audit_target import fedpub_plan

        return fedpub_plan(self, request)
