"""What every party of LightSecAgg knows, and masks in pieces (So et al., MLSys 2022, section 4).

A mask of d elements is cut into U - T parts, T uniform parts are put beside them, and the U parts become N coded masks
by Lagrange coding, one for each client. Codes of sums are sums of codes, so that the sums of U clients
decode to the sum of the masks, no matter which party they are.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, LagrangeCode, PrimeField
from fgl_secure.coins import Coins
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.errors import FieldRangeError, ProtocolError
from fgl_secure.protocols.secagg.terms import SumPlan
from fgl_secure.typing import Flags


@dataclass(frozen=True, slots=True)
class MaskCode:
    """How masks are coded.

    Attributes:
        field: of masks and vectors.
        clients: N, who each hold one coded mask of every party.
        threshold: U, coded masks, or sums of them, that determine a mask, or the sum.
        colluding: T < U, coded masks that tell nothing of it.
        length: d, elements of a mask.
    """

    field: PrimeField
    clients: int
    threshold: int
    colluding: int
    length: int

    @property
    def parts(self) -> int:
        """U - T."""
        return self.threshold - self.colluding

    @property
    def width(self) -> int:
        """Elements of a part, and of a coded mask: d / (U - T), rounded up; the last part is padded with zeros."""
        return -(-self.length // self.parts)

    @property
    def noise_shape(self) -> tuple[int, int]:
        """[T, width], the uniform parts."""
        return self.colluding, self.width

    @property
    def code(self) -> LagrangeCode:
        """The code, with points 1 .. U for parts and noise and U + 1 .. U + N for clients (modulo p)."""
        return LagrangeCode(self.field, self.parts, self.colluding, self.clients)

    def check(self) -> None:
        """Raises `FieldRangeError` for a field with fewer than U + N elements."""
        points = self.threshold + self.clients
        if points > self.field.modulus:
            raise FieldRangeError(
                f"modulus must be at least N + threshold = {self.clients} + {self.threshold}, for as many different "
                f"points; found {self.field.modulus}"
            )

    def encode(self, mask: Elements, noise: Elements) -> Elements:
        """A client's role: its coded masks.

        Args:
            mask: elements [*batch, d], used for one sum.
            noise: elements [*batch, T, width], fresh and uniform.

        Returns:
            Elements [*batch, N, width]; any T of the N are independent of the mask.
        """
        batch = mask.shape[:-1]
        padded = np.zeros((*batch, self.parts * self.width), dtype=np.int64)
        padded[..., : self.length] = mask
        parts = padded.reshape(*batch, self.parts, self.width)
        return self.field.combine_two(_encoding_matrix(self.code), parts, noise, axis=len(batch))

    def add_coded(self, coded: Elements) -> Elements:
        """A client's role: the sum of the coded masks [*batch, n, width] that it holds of a roster."""
        ones, axis = np.ones((1, coded.shape[-2]), dtype=np.int64), coded.ndim - 2
        return self.field.combine(ones, coded, axis=axis)[..., 0, :]

    def recover(self, sums: Elements, holders: Sequence[int], coins: Coins | None) -> tuple[Elements, tuple[int, ...]]:
        """The receiver's role: the sum of masks, from the sums of their codes.

        Beyond U of them the others serve as checks, and half as many wrong ones are located and left out.

        Args:
            sums: elements [h, *batch, width], by holder.
            holders: whose they are, at least U.
            coins: for locating errors; they never change the answer. None corrects nothing and notices all the more.

        Returns:
            Elements [*batch, d], and the holders whose sums are wrong.

        Raises:
            TooManyErrors: sums contradict each other and the wrong ones cannot be told.
        """
        errors = 0 if coins is None else (len(holders) - self.threshold) // 2
        decoded = self.code.decode(sums, holders, max_errors=errors, coins=coins)
        parts = np.moveaxis(decoded.blocks, 0, -2)
        return parts.reshape(*parts.shape[:-2], self.parts * self.width)[..., : self.length], decoded.faulty


@lru_cache(maxsize=4)
def _encoding_matrix(code: LagrangeCode) -> NDArray[np.int64]:
    """int64 [N, U], the same for all clients of a sum: made once where they are in one process."""
    matrix = code.encoding_matrix
    matrix.flags.writeable = False
    return matrix


LABEL = b"fgl-secure lightsecagg/v3"

_NUMBERS = struct.Struct(">QQ")


@dataclass(frozen=True, slots=True, eq=False)
class LightSecAggPlan(SumPlan):
    """The public side of all sums of one topology.

    Attributes:
        code: of masks.
        keys: how clients agree on keys.
    """

    label: ClassVar[bytes] = LABEL

    code: MaskCode
    keys: KeyAgreement = KeyAgreement.X25519

    @property
    def field(self) -> PrimeField:
        """Of masked vectors and coded masks."""
        return self.code.field

    @property
    def agreed_bytes(self) -> bytes:
        """See `SumPlan.agreed_bytes`."""
        return _NUMBERS.pack(self.field.modulus, self.code.colluding) + self.keys.encode()


def check_roster(roster: Flags, place: int, known: Flags, threshold: int) -> None:
    """A client's role: raises unless it may vote for a roster, and answer for it when enough others do.

    Args:
        roster: bool [N], whose vectors are in the sum, as the aggregator says.
        place: the number of the client that is told; its own vector is sent.
        known: bool [N], whose coded masks it holds.
        threshold: U.

    Raises:
        ProtocolError: the roster leaves the client out, or names one whose coded mask it lacks, or fewer than U.
    """
    if not roster[place]:
        raise ProtocolError(f"sender {place} must be on the roster of a step that it sent its vector in; it is not")
    unknown = np.flatnonzero(roster & ~known)
    if len(unknown):
        raise ProtocolError(f"a roster must name those only whose coded masks arrived; found sender {unknown[0]}")
    if int(roster.sum()) < threshold:
        raise ProtocolError(f"a roster must name at least threshold = {threshold} senders; found {int(roster.sum())}")
