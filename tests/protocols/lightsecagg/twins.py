"""LightSecAgg with one flaw at a time: machines and cryptography that are handed to the scheme in place of its own."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_reproduction.known_flaws.ideal_masking import IdealCryptography
from fgl_secure.crypto.cryptography import Context, Cryptography, Elements, KeyPurpose, Mask
from fgl_secure.protocols.lightsecagg.machines import LightSecAggClients
from fgl_secure.runtime import Messages, Phase, Step
from fgl_secure.typing import Flags

Array = NDArray[Any]


class OneMaskForAllSteps(LightSecAggClients):
    """Masks of the first step serve for all; noise is fresh."""

    def _mask_key(self, at: int, seed: bytes, context: Context) -> bytes:
        kept: dict[int, bytes] = self.__dict__.setdefault("kept", {})
        return kept.setdefault(at, super()._mask_key(at, seed, context))


class OneMaskForTwo(LightSecAggClients):
    """The second and the third sender mask with the same mask."""

    def _mask_key(self, at: int, seed: bytes, context: Context) -> bytes:
        if at == 1:
            self._of_the_second = super()._mask_key(at, seed, context)
        return self._of_the_second if at in (1, 2) else super()._mask_key(at, seed, context)


class OneNoiseForAll(LightSecAggClients):
    """All senders of a step code with the same noise."""

    _first: bytes = b""

    def _noise(self, key: bytes) -> Elements:
        self._first = self._first or key
        return super()._noise(self._first)


class NoNoise(LightSecAggClients):
    """T is 0 in effect: parts of the mask alone are coded."""

    def _noise(self, key: bytes) -> Elements:
        return 0 * super()._noise(key)


class CodesToTheFirstToo(LightSecAggClients):
    """The first sender is also sent the coded masks that are for the last."""

    def _share_masks(self, which: Any, secrets: Array, context: Context, step: Step) -> Iterator[Messages]:
        for messages in super()._share_masks(which, secrets, context, step):
            yield messages
            at = int(np.flatnonzero(self.parties == messages.senders[0])[0])
            code = self._encode_mask(at, secrets[np.flatnonzero(which == at)[0]], context)[..., -1:, :]
            ends = messages.senders, self.parties[:1]
            yield Messages(Phase.SECRET_SHARES, step, *ends, {"code": code}, self._tape_axes)


class MaskAddedTwice(LightSecAggClients):
    """The first sender adds its mask to its vector twice."""

    def _masks(self, at: int, context: Context) -> tuple[list[Mask], list[int]]:
        masks, signs = super()._masks(at, context)
        return ([masks[0], *masks], [1, *signs]) if at == 0 else (masks, signs)


class VotesNotCounted(LightSecAggClients):
    """Whatever roster a sender is told it opens."""

    def _alike(self, at: int, cast: Flags, votes: Array, context: Context) -> int:
        return super()._alike(at, cast, votes, context) + self.terms.n


class OneVotesForEverything(LightSecAggClients):
    """One of the senders, who is not asked itself, votes for every roster."""

    def _alike(self, at: int, cast: Flags, votes: Array, context: Context) -> int:
        return super()._alike(at, cast, votes, context) + 1


class AnyRosterIsOpened(VotesNotCounted):
    """Senders check nothing of a roster, and it need not name enough of them."""

    def _check_roster(self, roster: Flags, own: int, told: Flags) -> None:
        """Checks nothing."""


class CodesForStrangers(LightSecAggClients):
    """Sums of coded masks have the codes of everybody who shared, and not of the roster."""

    def _sum_coded(self, at: int) -> Elements:
        return np.compress(self._holds[at], self._held[..., at, :, :], axis=-2)


class NoMask(IdealCryptography):
    """Masks are zero."""

    def _draw_mask(self, purpose: KeyPurpose, owners: tuple[int, ...], count: int, step: Any) -> Elements:
        drawn = super()._draw_mask(purpose, owners, count, step)
        return 0 * drawn if purpose is KeyPurpose.SELF_MASK else drawn


class ThreeBits(IdealCryptography):
    """Masks are words of three bits modulo p."""

    def _draw_mask(self, purpose: KeyPurpose, owners: tuple[int, ...], count: int, step: Any) -> Elements:
        if purpose is not KeyPurpose.SELF_MASK:
            return super()._draw_mask(purpose, owners, count, step)
        words = self._source.draw(purpose.words, np.array(owners), 2**3, (count,), step)
        return words[..., 0, :] % self.modulus


class SeedsKeptOverSteps(Cryptography):
    """Seeds of the first step serve for all, and contexts do not name the step."""

    _kept: Any = None

    def fresh(self, owners: Any, count: int, step: Any) -> Any:
        if self._kept is None:
            self._kept = super().fresh(owners, count, step)
        return self._kept

    def derive_key(self, secret: bytes, context: Context, purpose: KeyPurpose, owner: int) -> bytes:
        return super().derive_key(secret, replace(context, when=bytes(16)), purpose, owner)
