"""Games on rounds of `SecureAggregator`: updates go round among clients, and neither server nor clients see it."""

from typing import Any

import numpy as np
import pytest

from fgl_secure.aggregation.aggregator import SecureAggregator
from fgl_secure.auditing.game_rounds import play_round_games
from fgl_secure.crypto.cryptography import Cryptography
from fgl_secure.errors import InputError
from fgl_secure.runtime import Role
from tests.error_codes import about

CLIENTS = 5
UPDATES = [{"w": np.random.default_rng(client).normal(size=(8, 6)), "b": np.ones(3)} for client in range(CLIENTS)]
WEIGHTS = [1.0, 2.0, 3.0, 1.0, 5.0]


def aggregator(scheme: str, **options: Any) -> SecureAggregator:
    return SecureAggregator.for_clients(CLIENTS, scheme, bound=8.0, **options)


@pytest.mark.parametrize("dropped", [(), (2,)])
@pytest.mark.parametrize("scheme", ["pairwise-masking", "lightsecagg", "ckks-shared-key"])
def test_rounds_keep_who_has_which_update(scheme: str, dropped: tuple[int, ...]) -> None:
    """Under every scheme, with weights, and where a client vanishes."""
    games = {game.role: game for game in play_round_games(aggregator(scheme), UPDATES, WEIGHTS, dropped, seed=3)}
    assert set(games) == {Role.SERVER, Role.SILO}
    assert not any(game.broken or game.null for game in games.values())
    assert games[Role.SERVER].seen >= CLIENTS - len(dropped)
    assert 0 < games[Role.SERVER].share < 1


@pytest.mark.parametrize("known", [slice(0, 1), slice(None)])
def test_an_entry_without_a_mask_is_found(known: slice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every client, and named with its message."""
    add = Cryptography.add_masks

    def leaky(self: Cryptography, total: Any, masks: Any, signs: Any) -> Any:
        plain = total[known].copy()
        total = add(self, total, masks, signs)
        total[known] = plain
        return total

    monkeypatch.setattr(Cryptography, "add_masks", leaky)
    games = {game.role: game for game in play_round_games(aggregator("pairwise-masking"), UPDATES)}
    assert "vector of masked vectors" in " ".join(games[Role.SERVER].broken)
    assert not games[Role.SERVER].null


def test_no_game_for_plaintext() -> None:
    """It guarantees nothing."""
    assert play_round_games(aggregator("plaintext"), UPDATES) == ()


def test_rounds_with_sums_that_vary_are_refused() -> None:
    """Numbers that are rounded at random have another sum in every round."""
    with pytest.raises(InputError, check=about("updates")):
        play_round_games(aggregator("pairwise-masking", precision=16), UPDATES)
