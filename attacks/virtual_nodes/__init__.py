"""Attacks on what clients of FedVN send to the server."""
