"""A client of staged pairwise masking: what it checks and answers in each stage (Bonawitz et al. 2017, figure 4)."""

from __future__ import annotations

from dataclasses import replace

from fgl_secure.errors import InputError, StaleMessageError
from fgl_secure.protocols.staged.envelope import SERVER
from fgl_secure.protocols.staged.interface import Integers, Stage, StagedClient
from fgl_secure.protocols.staged.masking.answers import FIELDS, answer
from fgl_secure.protocols.staged.masking.memory import Memory, memory_bytes
from fgl_secure.protocols.staged.masking.plan import MaskingPlan
from fgl_secure.protocols.staged.terms import checked_vector


class MaskingClient(StagedClient):
    """A client at work; see `StagedPairwiseMasking`.

    Args:
        plan: of the sum.
        memory: where it stands.
    """

    __slots__ = ("_memory", "_plan")

    def __init__(self, plan: MaskingPlan, memory: Memory) -> None:
        self._plan, self._memory = plan, memory

    def __repr__(self) -> str:
        due = "nothing" if self._memory.due is None else self._memory.due.name
        return f"MaskingClient(index={self._memory.index}, due={due}, <secrets>)"

    def provide(self, vector: Integers) -> None:
        """See `StagedClient.provide`."""
        if self._memory.provided:
            raise InputError("vector must be provided once a sum; found a second one")
        modulus = self._plan.field.modulus
        elements = checked_vector(vector, self._plan.terms, modulus)
        elements += elements >> 63 & modulus  # magnitudes are below the modulus
        self._memory = replace(self._memory, vector=elements, provided=True)

    def reply(self, message: bytes) -> bytes:
        """See `StagedClient.reply`. No stage is answered twice."""
        memory = self._memory
        due = memory.due
        if due is None:
            raise StaleMessageError(f"sum {self._plan.terms.number} must not be done; found a request after its end")
        fields = self._plan.envelope(due, SERVER, memory.index).opened(message, FIELDS[due])
        given, changed = answer(self._plan, memory, due, fields)
        reply = self._plan.envelope(due, memory.index, SERVER).sealed(given)
        self._memory = replace(changed, due=None if due is Stage.OPENING else Stage(due + 1))
        return reply

    def state(self) -> bytes:
        """See `StagedClient.state`.

        A state is good for one client at a time: two that go on from one state could be asked two different things,
        and would open together what neither opens alone.
        """
        return memory_bytes(self._plan, self._memory)
