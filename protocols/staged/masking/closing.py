"""The server's last two stages of pairwise masking: votes on who is in the sum, and the secrets that unmask it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements
from fgl_secure.coins import Coins
from fgl_secure.crypto.expansion import add_masks
from fgl_secure.errors import ProtocolError, TooFewClientsError
from fgl_secure.protocols.masking.keys import TAG_BYTES
from fgl_secure.protocols.masking.opening import handed_in, masks_left, open_each
from fgl_secure.protocols.pairwise_masking.requests import NO_SHARE, Ask, Asked, signed
from fgl_secure.protocols.staged.interface import Integers, Stage
from fgl_secure.protocols.staged.masking.plan import MaskingPlan
from fgl_secure.protocols.staged.masking.stage import ServerStage
from fgl_secure.protocols.staged.masking.wire import client_bytes, clients_from, elements_from, rows_from


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """What the server has when the vectors are in.

    Attributes:
        asked: uint8 [n], which secret of each client takes the masks away.
        total: int64 [length], elements, the sum under masks.
        masks: the mask key that each client published.
        told: of whose shares each client was told, itself not included.
    """

    asked: Asked
    total: NDArray[np.int64]
    masks: Mapping[int, bytes]
    told: Mapping[int, tuple[int, ...]]

    def voters(self, client: int) -> list[int]:
        """The neighbours of a client whose vectors are in the sum."""
        return [v for v in self.told[client] if self.asked[v] == Ask.SELF_MASK]


class AgreementStage(ServerStage[Mapping[int, bytes]]):
    """Stage AGREEMENT: clients hear what is asked about everybody, and vote."""

    stage: ClassVar[Stage] = Stage.AGREEMENT

    def __init__(self, plan: MaskingPlan, gathered: Gathered) -> None:
        super().__init__(plan, np.flatnonzero(gathered.asked == Ask.SELF_MASK).tolist())
        self._gathered = gathered

    def request(self, client: int) -> list[bytes]:  # noqa: ARG002  # everybody is told the same
        """The roster."""
        return [self._gathered.asked.tobytes()]

    def take(self, client: int, fields: Sequence[bytes]) -> None:
        """A vote for each neighbour in the sum."""
        voters = self._gathered.voters(client)
        votes = rows_from(fields[0], len(voters), TAG_BYTES, "votes")
        self.answers[client] = dict(zip(voters, votes, strict=True))

    def after(self) -> OpeningStage:
        """For those that voted."""
        return OpeningStage(self.plan, self._gathered, self.answers)


class OpeningStage(ServerStage[Mapping[int, Elements]]):
    """Stage OPENING: clients hear the votes, and open one share of everybody in their circle.

    Args:
        plan: of the sum.
        gathered: before.
        votes: by voter and whom they are for.
    """

    stage: ClassVar[Stage] = Stage.OPENING
    fields: ClassVar[int] = 2

    def __init__(self, plan: MaskingPlan, gathered: Gathered, votes: Mapping[int, Mapping[int, bytes]]) -> None:
        super().__init__(plan, sorted(votes))
        self._gathered, self._votes = gathered, votes

    def request(self, client: int) -> list[bytes]:
        """Which neighbours voted, and how."""
        voters = [v for v in self._gathered.voters(client) if v in self._votes]
        return [client_bytes(voters), b"".join(self._votes[v][client] for v in voters)]

    def take(self, client: int, fields: Sequence[bytes]) -> None:
        """Shares of what is asked for, as far as the client holds them."""
        told = sorted([*self._gathered.told[client], client])
        owners = clients_from(fields[0], [v for v in told if self._gathered.asked[v]], "owners of shares")
        shares = elements_from(self.plan.field, fields[1], (len(owners), self.plan.words), "opened shares")
        self.answers[client] = dict(zip(owners, shares, strict=True))

    def total(self, coins: Coins) -> Integers:
        """The sum without its masks, int64 [length].

        Raises:
            TooFewClientsError: a secret has fewer shares than it needs.
            ProtocolError: shares contradict each other, or do not open what takes the masks away.
        """
        plan, gathered, terms = self.plan, self._gathered, self.plan.terms
        secrets = open_each(plan.sharing, self._shares(), gathered.asked, coins)
        names = range(terms.clients)
        keys, signs = masks_left(
            plan.field, secrets, gathered.asked, plan.neighbours, gathered.masks, names, terms.binding, plan.step
        )
        total = gathered.total.copy()
        add_masks(total, keys, signs, plan.field.modulus)
        return total if terms.bound is None else self._within(signed(total, plan.field.modulus))

    def _shares(self) -> Elements:
        """Elements [n owners, n holders, words]."""
        n, asked = self.plan.terms.clients, self._gathered.asked
        shares = np.full((n, n, self.plan.words), NO_SHARE, dtype=self.plan.field.dtype)
        for holder, said in self.answers.items():
            for owner, share in said.items():
                shares[owner, holder] = share
        found = handed_in(shares).sum(axis=1)
        short = np.flatnonzero((asked > Ask.NOTHING) & (found < self.plan.needed))
        if len(short):
            raise TooFewClientsError(
                f"{self.plan.needed} shares are needed to unmask client {short[0]} in stage {self.stage.name} "
                f"({self.stage:d}); found {found[short[0]]}"
            )
        return shares

    def _within(self, total: Integers) -> Integers:
        """A sum that is beyond what so many vectors can reach is none: masks were left in it."""
        count = int((self._gathered.asked == Ask.SELF_MASK).sum())
        most = count * (self.plan.terms.bound or 0)
        if int(total.max()) > most or int(total.min()) < -most:
            raise ProtocolError(
                f"sum of {count} vectors must have magnitude up to {most:,}; a client's masks are not what it shared"
            )
        return total
