"""Attacks on what clients of FedSage+ answer about each other's generators."""

from __future__ import annotations

from fgl_secure.attacks.generators.gradient_rows import GeneratorGradientRows
from fgl_secure.attacks.generators.knowledge import GeneratorShape
from fgl_secure.attacks.generators.truth import ClientRows

__all__ = ["ClientRows", "GeneratorGradientRows", "GeneratorShape"]
