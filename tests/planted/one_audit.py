"""`python -m tests.planted.one_audit RUN SEED`: plays the games of one run and prints what violates guarantees."""

import json
import sys

from fgl_secure import methods
from fgl_secure.auditing.audit import GAMES, audit
from fgl_secure.threads import one_thread


def main(run: str, seed: int) -> None:
    """Trains for two rounds, and plays."""
    name, _, schemes = run.partition(" ")
    method = methods.method(name)
    with one_thread():
        chosen = method(epochs=1)  # type: ignore[call-arg]  # of those that audits of leaks name
        report = audit(chosen, schemes=[schemes], attacks=GAMES, seed=seed)
    print(json.dumps({record.attack: record.finding for record in report.violations}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
