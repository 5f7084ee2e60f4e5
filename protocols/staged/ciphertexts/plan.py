"""What every party of a staged sum under CKKS knows: its terms, parameters, sizes, and who may make the key."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from fgl_secure.crypto.ckks import wire_bytes
from fgl_secure.crypto.ckks_parameters import OVERHEAD_BYTES, Parameters
from fgl_secure.protocols.staged.interface import Stage, SumTerms
from fgl_secure.runtime import Step

SCHEME = b"CKK1"
STAGES = (Stage.KEYS, Stage.SHARES, Stage.VECTORS, Stage.OPENING)
LABEL = b"fgl-secure ckks/v1"

FRAME_BYTES = 8
_ENTRY_BYTES = 8


@dataclass(frozen=True, slots=True)
class CkksPlan:
    """The public side of one sum.

    Attributes:
        terms: of the sum.
        parameters: of CKKS.
    """

    terms: SumTerms
    parameters: Parameters

    @classmethod
    def of(cls, terms: SumTerms) -> CkksPlan:
        """The plan for checked terms."""
        assert terms.bound is not None, "sums under CKKS have a bound"
        return cls(terms, Parameters.for_sums(terms.clients, terms.bound, length=terms.length))

    @property
    def step(self) -> Step:
        """What names the sum within its session where keys are derived."""
        return Step(self.terms.number)

    @property
    def ciphertexts(self) -> int:
        """Of a vector."""
        return self.parameters.ciphertexts(self.terms.length)

    @property
    def frame_bytes(self) -> int:
        """Of one ciphertext in a message."""
        return FRAME_BYTES + wire_bytes(self.parameters)

    @property
    def public_bytes(self) -> int:
        """Of a public context in a message: two polynomials."""
        return self.parameters.chain.ciphertext_bytes + OVERHEAD_BYTES

    @property
    def secret_bytes(self) -> int:
        """Of a key file in a message: three polynomials."""
        return 2 * self.parameters.chain.ciphertext_bytes + OVERHEAD_BYTES

    @property
    def sum_bytes(self) -> int:
        """Of the opened sum in a message."""
        return _ENTRY_BYTES * self.terms.length

    def candidates(self, listed: Sequence[int]) -> list[int]:
        """Which of the clients with keys make a key pair: so many of the first that one at least is left.

        Of m clients m - threshold may drop out before the sum stops, so m - threshold + 1 candidates are enough.
        """
        return list(listed[: len(listed) - self.terms.threshold + 1])

    def statement(self, client: int, public: bytes) -> bytes:
        """What a client's identity signs: that this is its key in this sum."""
        numbers = struct.pack(">QQQQI", self.terms.number, self.terms.clients, self.terms.threshold,
                              self.terms.length, client)  # fmt: skip
        return LABEL + b"keys" + self.terms.binding + numbers + self.parameters.to_bytes() + public
