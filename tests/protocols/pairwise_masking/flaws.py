"""Pairwise masking with one flaw at a time: subclasses that are handed to the scheme in place of the honest parts."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_reproduction.known_flaws.ideal_masking import IdealCryptography
from fgl_secure.crypto.cryptography import Context, Cryptography, Elements, KeyPurpose, Mask, Source
from fgl_secure.protocols.pairwise_masking.clients import MaskingClients
from fgl_secure.runtime import Messages, Phase
from fgl_secure.typing import Bytes, Ids

Array = NDArray[Any]


class SameMasksInEveryStep(IdealCryptography):
    """Masks of the first step serve for all."""

    def __init__(self, source: Source, modulus: int, *rest: Any) -> None:
        super().__init__(source, modulus, *rest)
        self._kept: dict[tuple[KeyPurpose, tuple[int, ...]], Elements] = {}

    def _draw_mask(self, purpose: KeyPurpose, owners: tuple[int, ...], count: int, step: Any) -> Elements:
        if (purpose, owners) not in self._kept or purpose is KeyPurpose.SHARING:
            self._kept[purpose, owners] = super()._draw_mask(purpose, owners, count, step)
        return self._kept[purpose, owners]


class OneMaskForAllPairs(IdealCryptography):
    """Every pair masks with the same mask."""

    def __init__(self, source: Source, modulus: int, *rest: Any) -> None:
        super().__init__(source, modulus, *rest)
        self._kept: list[Elements] = []

    def _draw_mask(self, purpose: KeyPurpose, owners: tuple[int, ...], count: int, step: Any) -> Elements:
        if purpose is not KeyPurpose.PAIR_MASK:
            return super()._draw_mask(purpose, owners, count, step)
        if not self._kept:
            self._kept.append(super()._draw_mask(purpose, owners, count, step))
        return self._kept[0]


class Without(IdealCryptography):
    """What is drawn for one purpose is zero.

    Args:
        source: coins.
        modulus: of the field.
        keys: how clients agree on them.
        purpose: the one.
    """

    def __init__(self, source: Source, modulus: int, *rest: Any, purpose: KeyPurpose) -> None:
        super().__init__(source, modulus, *rest)
        self._purpose = purpose

    def _draw_mask(self, purpose: KeyPurpose, owners: tuple[int, ...], count: int, step: Any) -> Elements:
        values = super()._draw_mask(purpose, owners, count, step)
        return np.zeros_like(values) if purpose is self._purpose else values


class RemaindersOfThreeBits(IdealCryptography):
    """Pair masks are words of three bits modulo p."""

    def _draw_mask(self, purpose: KeyPurpose, owners: tuple[int, ...], count: int, step: Any) -> Elements:
        if purpose is not KeyPurpose.PAIR_MASK:
            return super()._draw_mask(purpose, owners, count, step)
        words = self._source.draw(purpose.words, np.array(owners[:1]), 8, (count,), step) % self.modulus
        self._source.note_secrets(purpose.words, np.array(owners[1:]), words, step)
        return words[..., 0, :]


class SharesToTheFirstToo(IdealCryptography):
    """The first client also gets to see the shares that are for the second."""

    def seal(self, key: bytes, context: Context, sender: int, receiver: int, values: Elements) -> bytes:
        """Tells the first client."""
        if receiver == 2:  # the second client's identifier
            self._source.note_secrets("astray", np.array([1]), values[..., None, :], context.step)
        return super().seal(key, context, sender, receiver, values)


class SeedsKeptOverSteps(Cryptography):
    """Secrets of the first sum serve for all, and contexts do not name the step."""

    def __init__(self, source: Source, modulus: int, *rest: Any) -> None:
        super().__init__(source, modulus, *rest)
        self._kept: dict[tuple[bytes, int], Bytes] = {}

    def fresh(self, owners: Ids, count: int, step: Any) -> Bytes:
        """The first ones, again."""
        key = owners.tobytes(), count
        if key not in self._kept:
            self._kept[key] = super().fresh(owners, count, step)
        return self._kept[key]

    def derive_key(self, secret: bytes, context: Context, purpose: KeyPurpose, owner: int) -> bytes:
        """Of no step."""
        return super().derive_key(secret, replace(context, when=bytes(16)), purpose, owner)

    def agree(self, secret: bytes, context: Context, *rest: Any, **more: Any) -> dict[int, bytes]:
        """Of no step."""
        return super().agree(secret, replace(context, when=bytes(16)), *rest, **more)

    def wrap_keys(self, secret: bytes, context: Context, *rest: Any) -> dict[int, bytes]:
        """Of no step."""
        return super().wrap_keys(secret, replace(context, when=bytes(16)), *rest)


class WrongSign(MaskingClients):
    """Both ends of a pair add their mask."""

    def _masks(self, at: int, context: Context) -> tuple[list[Mask], list[int]]:
        masks, signs = super()._masks(at, context)
        return masks, [1] * len(signs)


class MaskAddedTwice(MaskingClients):
    """The first client adds its last mask twice."""

    def _masks(self, at: int, context: Context) -> tuple[list[Mask], list[int]]:
        masks, signs = super()._masks(at, context)
        return (masks + masks[-1:], signs + signs[-1:]) if self._places[at] == 0 else (masks, signs)


class NoOwnMask(MaskingClients):
    """Vectors are under pairwise masks alone."""

    def _masks(self, at: int, context: Context) -> tuple[list[Mask], list[int]]:
        masks, signs = super()._masks(at, context)
        return masks[1:], signs[1:]


class AnyRosterWillDo(MaskingClients):
    """Requests are not checked."""

    def _check_asked(self, asked: Array, own: int, told: Array, adjacent: Array) -> None:
        pass


class VotesAreNotCompared(MaskingClients):
    """Every vote counts, whatever it is for."""

    def _alike(self, at: int, cast: Array, *_: Any) -> int:  # noqa: ARG002  # of no use
        return int(cast.sum())


class AnyDrawWillDo(MaskingClients):
    """A graph is taken that was drawn from something else than what clients committed to."""

    def _check_draw(self, *_: Any) -> None:
        pass


class SignaturesAreNotChecked(MaskingClients):
    """Keys are taken from whoever has them to offer."""

    def _check_signatures(self, *_: Any) -> None:
        pass


class KeepsItsVectors(MaskingClients):
    """Honest, but for tests: what it sends in the stage of vectors is kept, to come late."""

    def step(self) -> list[Messages]:
        """Keeps vectors."""
        out = list(super().step())
        self.late = [batch for batch in out if batch.phase is Phase.MASKED_VECTORS] or getattr(self, "late", [])
        return out
