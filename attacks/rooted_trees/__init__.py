"""Attacks on the hop sums by which clients of Fed2GNN build rooted trees."""
