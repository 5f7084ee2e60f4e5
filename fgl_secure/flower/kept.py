"""Where a node keeps its party between messages: in Flower's context, or in a file that outlives the SuperNode."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import numpy as np
from flwr.app import ConfigRecord, Context

from fgl_secure.runtime.packing import Array, Arrays, named_from_bytes, named_to_bytes

KEY = "fgl-secure.silos"
SESSION, STATE = "session", "state"


class Keeper:
    """The last state of a node's party; secret, for its owner alone.

    Args:
        context: of the node, which Flower forgets with the SuperNode.
        file: what is read and written in its place; None for the context.
    """

    def __init__(self, context: Context, file: Path | None) -> None:
        self._context, self._file = context, file

    def __str__(self) -> str:
        """What a message to others may call it."""
        return "the context of this node" if self._file is None else f"state file {self._file.name}"

    def load(self, session: bytes) -> dict[str, Array] | None:
        """What was stored last; None where that was in another run, or nothing.

        Raises:
            MalformedMessageError: the file holds something else.
        """
        found = self._found()
        return found[1] if found is not None and found[0] == session else None

    @property
    def session(self) -> bytes | None:
        """The session of what was stored last; None where nothing was.

        Raises:
            MalformedMessageError: the file holds something else.
        """
        found = self._found()
        return None if found is None else found[0]

    def store(self, session: bytes, arrays: Arrays) -> None:
        """Takes the place of what was stored before; a process that ends meanwhile leaves one or the other."""
        state = named_to_bytes(arrays)
        if self._file is None:
            self._context.state[KEY] = ConfigRecord({SESSION: session, STATE: state})
            return
        parts = {SESSION: session, STATE: state}
        data = named_to_bytes({name: np.frombuffer(part, np.uint8) for name, part in parts.items()})
        fresh = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        try:
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            fresh.replace(self._file)
        finally:
            with suppress(FileNotFoundError):
                fresh.unlink()

    def _found(self) -> tuple[bytes, dict[str, Array]] | None:
        return self._in_context() if self._file is None else self._in_file(self._file)

    def _in_context(self) -> tuple[bytes, dict[str, Array]] | None:
        record = self._context.state.config_records.get(KEY)
        if record is None:
            return None
        session, state = record[SESSION], record[STATE]
        assert isinstance(session, bytes), "written above"
        assert isinstance(state, bytes), "likewise"
        return session, named_from_bytes(state)

    def _in_file(self, file: Path) -> tuple[bytes, dict[str, Array]] | None:
        try:
            found = named_from_bytes(file.read_bytes())
        except FileNotFoundError:
            return None
        return found[SESSION].tobytes(), named_from_bytes(found[STATE].tobytes())
