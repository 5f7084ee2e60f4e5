"""Attacks: what a coalition infers from the view it had of a run.

`attack(name)` gives one by name and `names()` lists them; the classes are in the families' packages, each with what
attackers of the family may know and what they are scored against. `match`, `invert`, `reconstruct_graph`,
`edges_from_product`, `find_contained` and `differences` attack arrays of your own. `audit_model` attacks a finished
model's answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ != "fgl_secure.attacks":
    raise ImportError("import this package as 'fgl_secure.attacks': under a second name every class would exist twice")

if TYPE_CHECKING:
    from fgl_secure.attacks.arrays import (
        differences,
        edges_from_product,
        find_contained,
        invert,
        match,
        reconstruct_graph,
    )
    from fgl_secure.attacks.base import Attack
    from fgl_secure.attacks.outputs import audit_model, model_leakage

__all__ = [
    "attack",
    "attacks",
    "audit_model",
    "differences",
    "edges_from_product",
    "find_contained",
    "invert",
    "match",
    "model_leakage",
    "names",
    "reconstruct_graph",
]
_OF_MODELS = ("audit_model", "model_leakage")


def __getattr__(name: str) -> Any:
    """Load attacks on arrays and on models on first access, because they import torch."""
    if name in _OF_MODELS:
        return getattr(import_module(f"{__name__}.outputs"), name)
    if name in __all__:
        return getattr(import_module(f"{__name__}.arrays"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def attack(name: str) -> Attack[Any, Any]:
    """The attack of a name.

    Returns:
        The attack, whose `card` states what it reads and knows.

    Raises:
        UnknownNameError: there is none; names those that there are.
        InputError: an installed package breaks a rule of attacks.

    Examples:
        >>> attack("all-codes").card.observer
        <Role.DEVICE: 'device'>
    """
    result: Attack[Any, Any] = _registry().attack(name)
    return result


def attacks() -> Mapping[str, Attack[Any, Any]]:
    """All attacks by name: those of this package, then those of installed packages.

    Raises:
        InputError: an installed package breaks a rule of attacks.
    """
    result: Mapping[str, Attack[Any, Any]] = _registry().attacks()
    return result


def names() -> tuple[str, ...]:
    """The names of all attacks."""
    return tuple(attacks())


def _registry() -> Any:
    """Stands above the families, which stand on what is here; loaded when it is asked for, for some take torch."""
    return import_module(f"{__name__}.registry")
