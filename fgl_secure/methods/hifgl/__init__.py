"""HiFGL (KDD 2024)."""
