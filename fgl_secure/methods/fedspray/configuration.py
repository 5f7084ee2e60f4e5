"""FedSpray (KDD 2024) and its choices."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from fgl_secure.auditing.method import Method
from fgl_secure.config_fields import choice
from fgl_secure.errors import InputError

if TYPE_CHECKING:
    from fgl_secure.auditing.method import AuditRequest
    from fgl_secure.auditing.plan import AuditPlan


@dataclass(frozen=True)
class FedSpray(Method):
    """FedSpray: personal models beside an encoder and class-wise structure proxies that all clients average.

    Attributes:
        backbone: graph neural network of the personal models.
        preset: "honest" or "paper".
        epochs: most training rounds; None takes the preset's.
        local_epochs: full-graph steps of each phase in a round; None takes the preset's.
        lambda_1: weight of the encoder's soft targets in a network's loss (Eq. 7), at least 0; None takes the preset's.
        lambda_2: weight of a network's predictions in the encoder's loss (Eq. 11), at least 0; None takes the preset's.
        k: propagations of backbone "sgc" (K of Wu et al. 2019), at least 1; None takes the preset's, 2.
        d_s: columns of feature embeddings and structure proxies; None takes the preset's.

    Raises:
        UnknownNameError: there is no such backbone or preset.
        InputError: a number is out of range, or `k` is given for another backbone.

    Examples:
        train(FedSpray(epochs=20), "digits").accuracy.test
    """

    name: ClassVar[str] = "fedspray"
    title: ClassVar[str] = "FedSpray"
    task: ClassVar[str] = "node classification with personal models and shared structure proxies (KDD 2024)"
    summed: ClassVar[str] = (
        "encoders weighted by nodes, class-wise proxies weighted by class shares, and these weights, for the server"
    )
    sees: ClassVar = MappingProxyType({
        "plaintext": "the server each client's encoder, node count, proxies and class shares",
        "pairwise-masking, lightsecagg, ckks-shared-key": "the server the sums, so the means, the number of nodes and "
        "the class shares of all together, which say more the fewer and the more unlike clients are",
    })  # fmt: skip
    topologies: ClassVar[tuple[str, ...]] = ("server",)
    demonstrated: ClassVar[tuple[str, ...]] = ("plaintext", "pairwise-masking")
    trained: ClassVar[str] = "pairwise-masking"

    backbone: str = choice("gcn", "graph neural network", known=("gcn", "sgc", "sage"))
    preset: str = choice(
        "honest", "honest (chosen on validation data) or paper (as published)", known=("honest", "paper")
    )
    epochs: int | None = choice(None, "most training rounds; None takes the preset's", least=1, shown="N")
    local_epochs: int | None = choice(
        None, "steps of each phase in a round; None takes the preset's", least=1, shown="N"
    )
    lambda_1: float | None = choice(None, "factor of Eq. 7; None takes the preset's", least=0, shown="FACTOR")
    lambda_2: float | None = choice(None, "factor of Eq. 11; None takes the preset's", least=0, shown="FACTOR")
    k: int | None = choice(None, "propagations of backbone sgc; None takes the preset's", least=1, shown="K")
    d_s: int | None = choice(None, "columns of structure proxies; None takes the preset's", least=1, shown="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k is not None and self.backbone != "sgc":
            raise InputError(f"k must be None unless the backbone is sgc; found {self.k} with {self.backbone}: omit k")

    def make_plan(self, request: AuditRequest) -> AuditPlan:
        """See `Method.make_plan`."""
        from fgl_secure.methods.fedspray.audit_target import fedspray_plan

        return fedspray_plan(self, request)
