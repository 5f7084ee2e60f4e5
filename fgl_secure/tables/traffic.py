"""What a training run sends, before its first round and in all rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fgl_secure.coins import SimulationCoins
from fgl_secure.runtime import Role
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult

MEGA = 1e6
"""Bytes of a megabyte."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What one run sent.

    Attributes:
        before: bytes of all messages before the first round.
        among: those of `before` that neither go to a server nor come from one.
        training: bytes since.
        result: of the run.
    """

    before: int
    among: int
    training: int
    result: TrainingResult


def sent(job: Job, seed: int) -> Sent:
    """Trains once, and counts the payload bytes of all messages between parties.

    Args:
        job: what is trained.
        seed: of the simulation's coins.
    """
    channel, seen = job.channel(SimulationCoins(seed)), list[tuple[int, int]]()

    def count(_: object) -> None:
        traffic = channel.transcript.traffic()
        among = sum(each.bytes for each in traffic if Role.SERVER not in (each.sender_role, each.receiver_role))
        seen.append((sum(each.bytes for each in traffic), among))

    result = replace(job, shown=count).train(channel)
    return Sent(*seen[0], seen[-1][0] - seen[0][0], result)
