"""`python -m tests.planted [NAME ...] [--sample N] [--seed S]`: plants leaks, and says which of them games find.

`python -m tests.planted --right N [RUN ...] [--dataset D]` plays the games of N right runs, which must find nothing.
`python -m tests.planted --sizes N` plants leaks of exactly the stated size into toy schemes: 97 in 100 must be found.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.mutants import copy_of_the_source
from tests.planted.planted import Leak, load, planted, violations
from tests.planted.right import RUNS, false_alarms
from tests.planted.sizes import rates

SHOWN = 150


def main() -> int:
    """0 where all are found at the right guarantee, or nothing in right runs; else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of leaks; all unless given")
    parser.add_argument("--sample", type=int, default=None, metavar="N", help="so many of them, at random")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="of the sample and of the audits")
    parser.add_argument(
        "--all", action="store_true", help="play all games of the audit, and not that of the leak alone"
    )
    parser.add_argument("--right", type=int, default=None, metavar="N", help="audit so many right runs instead")
    parser.add_argument("--not-found", action="store_true", help="plant the leaks that no game is known to find")
    parser.add_argument("--sizes", type=int, default=None, metavar="N", help="plant leaks of stated size N times")
    parser.add_argument("--dataset", default=None, metavar="D", help="of right runs")
    chosen = parser.parse_args()
    if chosen.sizes is not None:
        found = list(rates(chosen.sizes))
        for name, share, count in found:
            print(f"{name}: a share of {share:.2g} was found in {count} of {chosen.sizes} runs")
        return 1 if any(count < 0.97 * chosen.sizes for _, _, count in found) else 0
    if chosen.right is not None:
        alarms = list(false_alarms(chosen.right, chosen.dataset, tuple(chosen.names) or RUNS, chosen.seed))
        print(f"{len(alarms)} guarantees are violated in {chosen.right} right runs")
        return 1 if alarms else 0
    known = load(not_found=chosen.not_found)
    leaks = {name: known[name] for name in chosen.names} or known
    if chosen.sample is not None:
        names = random.Random(chosen.seed or 0).sample(sorted(leaks), min(chosen.sample, len(leaks)))  # noqa: S311
        leaks = {name: leaks[name] for name in names}
    with tempfile.TemporaryDirectory(prefix="fgl-secure-planted-") as folder:
        copy = copy_of_the_source(Path(folder))
        missed = [
            name for name, leak in leaks.items() if not _found(name, leak, copy, chosen.seed or 0, others=chosen.all)
        ]
    print(f"{len(leaks) - len(missed)} of {len(leaks)} leaks are found", *missed, sep="; ")
    return 1 if missed else 0


def _found(name: str, leak: Leak, copy: Path, seed: int, *, others: bool) -> bool:
    start = time.monotonic()
    with planted(leak, copy):
        told = violations(leak, copy, seed, others=others)
    seen = leak.game in told
    alarms = ", ".join(told) or "nothing"
    said = told[leak.game][:SHOWN] if seen else f"found {alarms}{': ' + told['error'] if 'error' in told else ''}"
    print(f"{'found ' if seen else 'MISSED'} {name:36s} {time.monotonic() - start:4.0f} s  {said}", flush=True)
    return seen


if __name__ == "__main__":
    sys.exit(main())
