"""Schemes of this package as protocols under test."""

from __future__ import annotations

from dataclasses import dataclass

from fgl_secure.algebra import MERSENNE_31
from fgl_secure.errors import InputError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import NEIGHBOURS, Grouping, Topology
from fgl_secure.runtime import Channel, Directory, Step
from fgl_secure.testing.protocol import Inputs, Protocol

_ONE_SUM = (Step(0),)


def protocol_of(
    scheme: Scheme,
    grouping: Grouping,
    parties: Directory,
    *,
    steps: tuple[Step, ...] = _ONE_SUM,
    batched: bool = True,
) -> Protocol:
    """Wraps a scheme: opens it on a grouping and computes one sum a step.

    Inputs are the rows of the grouping: reals [n, d], the same in every step, or [n, steps, d].

    Args:
        scheme: what is tested.
        grouping: who sends what to whom.
        parties: numbering of the parties that `grouping` speaks of.
        steps: rounds, layers and directions of the sums.
        batched: False for a scheme that draws more than uniform elements (such as points of its own choice).
    """
    if not steps:
        raise InputError("steps must hold at least one step; found none")
    modulus = scheme.public.modulus or MERSENNE_31
    run = _SchemeRun(scheme, grouping, steps)
    return Protocol(run, parties, modulus, grouping.row_owner, batched, scheme.name)


@dataclass(frozen=True, slots=True, eq=False)
class _SchemeRun:
    scheme: Scheme
    grouping: Grouping
    steps: tuple[Step, ...]

    def __call__(self, inputs: Inputs, channel: Channel) -> None:
        session = Collective(self.scheme, Topology(NEIGHBOURS, self.grouping, inputs.shape[-1]), channel)
        for number, step in enumerate(self.steps):
            session.sum(inputs if inputs.ndim == 2 else inputs[:, number], step)
