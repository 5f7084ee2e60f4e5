"""What other installed packages add to this one, by entry points."""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from fgl_secure.errors import InputError


def installed(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, of all packages that are installed where this process looks for modules.

    They are looked for once: every package has a file of them, and names are checked with each choice and message.
    """
    return _installed(group, tuple(sys.path))


@lru_cache(maxsize=64)
def _installed(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:  # noqa: ARG001  # where they are looked for
    return tuple(entry_points(group=group))


def loaded(point: EntryPoint) -> Any:
    """What an entry point names.

    Raises:
        InputError: it does not load; a broken package is refused by name rather than with its traceback.
    """
    try:
        return point.load()
    except Exception as error:
        raise InputError(f"entry point {point.name} of {point.group} must load; found {error!r}") from error
