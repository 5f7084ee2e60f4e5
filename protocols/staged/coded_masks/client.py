"""A client of a staged sum under LightSecAgg."""

from __future__ import annotations

from dataclasses import replace

from fgl_secure.errors import InputError
from fgl_secure.protocols.staged.coded_masks.answers import FIELDS, answer
from fgl_secure.protocols.staged.coded_masks.memory import Memory, memory_fields
from fgl_secure.protocols.staged.coded_masks.plan import LightSecAggPlan
from fgl_secure.protocols.staged.interface import Integers, StagedClient
from fgl_secure.protocols.staged.terms import checked_vector
from fgl_secure.protocols.staged.turn import Turn


class LightSecAggClient(StagedClient):
    """A client at work; see `StagedLightSecAgg`.

    Args:
        plan: of the sum.
        turn: which stage is due.
        memory: what it holds.
    """

    __slots__ = ("_memory", "_plan", "_turn")

    def __init__(self, plan: LightSecAggPlan, turn: Turn, memory: Memory) -> None:
        self._plan, self._turn, self._memory = plan, turn, memory

    def __repr__(self) -> str:
        return f"StagedClient(lightsecagg, index={self._turn.index}, <secrets>)"

    def provide(self, vector: Integers) -> None:
        """See `StagedClient.provide`."""
        if self._memory.provided:
            raise InputError("vector must be provided once; found a second")
        field = self._plan.field
        elements = field.add(checked_vector(vector, self._plan.terms, field.modulus), 0)
        self._memory = replace(self._memory, vector=elements, provided=True)

    def reply(self, message: bytes) -> bytes:
        """See `StagedClient.reply`."""
        stage = self._turn.stage
        fields = self._turn.opened(message, FIELDS[stage])
        given, self._memory = answer(self._plan, self._turn.index, self._memory, stage, fields)
        return self._turn.answer(given)

    def state(self) -> bytes:
        """See `StagedClient.state`.

        A state is good for one client at a time: two that go on from one state could be told two different rosters,
        and would open together what neither opens alone.
        """
        return self._turn.state(memory_fields(self._plan, self._memory))
