"""GCFL+ (NeurIPS 2021)."""
