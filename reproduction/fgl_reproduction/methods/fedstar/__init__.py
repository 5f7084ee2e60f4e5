"""FedStar (AAAI 2023)."""
