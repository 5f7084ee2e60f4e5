"""Fed2GNN (anonymous submission) and its choices."""

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
class Fed2GNN(Method):
    """Fed2GNN: clients rebuild the trees around their nodes from sums of features at other clients.

    Schemes for models are those of the topology "server"; where none is named they are in plaintext beside sums of
    features in plaintext, and under pairwise masking beside others.

    Attributes:
        backbone: graph neural network.
        preset: "honest" or "paper".
        epochs: most training rounds; None takes the preset's.
        hops: K, layers of the model and of the trees below their roots; None takes the preset's.
        neighbours: d, most neighbours at other clients that a node asks about; None takes the preset's.
        decoder: "per-level" trains a decoder for each decoded level and decodes as many as the preset says, one.
            "shared" is the paper's: one decoder for all levels decodes K - 1 levels, up to d^(K-1) nodes a tree. For
            K = 2 both are the same.

    Raises:
        UnknownNameError: there is no such backbone, preset or decoder.
        InputError: a number is out of range.

    Examples:
        train(Fed2GNN(epochs=20), "digits").accuracy.test
    """

    name: ClassVar[str] = "fed2gnn"
    title: ClassVar[str] = "Fed2GNN"
    task: ClassVar[str] = "node classification by deep models on rebuilt neighbourhoods (anonymous submission)"
    summed: ClassVar[str] = (
        "features of a node's k-hop neighbours at other clients, for the client of the node; then models for the server"
    )
    sees: ClassVar = MappingProxyType({
        "plaintext": "a client each other client's part of every sum, so rows of single neighbours; the server each "
        "client's model",
        "relay-coded": "a client sums over k_min other clients or more, and their differences; the server the sum of "
        "the models",
    })  # fmt: skip
    tells: ClassVar = MappingProxyType({
        ("wanted messages", "silo", "silo"): "which edges between two clients their nodes picked, and then ask about",
    })  # fmt: skip
    topologies: ClassVar[tuple[str, ...]] = ("neighbours", "server")
    demonstrated: ClassVar[tuple[str, ...]] = ("plaintext", "relay-coded")
    trained: ClassVar[str] = "relay-coded"

    backbone: str = choice("gcn", "graph neural network", known=("gcn", "sage", "dagnn"))
    preset: str = choice(
        "honest", "honest (chosen on validation data) or paper (as published)", known=("honest", "paper")
    )
    epochs: int | None = choice(None, "most training rounds; None takes the preset's", least=1, shown="N")
    hops: int | None = choice(None, "depth of the trees; None takes the preset's", least=1, shown="L")
    neighbours: int | None = choice(
        None, "most neighbours at other clients that a node asks about; None takes the preset's", least=1, shown="D"
    )
    decoder: str = choice(
        "per-level",
        "per-level (one decoder for each of the preset's decoded levels) or shared (the paper's: one decoder for all "
        "K - 1 levels)",
        known=("per-level", "shared"),
    )

    @property
    def usual(self) -> Usual:
        """See `Method.usual`. Rows travel one way between two clients, so that counts can't be made equal."""
        return {"neighbours": {"field": 2**61 - 1, "profile": "graph-shown"}}

    def make_plan(self, request: AuditRequest) -> AuditPlan:
        """See `Method.make_plan`."""
        from fgl_secure.methods.fed2gnn.audit_target import fed2gnn_plan

        return fed2gnn_plan(self, request)
