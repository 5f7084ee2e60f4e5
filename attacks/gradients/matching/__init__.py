"""Inputs sought whose gradient is the one that was seen."""
