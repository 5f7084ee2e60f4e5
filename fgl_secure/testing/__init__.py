"""Privacy tests for protocols, one's own included, that cannot pass without having been able to fail.

Every check is run on the protocol and on a broken twin of it; a twin that passes makes the test an error. The names
below are loaded when they are first used, because pytest loads this package at start-up for its plugin.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fgl_secure.testing.affine import assert_affinely_private
    from fgl_secure.testing.ceilings import assert_below_ceilings
    from fgl_secure.testing.coins import BatchCoins, CountingCoins, Tapes
    from fgl_secure.testing.evidence import (
        Evidence,
        NotPrivateError,
        NotSimulatableError,
        PrivacyAssertionError,
        PrivacyTestWarning,
        TraceDiffersError,
        VacuousTestError,
    )
    from fgl_secure.testing.exactly import assert_exactly_private
    from fgl_secure.testing.protocol import Protocol, protocol_of
    from fgl_secure.testing.statistically import assert_simulatable, assert_statistically_private
    from fgl_secure.testing.trace import assert_same_trace

logging.getLogger("fgl_secure.testing").addHandler(logging.NullHandler())  # who wants the log asks for it

_HOMES = ("evidence", "coins", "protocol", "exactly", "affine", "statistically", "trace", "ceilings")

__all__ = [
    "BatchCoins",
    "CountingCoins",
    "Evidence",
    "NotPrivateError",
    "NotSimulatableError",
    "PrivacyAssertionError",
    "PrivacyTestWarning",
    "Protocol",
    "Tapes",
    "TraceDiffersError",
    "VacuousTestError",
    "assert_affinely_private",
    "assert_below_ceilings",
    "assert_exactly_private",
    "assert_same_trace",
    "assert_simulatable",
    "assert_statistically_private",
    "protocol_of",
]


def __getattr__(name: str) -> object:
    homes = (import_module(f"{__name__}.{home}") for home in _HOMES if name in __all__)
    home = next((home for home in homes if hasattr(home, name)), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(home, name)


def __dir__() -> list[str]:
    return sorted(__all__)
