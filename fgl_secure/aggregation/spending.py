"""What rounds have cost of a privacy budget: each is counted once."""

from __future__ import annotations

from fgl_secure.aggregation.layout import Layout
from fgl_secure.aggregation.rules import Rules
from fgl_secure.dp import Budget
from fgl_secure.errors import InputError


class Ledger:
    """Counts each round once, for the server and one client in this process; without privacy it counts nothing.

    Two clients of a round that have the same data shift its sum twice as far as the noise was made for. So a second
    client is refused: clients with data of their own have ledgers of their own.

    Args:
        rules: of the aggregation.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._budget: Budget | None = None
        self._size: int | None = None
        self._earlier = 0
        self._rounds: dict[tuple[bytes, int], int | None] = {}

    @property
    def rounds(self) -> int:
        """Rounds counted, those of a life before included."""
        return self._earlier if self._budget is None else self._budget.spent

    @property
    def epsilon(self) -> float | None:
        """What they cost at the target's delta; None without privacy."""
        if self._rules.privacy is None:
            return None
        if self._budget is None and self._earlier:
            raise InputError("spent must be asked for after the first round of a resumed process, which tells the size")
        return 0.0 if self._budget is None else self._budget.epsilon_spent

    def resume(self, rounds: int) -> None:
        """Counts the rounds that an earlier process took part in; wanted before the first round of this one."""
        if rounds < 0 or self._rounds or self._earlier:
            raise InputError(f"rounds must be resumed once, before the first, and be at least 0; found {rounds}")
        self._earlier = rounds

    def spend(self, layout: Layout, session: bytes, number: int, client: int | None = None) -> None:
        """Counts a round that is about to be made.

        Args:
            layout: of the mappings.
            session: of the round.
            number: of the round.
            client: who takes part in it; None for the server, and where all clients are simulated at once.

        Raises:
            BudgetExhaustedError: it does not fit; then nothing may be released.
            InputError: mappings have another size than before, for which the noise was not made, or another client has
                taken part in this round.
        """
        if self._rules.privacy is None:
            return
        now = session, number
        other = self._rounds.get(now)
        if client is not None and other not in (None, client):
            raise InputError(
                f"clients of a round under privacy must each have an aggregator of their own; found client {client} "
                f"beside client {other}"
            )
        if now in self._rounds:
            self._rounds[now] = other if client is None else client
            return
        if self._size not in (None, layout.size):
            raise InputError(f"mappings must keep their size under privacy, {self._size}; found {layout.size}")
        if self._budget is None:
            budget = self._rules.perturbation(layout).open_budget()
            budget.spend(self._earlier)
            self._budget, self._size = budget, layout.size
        self._budget.spend()
        self._rounds[now] = client
