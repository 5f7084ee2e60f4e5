"""Schemes: ways to compute grouped sums, and what each claims to hide."""

from __future__ import annotations

if __name__ != "fgl_secure.protocols":
    raise ImportError(
        "import this package as 'fgl_secure.protocols': under a second name every class would exist twice"
    )
