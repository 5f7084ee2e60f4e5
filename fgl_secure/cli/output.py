"""What commands print, and the statuses that they leave."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper

from fgl_secure.errors import FglSecureError
from fgl_secure.progress import close_quietly

OK, FAULT, BAD_INPUT, VIOLATED, INTERRUPTED = 0, 1, 2, 3, 130
"""Done; a fault of this program; bad usage, input or output; evidence violates a guarantee; Ctrl-C."""


class OutputError(FglSecureError):
    """Standard output takes nothing more, and its reader has not gone away: a full disk."""


def say(text: str) -> None:
    """Prints; a reader who has closed the pipe has seen enough, and the exit status stays what it is.

    Raises:
        OutputError: nothing can be written there.
    """
    with _write_safely():
        print(text, flush=True)


def flush() -> None:
    """Writes out what is still held back; see `say`."""
    with _write_safely():
        sys.stdout.flush()


@contextmanager
def _write_safely() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        close_quietly(sys.stdout)
    except OSError as error:
        close_quietly(sys.stdout)
        raise OutputError(f"standard output must take what is printed; found {error}") from error


@contextmanager
def standard_streams() -> Iterator[None]:
    """Standard streams take any text inside, as the caller's are again afterwards.

    A closed one is the null device: in its place the next file that is opened would get what libraries print. Letters
    that the encoding of standard output lacks, as in a C locale, are question marks.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        sys.stdout, sys.stderr = (nowhere if item is None or item.closed else item for item in before)
        out = sys.stdout if isinstance(sys.stdout, TextIOWrapper) else None
        errors = None if out is None else out.errors
        try:
            if out is not None and errors in ("strict", "surrogateescape"):
                out.reconfigure(errors="replace")
            yield
        finally:
            try:
                sys.stderr.flush()
            except OSError:
                close_quietly(sys.stderr)
            if out is not None and not out.closed:
                with suppress(OSError):
                    out.reconfigure(errors=errors)
            sys.stdout, sys.stderr = before
