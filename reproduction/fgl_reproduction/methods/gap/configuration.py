"""GAP (USENIX Security 2023) and ProGAP (WSDM 2024), and their choices."""

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


@dataclass(frozen=True)
class GAP(Method):
    """GAP: an encoder of own features, noisy sums over neighbours once per hop, and a classifier of all of them.

    Differential privacy is of one undirected edge, present or absent. Each device adds noise to the sum that it
    receives, before any other party computes with it; or relays add it together, so that receivers see no exact sum.
    Features and models are not protected, labels only with `label_epsilon`.

    Attributes:
        epsilon: of all sums together.
        delta: of all sums together; None takes the largest power of ten below 1 / edges.
        hops: noisy sums of each device.
        edges: public bound on directed edges, two for each undirected one; None makes the graph's own number public.
        noise: "receivers", or "relays" under relay-coded.
        colluding: relays that may reveal their shares of noise, if relays add it.
        label_epsilon: of randomised response for each training and validation label; None keeps labels.
        epochs: most rounds of each stage; None takes the preset's.
        preset: "honest", or "paper", which counts one direction of an edge and always reports a round with edges.

    Raises:
        UnknownNameError: there is no such preset.
        InputError: a number is out of range.
    """

    name: ClassVar[str] = "gap"
    title: ClassVar[str] = "GAP"
    task: ClassVar[str] = "node classification on noisy sums, cached once per hop (USENIX Security 2023)"
    summed: ClassVar[str] = (
        "embeddings of a device's neighbours, once per hop, for the device, which adds noise; silos' models and counts "
        "for the server"
    )
    sees: ClassVar = MappingProxyType({
        "plaintext": "a device its neighbours' embeddings, the server each silo's model",
        "relay-coded": "a device the exact sum over its neighbours, one neighbour's embedding if it has one; each "
        "relay who sends to whom; the server the sum of the models",
    })  # fmt: skip
    topologies: ClassVar[tuple[str, ...]] = ("neighbours", "server")
    demonstrated: ClassVar[tuple[str, ...]] = ("plaintext", "relay-coded")
    trained: ClassVar[str] = "relay-coded"
    progressive: ClassVar[bool] = False
    """Whether every hop has a stage of its own."""

    epsilon: float = choice(4.0, "of all sums together, per undirected edge", above=0, shown="E")
    delta: float | None = choice(None, "of all sums; None takes a power of ten below 1 / edges", above=0, shown="D")
    hops: int = choice(2, "noisy sums of each device", least=1, shown="L")
    edges: int | None = choice(
        None, "public bound on directed edges; None makes the graph's own number public", least=1, shown="M"
    )
    noise: str = choice("receivers", "who adds noise to sums", known=("receivers", "relays"))
    colluding: int = choice(1, "relays that may reveal their noise, if relays add it", least=0, shown="C")
    label_epsilon: float | None = choice(
        None, "per label, by randomised response; None trains on labels as they are", above=0, shown="E"
    )
    epochs: int | None = choice(None, "most rounds of each stage; None takes the preset's", least=1, shown="N")
    preset: str = choice(
        "honest",
        "honest (an undirected edge; edges are left out if they bring nothing) or paper (one direction of an edge)",
        known=("honest", "paper"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("epsilon", "label_epsilon"):
            value = getattr(self, name)
            if value is not None and not isfinite(value):
                raise InputError(f"{name} must be finite; found {value}")

    @property
    def usual(self) -> Usual:
        """See `Method.usual`. Refused sums and degree-capped partners depend on edges, which noise would not cover."""
        return {"neighbours": {"k_min": 1, "profile": "graph-shown"}}

    def make_plan(self, request: AuditRequest) -> AuditPlan:
        """See `Method.make_plan`."""
        from fgl_reproduction.methods.gap.audit_target import gap_plan

        return gap_plan(self, request)


@dataclass(frozen=True)
class ProGAP(GAP):
    """ProGAP: as GAP, with a stage of training for every hop, whose sums are of what the last stage learnt.

    Attributes and errors are those of `GAP`.
    """

    name: ClassVar[str] = "progap"
    title: ClassVar[str] = "ProGAP"
    task: ClassVar[str] = "node classification on noisy sums, a stage of training per hop (WSDM 2024)"
    progressive: ClassVar[bool] = True
