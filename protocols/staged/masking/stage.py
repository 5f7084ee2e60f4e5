"""One stage of pairwise masking as the server goes through it: whom it asks what, and what it takes for an answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from fgl_secure.errors import TooFewClientsError
from fgl_secure.protocols.staged.interface import Stage
from fgl_secure.protocols.staged.masking.plan import MaskingPlan

AnswerT = TypeVar("AnswerT")


class ServerStage(ABC, Generic[AnswerT]):
    """One stage of one sum. It knows what those before it gathered, and reads an answer whole before it keeps any.

    Attributes:
        stage: which.
        fields: of a client's answer.
        plan: of the sum.
        asked: clients that are asked, ascending.
        answers: what they said so far.
    """

    stage: ClassVar[Stage]
    fields: ClassVar[int] = 1

    def __init__(self, plan: MaskingPlan, asked: Sequence[int]) -> None:
        self.plan, self.asked = plan, tuple(asked)
        self.answers: dict[int, AnswerT] = {}

    @abstractmethod
    def request(self, client: int) -> list[bytes]:
        """Fields of the message to one client."""

    @abstractmethod
    def take(self, client: int, fields: Sequence[bytes]) -> None:
        """Keeps the answer of one that is asked and has not answered.

        Raises:
            ProtocolError: it is not what this stage allows; nothing of it is kept.
        """

    def require(self, found: int, what: str) -> None:
        """Raises `TooFewClientsError` where fewer clients than the threshold do what they must."""
        terms = self.plan.terms
        if found < terms.threshold:
            raise TooFewClientsError(
                f"at least threshold = {terms.threshold} of {terms.clients} clients must {what} in stage "
                f"{self.stage.name} ({self.stage:d}); found {found}"
            )
