"""Secure aggregation and federated graph learning on Flower, where `fgl-secure[flower]` is installed."""

from fgl_secure.flower.mod import SecureAggregationMod, secure_aggregation_mod
from fgl_secure.flower.rounds import RoundReport
from fgl_secure.flower.strategy import SecureAggregationStrategy, SecuredGrid
from fgl_secure.flower.terms import ClientPolicy

__all__ = [
    "ClientPolicy",
    "RoundReport",
    "SecureAggregationMod",
    "SecureAggregationStrategy",
    "SecuredGrid",
    "secure_aggregation_mod",
]
