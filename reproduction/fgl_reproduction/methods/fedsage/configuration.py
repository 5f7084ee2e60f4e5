"""FedSage+ (NeurIPS 2021) and its choices."""

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
class FedSage(Method):
    """FedSage+: clients learn to generate neighbours that they miss, then average GraphSAGE on graphs so mended.

    A scheme that is named alone is for "clients": it adds up, for each client, the gradients of its generator over the
    nodes of all others. One for "server" adds up models; where none is named they are in plaintext beside gradients in
    the clear, and under pairwise masking beside others.

    Attributes:
        preset: "honest" or "paper".
        epochs: most rounds of averaging; None takes the preset's.
        generator_rounds: rounds in which generators are trained together before that; None takes the preset's, 0 leaves
            each generator to what its client learns alone.
        generated: most neighbours that are generated for a node; None takes the preset's, 0 is FedSage without plus.

    Raises:
        UnknownNameError: there is no such preset.
        InputError: a number is out of range.
    """

    name: ClassVar[str] = "fedsage"
    title: ClassVar[str] = "FedSage+"
    task: ClassVar[str] = "node classification on subgraphs that are mended by generated neighbours (NeurIPS 2021)"
    summed: ClassVar[str] = "gradients of a client's generator over others' nodes, for it; then models for the server"
    sees: ClassVar = MappingProxyType({
        "plaintext": "a client each other client's gradient of its generator, so rows of features; the server each "
        "client's model",
        "pairwise-masking, ckks": "a client the sum of the others' gradients of its generator; the server the sum of "
        "the models",
    })  # fmt: skip
    tells: ClassVar = MappingProxyType({
        ("noisy embeddings", "silo", "silo"): "in every round for generators, embeddings of own nodes under fresh "
        "noise, one for each neighbour that was hidden, in plaintext for all other clients",
        ("generator", "silo", "silo"): "in every round for generators, the parameters of the own one, in plaintext for "
        "all other clients",
    })  # fmt: skip
    topologies: ClassVar[tuple[str, ...]] = ("clients", "server")
    demonstrated: ClassVar[tuple[str, ...]] = ("plaintext", "pairwise-masking")
    trained: ClassVar[str] = "pairwise-masking"

    preset: str = choice(
        "honest", "honest (chosen on validation data) or paper (as published)", known=("honest", "paper")
    )
    epochs: int | None = choice(None, "most rounds of averaging; None takes the preset's", least=1, shown="N")
    generator_rounds: int | None = choice(
        None, "rounds in which generators are trained together; None takes the preset's", least=0, shown="G"
    )
    generated: int | None = choice(
        None, "most neighbours generated for a node, 0 for FedSage alone; None takes the preset's", least=0, shown="P"
    )

    def make_plan(self, request: AuditRequest) -> AuditPlan:
        """See `Method.make_plan`."""
        from fgl_reproduction.methods.fedsage.audit_target import fedsage_plan

        return fedsage_plan(self, request)
