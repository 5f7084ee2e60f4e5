"""Attacks: what a coalition infers from the view it had of a run.

`attack(name)` gives one by name and `names()` lists them; the classes are in the families' packages, each with what
attackers of the family may know and what they are scored against.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ != "fgl_secure.attacks":
    raise ImportError("import this package as 'fgl_secure.attacks': under a second name every class would exist twice")

if TYPE_CHECKING:
    from fgl_secure.attacks.base import Attack

__all__ = ["attack", "attacks", "names"]


def attack(name: str) -> Attack[Any, Any]:
    """The attack of a name.

    Raises:
        UnknownNameError: there is none; names those that there are.
        InputError: an installed package breaks a rule of attacks.
    """
    found: Attack[Any, Any] = _registry().attack(name)
    return found


def attacks() -> Mapping[str, Attack[Any, Any]]:
    """All attacks by name: those of this package, then those of installed packages.

    Raises:
        InputError: an installed package breaks a rule of attacks.
    """
    found: Mapping[str, Attack[Any, Any]] = _registry().attacks()
    return found


def names() -> tuple[str, ...]:
    """The names of all attacks."""
    return tuple(attacks())


def _registry() -> Any:
    """Stands above the families, which stand on what is here; loaded when it is asked for, for some take torch."""
    return import_module(f"{__name__}.registry")
