"""Figures and how sure they are: intervals, bootstraps, exact and two-sample tests, lower bounds on epsilon."""

from __future__ import annotations

from fgl_secure.statistics.exact import compare_exactly
from fgl_secure.statistics.metrics import (
    Interval,
    Proportion,
    advantage,
    clustered_advantage,
    clustered_proportion,
    exact_proportion,
    exact_rows_recovered,
    node_block_proportion,
    pair_advantage,
    smallest_detectable,
)

__all__ = [
    "Interval",
    "Proportion",
    "advantage",
    "clustered_advantage",
    "clustered_proportion",
    "compare_exactly",
    "exact_proportion",
    "exact_rows_recovered",
    "node_block_proportion",
    "pair_advantage",
    "smallest_detectable",
]
