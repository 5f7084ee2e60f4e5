"""FedSpray (KDD 2024)."""
