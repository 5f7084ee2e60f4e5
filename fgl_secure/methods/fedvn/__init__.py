"""FedVN (AAAI 2025): virtual nodes that clients share, and edges to them that every client learns for itself."""
