"""Figures and how sure they are: intervals, bootstraps, exact and two-sample tests, lower bounds on epsilon."""

from fgl_secure.statistics.exact import ExactComparison, compare_exactly

__all__ = ["ExactComparison", "compare_exactly"]
