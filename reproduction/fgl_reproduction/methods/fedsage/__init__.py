"""FedSage+ (NeurIPS 2021)."""
