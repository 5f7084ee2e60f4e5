"""Read and write files of one owner: whole or not at all, and never through a link that another user placed."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from fgl_secure.errors import InputError


def write_private(path: Path, data: bytes) -> None:
    """Replace a file by one that holds some bytes and has mode 0600; it is on the disk when this returns.

    The bytes go to a new file beside it, made with O_EXCL and O_NOFOLLOW, which is then moved to its place. A process
    that ends meanwhile leaves the old file or the new one. A link at that place is replaced, not followed.

    Args:
        path: of the file.
        data: what it holds then.

    Raises:
        InputError: the folder is missing or cannot be written to.
    """
    try:
        descriptor, fresh = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with open(descriptor, "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            os.replace(fresh, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(fresh)
        # Without it the file's old name may be what is found after a power cut.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise InputError(f"path must be of a file that can be written to; found {path} ({error})") from error


def read_private(path: Path) -> bytes | None:
    """Return what `write_private` wrote; None where there is no file.

    Raises:
        InputError: it is a link or no plain file, or cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"path must be of a plain file, and of no link; found {path} ({error})") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"path must be of a plain file, and of no link; found {path}")
    with open(descriptor, "rb") as file:
        return file.read()
