"""What every party of LightSecAgg knows: the terms, and how masks are coded.

A client answers for one roster in a step, and only when U clients say that they were told the same. T + 1 sums over
one roster and T + 1 over another would already tell a combination of the U - T parts of each of two sums of masks, for
the code is a ramp: nothing up to T, everything from U on, and something in between.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.crypto.cryptography import Context
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.lightsecagg.code import MaskCode
from fgl_secure.protocols.one_sum.terms import OneSum
from fgl_secure.protocols.stepwise import step_bytes
from fgl_secure.runtime import Step

LABEL = b"fgl-secure lightsecagg/v3"

_NUMBERS = struct.Struct(">QQ")


@dataclass(frozen=True, slots=True, eq=False)
class LightSecAggPlan:
    """The public side of all sums of one topology.

    Attributes:
        terms: of the sums.
        code: of masks.
        keys: how clients agree on keys.
    """

    terms: OneSum
    code: MaskCode
    keys: KeyAgreement = KeyAgreement.X25519

    @property
    def field(self) -> PrimeField:
        """Of masked vectors and coded masks."""
        return self.code.field

    @property
    def digest(self) -> bytes:
        """SHA-256 of all that parties must agree on before a sum starts, but for the step."""
        numbers = _NUMBERS.pack(self.field.modulus, self.code.colluding)
        return hashlib.sha256(LABEL + b"terms" + self.terms.digest + numbers + self.keys.encode()).digest()

    def context(self, step: Step) -> Context:
        """What keys of one sum are bound to."""
        return self.terms.context(LABEL, step)

    def statement(self, step: Step, place: int, *keys: bytes) -> bytes:
        """What a party's identity signs: that this is its key in a sum under these terms."""
        return LABEL + b"keys" + self.digest + step_bytes(step) + struct.pack(">I", place) + b"".join(keys)


Flags = NDArray[np.bool_]


def colluding_of(clients: int, threshold: int, colluding: int | None) -> int:
    """T among so many clients: as given, or a third of them, at least 1 and below U.

    Raises:
        InputError: T is not in 1 .. U - 1.
    """
    chosen = max(1, min(clients // 3, threshold - 1)) if colluding is None else colluding
    if not 1 <= chosen < threshold:
        raise InputError(
            f"colluding must lie in 1..{threshold - 1} at threshold = {threshold}: coded masks have threshold - "
            f"colluding parts, and without noise one sender would open another's mask; found {chosen}"
        )
    return chosen


def lying_of(clients: int, threshold: int, colluding: int) -> int:
    """Most clients that may side with an aggregator that lies: min(T, 2U - N - 1).

    Each roster that is opened has U votes. An honest client votes once and c dishonest ones for both of two, so two
    rosters need 2U <= N - c + 2c, that is c >= 2U - N; and then both are opened whole.
    """
    return min(colluding, 2 * threshold - clients - 1)


def check_roster(roster: Flags, own: int, told: Flags, threshold: int) -> None:
    """A client's role: raises unless it may vote for a roster, and answer for it when enough others do.

    Args:
        roster: bool [N], whose vectors are in the sum, as the aggregator says.
        own: the number of the client that is told; its own vector is sent.
        told: bool [N], whose coded masks it holds.
        threshold: U.

    Raises:
        ProtocolError: the roster leaves the client out, or names one whose coded mask it lacks, or fewer than U.
    """
    if not roster[own]:
        raise ProtocolError(f"sender {own} must be on the roster of a step that it sent its vector in; it is not")
    strangers = np.flatnonzero(roster & ~told)
    if len(strangers):
        raise ProtocolError(f"a roster must name those only whose coded masks arrived; found sender {strangers[0]}")
    if int(roster.sum()) < threshold:
        raise ProtocolError(f"a roster must name at least threshold = {threshold} senders; found {int(roster.sum())}")
