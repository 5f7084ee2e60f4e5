"""Tampering with messages of one field, as functions of their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.runtime import PAYLOAD, MessageKind, Messages, Step, Tampered

Ids = NDArray[np.int64]
Parts = Callable[[MessageKind, Step, Ids, Ids, NDArray[Any]], Tampered | None]


def by_parts(tamper: Parts | None) -> Callable[[Messages], Tampered | None]:
    """A hostile network from a function of phase, step, senders, receivers and payload; None leaves all alone."""

    def apply(messages: Messages) -> Tampered | None:
        if tamper is None:
            return None
        return tamper(messages.phase, messages.step, messages.senders, messages.receivers, messages[PAYLOAD])

    return apply
