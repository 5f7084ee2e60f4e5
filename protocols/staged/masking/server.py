"""The server of staged pairwise masking: who is asked, who has answered, and what comes next."""

from __future__ import annotations

from collections.abc import Mapping

from fgl_secure.coins import Coins
from fgl_secure.errors import ProtocolError, StaleMessageError
from fgl_secure.protocols.staged.envelope import SERVER, stage_of
from fgl_secure.protocols.staged.interface import Integers, Stage, StagedServer
from fgl_secure.protocols.staged.masking.adding import VectorStage
from fgl_secure.protocols.staged.masking.closing import AgreementStage, OpeningStage
from fgl_secure.protocols.staged.masking.plan import MaskingPlan
from fgl_secure.protocols.staged.masking.sharing import KeyStage, ShareStage

AnyStage = KeyStage | ShareStage | VectorStage | AgreementStage | OpeningStage


class MaskingServer(StagedServer):
    """A server at work; see `StagedPairwiseMasking`.

    Args:
        plan: of the sum.
        coins: for locating wrong shares; they never change a sum.
    """

    def __init__(self, plan: MaskingPlan, coins: Coins) -> None:
        self._plan, self._coins = plan, coins
        self._at: AnyStage | None = KeyStage(plan)
        self._included: tuple[int, ...] = ()
        self._result: Integers | None = None

    def __repr__(self) -> str:
        return f"MaskingServer(sum={self._plan.terms.number}, stage={'done' if self._at is None else self._at.stage})"

    @property
    def stage(self) -> Stage | None:
        """See `StagedServer.stage`."""
        return None if self._at is None else self._at.stage

    def requests(self) -> Mapping[int, bytes]:
        """See `StagedServer.requests`."""
        at = self._at
        if at is None:
            return {}
        return {u: self._plan.envelope(at.stage, SERVER, u).sealed(at.request(u)) for u in at.asked}

    def receive(self, client: int, message: bytes) -> None:
        """See `StagedServer.receive`."""
        stage_of(message)
        if not 0 <= client < self._plan.terms.clients:
            raise ProtocolError(f"client must be one of 0..{self._plan.terms.clients - 1}; found {client}")
        at = self._at
        if at is None:
            raise StaleMessageError(f"sum {self._plan.terms.number} must not be done; found an answer after its end")
        fields = self._plan.envelope(at.stage, client, SERVER).opened(message, at.fields)
        if client in at.answers:
            raise ProtocolError(f"client {client} must answer once in stage {at.stage.name}; found a second answer")
        if client not in at.asked:
            raise ProtocolError(f"client must be one that stage {at.stage.name} asks; found {client}")
        at.take(client, fields)

    def advance(self) -> None:
        """See `StagedServer.advance`. Where it raises, late answers may still come, and it may be called again."""
        at, plan = self._at, self._plan
        if at is None:
            raise ProtocolError(f"sum {plan.terms.number} must not be done to go on; it is")
        at.require(len(at.answers), "answer")
        if isinstance(at, OpeningStage):
            self._result = at.total(self._coins)
            self._at = None
            return
        after = at.after()
        if isinstance(after, AgreementStage):
            self._included = after.asked
        self._at = after

    @property
    def included(self) -> tuple[int, ...]:
        """See `StagedServer.included`."""
        return self._included

    def result(self) -> Integers:
        """See `StagedServer.result`."""
        if self._result is None:
            raise ProtocolError(f"sum {self._plan.terms.number} must be done before it is read; it is not")
        return self._result.copy()
