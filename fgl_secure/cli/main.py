"""The command line: `fgl-secure audit`, `train`, `compare`, `list` and more.

Exit status 0: done, and no evidence violates a guarantee of a scheme named with --scheme. 3: some does. 2: bad usage,
input or output, with one line on the standard error stream. 1: a fault of this program, with one line too. There is
never a traceback, unless --verbose asks for it.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from fgl_secure.cli.config import command_words, file_of, read, with_options
from fgl_secure.cli.output import BAD_INPUT, FAULT, INTERRUPTED, OK, VIOLATED, flush, say, standard_streams
from fgl_secure.cli.parser import ASKED, candidates
from fgl_secure.cli.usage import METHOD, parser_for
from fgl_secure.errors import DataWarning, FglSecureError, InputError
from fgl_secure.progress import complain

__all__ = ["BAD_INPUT", "FAULT", "INTERRUPTED", "OK", "VIOLATED", "main", "with_method"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: words behind the program's name; those of the process unless given.

    Returns:
        The exit status.
    """
    with standard_streams():
        return _status(list(sys.argv[1:] if arguments is None else arguments))


def _status(words: list[str]) -> int:
    """Runs a command; whatever it raises is one line and a status."""
    try:
        with warnings.catch_warnings():
            _warn_in_a_line(quiet=not {"-q", "--quiet"}.isdisjoint(words))
            return _run(words)
    except FglSecureError as error:
        complain(f"fgl-secure: error: {error}")
        return BAD_INPUT
    except MemoryError:
        complain("fgl-secure: error: this run needs more memory than there is")
        return BAD_INPUT
    except KeyboardInterrupt:
        complain("fgl-secure: interrupted")
        return INTERRUPTED
    except UnicodeEncodeError as error:
        complain(f"fgl-secure: error: file names must be in the system's encoding, or PYTHONUTF8=1 be set; {error}")
        return BAD_INPUT
    except Exception as error:  # a traceback is for who asks for it
        return _fault(error, words)


def _warn_in_a_line(*, quiet: bool) -> None:
    """Warnings about the user's own data are a line each on the standard error stream; with --quiet there are none."""

    def show_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, DataWarning):
            complain(f"fgl-secure: {message}")
        else:
            before(message, category, *place, **more)

    before = warnings.showwarning
    warnings.filterwarnings("ignore" if quiet else "default", category=DataWarning)
    warnings.showwarning = show_warning


def _run(words: list[str]) -> int:
    _check_working_directory()
    if words[:1] == [ASKED]:
        requested = words[1:] or [""]
        say("\n".join(candidates(parser_for(requested), requested)))
        return OK
    try:
        file = file_of(words)
        table = {} if file is None else read(file)
        named_words = with_method(command_words(table, words) if words else words)
        parser = parser_for(named_words)
        one = parser.parser_of(named_words)
        depth = next((i for i in range(len(named_words) + 1) if parser.parser_of(named_words[:i]) is one), 0)
        full_words = with_options(table, one, named_words, depth) if table else named_words
        options, unknown = parser.parse_known_args(full_words)
        if unknown:
            one.unknown(unknown)
    finally:
        flush()  # help and the version, which argparse prints
    options.parser = one
    return int(options.run(options, words))


def _check_working_directory() -> None:
    """Refuses a folder that was deleted meanwhile: libraries for products of matrices end the process there."""
    try:
        os.getcwd()
    except OSError as error:
        raise InputError(f"working directory must exist, change to another one; found {error}") from error


def with_method(words: Sequence[str]) -> list[str]:
    """The words with `METHOD` after an `audit` that names none."""
    bare = list(words[:1]) == ["audit"] and (len(words) == 1 or words[1].startswith("-"))
    return ["audit", METHOD, *words[1:]] if bare and words[1:2] not in (["-h"], ["--help"]) else list(words)


def _fault(error: Exception, words: Sequence[str]) -> int:
    """One line about an unexpected error; with --verbose where it was met."""
    verbose = not {"-v", "--verbose"}.isdisjoint(words)
    if verbose:
        import traceback  # noqa: PLC0415  # rarely needed

        for line in "".join(traceback.format_exception(error)).splitlines():
            complain(line)
    hint = "" if verbose else "; --verbose says where, please report it"
    complain(f"fgl-secure: fault: {type(error).__name__}: {error}{hint}")
    return FAULT


if __name__ == "__main__":
    sys.exit(main())
