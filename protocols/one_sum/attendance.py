"""The server's list of who is asked and who has answered, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import ProtocolError, TooFewClientsError
from fgl_secure.protocols.one_sum.terms import OneSum, Stage

Flags = NDArray[np.bool_]

_OVER = -1


class Attendance:
    """Who is there.

    A server speaks when answers have come since it spoke last. If none have, it is silent for one turn, in which
    clients make them; where none have come then, none will.

    Args:
        terms: of the sum.

    Attributes:
        stage: whose answers are awaited; None when there is none, or no more.
        asked: bool [n], who is asked.
        answered: bool [n], who has answered.
    """

    def __init__(self, terms: OneSum) -> None:
        self._terms = terms
        self.stage: Stage | None = None
        self._heard, self._waited = False, False
        self.asked: Flags = np.zeros(terms.n, dtype=np.bool_)
        self.answered: Flags = np.zeros(terms.n, dtype=np.bool_)

    def go(self, stage: Stage | None, asked: Flags | None = None) -> None:
        """Goes to a stage.

        Args:
            stage: None when the sum is done.
            asked: bool [n], who is asked; everybody unless given.
        """
        self.stage = stage
        self._heard = self._waited = False
        self.asked = np.ones(self._terms.n, dtype=np.bool_) if asked is None else asked.copy()
        self.answered = np.zeros(self._terms.n, dtype=np.bool_)

    def check(self, client: int) -> None:
        """Raises unless a client is asked in this stage and has not answered."""
        assert self.stage is not None
        if self.answered[client]:
            raise ProtocolError(f"client {client} must answer once in stage {self.stage.name}; found a second answer")
        if not self.asked[client]:
            raise ProtocolError(f"client must be one that stage {self.stage.name} asks; found {client}")

    def note(self, client: int) -> None:
        """A client's answer is good."""
        self.answered[client] = self._heard = True

    def note_other(self) -> None:
        """Something has come from somebody who is no client."""
        self._heard = True

    def ready(self) -> bool:
        """Whether all answers are there that will come; a machine asks this once a turn."""
        if self.stage is None:
            return False
        if self._heard or self._waited:
            return True
        self._waited = True
        return False

    def require(self, found: int, what: str = "answer") -> None:
        """Raises `TooFewClientsError` where fewer clients than the threshold do what they must."""
        terms, stage = self._terms, self.stage
        assert stage is not None
        if found < terms.threshold:
            raise TooFewClientsError(
                f"at least threshold = {terms.threshold} of {terms.n} clients must {what} in stage {stage.name} "
                f"({stage:d}); found {found}"
            )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of it, for a state."""
        stage = _OVER if self.stage is None else self.stage
        marks = np.array([stage, self._heard, self._waited], dtype=np.int64)
        return {"attendance": marks, "asked clients": self.asked, "answered": self.answered}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Goes on from arrays."""
        stage, heard, waited = arrays["attendance"].tolist()
        self.stage = None if stage == _OVER else Stage(stage)
        self._heard, self._waited = bool(heard), bool(waited)
        self.asked, self.answered = arrays["asked clients"], arrays["answered"]


def flags(count: int, which: Sequence[int]) -> Flags:
    """Bool [count]: which places are among some."""
    found = np.zeros(count, dtype=np.bool_)
    found[list(which)] = True
    return found
