"""Plugins: what other installed packages register by entry points.

Groups: `fgl_secure.methods`, `fgl_secure.schemes`, `fgl_secure.attacks`, `fgl_secure.backbones`, `fgl_secure.controls`,
`fgl_secure.datasets` and `fgl_secure.subcommands`.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from fgl_secure.errors import InputError


def installed_plugins(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, of all packages installed on this process's module search path."""
    return _installed_on(group, tuple(sys.path))


# Every installed package has a file of entry points, and names are checked with each choice and message.
@lru_cache(maxsize=64)
def _installed_on(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:  # noqa: ARG001  # part of the cache's key
    return tuple(entry_points(group=group))


def load_plugin(point: EntryPoint) -> Any:
    """Return the object that an entry point names.

    Raises:
        InputError: it does not load; the message names the entry point and the cause, without a traceback.
    """
    try:
        return point.load()
    except Exception as error:
        raise InputError(f"entry point {point.name} of {point.group} must load; found {error!r}") from error
