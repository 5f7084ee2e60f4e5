"""What clients of pairwise masking remember from stage to stage: a row of each array a client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.cryptography import Cryptography
from fgl_secure.crypto.prg import KEY_BYTES
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.one_sum.fields import laid_out as on_all_tapes
from fgl_secure.protocols.one_sum.machine import OneSumMachine
from fgl_secure.protocols.one_sum.terms import Stage
from fgl_secure.protocols.pairwise_masking.plan import MaskingPlan
from fgl_secure.runtime import Draws, Messages, Phase, Step

Array = NDArray[Any]
Ids = NDArray[np.int64]

DONE = len(Stage)
"""The stage that is due to a client that has given its last answer."""

SEALING, MASK, SELF, SHARES = range(4)
"""Secrets of a client: two private keys, and the seeds of its own mask and of the polynomials that share secrets."""


class Memory(OneSumMachine):
    """The state of some clients of one process.

    Args:
        parties: int64 [h], ascending identifiers of those hosted.
        plan: of the sums.
        cryptography: keys, masks, seals and votes.
        draws: coins of those hosted.
        names: their identities; None for none.
    """

    def __init__(
        self, parties: Ids, plan: MaskingPlan, cryptography: Cryptography, draws: Draws, names: Names | None = None
    ) -> None:
        super().__init__(parties, plan.terms, plan.digest, len(draws.batch_shape))
        self._plan, self._crypto, self._names, self._tapes = plan, cryptography, names, draws.batch_shape
        self._places = np.array([plan.terms.place_of(party) for party in parties.tolist()], dtype=np.int64)
        self._rows: Array | None = None
        self._clear()

    def _clear(self) -> None:
        h, n, k, crypto = len(self.parties), self._plan.terms.n, self._plan.degree, self._crypto
        self._due = np.full(h, DONE, dtype=np.int64)
        self._pending = np.zeros(h, dtype=np.bool_)
        self._secrets = np.zeros((h, 4, KEY_BYTES), dtype=np.uint8)
        self._has = np.zeros((h, k), dtype=np.bool_)
        self._pair = np.zeros((h, k, KEY_BYTES), dtype=np.uint8)
        self._mask = np.zeros((h, k, KEY_BYTES), dtype=np.uint8)
        self._receiver = np.zeros((h, KEY_BYTES), dtype=np.uint8)
        self._told = np.zeros((h, k), dtype=np.bool_)
        self._holds = np.zeros((h, k + 1), dtype=np.bool_)
        self._held = np.zeros((*self._tapes, h, k + 1, 2, self._plan.words), dtype=np.int64)
        self._asked = np.zeros((h, n), dtype=np.uint8)
        self._signature = np.zeros((h, crypto.signature_bytes), dtype=np.uint8)

    @property
    def due(self) -> Ids:
        """The stage that each hosted client awaits the server's message of, int64 [h]; `DONE` after the last."""
        return self._due.copy()

    def _to_server(
        self,
        phase: Phase,
        which: Ids,
        fields: Mapping[str, Array],
        elements: Mapping[str, Array] | None = None,
        step: Step | None = None,
    ) -> Messages:
        """A message of each of some hosted clients.

        Args:
            phase: what they carry.
            which: int64 [m], places of the clients among those hosted.
            fields: [m, ...], the same on all tapes.
            elements: [*tapes, m, ...].
            step: of the sum; the one at hand unless given.
        """  # fmt: skip
        senders, to = self.parties[which], np.full(len(which), self._plan.terms.server, dtype=np.int64)
        return Messages(
            phase, step or self.step, senders, to, laid_out(fields, elements or {}, self._tapes, self._plan),
            self._tape_axes,
        )  # fmt: skip

    def _arrays(self) -> dict[str, Array]:
        rows = np.zeros((0, self._plan.terms.length), dtype=np.int64) if self._rows is None else self._rows
        return {
            "due": self._due, "pending": self._pending, "secrets": self._secrets, "has": self._has,
            "pair": self._pair, "mask": self._mask, "receiver": self._receiver, "told": self._told,
            "holds": self._holds, "held": self._held, "asked": self._asked, "signature": self._signature, "rows": rows,
        }  # fmt: skip

    def _take_arrays(self, arrays: Mapping[str, Array]) -> None:
        self._due, self._pending, self._secrets = arrays["due"], arrays["pending"], arrays["secrets"]
        self._has, self._pair, self._mask = arrays["has"], arrays["pair"], arrays["mask"]
        self._receiver, self._told, self._holds = arrays["receiver"], arrays["told"], arrays["holds"]
        self._held, self._asked, self._signature = arrays["held"], arrays["asked"], arrays["signature"]
        self._rows = arrays["rows"] if len(arrays["rows"]) else None


def laid_out(
    fields: Mapping[str, Array], elements: Mapping[str, Array], tapes: tuple[int, ...], plan: MaskingPlan
) -> dict[str, Array]:
    """See `one_sum.fields.laid_out`."""
    return on_all_tapes(fields, elements, tapes, plan.field.modulus)
