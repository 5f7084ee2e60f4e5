"""The one who adds up ciphertexts and can't decrypt them. See `crypto.ckks`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tenseal import sealapi

from fgl_secure.crypto.ckks_public import PREFIX, PublicKey, opened
from fgl_secure.crypto.ckks_seal import REFUSALS, ring, save
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
            found = opened(data, self._public)
            terms += found.terms
            if terms > self._public.parameters.terms:
                raise ProtocolError(f"a sum must have up to {self._public.parameters.terms} terms; found {terms}")
            total = found.cipher if total is None else _added(evaluator, total, found.cipher)
        if total is None:
            raise InputError("ciphertexts must be one or more; found none")
        return PREFIX.pack(self._public.fingerprint, terms) + save(total)


class RunningSums:
    """The sums of vectors of ciphertexts that come in one after the other: only the sums are kept.

    Args:
        public: the receiver's public key.
        count: ciphertexts of a vector.
    """

    __slots__ = ("_count", "_public", "_terms", "_totals")

    def __init__(self, public: PublicKey, count: int) -> None:
        self._public, self._count, self._terms = public, count, 0
        self._totals: list[Any] = []

    def add(self, ciphertexts: Sequence[bytes]) -> None:
        """Adds one term's ciphertexts, all of them or none.

        Raises:
            ProtocolError: there are more or fewer of them, or of terms, than there may be; one is of another key or
                another scale, a sum itself, or no ciphertext.
        """
        parameters = self._public.parameters
        if len(ciphertexts) != self._count or self._terms == parameters.terms:
            raise ProtocolError(
                f"a term must have {self._count} ciphertexts, and be one of {parameters.terms}; found "
                f"{len(ciphertexts)}, after {self._terms} terms"
            )
        found = [opened(data, self._public) for data in ciphertexts]
        if any(one.terms != 1 for one in found):
            raise ProtocolError("a term must not be a sum; found ciphertexts that say that they are")
        fresh, evaluator = [one.cipher for one in found], ring(parameters.chain).evaluator
        if self._totals:
            fresh = [_both(evaluator, *pair) for pair in zip(self._totals, fresh, strict=True)]
        self._totals = fresh
        self._terms += 1

    @classmethod
    def restored(cls, public: PublicKey, count: int, totals: Sequence[bytes]) -> RunningSums:
        """Sums that go on from what `to_bytes` gave.

        Raises:
            ProtocolError: they are not as many as a term has, of different numbers of terms, or no sums under this key.
        """
        made = cls(public, count)
        found = [opened(data, public) for data in totals]
        if found and (len(found) != count or len({one.terms for one in found}) > 1):
            raise ProtocolError(f"sums must be {count} of as many terms each; found {len(found)}")
        made._totals, made._terms = [one.cipher for one in found], found[0].terms if found else 0
        return made

    def to_bytes(self) -> list[bytes]:
        """The sums, as `Adder.add` would have made them; empty while there is no term."""
        return [PREFIX.pack(self._public.fingerprint, self._terms) + save(total) for total in self._totals]


def _both(evaluator: Any, total: Any, cipher: Any) -> Any:
    """A new ciphertext, so that a term that is refused half way leaves the sums as they were."""
    made = sealapi.Ciphertext()
    try:
        evaluator.add(total, cipher, made)
    except REFUSALS as error:  # SEAL refuses a sum that hides nothing
        raise ProtocolError("ciphertexts must add up to one that hides its plaintext; found two that cancel") from error
    return made


def _added(evaluator: Any, total: Any, cipher: Any) -> Any:
    try:
        evaluator.add_inplace(total, cipher)
    except REFUSALS as error:  # SEAL refuses a sum that hides nothing
        raise ProtocolError("ciphertexts must add up to one that hides its plaintext; found two that cancel") from error
    return total
