"""FedVN (AAAI 2025)."""
