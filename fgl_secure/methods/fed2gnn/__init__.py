"""Fed2GNN (anonymous submission)."""
