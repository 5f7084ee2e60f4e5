"""Attacks on neighbourhood sums between devices: codes, sums, tags, relays, message counts and gradients."""
