"""Small runs of pairwise masking under ideal cryptography, as protocols whose views are judged over every coin."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_reproduction.known_flaws.ideal_masking import IdealCryptography
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.scheme import SumMachine
from fgl_secure.protocols.secagg.terms import Stage
from fgl_secure.runtime import Channel, Party, Phase, Role, Step, simulate
from fgl_secure.testing import Protocol
from fgl_secure.testing.protocol import Inputs
from tests.protocols.pairwise_masking.flaws import KeepsItsVectors
from tests.protocols.secagg.rounds import NEVER, STAGES, directory_of, topology_of

Ints = NDArray[np.int64]

SERVER = Party(Role.SERVER, 0)
NOW = Step(1)
TAPES_SESSION = bytes(16)


def silo(number: int) -> Party:
    """One client, or the receiver behind the last of them."""
    return Party(Role.SILO, number)


@dataclass(frozen=True, slots=True)
class Setting:
    """A small run.

    Attributes:
        senders: n.
        threshold: t.
        split: whether a silo, number n, receives, and the server forwards.
        steps: the sums.
        stages: from which stage on clients are silent, in every step.
        gone_in: the one step in which they are; None for all.
        late: a client whose vector reaches the server when the sum is done.
        degree: of the graph; None for everybody.
        modulus: of the field.
        bound: of entries.
        parts: of the scheme that are others than the honest ones.
    """

    senders: int = 4
    threshold: int = 3
    split: bool = False
    steps: tuple[Step, ...] = (NOW,)
    stages: Mapping[int, int] = field(default_factory=dict)
    gone_in: Step | None = None
    late: int | None = None
    degree: int | None = None
    modulus: int = 13
    bound: int = 1
    parts: Mapping[str, Any] = field(default_factory=dict)

    def with_flaw(self, **parts: Any) -> Setting:
        """The same run of a broken twin."""
        return replace(self, parts=parts)

    def protocol(self) -> Protocol:
        """The scheme as a protocol under test; inputs [n, steps, 1]."""
        topology = topology_of(self.senders, split=self.split, length=1, bound=None)
        given = {"cryptography": IdealCryptography, "clients": KeepsItsVectors, **self.parts}
        scheme = PairwiseMasking(self.threshold, self.modulus, degree=self.degree, **given)
        silent = {int(topology.senders[u]): stage for u, stage in self.stages.items()}
        if self.late is not None:
            silent[int(topology.senders[self.late])] = Stage.VECTORS

        def run(inputs: Inputs, channel: Channel) -> None:
            channel._loss = _losing(silent, self.gone_in)
            machines = scheme.machines(topology, TAPES_SESSION, channel)
            for number, step in enumerate(self.steps):
                rows = np.ascontiguousarray(inputs[:, number]) % self.modulus
                for machine in machines:
                    own = np.isin(machine.parties, topology.senders).all()
                    machine.begin(step, rows if own else None)
                channel.note_inputs("vectors", step, topology.senders, rows)
                simulate(machines, channel)
                if self.late is not None:
                    _hand_over_late(machines, channel, int(topology.senders[self.late]))

        name = "a broken twin" if self.parts else scheme.name
        return Protocol(run, directory_of(self.senders), self.modulus, topology.senders, name=name)

    @property
    def coalitions(self) -> Iterator[tuple[Party, ...]]:
        """The server with up to t - 1 clients."""
        for size in range(self.threshold):
            for some in itertools.combinations(range(self.senders), size):
                yield (SERVER, *map(silo, some))


def _losing(silent: Mapping[int, int], gone_in: Step | None) -> Callable[[Phase, Step, Ints, Ints], NDArray[np.bool_]]:
    def arrives(phase: Phase, step: Step, senders: Ints, _: Ints) -> NDArray[np.bool_]:
        here, stage = gone_in in (None, step), STAGES.get(phase, Stage.KEYS)
        return np.array([not here or stage < silent.get(end, NEVER) for end in senders.tolist()], dtype=np.bool_)

    return arrives


def _hand_over_late(machines: tuple[SumMachine, ...], channel: Channel, sender: int) -> None:
    """The vector that a client sent in vain reaches the server after all."""
    loss, channel._loss = channel._loss, None
    for machine in machines:
        for batch in machine.late if isinstance(machine, KeepsItsVectors) else ():
            if batch.senders.tolist() == [sender]:
                channel.carry(batch)
    channel._loss = loss


def inputs(*rows: int | tuple[int, ...]) -> Ints:
    """What each client brings to each step: int64 [n, steps, 1]."""
    return np.array([row if isinstance(row, tuple) else (row,) for row in rows], dtype=np.int64)[..., None]


def moved(values: Ints, honest: list[int], by: tuple[int, ...]) -> Ints:
    """The same inputs but for what honest clients bring to the last step."""
    out = values.copy()
    out[honest[: len(by)], -1, 0] += by
    return out


def honest_of(setting: Setting, coalition: tuple[Party, ...]) -> list[int]:
    """Clients outside a coalition whose vectors are in the sum."""
    gone = {u for u, stage in setting.stages.items() if stage <= Stage.VECTORS}
    return [u for u in range(setting.senders) if silo(u) not in coalition and u not in gone and u != setting.late]
