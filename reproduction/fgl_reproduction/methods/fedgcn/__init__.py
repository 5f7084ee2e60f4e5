"""FedGCN (NeurIPS 2023)."""
