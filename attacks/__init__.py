"""Attacks: what a coalition infers from the view it had of a run.

`attack(name)` gives one by name and `names()` lists them; the classes are in the families' packages, each with what
attackers of the family may know and what they are scored against.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if __name__ != "fgl_secure.attacks":
    raise ImportError("import this package as 'fgl_secure.attacks': under a second name every class would exist twice")

if TYPE_CHECKING:
    from fgl_secure.attacks.registry import attack, attacks, names

__all__ = ["attack", "attacks", "names"]


def __getattr__(name: str) -> object:
    """Loads the attacks when one is asked for by name: some take torch, and a family needs the others as little."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fgl_secure.attacks import registry  # noqa: PLC0415

    return getattr(registry, name)
