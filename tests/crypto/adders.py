"""Sums of any ciphertexts, sums among them, as a party makes them that keeps no books of its terms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fgl_secure.crypto.ckks import PREFIX, REFUSALS, PublicKey, load_ciphertext, ring, save
from fgl_secure.errors import InputError, ProtocolError


class Adder:
    """The one who adds, and can't decrypt.

    Args:
        public: the receiver's public key.
    """

    __slots__ = ("_public",)

    def __init__(self, public: PublicKey) -> None:
        if not isinstance(public, PublicKey):
            raise InputError(f"public must be a PublicKey, which has no secret; found a {type(public).__name__}")
        self._public = public

    @classmethod
    def from_bytes(cls, context: bytes) -> Adder:
        """From a public context; see `PublicKey.from_bytes` for what is refused."""
        return cls(PublicKey.from_bytes(context))

    def add(self, ciphertexts: Iterable[bytes]) -> bytes:
        """Adds up ciphertexts of the same entries of different terms, one after the other.

        Raises:
            ProtocolError: one is of another key, other parameters or another scale, or no ciphertext; or there are
                more terms than the parameters allow.
            InputError: there is none.
        """
        total, terms = None, 0
        evaluator = ring(self._public.parameters.chain).evaluator
        for data in ciphertexts:
            found = load_ciphertext(data, self._public)
            terms += found.terms
            if terms > self._public.parameters.terms:
                raise ProtocolError(f"a sum must have up to {self._public.parameters.terms} terms; found {terms}")
            total = found.cipher if total is None else _added(evaluator, total, found.cipher)
        if total is None:
            raise InputError("ciphertexts must be one or more; found none")
        return PREFIX.pack(self._public.fingerprint, terms) + save(total)


def _added(evaluator: Any, total: Any, cipher: Any) -> Any:
    try:
        evaluator.add_inplace(total, cipher)
    except REFUSALS as error:  # SEAL refuses a sum that hides nothing
        raise ProtocolError("ciphertexts must add up to one that hides its plaintext; found two that cancel") from error
    return total
