"""Attacks on what finished models answer."""
