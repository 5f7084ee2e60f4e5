"""`python -m tests.planted.one_audit RUN SEED`: plays the games of an audit, and prints what they violate."""

import json
import sys

from fgl_secure import methods
from fgl_secure.auditing.game import play_games
from fgl_secure.auditing.game_records import record_of


def main(run: str, seed: int) -> None:
    """Plays the games that an audit plays after its attacks."""
    name, _, schemes = run.partition(" ")
    plan = methods.method(name)().plan(None, [schemes], seed=seed)
    records = [record_of(game, each.name, plan) for each in plan.subjects for game in play_games(each, seed)]
    print(json.dumps({record.attack: record.finding for record in records if record.violates_guarantee}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
