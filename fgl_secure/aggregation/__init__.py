"""Secure aggregation around any training loop: mappings of arrays in, their mean out."""
