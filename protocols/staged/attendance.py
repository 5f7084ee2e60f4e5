"""The server's list of who is still there, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fgl_secure.errors import ProtocolError, StaleMessageError, TooFewClientsError
from fgl_secure.protocols.staged.envelope import SERVER, Envelope
from fgl_secure.protocols.staged.interface import Stage, SumTerms


class Attendance:
    """The server's list of who is there, stage by stage, and whose answer is in.

    Args:
        scheme: 4 bytes that name the scheme.
        terms: of the sum.
        stages: those that the scheme has, in order.
    """

    __slots__ = ("_answered", "_left", "_scheme", "_stages", "_terms")

    def __init__(self, scheme: bytes, terms: SumTerms, stages: Sequence[Stage]) -> None:
        self._scheme, self._terms, self._stages = scheme, terms, tuple(stages)
        self._left: tuple[int, ...] = tuple(range(terms.clients))
        self._answered: set[int] = set()

    @property
    def stage(self) -> Stage | None:
        """The stage at hand; None when all are over."""
        return self._stages[0] if self._stages else None

    @property
    def left(self) -> tuple[int, ...]:
        """Who has answered in every stage so far, ascending."""
        return self._left

    @property
    def answered(self) -> tuple[int, ...]:
        """Who has answered in the stage at hand, ascending."""
        return tuple(sorted(self._answered))

    def requests(self, fields_of: Callable[[int], Sequence[bytes]]) -> Mapping[int, bytes]:
        """A message of this stage for each client that is left.

        Args:
            fields_of: its fields, by client.
        """
        if self.stage is None:
            return {}
        return _Requests({client: self._envelope(SERVER, client) for client in self._left}, fields_of)

    def opened(self, client: int, message: bytes, count: int) -> list[bytes]:
        """The fields of an answer that is due.

        Raises:
            ProtocolError: see `StagedServer.receive`.
        """
        if client not in self._left:
            raise ProtocolError(f"client must be one that has not dropped out; found {client}")
        if client in self._answered:
            raise ProtocolError(f"client must answer once a stage; found a second answer of client {client}")
        return self._envelope(client, SERVER).opened(message, count)

    def note(self, client: int) -> None:
        """A client's answer is good: it stays."""
        self._answered.add(client)

    def advance(self) -> None:
        """Goes on to the next stage with those that have answered.

        Raises:
            TooFewClientsError: they are fewer than the threshold.
        """
        envelope, found = self._envelope(SERVER, SERVER), len(self._answered)
        if found < self._terms.threshold:
            raise TooFewClientsError(
                f"at least threshold = {self._terms.threshold} of {self._terms.clients} clients must answer in stage "
                f"{envelope.stage.name}; found {found}"
            )
        self._left, self._answered, self._stages = self.answered, set(), self._stages[1:]

    def _envelope(self, sender: int, receiver: int) -> Envelope:
        if self.stage is None:
            raise StaleMessageError("a sum that is done takes and gives no more messages")
        return Envelope(self._scheme, self._terms, self.stage, sender, receiver)


@dataclass(frozen=True, slots=True, eq=False)
class _Requests(Mapping[int, bytes]):
    """Messages that are made when they are looked up: all together they may be larger than memory."""

    envelopes: Mapping[int, Envelope]
    fields_of: Callable[[int], Sequence[bytes]]

    def __getitem__(self, client: int) -> bytes:
        return self.envelopes[client].sealed(self.fields_of(client))

    def __iter__(self) -> Iterator[int]:
        return iter(self.envelopes)

    def __len__(self) -> int:
        return len(self.envelopes)
