"""Where a node keeps its party between messages: in Flower's context, or in a file that outlives the SuperNode."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from flwr.app import ConfigRecord, Context

from fgl_secure.private_files import read_private, write_private
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

    def load(self, session: bytes) -> dict[str, Array] | None:
        """What was stored last; None where that was in another run, or nothing.

        Raises:
            MalformedMessageError: the file holds something else.
        """
        found = self._in_context() if self._file is None else self._in_file(self._file)
        return found[1] if found is not None and found[0] == session else None

    def store(self, session: bytes, arrays: Arrays) -> None:
        """Takes the place of what was stored before; a process that ends meanwhile leaves one or the other."""
        state = named_to_bytes(arrays)
        if self._file is None:
            self._context.state[KEY] = ConfigRecord({SESSION: session, STATE: state})
            return
        parts = {SESSION: session, STATE: state}
        data = named_to_bytes({name: np.frombuffer(part, np.uint8) for name, part in parts.items()})
        write_private(self._file, data)

    def _in_context(self) -> tuple[bytes, dict[str, Array]] | None:
        record = self._context.state.config_records.get(KEY)
        if record is None:
            return None
        session, state = record[SESSION], record[STATE]
        assert isinstance(session, bytes), "written above"
        assert isinstance(state, bytes), "likewise"
        return session, named_from_bytes(state)

    def _in_file(self, file: Path) -> tuple[bytes, dict[str, Array]] | None:
        data = read_private(file)
        if data is None:
            return None
        found = named_from_bytes(data)
        return found[SESSION].tobytes(), named_from_bytes(found[STATE].tobytes())
