"""GCFL+ (NeurIPS 2021) and its choices."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from fgl_secure.config_fields import choice
from fgl_secure.errors import InputError
from fgl_secure.methods.fedavg.configuration import FedAvg

if TYPE_CHECKING:
    from fgl_secure.auditing.method import AuditRequest
    from fgl_secure.auditing.plan import AuditPlan


@dataclass(frozen=True)
class GCFL(FedAvg):
    """GCFL+: federated averaging in clusters, which split by how the norms of clients' gradients went.

    Attributes:
        mean_norm: epsilon_1; a cluster splits only where its mean update is shorter.
        largest_norm: epsilon_2; and some client's update is longer.
        length: of the sequences of norms that are compared.
        after: rounds before the first split.
        least: fewest clients of a cluster; 1 as in the paper.

    Raises:
        UnknownNameError: there is no such backbone.
        InputError: a number is out of range, or there is noise.
    """

    name: ClassVar[str] = "gcfl"
    title: ClassVar[str] = "GCFL+"
    task: ClassVar[str] = "node classification on local subgraphs with a common model a cluster (NeurIPS 2021)"
    summed: ClassVar[str] = "model updates by cluster for the server, and the norm of each client's"
    sees: ClassVar = MappingProxyType({
        "plaintext": "the server each client's update",
        "pairwise-masking, lightsecagg, ckks-shared-key": "the server, and every client, the mean update of each "
        "cluster, the norm of each client's update, and so who is in which cluster",
    })  # fmt: skip

    mean_norm: float = choice(0.05, "epsilon_1: a cluster splits where its mean update is shorter", shown="EPS")
    largest_norm: float = choice(0.1, "epsilon_2: and where some client's update is longer", shown="EPS")
    length: int = choice(5, "norms of a client that are compared", least=1, shown="L")
    after: int = choice(20, "rounds before the first split", least=0, shown="N")
    least: int = choice(3, "fewest clients of a cluster; 1 as in the paper", least=1, shown="K")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise is not None:
            raise InputError(
                f"noise must not be given for gcfl, whose norms would be told without any; found {self.noise}"
            )

    def make_plan(self, request: AuditRequest) -> AuditPlan:
        """See `Method.make_plan`."""
        from fgl_reproduction.methods.gcfl.audit_target import gcfl_plan

        return gcfl_plan(self, request)
