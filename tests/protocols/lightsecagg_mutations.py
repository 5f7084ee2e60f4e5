"""LightSecAgg with one flaw at a time: small changes to one role, everything else as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fgl_secure.algebra import Elements
from fgl_secure.protocols.coded_masks import opening
from fgl_secure.protocols.coded_masks.code import MaskCode
from fgl_secure.protocols.coded_masks.ideal import IdealLinks
from fgl_secure.protocols.coded_masks.sealed import SealedLinks
from fgl_secure.protocols.coded_masks.session import LightSecAggSession
from fgl_secure.protocols.masking import keys
from fgl_secure.protocols.relay_coded.cryptography import mask_nonce
from fgl_secure.runtime import Phase, Step

Patch = Callable[[pytest.MonkeyPatch], None]


def same_masks_in_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks of the first step serve for all; noise is fresh."""
    fresh = IdealLinks.begin

    def begin(self: Any, step: Step, who: Any) -> None:
        if "kept" not in self.__dict__:
            fresh(self, step, who)
            self.__dict__["kept"] = True

    monkeypatch.setattr(IdealLinks, "begin", begin)


def one_mask_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second and the third sender mask with the same mask."""
    honest = IdealLinks.mask
    monkeypatch.setattr(IdealLinks, "mask", lambda self, step, u: honest(self, step, 1 if u == 2 else u))


def one_noise_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """All senders of a step code with the same noise."""
    honest = MaskCode.encode
    kept: list[Elements] = []

    def encode(self: Any, mask: Elements, noise: Elements) -> Elements:
        if not kept or kept[0].shape != noise.shape:
            kept[:] = [noise]
        return honest(self, mask, kept[0])

    monkeypatch.setattr(MaskCode, "encode", encode)


def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """T is 0 in effect: parts of the mask alone are coded."""
    honest = MaskCode.encode
    monkeypatch.setattr(MaskCode, "encode", lambda self, mask, noise: honest(self, mask, 0 * noise))


def no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks are zero."""
    honest = IdealLinks.mask
    monkeypatch.setattr(IdealLinks, "mask", lambda self, step, u: 0 * honest(self, step, u))


def remainders_of(bits: int) -> Patch:
    """Masks are words of some bits modulo p."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        def begin(self: Any, step: Step, who: Any) -> None:
            c, p = self.circle, self.code.field.modulus
            self._owners = who
            words = c.channel.draw("masks", c.senders[who], 2**bits, (self.code.length,), step)
            self._masks = words % p

        monkeypatch.setattr(IdealLinks, "begin", begin)

    return patch


def codes_to_the_first_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first sender is also sent the coded masks that are for the last."""
    honest = IdealLinks.give

    def give(self: Any, step: Step, u: int, to: Any, coded: Elements) -> Any:
        c = self.circle
        c.channel.send(Phase.SECRET_SHARES, step, c.senders[[u]], c.senders[[0]], coded[..., -1:, :])
        return honest(self, step, u, to, coded)

    monkeypatch.setattr(IdealLinks, "give", give)


def mask_added_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first sender adds its mask to its vector twice."""
    for links in (IdealLinks, SealedLinks):
        honest = links.mask

        def mask(self: Any, step: Step, u: int, honest: Any = honest) -> Elements:
            asked = self.__dict__.setdefault("asked", {})
            asked[step, u] = asked.get((step, u), 0) + 1
            drawn = honest(self, step, u)
            return np.asarray(self.code.field.add(drawn, drawn)) if u == 0 and asked[step, u] == 2 else drawn

        monkeypatch.setattr(links, "mask", mask)


def votes_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever roster a sender is told it opens."""
    for links in (IdealLinks, SealedLinks):
        honest = links.votes

        def votes(self: Any, step: Step, who: Any, rosters: Any, honest: Any = honest) -> Any:
            hears, counts = honest(self, step, who, rosters)
            return hears, counts + len(self.circle.senders)

        monkeypatch.setattr(links, "votes", votes)


def votes_for_everything(colluding: int) -> Patch:
    """So many of the senders, who are not asked themselves, vote for every roster."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        honest = IdealLinks.votes

        def votes(self: Any, step: Step, who: Any, rosters: Any) -> Any:
            hears, counts = honest(self, step, who, rosters)
            return hears, counts + colluding

        monkeypatch.setattr(IdealLinks, "votes", votes)

    return patch


def any_roster_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Senders check nothing of a roster, and it need not name enough of them."""
    monkeypatch.setattr(opening, "check_roster", lambda *_: None)


def seeds_kept_over_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds of the first step serve for all, and contexts do not name the step."""
    fresh, honest = SealedLinks.begin, mask_nonce

    def begin(self: Any, step: Step, who: Any) -> None:
        if not self._seeds:
            fresh(self, step, who)

    monkeypatch.setattr(SealedLinks, "begin", begin)
    monkeypatch.setattr(keys, "mask_nonce", lambda step: honest(replace(step, round=0)))


def codes_for_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Senders keep no coded mask apart: each sum has the codes of everybody who shared, and not of the roster."""
    honest = LightSecAggSession._share

    def share(self: Any, step: Step) -> Any:
        shared, told, held = honest(self, step)
        return shared, told, np.roll(held, 1, axis=-2)

    monkeypatch.setattr(LightSecAggSession, "_share", share)
