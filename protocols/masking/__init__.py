"""Masks that cancel in a sum: the parts of `fgl_secure.protocols.pairwise_masking`."""
