"""Attacks: what a coalition infers from the view it had of a run."""

from __future__ import annotations

if __name__ != "fgl_secure.attacks":
    raise ImportError("import this package as 'fgl_secure.attacks': under a second name every class would exist twice")
