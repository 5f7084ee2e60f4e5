"""Federated averaging (AISTATS 2017)."""
