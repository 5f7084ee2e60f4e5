"""Distinguishing games on a round of `SecureAggregator`: do server or clients see who has which update?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fgl_secure.aggregation.aggregator import SecureAggregator
from fgl_secure.aggregation.rules import Rules
from fgl_secure.auditing.game import CONFIRMING, Game, WordTests, compare_rows
from fgl_secure.auditing.game_views import Batch, Difference, Key, differences, place_of, received, words_of
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.protocols.topology import SERVER, Topology
from fgl_secure.runtime import Guarantee, Role, Secret, Transcript
from fgl_secure.typing import Ids

_Update = Mapping[str, Any]
_Run = Callable[[str, int], Transcript]
LEAST_CHANGED = 2
"""Clients at least whose updates go round."""


@dataclass(eq=False)
class _Rounds:
    aggregator: SecureAggregator
    updates: Sequence[_Update]
    weights: Sequence[float]
    dropped: Collection[int]
    seed: int
    known: dict[tuple[str, int], Transcript] = field(default_factory=dict)

    @property
    def stay(self) -> list[int]:
        """The clients that do not vanish."""
        return [client for client in range(len(self.updates)) if client not in self.dropped]

    def run(self, kind: str, coins: int = 0) -> Transcript:
        """A round; in changed ones updates go round among the clients that stay."""
        if (kind, coins) not in self.known:
            order = list(range(len(self.updates)))
            if kind.startswith("changed"):
                turning = self.stay[: -1 if "beside" in kind else None]
                for client, other in zip(turning, [*turning[1:], turning[0]], strict=True):
                    order[client] = other
            alone = SecureAggregator(self.aggregator.rules, SimulationCoins(self.seed + coins))
            alone.mean([self.updates[item] for item in order], [self.weights[item] for item in order], self.dropped)
            assert alone.last_round is not None
            self.known[kind, coins] = alone.last_round.transcript
        return self.known[kind, coins]


def play_round_games(
    aggregator: SecureAggregator,
    updates: Sequence[_Update],
    weights: Sequence[float] | None = None,
    dropped: Collection[int] = frozenset(),
    *,
    seed: int = 0,
) -> tuple[Game, ...]:
    """Play a game for each guarantee on updates of rounds under the rules of an aggregator, which itself runs nothing.

        for game in play_round_games(SecureAggregator.for_clients(5, bound=8.0), updates):
            print(game.role, game.broken, game.share)

    Args:
        aggregator: whose rules are tested.
        updates: one for each client.
        weights: one for each client; None counts all alike.
        dropped: clients that vanish after they shared their keys.
        seed: of randomness.

    Raises:
        InputError: numbers are rounded at random or get noise, so that two rounds have two sums, or updates are so
            large that messages are not kept.
    """
    rounds = _Rounds(aggregator, updates, weights or [1.0] * len(updates), dropped, seed)
    stay = rounds.stay
    return games_of_sums(aggregator.rules, rounds.run, rounds.known, stay[-1] if len(stay) > LEAST_CHANGED else None)


def games_of_sums(
    rules: Rules, run: _Run, known: Collection[tuple[str, int]], ally: int | None = None, steady: str = ""
) -> tuple[Game, ...]:
    """Play a game for each guarantee on a client's update, and one for the server and a client together.

    Args:
        rules: of the sums.
        run: gives a run of a kind, see `compare_rows`, under the randomness of a number. In "changed" runs updates go
            round among clients; in "changed beside" ones the ally keeps its own.
        known: all runs so far.
        ally: client that pools its view with the server's, if updates are hidden from both together; None for none.
        steady: kind of messages that randomness must not change, because they hold no key and no mask; empty for none.

    Raises:
        InputError: see `play_round_games`.
    """
    if rules.is_random:
        raise InputError("updates must be summed exactly, without noise or random rounding; found rules with either")
    first = run("first", 0)
    if any(batch.fields is None for batch in first.messages):
        raise InputError("updates must be so small that messages are kept; found messages of which sizes alone are")
    fields = rules.scheme.uniform_fields(Topology.example(SERVER))
    claims = {
        (role, most): guarantee
        for guarantee in reversed(rules.claim.guarantees)
        for role, most in guarantee.coalition.items()
        if guarantee.secret is Secret.SUMMAND and most > 0 and role in first.parties.roles
    }
    games = []

    def play(
        role: Role, coalition: str, guarantee: Guarantee, observers: Ids, *, pools: bool, beside: str = ""
    ) -> None:
        def answer(kind: str) -> Transcript:
            return run(kind.replace("changed", f"changed{beside}"), 0)

        tested = WordTests(lambda coins: run("", coins), observers, fields, pools=pools)
        found = compare_rows(first, answer, observers, frozenset(each.key for each in fields), tested)
        broken = [*found.broken, *(_varying(first, run, observers, steady) if steady else ())]
        games.append(
            Game(
                secret=Secret.SUMMAND, role=role, guarantee=guarantee, coalition=coalition, null=found.null,
                broken=tuple(dict.fromkeys(broken)), share=found.share, tests=found.tests, seen=found.seen,
                runs=sum(CONFIRMING not in kind for kind, _ in known), devices=rules.clients, rounds=1,
                control=found.control or bool(broken),
            )
        )  # fmt: skip

    for role in dict.fromkeys(role for role, _ in claims):
        most, observers = max(count for each, count in claims if each is role), first.parties.ids(role)
        play(role, f"1 {role}", claims[role, most], observers, pools=most >= len(observers))
    both = {Role.SERVER: 1, Role.SILO: 1}
    about = [each for each in rules.claim.guarantees if each.secret is Secret.SUMMAND and each.covers(both)]
    if about and ally is not None:
        observers = np.array([first.parties.ids(Role.SERVER)[0], first.parties.ids(Role.SILO)[ally]])
        play(Role.SERVER, "1 server and 1 silo", about[0], observers, pools=True, beside=" beside")
    return tuple(games)


def _varying(first: Transcript, run: _Run, observers: Ids, kind: str) -> Iterator[str]:
    """Return fields of messages of a kind that other randomness changes, in words."""

    def read(of: Transcript) -> list[Batch]:
        return [each for each in received(of, observers) if each.kind == kind]

    places: dict[Key, list[Difference]] = {}
    fresh = read(run("", 1))
    for each in differences(read(first), fresh, lambda _: read(run("", 0)), lambda _: fresh):
        places.setdefault(each.key, []).append(each)
    for key, several in places.items():
        senders, receivers = (
            np.concatenate([getattr(each, end) for each in several]) for end in ("senders", "receivers")
        )
        place = place_of(key, None, senders, receivers, first.parties)
        yield f"{place}, {words_of(several[0].step)}: changes with randomness, so that it may hold a key or a mask"
