"""Products of shares under an ideal functionality, for proofs over every coin of the machines that users run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgl_reproduction.known_flaws.ideal_relays import IdealCryptography
from fgl_secure.algebra import PrimeField
from fgl_secure.algebra.residues import Words
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.crypto.streams import KEY_BYTES
from fgl_secure.errors import InputError
from fgl_secure.protocols.coded_products.cryptography import ProductCryptography
from fgl_secure.protocols.relay_coded.cryptography import Keys
from fgl_secure.runtime import Draws, Step
from fgl_secure.typing import Bytes, Ids


class IdealProductCryptography(ProductCryptography):
    """What the ciphers stand in for, for enumeration: masks, which are sent in full, and common streams are coins."""

    def __init__(self, fields: Sequence[PrimeField], T: int, session: bytes | None, agreement: KeyAgreement) -> None:
        super().__init__(fields, T, session, agreement)
        self.keys = IdealCryptography(fields[0], T, session=session, agreement=agreement)
        self._drawn: dict[Any, list[Words]] = {}

    def masks(
        self, draws: Draws, step: Step, devices: Ids, width: int, keys: Keys | None, *, once: bool  # noqa: ARG002
    ) -> list[Words]:  # fmt: skip
        """Drawn by each device."""
        product = math.prod(field.modulus for field in self._fields)
        return [draws.draw("masks", devices, product, (width,), step) for _ in range(self._T)]

    def expand(self, step: Step, devices: Ids, width: int, keys: Keys, *, once: bool) -> Words:  # noqa: ARG002
        """Never asked for."""
        raise InputError("masks must be expanded by nobody where they are sent in full; one was to be")

    def draw_keys(self, draws: Draws, dealers: Ids) -> Bytes:  # noqa: ARG002  # streams are coins
        """Nothing to draw."""
        return np.zeros((len(dealers), KEY_BYTES), dtype=np.uint8)

    def streams(
        self, draws: Draws, keys: Bytes, sets: Sequence[Ids], step: Step, group: int, digest: Ids, count: int  # noqa: ARG002
    ) -> list[list[Words]]:  # fmt: skip
        """Drawn when the first of a set asks; all of it know them."""
        out = []
        for members in sets:
            name = (tuple(members.tolist()), step, group, tuple(digest.tolist()))
            if name not in self._drawn:
                self._drawn[name] = self.drawn_streams(draws, members, step, count)
            out.append(self._drawn[name])
        return out

    def drawn_streams(self, draws: Draws, members: Ids, step: Step, count: int) -> list[Words]:
        """T streams, as coins of the first of the set and as learnt by all others."""
        out, product = list[Words](), math.prod(field.modulus for field in self._fields)
        for _ in range(self._T):
            coins = draws.draw("streams", members[:1], product, (count,), step)
            others = np.broadcast_to(coins, (*draws.batch_shape, len(members) - 1, count))
            draws.note_secrets("streams", members[1:], others, step)
            out.append(coins[..., 0, :])
        return out
