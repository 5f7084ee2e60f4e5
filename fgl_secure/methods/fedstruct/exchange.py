"""How the clients of a run of FedStruct exchange structure, and under which schemes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from fgl_secure.methods.fedstruct.hop_adjacency import HopSettings, Pruning
from fgl_secure.methods.fedstruct.presets import FedStructPreset
from fgl_secure.methods.fedstruct.query_audit import AuditRule
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import NO_HELPERS, Scheme
from fgl_secure.protocols.topology import CLIENTS, NEIGHBOURS, SERVER
from fgl_secure.runtime import Role


class FeatureSharing(StrEnum):
    """Who holds structure features."""

    SHARED = "shared"
    """Every client holds those of all nodes (Algorithms 1 and 2)."""
    QUERIES = "queries"
    """Owners alone; they answer weighted queries (App. G.1)."""


class GradientDelivery(StrEnum):
    """To whom clients send gradients of learnt structure features."""

    SERVER = "server"
    """To the server, which sends sums on (Algorithm 2)."""
    OWNER = "owner"
    """To the owner of each node."""


@dataclass(frozen=True, slots=True)
class RowExchange:
    """Clients come to hold rows of the combined adjacency (App. D).

    Attributes:
        terms: adds up what is for one client: terms of a hop, and gradients for owners; None shows each to its
            receiver, as published.
        gradients: adds up what is for the server; None shows each to it, as published.
        pruning: which entries of powers are kept; how many is the preset's `kept`.
        sharing: who holds structure features.
        delivery: to whom gradients of learnt structure features go.
        rule: when a query is refused, under QUERIES; None counts queries as the paper does.
        pooled: whether clients assume that all requesters pool their answers.
        k_min: fewest clients that a row of summed gradients is opened for; see `gradients`.
    """

    terms: Scheme | None = None
    gradients: Scheme | None = None
    pruning: Pruning = Pruning.MATRIX
    sharing: FeatureSharing = FeatureSharing.SHARED
    delivery: GradientDelivery = GradientDelivery.SERVER
    rule: AuditRule | None = AuditRule()  # noqa: RUF009  # frozen
    pooled: bool = False
    k_min: int = 1

    @property
    def schemes(self) -> dict[str, Scheme]:
        """By topology."""
        return {CLIENTS: self.terms or Plaintext(), SERVER: self.gradients or Plaintext()}

    def hops(self, preset: FedStructPreset) -> HopSettings:
        """Which power is exchanged, and which entries of it."""
        pruning = self.pruning if preset.kept is not None else Pruning.NONE
        return HopSettings(preset.hops, pruning, preset.kept or 1, preset.betas)


@dataclass(frozen=True, slots=True)
class HopwiseExchange:
    """Nobody holds rows of a power: embeddings travel hop by hop.

    Attributes:
        sums: computes sums over foreign neighbours.
        gradients: adds up gradients of model parameters; None shows each to the server.
    """

    sums: Scheme
    gradients: Scheme | None = None

    @property
    def schemes(self) -> dict[str, Scheme]:
        """By topology."""
        return {NEIGHBOURS: self.sums, SERVER: self.gradients or Plaintext()}


@dataclass(frozen=True, slots=True)
class NoExchange:
    """Clients share nothing of their graphs: what FedStruct is compared with.

    Attributes:
        together: whether they train one model on the sum of their gradients, or each its own.
        averaged: whether each takes a step of its own, and models are averaged after it; goes with `together`.
    """

    together: bool = True
    averaged: bool = False

    @property
    def schemes(self) -> dict[str, Scheme]:
        """In the clear."""
        return {SERVER: Plaintext()}


Exchange = RowExchange | HopwiseExchange
"""What a run of FedStruct has."""


def helpers_of(exchange: Exchange) -> Mapping[Role, int]:
    """Who takes part beside the server, the clients and their nodes."""
    return exchange.sums.helpers if isinstance(exchange, HopwiseExchange) else NO_HELPERS
