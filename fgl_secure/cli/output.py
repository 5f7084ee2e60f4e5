"""What commands print, and the statuses that they leave."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from fgl_secure.errors import FglSecureError

OK, FAULT, BAD_INPUT, CONTRADICTED, INTERRUPTED = 0, 1, 2, 3, 130
"""Done; a fault of this program; bad usage, input or output; evidence contradicts a claim; Ctrl-C."""


class OutputError(FglSecureError):
    """Standard output takes nothing more, and its reader has not gone away: a full disk."""


def say(text: str) -> None:
    """Prints; a reader who has closed the pipe has seen enough, and the exit status stays what it is.

    Raises:
        OutputError: nothing can be written there.
    """
    with _written():
        print(text, flush=True)


def flush() -> None:
    """Writes out what is still held back; see `say`."""
    with _written():
        sys.stdout.flush()


@contextmanager
def _written() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        _close()
    except OSError as error:
        _close()
        raise OutputError(f"standard output must take what is printed; found {error}") from error


def complain(text: str) -> None:
    """One line on the standard error stream, whatever the text holds."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:  # nobody can be told
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _close() -> None:
    """Lets the interpreter flush into nothing when it ends, instead of complaining."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
