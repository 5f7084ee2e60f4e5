"""FedStruct (ICLR 2025)."""
