"""What a caller chooses about FedStruct's exchange of structure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from fgl_secure.algebra import MERSENNE_61
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph.structure_features import STRUCTURE_FEATURES
from fgl_secure.methods.fedstruct.exchange import (
    Exchange,
    FeatureSharing,
    GradientDelivery,
    HopwiseExchange,
    RowExchange,
)
from fgl_secure.methods.fedstruct.presets import FedStructPreset
from fgl_secure.protocols.ckks import Ckks
from fgl_secure.protocols.hop_adjacency import Pruning
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.query_audit import AuditRule
from fgl_secure.protocols.registry import Parameters, make_scheme
from fgl_secure.protocols.vector_sum import VectorScheme

HOPWISE_BOUND = 1024.0
"""Largest magnitude of an entry of a structure embedding in the field of 2^61 - 1."""


class ExchangeName(StrEnum):
    """How clients exchange structure."""

    PLAINTEXT = "plaintext"
    """Terms and gradients in the clear, as published."""
    CKKS = "ckks"
    """Terms as ciphertexts under the receiver's key, gradients under pairwise masks."""
    PAIRWISE_MASKING = "pairwise-masking"
    """Terms and gradients under pairwise masks."""
    HOPWISE = "hopwise"
    """Embeddings hop by hop under a scheme for neighbourhood sums; nobody holds a power of the adjacency."""


@dataclass(frozen=True, slots=True)
class StructureChoice:
    """The choices of one run that are FedStruct's alone.

    Attributes:
        features: name of the structure features.
        exchanges: names of exchanges.
        hops: L_s; None takes the preset's.
        pruning: which entries of powers are kept; None takes the public code's where the preset prunes.
        kept: entries kept for each node, p; None takes the preset's.
        sharing: who holds structure features.
        delivery: to whom gradients of learnt structure features go.
        counting: whether queries are counted, as the paper does, and not audited by row space.
        most_leverage: tau of the audit of queries.
        pooled: whether clients assume that all requesters pool their answers.
    """

    features: str = "hop2vec"
    exchanges: tuple[str, ...] = ()
    hops: int | None = None
    pruning: Pruning | None = None
    kept: int | None = None
    sharing: FeatureSharing = FeatureSharing.SHARED
    delivery: GradientDelivery = GradientDelivery.SERVER
    counting: bool = False
    most_leverage: float = 0.9
    pooled: bool = False

    def check(self) -> None:
        """Raises unless names are known, numbers in range, and choices fit each other."""
        if self.features not in STRUCTURE_FEATURES:
            raise UnknownNameError("features", self.features, tuple(STRUCTURE_FEATURES))
        for name in self.exchanges:
            if name not in tuple(ExchangeName):
                raise UnknownNameError("exchange", name, tuple(ExchangeName))
        for argument, value in (("hops", self.hops), ("kept", self.kept)):
            if value is not None and value < 1:
                raise InputError(f"{argument} must be at least 1; found {value}")
        AuditRule(self.most_leverage)

    def preset(self, chosen: FedStructPreset) -> FedStructPreset:
        """The preset with the hops and the pruning that were asked for."""
        kept = None if self.pruning is Pruning.NONE else (self.kept or chosen.kept)
        return replace(chosen, hops=self.hops or chosen.hops, kept=kept)

    def exchange(self, name: str, protocol: str, parameters: Parameters) -> Exchange:
        """The exchange of a name.

        Args:
            name: one of `ExchangeName`.
            protocol: scheme of the neighbourhood sums of a hopwise exchange.
            parameters: of that scheme; `k_min` also bounds the nodes of a query from below.
        """
        masking = PairwiseMasking()
        if name == ExchangeName.HOPWISE:
            return HopwiseExchange(make_scheme(protocol, _roomy(parameters)), masking)
        by_name: dict[str, tuple[VectorScheme | None, VectorScheme | None]] = {
            ExchangeName.PLAINTEXT: (None, None),
            ExchangeName.CKKS: (Ckks(), masking),
            ExchangeName.PAIRWISE_MASKING: (masking, masking),
        }
        terms, gradients = by_name[name]
        rule = None if self.counting else AuditRule(self.most_leverage, parameters.k_min)
        pruning = self.pruning or Pruning.MATRIX
        return RowExchange(terms, gradients, pruning, self.sharing, self.delivery, rule, self.pooled)

    def name_of(self, exchange: Exchange, name: str) -> str:
        """What the exchange is called in tables: its name, and what differs from the default in brackets."""
        if isinstance(exchange, HopwiseExchange):
            return f"{name}[{exchange.sums.name}]"
        extras = [
            "queries" if exchange.sharing is FeatureSharing.QUERIES else "",
            ("counted" if exchange.rule is None else f"tau={exchange.rule.most_leverage:g}")
            if exchange.sharing is FeatureSharing.QUERIES
            else "",
            "pooled" if exchange.pooled and exchange.sharing is FeatureSharing.QUERIES else "",
            "to owners" if exchange.delivery is GradientDelivery.OWNER else "",
        ]
        named = ",".join(extra for extra in extras if extra)
        return f"{name}[{named}]" if named else name


def _roomy(parameters: Parameters) -> Parameters:
    """Room for structure embeddings, which grow in training: a larger field and bound where neither was chosen."""
    if (parameters.modulus, parameters.bound) != (Parameters().modulus, Parameters().bound):
        return parameters
    return replace(parameters, modulus=MERSENNE_61, bound=HOPWISE_BOUND)
