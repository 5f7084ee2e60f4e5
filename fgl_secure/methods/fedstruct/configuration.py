"""FedStruct (ICLR 2025) and its choices."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from fgl_secure.auditing.method import Method, Usual
from fgl_secure.config_fields import choice
from fgl_secure.errors import InputError

if TYPE_CHECKING:
    from fgl_secure.auditing.method import AuditRequest
    from fgl_secure.auditing.plan import AuditPlan

TAU, LEAST, K_MIN = 0.9, 3, 2


@dataclass(frozen=True)
class FedStruct(Method):
    """FedStruct: clients exchange structure beforehand and train on sums over all nodes.

    How structure is exchanged follows from the topology that a scheme is named for: terms of powers of the adjacency
    for "clients", embeddings hop by hop for "neighbours", where no party holds a power. A scheme for "clients" also
    adds up gradients for owners; one for "server" what the server is told: gradients, losses and counts of right
    answers.

    Attributes:
        backbone: graph neural network of a client's own features.
        preset: "honest" or "paper".
        epochs: most training rounds; None takes the preset's.
        features: structure features; "hop2vec" learns them.
        hops: L_s, the power of the adjacency; None takes the preset's, or that of the last weight.
        betas: weights of its powers 0 to L_s in A-bar, with commas (Eq. 2, and the filter of section 5.2, which begins
            with power 0); None takes the power L_s alone.
        structure_model: g of structure features: a perceptron, or none: Hop2Vec learns what g would give (Eq. 15).
        stepping: what is done with gradients: Adam, as the public code, or gradient descent, as the paper's algorithms;
            None takes the preset's.
        rate: learning rate of parameters, lambda; None takes the preset's.
        structure_rate: learning rate of learnt structure features, lambda_s; None takes the preset's.
        pruning: which entries of powers are kept; None takes the public code's where the preset prunes.
        kept: entries kept for each node, p; None takes the preset's.
        sharing: who holds structure features: every party, or owners, who answer aggregated queries.
        delivery: to whom gradients of learnt structure features go.
        count_queries: whether queries are refused by their number, as the paper does, and not by what they span.
        tau: leverage beyond which a query is refused.
        least_nodes: fewest nodes that a query may weigh.
        pooled: whether queries are audited as if all requesters pooled their answers.
        k_min: fewest clients that a row of summed gradients of structure is opened for; 1 opens all.

    Raises:
        UnknownNameError: a name is none of those that there are.
        InputError: a number is out of range, or a choice goes with none of the others.

    Examples:
        train(FedStruct(epochs=20), "digits").accuracy.test
    """

    name: ClassVar[str] = "fedstruct"
    title: ClassVar[str] = "FedStruct"
    task: ClassVar[str] = "node classification with shared structure features (ICLR 2025)"
    summed: ClassVar[str] = (
        "terms B_ijk of adjacency powers for client i; gradients of the structure features for the server or the "
        "owners of the rows; other gradients, losses and right predictions for the server"
    )
    sees: ClassVar = MappingProxyType({
        "plaintext": "a client every term, the server every gradient",
        "ckks, pairwise-masking": "a client the sum of the terms, the server the sum of the gradients",
        "relay-coded": "a client sums over foreign neighbours hop by hop, and no term",
    })  # fmt: skip
    tells: ClassVar = MappingProxyType({
        ("capacities", "silo", "silo"): "how many cells each asks for, so about how many entries its sum of terms has",
        ("nodes", "silo", "silo"): "the numbers of own nodes, where shares of powers are pruned",
        ("thresholds", "silo", "silo"): "between which values the least entry of a power that is kept lies",
        ("structure features", "silo", "silo"): "structure features of own nodes, if every silo holds all of them",
        ("query weights", "silo", "silo"): "rows of the combined adjacency, where owners answer queries",
        ("query answers", "silo", "silo"): "weighted sums of own structure embeddings, to others that asked for them",
        ("opened entries", "silo", "silo"): "which of the owner's rows of gradients enough others contribute to",
    })  # fmt: skip
    topologies: ClassVar[tuple[str, ...]] = ("clients", "neighbours", "server")
    demonstrated: ClassVar[tuple[str, ...]] = ("plaintext", "ckks", "relay-coded")
    trained: ClassVar[str] = "relay-coded"

    backbone: str = choice("gcn", "graph neural network", known=("gcn", "sage"))
    preset: str = choice(
        "honest", "honest (chosen on validation data) or paper (as published)", known=("honest", "paper")
    )
    epochs: int | None = choice(None, "most training rounds; None takes the preset's", least=1, shown="N")
    features: str = choice(
        "hop2vec",
        "structure features, hop2vec being learnt",
        known=("hop2vec", "degree", "graphlet", "fedstar", "node2vec"),
    )
    hops: int | None = choice(None, "power of the adjacency; None takes the preset's", least=1, shown="L")
    betas: str | None = choice(
        None, "weights of the powers 0 to L of the adjacency, with commas; None takes L alone", shown="B0,B1,..."
    )
    structure_model: str = choice(
        "perceptron", "of structure features; with none Hop2Vec learns what it would give", known=("perceptron", "none")
    )
    stepping: str | None = choice(
        None, "adam (the public code) or descent (the paper); None takes the preset's", known=("adam", "descent")
    )
    rate: float | None = choice(None, "learning rate of parameters; None takes the preset's", shown="R")
    structure_rate: float | None = choice(
        None, "learning rate of Hop2Vec's features; None takes the preset's", shown="R"
    )
    pruning: str | None = choice(
        None,
        "shares: largest entries of each term (the paper); matrix: of the whole power (its code); None takes matrix "
        "where the preset prunes",
        known=("none", "shares", "matrix"),
    )
    kept: int | None = choice(None, "entries kept for each node; None takes the preset's", least=1, shown="P")
    sharing: str = choice(
        "shared",
        "who holds structure features: everybody, or owners, who answer aggregated queries",
        known=("shared", "queries"),
    )
    delivery: str = choice("server", "to whom gradients of learnt structure features go", known=("server", "owner"))
    count_queries: bool = choice(False, "refuse queries by their number, as the paper does")
    tau: float = choice(TAU, "leverage beyond which a query is refused", shown="TAU")
    least_nodes: int = choice(LEAST, "fewest nodes that a query may weigh", least=1, shown="K")
    pooled: bool = choice(False, "audit queries as if all requesters pooled their answers")
    k_min: int = choice(
        K_MIN, "fewest clients that a row of summed gradients of structure is opened for; 1 opens all", least=1
    )

    @property
    def weights(self) -> tuple[float, ...] | None:
        """The numbers of `betas`."""
        try:
            return None if self.betas is None else tuple(map(float, self.betas.split(",")))
        except ValueError:
            raise InputError(f"betas must be numbers with commas between them; found {self.betas!r}") from None

    @property
    def usual(self) -> Usual:
        """See `Method.usual`. Clients add up what crosses between them, so that no partners are agreed on."""
        return {"neighbours": {"field": 2**61 - 1, "bound": 1024.0, "profile": "graph-shown"}}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.tau <= 1:
            raise InputError(f"tau must lie in (0, 1]; found {self.tau}")
        if self.features != "hop2vec" and (self.structure_model, self.structure_rate) != ("perceptron", None):
            raise InputError(f"structure_model and structure_rate must go with hop2vec; found {self.features}")
        for name in ("rate", "structure_rate"):
            value = getattr(self, name)
            if value is not None and not (isfinite(value) and value > 0):
                raise InputError(f"{name} must be positive; found {value}")
        _ = self.weights
        queries, pruned = self.sharing == "queries", self.pruning != "none"
        for names, used, option in (
            (("tau", "count_queries", "least_nodes", "pooled"), queries, "sharing by queries"),
            (("tau", "least_nodes"), not self.count_queries, "queries that are not counted"),
            (("kept",), pruned, "pruning"),
            (("k_min",), queries or self.features == "hop2vec", "gradients of structure features"),
        ):
            for name in () if used else names:
                if getattr(self, name) != getattr(FedStruct, name):
                    raise InputError(f"{name} must go with {option}; found {getattr(self, name)}")

    def make_plan(self, request: AuditRequest) -> AuditPlan:
        """See `Method.make_plan`."""
        from fgl_secure.methods.fedstruct.audit_target import fedstruct_plan

        return fedstruct_plan(self, request)
