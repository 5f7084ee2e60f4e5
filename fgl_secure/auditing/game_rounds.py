"""Distinguishing games on a round of `SecureAggregator`: do server or clients see who has which update?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fgl_secure.aggregation.aggregator import SecureAggregator
from fgl_secure.auditing.game import Game, WordTests, compare_rows
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.protocols.topology import SERVER, Topology
from fgl_secure.runtime import Secret, Transcript

_Update = Mapping[str, Any]


@dataclass(eq=False)
class _Rounds:
    aggregator: SecureAggregator
    updates: Sequence[_Update]
    weights: Sequence[float]
    dropped: Collection[int]
    seed: int
    known: dict[tuple[str, int], Transcript] = field(default_factory=dict)

    def run(self, kind: str, coins: int = 0) -> Transcript:
        """A round; in changed ones updates go round among the clients that stay."""
        if (kind, coins) not in self.known:
            stay = [client for client in range(len(self.updates)) if client not in self.dropped]
            order = list(range(len(self.updates)))
            if kind.startswith("changed"):
                for client, other in zip(stay, [*stay[1:], stay[0]], strict=True):
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
    rules = aggregator.rules
    if rules.is_random:
        raise InputError("updates must be summed exactly, without noise or random rounding; found rules with either")
    rounds = _Rounds(aggregator, updates, weights or [1.0] * len(updates), dropped, seed)
    first = rounds.run("first")
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
    for role in dict.fromkeys(role for role, _ in claims):
        most = max(count for each, count in claims if each is role)
        observers = first.parties.ids(role)
        tested = WordTests(lambda coins: rounds.run("", coins), observers, fields, pools=most >= len(observers))
        found = compare_rows(first, rounds.run, observers, frozenset(each.key for each in fields), tested)
        games.append(
            Game(
                secret=Secret.SUMMAND, role=role, guarantee=claims[role, most], coalition=f"1 {role}", null=found.null,
                broken=tuple(dict.fromkeys(found.broken)), share=found.share, tests=found.tests, seen=found.seen,
                rounds=1, control=found.control,
                runs=len(rounds.known), devices=len(updates),
            )
        )  # fmt: skip
    return tuple(games)
