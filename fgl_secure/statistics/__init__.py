"""Figures and how sure they are: intervals, bootstraps, exact and two-sample tests, lower bounds on epsilon."""
