"""Pairwise masking: sums of vectors under masks that cancel (Bonawitz et al., CCS 2017)."""

from __future__ import annotations

from fgl_secure.protocols.pairwise_masking.scheme import PairwiseMasking

__all__ = ["PairwiseMasking"]
