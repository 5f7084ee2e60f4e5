"""The way of a model from the server to its clients."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.runtime import Channel, Phase, Role, Step

FLOAT_BYTES = 4
"""Of one parameter on the wire, a float32."""

RECEIVED = "received model"
"""What every client gets at the start of a round: the parameters that the server sends, one row a client."""


def send_down(channel: Channel, state: NDArray[np.floating[Any]], step: Step) -> None:
    """The server's model goes to every client: counted as messages, and noted with each client's own knowledge.

    Args:
        channel: between server and clients.
        state: [P], the same for all; where it is empty nothing is sent.
        step: when.
    """
    if not len(state):
        return
    clients, server = channel.parties.ids(Role.SILO), channel.parties.ids(Role.SERVER)
    leaders = np.repeat(server, len(clients))
    channel.send_sizes(Phase.MODEL, step, leaders, clients, len(state) * FLOAT_BYTES)
    channel.note_inputs(RECEIVED, step, clients, np.broadcast_to(state, (len(clients), len(state))))
