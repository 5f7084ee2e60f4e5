"""Secure aggregation and federated graph learning on Flower, where `fgl-secure[flower]` is installed."""
