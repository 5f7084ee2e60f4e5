"""FedVN (AAAI 2025) and its choices."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from fgl_secure.auditing.method import Method
from fgl_secure.config_fields import choice
from fgl_secure.graph.data import GraphSets

if TYPE_CHECKING:
    from fgl_secure.auditing.method import AuditRequest
    from fgl_secure.auditing.plan import AuditPlan


@dataclass(frozen=True)
class FedVN(Method):
    """FedVN: every client has graphs of its own, to which virtual nodes that all share are joined.

    Attributes:
        preset: "honest" or "paper".
        epochs: most training rounds; None takes the preset's.
        virtual_nodes: M; None takes the preset's.
        injection: where virtual nodes enter a layer: its "input", as in the public code, or its "output" (Eq. 5 as
            printed); None takes the preset's.
        lambda_1: factor of the loss that decorrelates virtual nodes (Eq. 7), at least 0; None takes the preset's.
        lambda_2: factor of the score-contrastive loss (Eq. 8), at least 0; None takes the preset's.
        tau: temperature of Eq. 8, above 0; None takes the preset's.

    Raises:
        UnknownNameError: there is no such preset.
        InputError: a number is out of range.

    Examples:
        train(FedVN(epochs=2), "Motif-mini").accuracy.test
    """

    name: ClassVar[str] = "fedvn"
    title: ClassVar[str] = "FedVN"
    task: ClassVar[str] = "graph classification and regression under distribution shift (AAAI 2025)"
    summed: ClassVar[str] = (
        "models and virtual nodes weighted by graphs, and the weights, for the server; edge generators stay home"
    )
    sees: ClassVar = MappingProxyType({
        "plaintext": "the server each client's model, virtual nodes and number of graphs",
        "pairwise-masking, lightsecagg, ckks-shared-key": "the server the sums, so the means and the number of graphs "
        "of all together",
    })  # fmt: skip
    topologies: ClassVar[tuple[str, ...]] = ("server",)
    demonstrated: ClassVar[tuple[str, ...]] = ("plaintext", "pairwise-masking")
    trained: ClassVar[str] = "pairwise-masking"
    data: ClassVar[type[GraphSets]] = GraphSets

    preset: str = choice(
        "honest", "honest (chosen on validation data) or paper (as published)", known=("honest", "paper")
    )
    epochs: int | None = choice(None, "most training rounds; None takes the preset's", least=1, shown="N")
    virtual_nodes: int | None = choice(None, "virtual nodes; None takes the preset's", least=1, shown="M")
    injection: str | None = choice(
        None,
        "where virtual nodes enter a layer: input (public code) or output (Eq. 5 as printed); None takes the preset's",
        known=("input", "output"),
    )
    lambda_1: float | None = choice(None, "factor of Eq. 7; None takes the preset's", least=0, shown="FACTOR")
    lambda_2: float | None = choice(None, "factor of Eq. 8; None takes the preset's", least=0, shown="FACTOR")
    tau: float | None = choice(None, "temperature of Eq. 8; None takes the preset's", above=0, shown="TAU")

    def make_plan(self, request: AuditRequest) -> AuditPlan:
        """See `Method.make_plan`."""
        from fgl_secure.methods.fedvn.audit_target import fedvn_plan

        return fedvn_plan(self, request)
