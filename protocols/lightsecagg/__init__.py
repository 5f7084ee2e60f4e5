"""LightSecAgg: sums of vectors under masks that are opened in one go (So et al., MLSys 2022)."""

from __future__ import annotations

from fgl_secure.protocols.lightsecagg.scheme import LightSecAgg

__all__ = ["LightSecAgg"]
