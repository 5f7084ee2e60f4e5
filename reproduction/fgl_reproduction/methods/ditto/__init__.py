"""Ditto (ICML 2021)."""
