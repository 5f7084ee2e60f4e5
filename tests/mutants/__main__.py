"""`python -m tests.mutants [NAME ...] [--sample N] [--seed S]`: applies mutants, and says which of them survive."""

import argparse
import os
import random
import secrets
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.mutants import Mutant, Outcome, copy_of_the_source, failing_anyway, load, tried


def main() -> int:
    """0 where all are killed, 1 where one survives, 2 for a name that is none."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of mutants; all unless given")
    parser.add_argument("--sample", type=int, default=None, metavar="N", help="so many of them, at random")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="of the sample; printed where it is drawn")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="J", help="how many at one time")
    chosen = parser.parse_args()
    known = load()
    unknown = [name for name in chosen.names if name not in known]
    if unknown:
        parser.error(f"names must be among {', '.join(known)}; found {unknown[0]}")
    if chosen.jobs < 1:
        parser.error(f"jobs must be at least 1; found {chosen.jobs}")
    mutants = [known[name] for name in chosen.names] or list(known.values())
    if chosen.sample is not None and chosen.sample < len(mutants):
        seed = secrets.randbelow(2**32) if chosen.seed is None else chosen.seed
        print(f"a sample of {chosen.sample} of {len(mutants)} mutants, --seed {seed}")
        mutants = random.Random(seed).sample(mutants, chosen.sample)  # noqa: S311  # of what is tried
    with tempfile.TemporaryDirectory(prefix="fgl-secure-mutants-") as folder:
        copies = [copy_of_the_source(Path(folder) / str(job)) for job in range(min(chosen.jobs, len(mutants)))]
        outcomes = dict(_outcomes(mutants, copies))
        anyway = _failing_anyway([found.by for found in outcomes.values() if found.killed], copies)
    for name, found in outcomes.items():
        if found.by in anyway:
            print(f"SURVIVED {name:40s}         {found.by} fails without it too")
    survivors = [name for name, found in outcomes.items() if not found.killed or found.by in anyway]
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} mutants are killed", *survivors, sep="; ")
    return 1 if survivors else 0


def _outcomes(mutants: Iterable[Mutant], copies: Iterable[Path]) -> Iterator[tuple[str, Outcome]]:
    """What came of each mutant, by name; prints a line for each as it comes to its end."""
    free: SimpleQueue[Path] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def one(mutant: Mutant) -> tuple[Mutant, Outcome, float]:
        copy, start = free.get(), time.monotonic()
        try:
            return mutant, tried(mutant, copy), time.monotonic() - start
        finally:
            free.put(copy)

    with ThreadPoolExecutor(free.qsize()) as pool:
        for mutant, outcome, seconds in pool.map(one, mutants):
            word = "killed  " if outcome.killed else "SURVIVED"
            print(f"{word} {mutant.name:40s} {seconds:4.0f} s  {outcome.by}", flush=True)
            yield mutant.name, outcome


def _failing_anyway(tests: list[str], copies: list[Path]) -> set[str]:
    """Those of some tests that fail without a mutant too, run in all copies at one time."""
    named = sorted(set(tests))  # tests of a file stay together
    size = -(-len(named) // len(copies))
    parts = [named[at * size : (at + 1) * size] for at in range(len(copies))]
    with ThreadPoolExecutor(len(copies)) as pool:
        return set().union(*pool.map(failing_anyway, parts, copies))


if __name__ == "__main__":
    sys.exit(main())
