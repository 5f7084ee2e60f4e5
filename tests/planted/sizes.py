"""Leaks of exactly the size that games say they see, planted into toy schemes: how many of them are found."""

import importlib
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import MERSENNE_61
from fgl_secure.auditing.game import play_games
from fgl_secure.auditing.game_words import smallest_share, trials
from fgl_secure.methods import FedAvg
from fgl_secure.statistics.statistical import ALPHA, POWER
from tests.auditing.games.toys import MODULI, SHAPE, masked, rejected, with_holes
from tests.mutants.mutants import ROOT


def rates(runs: int) -> Iterator[tuple[str, float, int]]:
    """For each toy the name, the size of leak that games state, and in how many of some runs they found it."""
    for modulus in MODULI:
        tests = len(list(trials(masked(1, modulus), masked(2, modulus), receivers_pool=True)))
        share = smallest_share(masked(1, modulus), tests, ALPHA, POWER)
        yield f"words below {modulus}", share, sum(_seen(modulus, share, number) for number in range(runs))
    yield "pads from a dealer", *_dealt(runs)


def _seen(modulus: int, share: float, number: int) -> bool:
    holes = np.random.default_rng(number).random(SHAPE) < share
    return rejected(*(masked(3 * number + k, modulus, partial(with_holes, holes)) for k in range(3)))


def _dealt(runs: int) -> tuple[float, int]:
    """The scheme of `examples/scheme/dealt_pads.py`, with pads of 0 in some places, the same ones in all steps."""
    sys.path.insert(0, str(ROOT / "examples" / "scheme"))
    pads = importlib.import_module("dealt_pads")
    (subject,) = FedAvg(epochs=1).plan(None, [{"server": pads.DealtPads()}]).subjects
    found = 0
    share = next(game.share for game in play_games(subject, 0) if game.role == "server")
    for number in range(runs):

        def leaky(self: Any, step: Any, rows: Any = None, number: int = number) -> None:
            where = np.random.default_rng((number, step.round, step.evaluation)).random(rows.shape) < share
            super(pads.PaddedClients, self).begin(step, (rows + pads_with_holes(self, step, where)) % MERSENNE_61)

        with patch.object(pads.PaddedClients, "begin", leaky):
            games = {game.role: game for game in play_games(subject, number)}
        found += bool(games["server"].broken)  # type: ignore[index]
    return share, found


def pads_with_holes(clients: Any, step: Any, holes: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Pads that add up to 0, and are 0 in some places."""
    pads: NDArray[np.int64] = clients.draws.draw("pads", clients.parties, MERSENNE_61, holes.shape[1:], step)
    last = holes.argmin(axis=0), np.arange(holes.shape[1])  # what is left of a column makes up for the rest
    pads[holes], pads[last] = 0, 0
    for row in pads.copy():
        pads[last] = (pads[last] - row) % MERSENNE_61
    return pads
