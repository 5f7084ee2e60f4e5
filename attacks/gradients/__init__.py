"""Attacks on clients' gradients in federated averaging, one by one and summed."""
