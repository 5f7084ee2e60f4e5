"""Errors that a caller can act on.

Every message names the argument, the rule and the value that was found, and never a secret.
"""

from __future__ import annotations

import re
from difflib import get_close_matches


class FglSecureError(Exception):
    """Base of all errors that this package raises on purpose.

    Examples:
        >>> issubclass(InputError, FglSecureError)
        True
    """

    @property
    def code(self) -> str:
        """Return the kind of error, and behind a colon the argument that breaks a rule where the message names one.

        Texts may change between versions, codes don't.

        Examples:
            >>> InputError("silos must be in 1..30, the number of nodes; found 0").code
            'input:silos'
            >>> RoundsFailedError("no round gave a mean").code
            'rounds-failed'
        """
        kind = "-".join(re.findall("[A-Z][a-z]*", type(self).__name__.removesuffix("Error"))).lower()
        subject, must, _ = str(self).partition(" must ")
        return f"{kind}:{subject.rpartition(': ')[2]}" if must else kind


class InputError(FglSecureError, ValueError):
    """An argument, a file or a data set breaks a stated rule.

    Examples:
        >>> raise InputError("k_min must be at least 1; found 0")
        Traceback (most recent call last):
        fgl_secure.errors.InputError: k_min must be at least 1; found 0
    """


LISTED = 20
"""Names in a message, at most."""


class UnknownNameError(InputError):
    """A data set, protocol, attack, method or preset of that name does not exist."""

    def __init__(self, kind: str, name: str, known: tuple[str, ...]) -> None:
        near = get_close_matches(str(name), known, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        more = f" and {len(known) - LISTED} more" if len(known) > LISTED else ""
        super().__init__(f"{kind} must be one of {', '.join(known[:LISTED])}{more}; found {name!r}{meant}")
        self._named = kind, name, known

    def __reduce__(self) -> tuple[type[UnknownNameError], tuple[str, str, tuple[str, ...]]]:
        """Return what makes it again: an error of a worker process travels as a pickle."""
        return UnknownNameError, self._named


class DataNotFoundError(InputError):
    """The files of a data set are not where they were looked for."""


class StateFileError(InputError):
    """The file of a node's state cannot be read or written, or holds something else."""


class FieldRangeError(InputError):
    """A value does not fit into the field under the stated bound, or a parameter into the field."""


class PrecisionWarning(UserWarning):
    """Numbers keep few bits or none: beside one party's huge ones, or under a bound that is far too large for them."""


class DataWarning(UserWarning):
    """A part of the user's graph is dropped, not used, or missing."""


class DeviceUnavailableError(InputError):
    """A compute device was asked for that this machine does not have."""


class ProtocolError(FglSecureError):
    """A party received something that the protocol does not allow.

    Examples:
        >>> issubclass(ProtocolError, FglSecureError)
        True
    """


class MalformedMessageError(ProtocolError):
    """A message is cut, too long, misaddressed, or not of this protocol."""


class StaleMessageError(ProtocolError):
    """A message is of another session, sum or stage than the one that is due."""


class TooFewClientsError(ProtocolError):
    """Fewer parties are left than a protocol needs to go on."""


class RoundsFailedError(ProtocolError):
    """All rounds of a run failed, so that its model is the one it began with."""


class NotEnoughShares(InputError):  # noqa: N818  # the name says what is missing
    """Fewer shares than decoding at that degree, with that many errors to correct, needs."""


class TooManyErrors(ProtocolError):  # noqa: N818  # the name says what was found
    """Shares disagree in more places than can be corrected."""


class SketchOverfullError(ProtocolError):
    """A linear sketch has more entries than can be read back."""
