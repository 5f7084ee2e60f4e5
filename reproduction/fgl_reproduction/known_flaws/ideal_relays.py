"""Ideal cryptography of relay-coded sums: masks are coins, so that enumeration runs every one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from fgl_secure.algebra import Elements, PrimeField
from fgl_secure.errors import InputError
from fgl_secure.protocols.relay_coded.cryptography import Arrays, Cryptography, Keys
from fgl_secure.runtime import Draws, Step
from fgl_secure.runtime.transcript import Numbers
from fgl_secure.typing import Array, Bytes, Flags, Ids


class IdealCryptography(Cryptography):
    """What the ciphers stand in for, for enumeration and simulators: masks drawn as they are and sent in full.

    Pseudonyms, routes and orders are fixed, so that masks are all that is random: values are hidden, and who sends to
    whom is not, whatever the profile.
    """

    unlinkable: ClassVar[bool] = False

    def __init__(self, field: PrimeField, T: int, **known: Any) -> None:
        super().__init__(field, T, **known)
        self._numbers = 0

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

    def routes(self, draws: Draws, step: Step, silos: Ids) -> Ids:  # noqa: ARG002  # no coins
        """One silo after the other."""
        numbers = np.arange(len(silos), dtype=np.int64)
        return np.stack([numbers, numbers], axis=1)

    def openings(self, draws: Draws, step: Step, owners: Ids) -> Ids:  # noqa: ARG002  # numbered across openings
        """The next numbers."""
        first, self._numbers = self._numbers, self._numbers + len(owners)
        numbers = np.arange(first, self._numbers, dtype=np.int64)
        return np.stack([numbers, numbers], axis=1)

    def names(self, draws: Draws, step: Step, owners: Ids) -> Ids:
        """The next numbers."""
        return self.openings(draws, step, owners)

    def circuit_keys(self, draws: Draws, step: Step, owners: Ids, relays: int) -> Bytes:  # noqa: ARG002  # none needed
        """Empty ones."""
        return np.empty((relays, len(owners), 0), dtype=np.uint8)

    def sealing_keys(self, draws: Draws, relays: Ids) -> Bytes:  # noqa: ARG002  # none needed
        """Empty ones."""
        return np.empty((len(relays), 0), dtype=np.uint8)

    def public_key(self, private: Bytes) -> Bytes:
        """An empty one."""
        return private

    @property
    def public_bytes(self) -> int:
        """0."""
        return 0

    def sealed_bytes(self, content: int) -> int:
        """Those of the content."""
        return content

    def seal(self, draws: Draws, owners: Ids, publics: Sequence[Bytes], contents: Sequence[Bytes]) -> Bytes:  # noqa: ARG002
        """Return the contents, side by side."""
        return np.concatenate(contents, axis=1)

    def unseal(self, draws: Draws, private: Bytes, sealed: Bytes) -> tuple[Bytes, Flags]:  # noqa: ARG002
        """Return them as they are."""
        return sealed, np.ones(len(sealed), dtype=np.bool_)

    def hidden_width(self, width: int, kind: np.dtype[Any]) -> int:  # noqa: ARG002  # whatever it is
        """As many as the row has."""
        return width

    def hide(  # sent in full
        self, step: Step, attempt: int, keys: Bytes, rows: Array, out: Array | None = None  # noqa: ARG002
    ) -> Array:  # fmt: skip
        """Return the rows."""
        if out is None:
            return rows
        out[...] = rows
        return out

    def reveal(
        self, step: Step, attempt: int, keys: Bytes, hidden: Array, kind: np.dtype[Any]  # noqa: ARG002
    ) -> tuple[Array, Flags]:  # fmt: skip
        """Return the rows."""
        return hidden, np.ones(hidden.shape[-2], dtype=np.bool_)

    def circuit_masks(self, step: Step, attempt: int, keys: Bytes, width: int) -> Elements:  # noqa: ARG002
        """Never asked for."""
        raise InputError("masks must not be expanded where they are sent in full; some were to be")

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
        attempt: int,  # noqa: ARG002
        senders: Numbers,  # noqa: ARG002
        width: int,  # noqa: ARG002
        drawn: Arrays,
        keys: Keys | Bytes | None,  # noqa: ARG002
        places: Ids | slice | None = None,
    ) -> list[Elements]:
        """Those drawn."""
        found = [drawn[f"mask{t}"] for t in range(self._T)]
        return found if places is None else [np.ascontiguousarray(mask[..., places, :]) for mask in found]

    def expand(self, step: Step, names: Ids, keys: Keys, width: int) -> Elements:  # noqa: ARG002
        """Never asked for."""
        raise InputError("masks must not be expanded where they are sent in full; some were to be")

    def sender_keys(self, *_: Any, **__: Any) -> Bytes:
        """Never asked for."""
        raise InputError("keys must not be agreed on where masks are sent in full; some were to be")

    def relay_keys(self, *_: Any, **__: Any) -> Bytes:
        """Never asked for."""
        raise InputError("keys must not be agreed on where masks are sent in full; some were to be")
