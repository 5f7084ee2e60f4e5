"""The vetoes of a sum, as its clients have them: one's own, and a share of everybody's, until their sum is opened.

Where clients may veto a sum, each shares one more secret among all: 0, or a random element if it vetoes. When they have
agreed on who is in the sum, and before anything of it is opened, they open the sum of these secrets, and by that
whether anybody vetoes, but neither who nor how many. One veto in p, or several that cancel, which is as rare, is not
seen. A client that vetoes hands in something uniform, so that who opens the sum all the same has nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.cryptography import Context, Cryptography, Elements, Purpose
from fgl_secure.crypto.prg import KEY_BYTES
from fgl_secure.protocols.pairwise_masking.plan import MaskingPlan

Array = NDArray[Any]
Flags = NDArray[np.bool_]
Ids = NDArray[np.int64]


class Vetoes:
    """Those of some clients of one process, a row each; nothing where a sum is none to veto. Holds secrets.

    Args:
        plan: of the sums.
        cryptography: coins.
        tapes: axes in front of all elements.
        hosted: how many clients.
    """

    def __init__(self, plan: MaskingPlan, cryptography: Cryptography, tapes: tuple[int, ...], hosted: int) -> None:
        self._plan, self._crypto, shares = plan, cryptography, (plan.degree + 1) * plan.terms.veto
        self.cast: Flags = np.zeros(hosted, dtype=np.bool_)
        self._blank = np.zeros((hosted, KEY_BYTES), dtype=np.uint8)
        self._shares = np.zeros((*tapes, hosted, shares), dtype=np.int64)

    def shared(self, at: int, seed: bytes, context: Context, owner: int, circle: Ids) -> Elements:
        """Shares of a client's veto, of 0 where it has none: elements [*tapes, k + 1].

        Args:
            at: the client's place.
            seed: that its shares are drawn from, which it never shares.
            context: of the sum.
            owner: its party identifier.
            circle: int64 [k + 1], for whom.
        """
        c = self._crypto
        drawn = c.elements(c.stretched(seed, context, Purpose.VETO, owner), self._plan.needed)
        if self.cast[at]:
            self._blank[at] = np.frombuffer(c.stretched(seed, context, Purpose.BLANK, owner), dtype=np.uint8)
        secret, coins = self._secret(drawn[..., -1:], at), drawn[..., :-1, None]
        return np.asarray(self._plan.sharing.share(secret, coins, circle)[..., 0])

    def _secret(self, drawn: Elements, at: int) -> Elements:
        """A client's veto: elements of the same shape, as drawn or 0."""
        return drawn if self.cast[at] else np.zeros_like(drawn)

    def keep(self, at: int, place: int, share: Elements) -> None:
        """Keeps a share, elements [*tapes], of the veto of who stands at a place of a client's circle."""
        self._shares[..., at, place] = share

    def blanks(self, at: int) -> list[bytes]:
        """The key of a mask that nobody takes away, for the vector of a client that vetoes."""
        return [self._blank[at].tobytes()] if self.cast[at] else []

    def opened(self, which: Ids, among: Flags, holds: Flags) -> tuple[Flags, Elements]:
        """Shares of the sum of the vetoes of some, which are forgotten by that.

        Args:
            which: int64 [m], places of clients.
            among: bool [m, k + 1], of whose vetoes.
            holds: bool [m, k + 1], whose shares each client holds.

        Returns:
            Bool [m], who holds all that count, and elements [*tapes, m], their shares; 0 of the others.
        """
        counted = np.all(holds | ~among, axis=1)
        shares = np.where(among & counted[:, None], self._shares[..., which, :], 0)
        self._shares[..., which, :] = 0
        return counted, reduce(self._plan.field.add, np.moveaxis(shares, -1, 0))

    def forget(self, which: Ids) -> None:
        """Forgets what is uniform in the vectors of some clients, which have left."""
        self._blank[which] = 0

    def arrays(self) -> dict[str, Array]:
        """All of it, for a state."""
        return {"vetoing": self.cast, "blank": self._blank, "vetoes": self._shares}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Goes on from arrays."""
        self.cast, self._blank, self._shares = arrays["vetoing"], arrays["blank"], arrays["vetoes"]
