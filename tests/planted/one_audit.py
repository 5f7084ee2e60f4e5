"""`python -m tests.planted.one_audit RUN SEED [SECRET ROLE]`: plays games of an audit, and prints what they violate."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from fgl_secure import methods
from fgl_secure.auditing.game import play_games
from fgl_secure.auditing.game_records import record_of
from fgl_secure.auditing.plan import Subject


def main(run: str, seed: int, *cell: str) -> None:
    """Plays the games that an audit plays after its attacks; of one secret and role alone where these are given."""
    name, _, schemes = run.partition(" ")
    plan = methods.method(name)().plan(None, [schemes], seed=seed)
    found: dict[str, str] = {}
    for subject in plan.subjects:
        with guaranteeing(subject, *cell):
            records = [record_of(game, subject.name, plan) for game in play_games(subject, seed)]
        if not records:
            sys.exit(f"{subject.name}: no game was played: does the run end?")
        found |= {record.attack: record.finding for record in records if record.violates_guarantee}
    print(json.dumps(found))


@contextmanager
def guaranteeing(subject: Subject, *cell: str) -> Iterator[None]:
    """A subject that guarantees to hide one secret from one role alone; everything where no cell is given."""
    claim = subject.claim
    if cell:
        secret, role = cell
        about = [each for each in claim.guarantees if each.secret.name == secret]
        most = {party: count for each in about for party, count in each.coalition.items() if party == role}
        kept = [replace(each, coalition=most) for each in about if most]
        claim = replace(claim, guarantees=tuple(kept))
    with patch.object(type(subject), "claim", claim):
        yield


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
