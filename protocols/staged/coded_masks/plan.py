"""What every party of a staged sum under LightSecAgg knows: its terms, and how masks are coded."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

from fgl_secure.algebra import PrimeField
from fgl_secure.crypto.prg import word_of
from fgl_secure.protocols.lightsecagg.code import MaskCode
from fgl_secure.protocols.masking.keys import TAG_BYTES
from fgl_secure.protocols.staged.interface import Stage, SumTerms
from fgl_secure.runtime import Step

SCHEME = b"LSA1"
STAGES = tuple(Stage)
LABEL = b"fgl-secure lightsecagg/v1"

_NUMBERS = struct.Struct(">QQQQQQQI")


@dataclass(frozen=True, slots=True)
class LightSecAggPlan:
    """The public side of one sum.

    Attributes:
        terms: of the sum.
        code: of its masks.
    """

    terms: SumTerms
    code: MaskCode

    @classmethod
    def of(cls, terms: SumTerms, modulus: int, colluding: int) -> LightSecAggPlan:
        """The plan for checked terms."""
        return cls(terms, MaskCode(PrimeField(modulus), terms.clients, terms.threshold, colluding, terms.length))

    @property
    def field(self) -> PrimeField:
        """Of vectors and masks."""
        return self.code.field

    @property
    def step(self) -> Step:
        """What names the sum within its session where keys are derived."""
        return Step(self.terms.number)

    @property
    def code_bytes(self) -> int:
        """Of one coded mask in a message."""
        return self.code.width * word_of(self.field.modulus)[0].itemsize

    @property
    def box_bytes(self) -> int:
        """Of one coded mask, sealed."""
        return self.code_bytes + TAG_BYTES

    def statement(self, client: int, public: bytes) -> bytes:
        """What a client's identity signs: that this is its key in a sum under these terms."""
        terms, code = self.terms, self.code
        stated = terms.number, terms.clients, terms.threshold, terms.length, terms.bound or 0
        numbers = _NUMBERS.pack(*stated, code.colluding, code.field.modulus, client)
        return LABEL + b"keys" + hashlib.sha256(terms.binding + numbers).digest() + public
