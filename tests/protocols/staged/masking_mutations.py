"""Clients of staged pairwise masking with one check missing each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fgl_secure.algebra import Elements
from fgl_secure.crypto.expansion import add_masks
from fgl_secure.protocols.identity import Identities
from fgl_secure.protocols.masking.shares import words_of
from fgl_secure.protocols.staged.masking import answers, secrets
from fgl_secure.protocols.staged.masking.plan import MaskingPlan
from fgl_secure.protocols.staged.masking.secrets import masked
from fgl_secure.runtime import Step

Patch = Callable[[pytest.MonkeyPatch], None]


def any_roster_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are not checked."""
    monkeypatch.setattr(answers, "check_request", lambda *_: None)


def votes_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every vote counts, whatever it is for."""
    monkeypatch.setattr(answers, "is_vote_for", lambda *_: True)


def both_shares_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are not checked, and one for both secrets of somebody is answered with the shares of both."""

    def give(asked: Any, held: Elements) -> Elements:
        single = np.where((asked == 2)[:, None], held[:, 1], held[:, 0])
        assert (asked == 3).sum() == 1
        return np.concatenate([single, held[asked == 3, 1]])

    any_roster_will_do(monkeypatch)
    monkeypatch.setattr(answers, "shares_for", give)


def signatures_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are taken from whoever has them to offer."""
    monkeypatch.setattr(Identities, "check", lambda *_: None)


def shares_are_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polynomials of degree 0: every share is the secret."""
    honest = secrets.OwnSecrets.shared

    def shared(self: Any, plan: Any) -> Elements:
        shares = honest(self, plan)
        both = np.frombuffer(self.self_mask + self.mask, dtype=np.uint8).reshape(2, 32)
        return np.broadcast_to(words_of(plan.field, both), shares.shape)

    monkeypatch.setattr(secrets.OwnSecrets, "shared", shared)


def seeds_have_10_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed of the self mask and the mask key are drawn from few."""
    honest = secrets.OwnSecrets.draw.__func__  # type: ignore[attr-defined]

    def draw(cls: Any, coins: Any) -> Any:
        drawn = honest(cls, coins)
        mask, self_mask = (bytes([seed[0], seed[1] % 4]) + bytes(30) for seed in (drawn.mask, drawn.self_mask))
        return cls(drawn.sealing, mask, self_mask, drawn.shares)

    monkeypatch.setattr(secrets.OwnSecrets, "draw", classmethod(draw))


def one_mask_for_all_sums(clients: int) -> Patch:
    """Secrets of so many clients, made in turn, serve for all later sums, and contexts do not name the sum."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        honest = secrets.OwnSecrets.draw.__func__  # type: ignore[attr-defined]
        kept: list[secrets.OwnSecrets] = []

        def draw(cls: Any, coins: Any) -> Any:
            kept.append(honest(cls, coins) if len(kept) < clients else kept[len(kept) - clients])
            return kept[-1]

        monkeypatch.setattr(secrets.OwnSecrets, "draw", classmethod(draw))
        monkeypatch.setattr(MaskingPlan, "step", property(lambda _: Step(0)))

    return patch


def no_self_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors are under pairwise masks alone."""

    def add(total: Any, keys: Any, signs: Any, modulus: int) -> None:
        add_masks(total, keys[1:], signs[1:], modulus)

    monkeypatch.setattr(secrets, "add_masks", add)


def mask_added_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first client adds its last pairwise mask twice."""

    def twice(plan: Any, own: int, secrets: Any, keys: Any, others: Any, vector: Any) -> Any:
        return masked(plan, own, secrets, keys, [*others, others[-1]] if own == 0 else others, vector)

    monkeypatch.setattr(answers, "masked", twice)


def wrong_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends of a pair add their mask."""
    monkeypatch.setattr(secrets, "mask_sign", lambda *_: 1)
