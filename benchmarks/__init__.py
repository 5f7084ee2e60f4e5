"""Benchmarks of arithmetic, schemes and training, one module per part; run from a checkout."""
