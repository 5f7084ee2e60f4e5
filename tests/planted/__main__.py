"""`python -m tests.planted [NAME ...] [--sample N] [--seed S]`: plants leaks, and says which of them games find."""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.mutants import copy_of_the_source
from tests.planted.planted import Leak, load, planted, violations

SHOWN = 150


def main() -> int:
    """0 where all are found at the right guarantee, 1 where one is not."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of leaks; all unless given")
    parser.add_argument("--sample", type=int, default=None, metavar="N", help="so many of them, at random")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the sample and of the audits")
    chosen = parser.parse_args()
    known = load()
    leaks = {name: known[name] for name in chosen.names} or known
    if chosen.sample is not None:
        names = random.Random(chosen.seed).sample(sorted(leaks), min(chosen.sample, len(leaks)))  # noqa: S311
        leaks = {name: leaks[name] for name in names}
    with tempfile.TemporaryDirectory(prefix="fgl-secure-planted-") as folder:
        copy = copy_of_the_source(Path(folder))
        missed = [name for name, leak in leaks.items() if not _found(name, leak, copy, chosen.seed)]
    print(f"{len(leaks) - len(missed)} of {len(leaks)} leaks are found", *missed, sep="; ")
    return 1 if missed else 0


def _found(name: str, leak: Leak, copy: Path, seed: int) -> bool:
    start = time.monotonic()
    with planted(leak, copy):
        told = violations(leak.run, copy, seed)
    seen = leak.game in told
    others = ", ".join(told) or "nothing"
    said = told[leak.game][:SHOWN] if seen else f"found {others}{': ' + told['error'] if 'error' in told else ''}"
    print(f"{'found ' if seen else 'MISSED'} {name:36s} {time.monotonic() - start:4.0f} s  {said}", flush=True)
    return seen


if __name__ == "__main__":
    sys.exit(main())
