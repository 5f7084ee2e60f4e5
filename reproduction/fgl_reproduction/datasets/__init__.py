"""Data that only the tables of one paper use."""
