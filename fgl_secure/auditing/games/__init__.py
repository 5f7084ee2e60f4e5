"""Distinguishing games behind the guarantees of a run; see `game`."""

from __future__ import annotations

from fgl_secure.auditing.games.game import Game, play_games

__all__ = ["Game", "play_games"]
