"""The file in which a node keeps its state between messages: on disk before an answer leaves, and read under a lock.

Flower sends a node's answer before it stores the node's context. A server that has its next message queued would have
it answered from the state before: two answers of one state. So the file is the truth, and the context holds nothing.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import platformdirs
from flwr.app import Context

from fgl_secure.errors import InputError, MalformedMessageError, StateFileError
from fgl_secure.private_files import read_private, write_private
from fgl_secure.runtime.packing import Arrays, named_from_bytes, named_to_bytes
from fgl_secure.typing import Array

KEY = "fgl-secure.silos"
SESSION, STATE = "session", "state"
STATE_VARIABLE = "FGL_SECURE_STATE"
"""Names the folder of the files that no node configuration names."""
UNUSED_SECONDS = 30 * 24 * 3600.0
"""How long the files of a run stay after the last change to one of them."""
_OTHERS_WRITE = 0o022


def state_file(context: Context) -> Path | None:
    """The file that `state` of a node's configuration names; None if it names none."""
    name = str(context.node_config.get("state", ""))
    return Path(name) if name else None


def _default_file(context: Context) -> Path:
    """The file of a node in a run, in the folder that FGL_SECURE_STATE names, else in the user's folder of states.

    Raises:
        StateFileError: that is no absolute path, for example because the user has no home.
    """
    folder = os.environ.get(STATE_VARIABLE) or platformdirs.user_state_dir("fgl-secure", appauthor=False)
    root = Path(folder).expanduser()
    if not root.is_absolute():
        raise StateFileError(f"{STATE_VARIABLE} must name a folder by its absolute path; found {folder!r}")
    return root / f"run-{int(context.run_id)}" / f"node-{int(context.node_id)}"


class StateStore:
    """The last state of a node; secret, for its owner alone.

    As a context manager it holds an exclusive lock, so that of two processes the second reads what the first stored.

    Args:
        context: of the node, whose run and number name the file if none is given.
        file: what is read and written; None for `_default_file`.

    Raises:
        StateFileError: see `_default_file`.
    """

    def __init__(self, context: Context, file: Path | None) -> None:
        self._in_default_folder = file is None
        self.file = _default_file(context) if file is None else file
        self._lock: int | None = None

    def __enter__(self) -> Self:
        """Waits for the lock.

        Raises:
            StateFileError: there can be no file in its folder, or others may write there.
        """
        with self._errors():
            if self._in_default_folder:
                _make_private(self.file.parent)
            lock = self.file.with_name(f"{self.file.name}.lock")
            self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Lets the next process go on."""
        if self._lock is not None:
            fcntl.flock(self._lock, fcntl.LOCK_UN)  # also for processes that were forked meanwhile and hold a copy
            os.close(self._lock)
            self._lock = None

    def __str__(self) -> str:
        """What a message to others may call it."""
        return f"state file {self.file.name}"

    @property
    def session(self) -> bytes | None:
        """The session of what was stored last; None if nothing was.

        Raises:
            StateFileError: see `load`.
        """
        result = self._load_state()
        return None if result is None else result[0]

    def load(self, session: bytes) -> dict[str, Array] | None:
        """What was stored last; None if that was in another session, or nothing.

        Raises:
            StateFileError: the file is a link, cannot be read, or holds something else.
        """
        result = self._load_state()
        return result[1] if result is not None and result[0] == session else None

    def _load_state(self) -> tuple[bytes, dict[str, Array]] | None:
        with self._errors():
            data = read_private(self.file)
        if data is None:
            return None
        try:
            result = named_from_bytes(data)
            return result[SESSION].tobytes(), named_from_bytes(result[STATE].tobytes())
        except (MalformedMessageError, KeyError) as error:
            raise StateFileError(f"state of a node must be what a node wrote; {self.file} is not: remove it") from error

    def store(self, session: bytes, arrays: Arrays) -> None:
        """Takes the place of what was stored before, on disk; a process that ends meanwhile leaves one or the other.

        Raises:
            StateFileError: the file cannot be written.
        """
        parts = {SESSION: session, STATE: named_to_bytes(arrays)}
        data = named_to_bytes({name: np.frombuffer(part, np.uint8) for name, part in parts.items()})
        with self._errors():
            write_private(self.file, data)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except StateFileError:
            raise
        except (OSError, InputError) as error:
            raise StateFileError(
                f"state of a node must have a file that is no link and can be written; {self.file} cannot "
                f"({error}): set {STATE_VARIABLE} to a folder of the user's own, or `state` of the node's "
                f"configuration to a file"
            ) from error


def _make_private(folder: Path) -> None:
    """Makes the folder of a run, for its owner alone; files of runs that ended long ago are removed with the first."""
    root = folder.parent
    root.parent.mkdir(parents=True, exist_ok=True)
    root.mkdir(mode=0o700, exist_ok=True)
    if root.stat().st_mode & _OTHERS_WRITE:
        raise StateFileError(f"folder of states must be writable for its owner alone; others may write to {root}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        _remove_unused(root)


def _remove_unused(root: Path) -> None:
    for folder in root.glob("run-*"):
        with suppress(FileNotFoundError):
            if time.time() - folder.lstat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
