"""How a privacy test ends when it does not pass."""

from __future__ import annotations

from fgl_secure.errors import FglSecureError


class PrivacyAssertionError(FglSecureError, AssertionError):
    """The protocol under test does not have the property; the message says who sees what, and how surely."""


class NotPrivateError(PrivacyAssertionError):
    """A coalition can tell two inputs apart that it is not entitled to tell apart."""


class NotSimulatableError(PrivacyAssertionError):
    """A coalition's view holds more than a simulator can make up from the allowed leakage."""


class TraceDiffersError(PrivacyAssertionError):
    """Counts, sizes or endpoints of messages depend on the inputs."""


class VacuousTestError(FglSecureError):
    """The check did not reject the broken twin, so its verdict on the protocol says nothing."""
