"""Libraries that only some sets of graphs need, and that are therefore installed on request."""

from __future__ import annotations

import importlib
from typing import Any

from fgl_secure.errors import InputError


def optional(module: str, extra: str, wanted_by: str) -> Any:
    """Import a module of an optional library.

    Args:
        module: Its full name.
        extra: The optional extra of this package that installs it.
        wanted_by: The set of graphs that needs it, for the message.

    Raises:
        InputError: It is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"graph set {wanted_by} needs {module}, which is not installed: pip install 'fgl-secure[{extra}]' ({error})"
        ) from None
