"""The server's part in one round: messages out, messages in, over any transport."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fgl_secure.aggregation.encoding import Code
from fgl_secure.aggregation.layout import Layout
from fgl_secure.aggregation.messages import Opening, Request
from fgl_secure.aggregation.record import RoundRecord, StageMeter, StageRecord, held_of
from fgl_secure.aggregation.rules import Purpose, Rules
from fgl_secure.coins import Coins
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.staged.interface import Stage, StagedServer


class ServerRound:
    """The server's part in one round: a sum that finds ranges where they are open, and the sum of the vectors.

    Args:
        rules: as all parties agreed on them.
        layout: of the mappings.
        session: 16 public bytes that no other session has.
        number: of the round in the session.
        coins: of the server.
        bounds: as a round before found them; None where there was none.
    """

    def __init__(
        self,
        rules: Rules,
        layout: Layout,
        session: bytes,
        number: int,
        coins: Coins,
        bounds: Mapping[str, float] | None = None,
    ) -> None:
        self._rules, self._layout, self._coins = rules, layout, coins
        self._session, self._number = session, number
        self._bounds = bounds if rules.finds_ranges(layout) else None
        self._stages: list[StageRecord] = []
        self._held: dict[int, bytes] = {}
        self._mean: dict[str, Any] | None = None
        first = Purpose.RANGES if rules.finds_ranges(layout) and bounds is None else Purpose.VALUES
        self._meter = StageMeter(first, Stage.KEYS)
        self._open(first)

    @property
    def session(self) -> bytes:
        """16 public bytes; clients need them to take part."""
        return self._session

    @property
    def number(self) -> int:
        """Of the round in the session; clients need it too."""
        return self._number

    @property
    def layout(self) -> Layout:
        """Of the mappings."""
        return self._layout

    @property
    def purpose(self) -> Purpose:
        """What the sum at hand is for."""
        return self._purpose

    @property
    def stage(self) -> Stage | None:
        """The stage of that sum that answers are awaited for; None when the round is done."""
        return self._server.stage

    @property
    def done(self) -> bool:
        """Whether the mean is there."""
        return self._purpose is Purpose.VALUES and self._server.stage is None

    @property
    def bounds(self) -> Mapping[str, float] | None:
        """Ranges as found, by tensor; None where the rules give them or they are not found yet."""
        return self._bounds

    @property
    def included(self) -> tuple[int, ...]:
        """Whose numbers are in the mean, ascending; empty until they are in."""
        return self._server.included if self._purpose is Purpose.VALUES else ()

    def requests(self) -> Mapping[int, bytes]:
        """What to send in this stage, by client; clients that have dropped out of the sum get nothing."""
        opening = Opening(self._layout, self._bounds) if self._fresh else None
        wrapped = {
            client: Request(self._purpose, opening, message).to_bytes()
            for client, message in self._server.requests().items()
        }
        self._meter.sent(wrapped.values())
        return wrapped

    def receive(self, client: int, message: bytes) -> None:
        """Takes an answer.

        Args:
            client: who sent it, as the transport authenticates it.
            message: as the client's `reply` gave it.

        Raises:
            ProtocolError: malformed, stale, from somebody else, or a second answer. The server is as it was before.
        """
        stage = self._server.stage
        self._server.receive(client, message)
        self._meter.got(message)
        if stage is Stage.VECTORS and self._purpose is Purpose.VALUES:
            self._held[client] = held_of(message)

    def advance(self) -> None:
        """Ends the stage: clients that have not answered have dropped out of the sum.

        Raises:
            TooFewClientsError: fewer than the threshold are left; names the stage and both numbers.
            ProtocolError: answers contradict each other beyond repair.
        """
        self._server.advance()
        self._stages.append(self._meter.record())
        self._fresh = False
        stage = self._server.stage
        if stage is not None:
            self._meter = StageMeter(self._purpose, stage)
        elif self._purpose is Purpose.RANGES:
            self._bounds = self._rules.levels(self._layout).bounds(self._server.result())
            self._open(Purpose.VALUES)

    @property
    def result(self) -> dict[str, Any]:
        """The weighted mean of the included clients' mappings.

        Raises:
            ProtocolError: the round is not done, or the sum is beyond the numbers and weights that there may be, so
                that a client must have handed in something else.
            InputError: all weights are 0, or a mean of integers is none (names the key).
        """
        if self._mean is None:
            self._check_done()
            total = self._server.result()
            self._check_weight(int(total[-1]))
            self._mean = self._code.decode(total)
        return self._mean

    @property
    def record(self) -> RoundRecord:
        """What the server saw.

        Raises:
            ProtocolError: the round is not done.
        """
        self._check_done()
        included, rules, total = self._server.included, self._rules, self._server.result()
        return RoundRecord(
            scheme=rules.scheme.name,
            modulus=rules.scheme.modulus,
            number=self._number,
            clients=rules.clients,
            threshold=rules.threshold,
            included=included,
            dropped=tuple(sorted(set(range(rules.clients)) - set(included))),
            layout=self._layout,
            stages=tuple(self._stages),
            total_weight=int(total[-1]) * 2.0**-rules.weighing.fraction_bits,
            bounds=self._code.bounds,
            fraction_bits=self._code.fraction_bits,
            error_bound=self._code.errors(total, len(included)),
            held=dict(self._held),
        )

    def _check_done(self) -> None:
        if not self.done:
            raise ProtocolError("round must be done before there is a mean; it is not")

    def _check_weight(self, weight: int) -> None:
        most = len(self._server.included) * (1 if self._rules.privacy is not None else self._rules.weighing.most)
        if weight > most:
            raise ProtocolError(
                f"weights of {len(self._server.included)} clients must add up to {most:,} units at most; they do not, "
                f"so that a client must have handed in something else"
            )

    def _open(self, purpose: Purpose) -> None:
        terms = self._rules.terms(purpose, self._session, self._number, self._layout, self._bounds)
        self._server: StagedServer = self._rules.scheme.server(terms, self._coins)
        stage = self._server.stage
        if stage is None:
            raise ProtocolError(f"scheme {self._rules.scheme.name} must have at least one stage; it has none")
        self._purpose, self._fresh, self._meter = purpose, True, StageMeter(purpose, stage)
        if purpose is Purpose.VALUES:
            self._code: Code = self._rules.code(self._layout, self._bounds)
