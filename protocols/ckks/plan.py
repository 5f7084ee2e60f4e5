"""What every party knows of sums under a CKKS key that clients share."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

import numpy as np

from fgl_secure.crypto.ckks_parameters import Parameters
from fgl_secure.crypto.cryptography import Context
from fgl_secure.protocols.one_sum.terms import OneSum
from fgl_secure.protocols.stepwise import step_bytes
from fgl_secure.runtime import Step
from fgl_secure.typing import Flags

LABEL = b"fgl-secure ckks-shared-key/v2"


@dataclass(frozen=True, slots=True, eq=False)
class SharedKeyPlan:
    """The public side of all sums of one topology.

    Attributes:
        terms: of the sums.
        parameters: of CKKS.
    """

    terms: OneSum
    parameters: Parameters

    @property
    def count(self) -> int:
        """Ciphertexts of a vector."""
        return self.parameters.ciphertexts(self.terms.length)

    @property
    def largest(self) -> int:
        """The largest magnitude that an entry of a sum may have."""
        assert self.terms.bound is not None, "sums under CKKS have a bound"
        return self.terms.n * self.terms.bound

    @property
    def digest(self) -> bytes:
        """SHA-256 of all that parties must agree on before a sum starts, but for the step."""
        return hashlib.sha256(LABEL + b"terms" + self.terms.digest + self.parameters.to_bytes()).digest()

    def candidates(self, listed: Flags) -> Flags:
        """Which of the clients with keys make a key pair: so many of the first that one at least is left.

        Of m clients m - threshold may drop out before the sum stops, so m - threshold + 1 candidates are enough.
        """
        return listed & (np.cumsum(listed) <= int(listed.sum()) - self.terms.threshold + 1)

    def context(self, step: Step) -> Context:
        """What keys of one sum are bound to."""
        return self.terms.context(LABEL, step)

    def statement(self, step: Step, place: int, *keys: bytes) -> bytes:
        """What a party's identity signs: that this is its key in a sum under these terms."""
        return LABEL + b"keys" + self.digest + step_bytes(step) + struct.pack(">I", place) + b"".join(keys)
