"""Attacks on the structure that clients share: hops, features, queries, gradients and encoders."""
