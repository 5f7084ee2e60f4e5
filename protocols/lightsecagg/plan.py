"""What every party of LightSecAgg knows: the terms, and how masks are coded."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

from fgl_secure.algebra import PrimeField
from fgl_secure.crypto.cryptography import Context
from fgl_secure.protocols.lightsecagg.code import MaskCode
from fgl_secure.protocols.one_sum.terms import OneSum, step_bytes
from fgl_secure.runtime import Step

LABEL = b"fgl-secure lightsecagg/v2"

_NUMBERS = struct.Struct(">QQ")


@dataclass(frozen=True, slots=True, eq=False)
class LightSecAggPlan:
    """The public side of all sums of one topology.

    Attributes:
        terms: of the sums.
        code: of masks.
    """

    terms: OneSum
    code: MaskCode

    @property
    def field(self) -> PrimeField:
        """Of masked vectors and coded masks."""
        return self.code.field

    @property
    def digest(self) -> bytes:
        """SHA-256 of all that parties must agree on before a sum starts, but for the step."""
        numbers = _NUMBERS.pack(self.field.modulus, self.code.colluding)
        return hashlib.sha256(LABEL + b"terms" + self.terms.digest + numbers).digest()

    def context(self, step: Step) -> Context:
        """What keys of one sum are bound to."""
        return self.terms.context(LABEL, step)

    def statement(self, step: Step, place: int, *keys: bytes) -> bytes:
        """What a party's identity signs: that this is its key in a sum under these terms."""
        return LABEL + b"keys" + self.digest + step_bytes(step) + struct.pack(">I", place) + b"".join(keys)
