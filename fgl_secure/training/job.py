"""A run described once: what every silo does, and who holds what. Drivers take it as it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.host import collect_if_large, library_settings
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import NEIGHBOURS
from fgl_secure.runtime import Channel, Recording
from fgl_secure.threads import one_thread
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.loop import Progress, TrainingResult, TrainingRounds, run
from fgl_secure.training.one_process import Intermediary, OneProcess
from fgl_secure.training.parameters import LARGE
from fgl_secure.training.parties import Between, helpers_of, hierarchy_of, neighbour_sums
from fgl_secure.training.program import Program
from fgl_secure.training.silo import Silo

Make = Callable[[Collectives, Coins], TrainingRounds]
"""Makes a silo's program, given what it talks through and its secret coins; those of one process are all silos'."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What the process of every silo is told; nothing of the data is in it.

    Attributes:
        make: makes a silo's program.
        schemes: by topology, those of all its collectives; what is not there is in plaintext, or not there at all.
        rounds: most rounds.
        width: most entries of a row that goes to neighbours.
        between: whether silos add up beforehand what their nodes send to a node of another silo.
        crossing: whether rows travel between silos alone, and silos add up inside themselves.
    """

    make: Make
    schemes: Mapping[str, Scheme]
    rounds: int
    width: int = 1
    between: bool = False
    crossing: bool = False


def _settled_before(_channel: Channel) -> None:
    """Silos need not agree on anything before the first sum."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A task, and who holds what of it.

    Attributes:
        task: what all silos do.
        graph: who has what.
        message_graph: the graph along whose edges rows travel; all of them unless given.
        settle: has silos agree, over the channel, on what they add up beforehand; for tasks with `between`.
        shares: what silos hold, in their order; cut out of the graph unless given.
        driver: of all silos in one process.
        intermediary: stands between the programs of one process and the sums that they ask for; for games.
        shown: shown the programs of one process before the first round, and after the last.
    """

    task: Task
    graph: FederatedGraph
    message_graph: FederatedGraph | None = None
    settle: Callable[[Channel], Between | None] = _settled_before
    shares: tuple[Silo, ...] = ()
    driver: type[OneProcess] = field(default=OneProcess)
    intermediary: Intermediary | None = None
    shown: Callable[[tuple[Program, ...]], None] | None = None

    @property
    def complete_task(self) -> Task:
        """The task, with what a scheme of neighbours' sums works out of public numbers: silos hold no whole graph."""
        scheme = self.task.schemes.get(NEIGHBOURS)
        rules = None if scheme is None else scheme.partnering(neighbour_sums(self.message_graph or self.graph))
        if scheme is None or rules is None:
            return self.task
        return replace(self.task, schemes={**self.task.schemes, NEIGHBOURS: scheme.among(rules)})

    def share(self, silo: int) -> Silo:
        """What a silo holds."""
        return self.shares[silo] if self.shares else Silo.of(self.graph, silo, self.message_graph)

    def channel(self, coins: Coins | None = None, recording: Recording | None = None) -> Channel:
        """A channel between all parties.

        Args:
            coins: where masks come from; the operating system's entropy unless given.
            recording: what it keeps; sizes unless given.
        """
        parties = hierarchy_of(self.graph, helpers_of(self.task.schemes.values()))
        return Channel(parties, coins or SystemCoins(), recording)

    def open(self, channel: Channel) -> OneProcess:
        """All silos in one process, ready for their first round.

        Args:
            channel: between the parties of `hierarchy_of(graph, ...)` and the helpers of all schemes.

        Raises:
            InputError: a scheme does not serve its topology, or the channel joins other parties.
            FieldRangeError: a scheme's field cannot hold the sums.
        """
        task = self.task
        process = self.driver(
            self.graph,
            task.schemes,
            channel,
            lambda comm: task.make(comm, channel.coins),
            width=task.width,
            message_graph=self.message_graph,
            between=self.settle(channel),
            shares=self.shares,
            crossing=task.crossing,
        )
        process.intermediary = self.intermediary
        return process

    @library_settings()
    @one_thread()
    def train(self, channel: Channel | None = None, progress: Progress | None = None) -> TrainingResult:
        """Runs all rounds in one process; arguments as for `open`, a fresh channel unless given.

        Args:
            channel: keeps the messages.
            progress: called after each round.
        """
        start, channel = time.perf_counter(), channel or self.channel()
        process = self.open(channel)

        def show() -> None:
            if self.shown is not None:
                self.shown(process.programs)

        result = run(process, self.task.rounds, channel.transcript, progress, start=start, shown=show)
        if 4 * self.graph.num_devices * self.graph.graph.num_features >= LARGE:
            # its parts know each other, and would stay until Python next looks for such circles: gigabytes meanwhile
            del process
            collect_if_large()
        return result
