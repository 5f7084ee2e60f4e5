"""Methods whose silos run a program over one graph: what a method's author writes, and nothing else.

Nothing heavy is imported here, so that `--help` answers at once.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from fgl_secure.auditing.method import Method

if TYPE_CHECKING:
    import torch

    from fgl_secure.auditing.method import Asked
    from fgl_secure.auditing.plan import Plan
    from fgl_secure.schemes import Assignment
    from fgl_secure.training.collectives import Collectives
    from fgl_secure.training.rounds import Rounds
    from fgl_secure.training.silo import Facts


@dataclass(frozen=True)
class ProgramMethod(Method):
    """A method that is a program of one silo, under any schemes that serve its sums, in any driver.

    A subclass is a frozen dataclass of choices that says what it is called, and makes the program. It is trained by
    `fgl_secure.train`, audited by `fgl_secure.audit` and run with a process for each silo, all without a line more.
    """

    task: ClassVar[str] = "node classification"
    summed: ClassVar[str] = "rows of a device's neighbours for the device; losses and right predictions; silos' vectors"
    sees: ClassVar = MappingProxyType({})
    topologies: ClassVar[tuple[str, ...]] = ("neighbours", "members", "server")
    demonstrated: ClassVar[tuple[str, ...]] = ("secmp", "relay-coded", "plaintext")
    trained: ClassVar[str] = "relay-coded"

    def make_plan(self, asked: Asked) -> Plan:
        """See `Method.make_plan`."""
        from fgl_secure.auditing.programs import program_plan  # noqa: PLC0415  # heavy

        return program_plan(self, asked)

    @abstractmethod
    def program(self, talk: Collectives, *, seed: int, device: torch.device) -> Rounds:
        """The program of one silo.

        Args:
            talk: the collectives of the run; `talk.silo` is what the silo holds.
            seed: the same for all silos: of initial weights and the like.
            device: where model compute runs.
        """

    @abstractmethod
    def width(self, facts: Facts) -> int:
        """Most entries of a row that devices send their neighbours, from what everybody knows of the graph."""

    def assigned(self, run: Assignment) -> Assignment:
        """The schemes of a run, by topology, as the method's choices have them: unchanged unless it says otherwise."""
        return run

    def most_rounds(self, facts: Facts) -> int:  # noqa: ARG002  # for those that choose by the graph
        """Most rounds of training: the choice `epochs`, unless a method says otherwise."""
        return int(self.epochs)  # type: ignore[attr-defined]  # a choice of the subclass
