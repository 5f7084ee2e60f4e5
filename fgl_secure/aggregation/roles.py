"""A client's and the server's part in one round, by one name each."""

from __future__ import annotations

from fgl_secure.aggregation.client_round import ClientRound, Place
from fgl_secure.aggregation.server_round import ServerRound

__all__ = ["ClientRound", "Place", "ServerRound"]
