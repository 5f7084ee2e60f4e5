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

_HOME = {
    "BatchCoins": "coins",
    "CountingCoins": "coins",
    "Evidence": "evidence",
    "NotPrivateError": "evidence",
    "NotSimulatableError": "evidence",
    "PrivacyAssertionError": "evidence",
    "PrivacyTestWarning": "evidence",
    "Protocol": "protocol",
    "Tapes": "coins",
    "TraceDiffersError": "evidence",
    "VacuousTestError": "evidence",
    "assert_affinely_private": "affine",
    "assert_exactly_private": "exactly",
    "assert_same_trace": "trace",
    "assert_simulatable": "statistically",
    "assert_statistically_private": "statistically",
    "protocol_of": "protocol",
}

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
    "assert_exactly_private",
    "assert_same_trace",
    "assert_simulatable",
    "assert_statistically_private",
    "protocol_of",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
