"""Attacks on the structure proxies of FedSpray."""
