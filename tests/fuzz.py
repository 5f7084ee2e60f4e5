"""`python -m tests.fuzz [--messages N] [--seed S] [--jobs J]`: changed messages for all schemes and the Flower layer.

Each place where messages arrive is a process of its own, and a line of the table that is printed: how many messages
were tried, refused and taken, how long the slowest refusal took, and the most memory that the process had. An error of
no kind of this package ends a process; so does a party that is not as it was after a refusal.
"""

import argparse
import json
import os
import resource
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial

from tests.protocols.hostile import Prepare, tallied, to_machines
from tests.protocols.test_hostile_messages import SCHEMES
from tests.training.processes import hostile as parcels

MESSAGES = 100_000
MOST_SECONDS, MOST_MEBIBYTES = 1.0, 1024.0
"""Of processor time that a refusal takes, and of memory that a process has."""
ROUNDS_SHARE = 100
"""One message in so many is tried in a whole round of Flower, which takes as long as hundreds of them."""


def places() -> dict[str, Callable[[], Prepare]]:
    """All places where messages arrive."""
    from tests.flower import hostile  # for whoever has Flower

    hostile.set_up()
    machines = {scheme.name: partial(to_machines, scheme) for scheme in SCHEMES}
    return {**machines, **parcels.PLACES, **hostile.PLACES}


def shares(messages: int) -> dict[str, int]:
    """How many messages each place gets of all."""
    from tests.flower.hostile import WHOLE_ROUNDS

    names = [name for name in places() if name != WHOLE_ROUNDS]
    rounds = max(1, messages // ROUNDS_SHARE)
    each, more = divmod(max(0, messages - rounds), len(names))
    return {WHOLE_ROUNDS: rounds, **{name: each + (at < more) for at, name in enumerate(names)}}


@dataclass(frozen=True, slots=True)
class Line:
    """Of the table.

    Attributes:
        place: where messages arrived.
        messages: how many were tried.
        refused: of them.
        taken: of them.
        slowest: seconds of processor time of the slowest refusal.
        before: mebibytes that the process had at most before the first changed message.
        peak: the same in the end.
    """

    place: str
    messages: int
    refused: int
    taken: int
    slowest: float
    before: float
    peak: float

    HEAD = f"{'place':32s} {'messages':>8s} {'refused':>8s} {'taken':>8s} {'slowest':>10s} {'peak (before)':>20s}"

    def __str__(self) -> str:
        memory = f"{self.peak:.0f} ({self.before:.0f}) MiB"
        counts = f"{self.messages:8,} {self.refused:8,} {self.taken:8,}"
        return f"{self.place:32s} {counts} {1000 * self.slowest:7.1f} ms {memory:>20s}"

    @property
    def good(self) -> bool:
        """Whether it is within the limits."""
        return self.slowest < MOST_SECONDS and self.peak < MOST_MEBIBYTES


def tried(place: str, messages: int, seed: int) -> Line:
    """Tries messages at one place, in this process."""
    prepare = places()[place]()
    before = _mebibytes()
    found = tallied(prepare, f"{seed} {place}", range(messages))
    return Line(place, messages, found.refused, found.taken, found.slowest, before, _mebibytes())


def _mebibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    """0 where all is within the limits, 1 where something is not or a process ended with an error."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES, metavar="N", help="in all places together")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="of the changes; printed where it is drawn")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="J", help="processes at one time")
    parser.add_argument("--place", choices=list(places()), help="one alone, as JSON, with all messages for it")
    chosen = parser.parse_args()
    seed = secrets.randbelow(2**32) if chosen.seed is None else chosen.seed
    if chosen.place:
        print(json.dumps(asdict(tried(chosen.place, chosen.messages, seed))))
        return 0
    print(f"{chosen.messages:,} messages, --seed {seed}", Line.HEAD, sep="\n", flush=True)
    with ThreadPoolExecutor(chosen.jobs) as pool:
        lines = list(
            _printed(pool.map(lambda share: _process(share[0], share[1], seed), shares(chosen.messages).items()))
        )
    good = [line for line in lines if isinstance(line, Line) and line.good]
    print(f"{sum(line.messages for line in good):,} messages: typed errors alone, refusals below {MOST_SECONDS:g} s, "
          f"processes below {MOST_MEBIBYTES:,.0f} MiB")  # fmt: skip
    return 0 if len(good) == len(lines) else 1


def _printed(lines: Iterable[Line | str]) -> Iterable[Line | str]:
    for line in lines:
        print(line, flush=True)
        yield line


def _process(place: str, messages: int, seed: int) -> Line | str:
    """The line of one place; what its process said last where it ended with an error."""
    options = ["--place", place, "--messages", str(messages), "--seed", str(seed)]
    done = subprocess.run([sys.executable, "-m", "tests.fuzz", *options], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"{place}: FAILED\n{done.stderr[-3000:]}"
    return Line(**json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    sys.exit(main())
