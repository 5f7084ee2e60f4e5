"""Pairwise masking with one flaw at a time: small changes to one role, everything else as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fgl_secure.algebra import Elements
from fgl_secure.protocols.masking import derived, drawn, keys, unmasking
from fgl_secure.protocols.masking.derived import DerivedMasks
from fgl_secure.protocols.masking.drawn import DrawnMasks
from fgl_secure.protocols.masking.shares import Sharing
from fgl_secure.protocols.relay_coded.cryptography import mask_nonce
from fgl_secure.runtime import Channel, Phase, Step
from fgl_secure.testing import Protocol
from fgl_secure.testing.protocol import Inputs

Patch = Callable[[pytest.MonkeyPatch], None]


def flawed(protocol: Protocol, patch: Patch, name: str) -> Protocol:
    """The same protocol, run with a patch in place."""

    def run(inputs: Inputs, channel: Channel) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            patch(monkeypatch)
            protocol.run(inputs, channel)

    return replace(protocol, run=run, name=name)


def same_masks_in_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pair and self masks of the first step serve for all."""
    fresh = DrawnMasks._draw

    def draw(self: Any, name: str, who: Any, width: int, step: Step) -> Elements:
        kept = self.__dict__.setdefault("kept", {})
        if name not in kept:
            kept[name] = fresh(self, name, who, width, step)
        return np.asarray(kept[name])

    monkeypatch.setattr(DrawnMasks, "_draw", draw)


def one_mask_for_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pair of a step masks with the same mask."""
    fresh = DrawnMasks._draw

    def draw(self: Any, name: str, who: Any, width: int, step: Step) -> Elements:
        if name != "pair masks":
            return fresh(self, name, who, width, step)
        return np.repeat(fresh(self, name, who[:1], width, step), len(who), axis=-2)

    monkeypatch.setattr(DrawnMasks, "_draw", draw)


def without(name: str) -> Patch:
    """Masks of one kind are zero."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        fresh = DrawnMasks._draw

        def draw(self: Any, kind: str, who: Any, width: int, step: Step) -> Elements:
            drawn = fresh(self, kind, who, width, step)
            return np.zeros_like(drawn) if kind == name else drawn

        monkeypatch.setattr(DrawnMasks, "_draw", draw)

    return patch


def remainders_of(bits: int) -> Patch:
    """Pair masks are words of some bits modulo p."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        fresh = DrawnMasks._draw

        def draw(self: Any, name: str, who: Any, width: int, step: Step) -> Elements:
            if name != "pair masks":
                return fresh(self, name, who, width, step)
            words = self.circle.channel.draw(name, self.circle.senders[who], 2**bits, (width,), step)
            return np.asarray(words % self.field.modulus, dtype=self.field.dtype)

        monkeypatch.setattr(DrawnMasks, "_draw", draw)

    return patch


def shares_to_the_first_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first sender is also sent the shares that are for the second."""
    honest = DrawnMasks.hand_over

    def hand_over(self: Any, step: Step, who: Any, shares: Elements) -> Any:
        c = self.circle
        to = np.full(len(who), c.senders[0])
        c.channel.send(Phase.SECRET_SHARES, step, c.senders[who], to, shares[..., 1, :, :])
        return honest(self, step, who, shares)

    monkeypatch.setattr(DrawnMasks, "hand_over", hand_over)


def constant_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polynomials of degree 0: every share is the secret."""
    honest = Sharing.share
    monkeypatch.setattr(Sharing, "share", lambda self, secrets, coins: honest(self, secrets, 0 * coins))


def wrong_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends of a pair add their mask."""
    for module in (drawn, derived):
        monkeypatch.setattr(module, "mask_sign", lambda *_: 1)


def mask_added_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first sender adds the mask that it shares with another twice."""
    for supply in (DrawnMasks, DerivedMasks):
        honest = supply.masked

        def masked(self: Any, u: int, row: Any, others: Any, step: Step, honest: Any = honest) -> Elements:
            return np.asarray(honest(self, u, row, np.append(others, others[:1]) if u == 0 else others, step))

        monkeypatch.setattr(supply, "masked", masked)


def seeds_kept_over_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and seeds of the first step serve for all, and contexts do not name the step."""
    fresh = DerivedMasks._drawn

    def drawn(self: Any, name: str, who: Any, step: Step) -> Any:
        kept = self.__dict__.setdefault("kept", {})
        if name not in kept:
            kept[name] = fresh(self, name, who, step)
        return kept[name].copy()

    honest = mask_nonce
    monkeypatch.setattr(DerivedMasks, "_drawn", drawn)
    monkeypatch.setattr(keys, "mask_nonce", lambda step: honest(replace(step, round=0)))


def anything_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Senders check no request, and hand out both shares of a secret, one on top of the other."""

    def give(asked: Any, held: Elements) -> Elements:
        which = np.where(asked == 2, 1, 0)
        return np.asarray(held[..., np.arange(len(asked)), which, :])

    monkeypatch.setattr(unmasking, "check_request", lambda *_: None)
    monkeypatch.setattr(unmasking, "shares_for", give)
