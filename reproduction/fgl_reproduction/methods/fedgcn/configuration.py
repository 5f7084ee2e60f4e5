"""FedGCN (NeurIPS 2023) and its choices."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from fgl_secure.auditing.method import Method, Usual
from fgl_secure.config_fields import choice

if TYPE_CHECKING:
    from fgl_secure.auditing.method import AuditRequest
    from fgl_secure.auditing.plan import AuditPlan


@dataclass(frozen=True)
class FedGCN(Method):
    """FedGCN: clients exchange sums of their nodes' features once, then average graph convolutional networks.

    Schemes for models are those of the topology "server"; where none is named they are in the clear beside sums of
    features in the clear, and under pairwise masking beside others.

    Attributes:
        preset: "honest" or "paper".
        epochs: most training rounds; None takes the preset's.
        hops: 1 for sums over the neighbours of own nodes, 2 for those of their neighbours at other clients, too.

    Raises:
        UnknownNameError: there is no such preset.
        InputError: a number is out of range.
    """

    name: ClassVar[str] = "fedgcn"
    title: ClassVar[str] = "FedGCN"
    task: ClassVar[str] = "node classification on features that are summed over neighbours once (NeurIPS 2023)"
    summed: ClassVar[str] = (
        "features of a node's neighbours at other clients, once, for the client of the node; then models for the server"
    )
    sees: ClassVar = MappingProxyType({
        "plaintext": "a client each other client's part of every sum, so rows of single neighbours; the server each "
        "client's model",
        "relay-coded": "a client sums over k_min other clients or more, and their differences; with two hops also sums "
        "around its nodes' neighbours, over as many other clients; the server the sum of the models",
    })  # fmt: skip
    tells: ClassVar = MappingProxyType({
        ("wanted messages", "silo", "silo"): "whose sums over which nodes a client asks for",
        ("neighbourhood sums", "silo", "silo"): "with two hops, sums around nodes next to those of the other client, "
        "and over how many neighbours, in the clear for that client; none over fewer than k_min clients beside it",
    })  # fmt: skip
    topologies: ClassVar[tuple[str, ...]] = ("neighbours", "server")
    demonstrated: ClassVar[tuple[str, ...]] = ("plaintext", "relay-coded")
    trained: ClassVar[str] = "relay-coded"

    preset: str = choice(
        "honest", "honest (chosen on validation data) or paper (as published)", known=("honest", "paper")
    )
    epochs: int | None = choice(None, "most training rounds; None takes the preset's", least=1, shown="N")
    hops: int = choice(2, "1: sums around own nodes; 2: also around their neighbours elsewhere", least=1, shown="L")

    @property
    def usual(self) -> Usual:
        """See `Method.usual`. Rows travel one way between two clients, so that counts can't be made equal."""
        return {"neighbours": {"field": 2**61 - 1, "profile": "graph-shown"}}

    def make_plan(self, asked: AuditRequest) -> AuditPlan:
        """See `Method.make_plan`."""
        from fgl_reproduction.methods.fedgcn.audit_target import fedgcn_plan

        return fedgcn_plan(self, asked)
