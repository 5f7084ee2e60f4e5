"""Attacks on messages that only the compared methods send."""
