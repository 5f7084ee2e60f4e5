"""Ideal cryptography of relay-coded sums: masks are coins, so that enumeration runs every one of them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fgl_secure.algebra import Elements, PrimeField
from fgl_secure.errors import InputError
from fgl_secure.protocols.relay_coded.cryptography import Arrays, Cryptography, Keys
from fgl_secure.runtime import Draws, Step
from fgl_secure.runtime.transcript import Numbers
from fgl_secure.typing import Array, Bytes, Ids


class IdealCryptography(Cryptography):
    """What the ciphers stand in for, for enumeration and simulators: masks drawn as they are and sent in full.

    Tags, numbers and orders are fixed, so that masks are all that is random: values are hidden, and who sends to whom
    is not, whatever the profile.
    """

    unlinkable: ClassVar[bool] = False

    def __init__(self, field: PrimeField, T: int, **known: Any) -> None:
        super().__init__(field, T, **known)
        self._tags = 0

    @property
    def keyed(self) -> bool:
        """No keys."""
        return False

    @property
    def expanded(self) -> int:
        """None: every relay is sent its share."""
        return 0

    def shuffle(self, draws: Draws, count: int) -> Ids | None:  # no coins
        """None."""

    def ways(self, draws: Draws, step: Step, silos: Ids, before: int) -> Ids:  # noqa: ARG002  # no coins
        """One silo after the other."""
        numbers = np.arange(before, before + len(silos), dtype=np.int64)
        return np.stack([numbers, numbers], axis=1)

    def openings(self, draws: Draws, step: Step, owners: Ids) -> Ids:  # noqa: ARG002  # numbered across steps
        """The next numbers."""
        first, self._tags = self._tags, self._tags + len(owners)
        numbers = np.arange(first, self._tags, dtype=np.int64)
        return np.stack([numbers, numbers], axis=1)

    def numbers(self, draws: Draws, step: Step, senders: Ids) -> Ids:  # noqa: ARG002  # no coins
        """Their places."""
        return np.arange(len(senders), dtype=np.int64)

    def drawn(self, draws: Draws, step: Step, senders: Ids, width: int) -> dict[str, Array]:
        """Masks, drawn by each sender."""
        return {f"mask{t}": mask for t, mask in enumerate(self.drawn_masks(draws, step, senders, width))}

    def drawn_masks(self, draws: Draws, step: Step, senders: Ids, width: int) -> list[Elements]:
        """T arrays of elements [*batch, m, width]."""
        modulus, dtype = self._field.modulus, self._field.dtype
        return [draws.draw("masks", senders, modulus, (width,), step).astype(dtype) for _ in range(self._T)]

    def masks(
        self,
        step: Step,  # noqa: ARG002  # drawn for it
        senders: Numbers,  # noqa: ARG002
        width: int,  # noqa: ARG002
        drawn: Arrays,
        keys: Keys | None,  # noqa: ARG002
        places: Ids | None = None,
    ) -> list[Elements]:
        """Those drawn."""
        found = [drawn[f"mask{t}"] for t in range(self._T)]
        return found if places is None else [np.take(mask, places, axis=-2) for mask in found]

    def remember(self, step: Step, relay: int, names: Ids, secrets: Array, masks: Elements) -> None:
        """Nothing: relays are sent their shares."""

    def expand(self, step: Step, relay: int, names: Ids, secrets: Array, width: int, keys: Keys | None) -> Elements:  # noqa: ARG002
        """Never asked for."""
        raise InputError("masks must be expanded by nobody where they are sent in full; one was to be")

    def sender_keys(self, *_: Any, **__: Any) -> Bytes:
        """Never asked for."""
        raise InputError("keys must be agreed on by nobody where masks are sent in full; one was to be")

    def relay_keys(self, *_: Any, **__: Any) -> Bytes:
        """Never asked for."""
        raise InputError("keys must be agreed on by nobody where masks are sent in full; one was to be")
