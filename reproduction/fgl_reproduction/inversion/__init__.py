"""Gradient inversion: one round of federated averaging, the attack on the server's view, and a page of pictures."""

from __future__ import annotations

from fgl_reproduction.inversion.attacked_round import invert, round_of
from fgl_reproduction.inversion.options import InvertOptions
from fgl_reproduction.inversion.picture_gallery import gallery
from fgl_reproduction.inversion.report import structure_means

__all__ = ["InvertOptions", "gallery", "invert", "round_of", "structure_means"]
