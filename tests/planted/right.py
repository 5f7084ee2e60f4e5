"""Audits of right schemes, whose games must find nothing: the rate of false alarms."""

import secrets
import time
from collections.abc import Iterator

from fgl_secure import methods
from fgl_secure.auditing.game import play_games
from fgl_secure.auditing.game_records import record_of
from fgl_secure.errors import FglSecureError

RUNS = (
    "hifgl relay-coded",
    "fedavg pairwise-masking",
    "fed2gnn relay-coded",
    "fedavg lightsecagg",
    "hifgl relay-coded[graph-shown]",
    "fedavg ckks-shared-key",
    "fedstruct ckks",
    "fedspray pairwise-masking",
    "fedstruct relay-coded",
    "fedgcn relay-coded[graph-shown]",
)
"""Methods and schemes; the first are drawn first."""


def false_alarms(count: int, data: str | None, runs: tuple[str, ...], seed: int | None = None) -> Iterator[str]:
    """Plays the games of audits under fresh seeds, prints a line for each, and gives what is violated.

    Args:
        count: how many audits; runs take turns.
        data: name of a data set; that of the method unless given.
        runs: methods and schemes.
        seed: of the first audit, the others follow; fresh ones unless given.
    """
    for number in range(count):
        run, start = runs[number % len(runs)], time.process_time()
        drawn = secrets.randbelow(2**32) if seed is None else seed + number
        name, _, schemes = run.partition(" ")
        try:
            plan = methods.method(name)().plan(data, [schemes], seed=drawn)
        except FglSecureError as refused:
            print(f"{run}: {refused}", flush=True)
            continue
        games = [(subject.name, game) for subject in plan.subjects for game in play_games(subject, drawn)]
        records = [record_of(game, subject, plan) for subject, game in games]
        alarms = [f"{each.attack}: {each.finding}" for each in records if each.violates_guarantee]
        nulls = sum(game.null for _, game in games)
        seconds = time.process_time() - start
        print(
            f"{run} seed {drawn}: {len(games)} games, {nulls} null controls failed, {seconds:.0f} s"
            + "".join(f"\n    VIOLATED {each}" for each in alarms),
            flush=True,
        )
        yield from alarms
