"""Relay-coded message passing with one flaw at a time: small changes to one role, everything else as it is."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fgl_secure.algebra import Elements, PrimeField, lagrange_matrix
from fgl_secure.protocols import relay_fetch, relay_masks, relay_roles, relay_session
from fgl_secure.protocols.relay_masks import DrawnMasks
from fgl_secure.protocols.relay_plan import Plan
from fgl_secure.protocols.topology import Ids
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


def masks_from(supply: type[DrawnMasks]) -> Patch:
    """Masks that are drawn otherwise."""
    return lambda monkeypatch: monkeypatch.setattr(relay_session, "DrawnMasks", supply)


def kept_by(key: Callable[[Step], Hashable]) -> type[DrawnMasks]:
    """Masks that are the same for all steps of one key."""

    class Kept(DrawnMasks):
        def __init__(self, channel: Channel, field: PrimeField, T: int) -> None:
            super().__init__(channel, field, T)
            self._kept: dict[Hashable, list[Elements]] = {}

        def masks(self, step: Step, senders: Ids, width: int) -> list[Elements]:
            if key(step) not in self._kept:
                self._kept[key(step)] = super().masks(step, senders, width)
            return self._kept[key(step)]

    return Kept


class OneForAllSenders(DrawnMasks):
    """One mask for all messages of a step."""

    def masks(self, step: Step, senders: Ids, width: int) -> list[Elements]:
        first = super().masks(step, senders[:1], width)
        return [np.repeat(mask, len(senders), axis=-2) for mask in first]


class OneForAllTargets(DrawnMasks):
    """One mask for all messages of a sender in a step."""

    def masks(self, step: Step, senders: Ids, width: int) -> list[Elements]:
        each, which = np.unique(senders, return_inverse=True)
        return [np.take(mask, which, axis=-2) for mask in super().masks(step, each, width)]


class ShortRange(DrawnMasks):
    """Masks on 0 .. p - 2."""

    def masks(self, step: Step, senders: Ids, width: int) -> list[Elements]:
        return [
            self._channel.draw("masks", senders, self._field.modulus - 1, (width,), step).astype(self._field.dtype)
            for _ in range(self._T)
        ]


def remainder_of(bits: int) -> type[DrawnMasks]:
    """Words of some bits modulo p."""

    class Remainder(DrawnMasks):
        def masks(self, step: Step, senders: Ids, width: int) -> list[Elements]:
            words = [self._channel.draw("masks", senders, 2**bits, (width,), step) for _ in range(self._T)]
            return [(word % self._field.modulus).astype(self._field.dtype) for word in words]

    return Remainder


def secret_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last relay's point is 0, where the secret lies."""
    honest = relay_roles.source_shares

    def shares(field: PrimeField, T: int, points: Any, *rest: Any) -> Elements:
        return honest(field, T, (*tuple(points)[:-1], 0), *rest)

    monkeypatch.setattr(relay_session, "source_shares", shares)


def lower_degree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polynomials of degree T - 1: the last mask is the value of a polynomial through the secret and the others."""
    honest = relay_session.RelaySession._packets

    def packets(self: Any, q: Elements, tags: Ids, told: Any, plan: Any, supply: Any, step: Step) -> Any:
        field, T, fresh = self._scheme.field, self._scheme.T, supply.masks

        def masks(now: Step, senders: Ids, width: int) -> list[Elements]:
            drawn = fresh(now, senders, width)
            (weights,) = lagrange_matrix(field, tuple(range(T)), (T,))
            known = [np.broadcast_to(q[plan.rows], drawn[0].shape), *drawn[:-1]]
            last = sum(int(w) * part.astype(np.int64) for w, part in zip(weights, known, strict=True)) % field.modulus
            return [*drawn[:-1], np.asarray(last, dtype=field.dtype)]

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(supply, "masks", masks)
            return honest(self, q, tags, told, plan, supply, step)

    monkeypatch.setattr(relay_session.RelaySession, "_packets", packets)


def extra_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first relay gets the last relay's shares as well."""
    honest = relay_session.RelaySession._deliver

    def deliver(self: Any, packets: Any, plan: Any, step: Step) -> Any:
        to = np.full(len(plan.senders), self._relays[0])
        self._channel.send(Phase.SHARES, step, plan.senders, to, packets.shares[-1])
        return honest(self, packets, plan, step)

    monkeypatch.setattr(relay_session.RelaySession, "_deliver", deliver)


def answered_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relays answer every tag a second time, for one message less."""
    honest = relay_fetch.Fetch.sums

    def sums(self: Any, held: Any, agreed: Any) -> Elements:
        fewer = agreed.copy()
        fewer[0] = False
        honest(self, held, fewer)
        return honest(self, held, agreed)

    monkeypatch.setattr(relay_fetch.Fetch, "sums", sums)


def small_counts_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relays answer whatever the count is."""
    honest = relay_fetch.Fetch._relay_answers

    def answers(self: Any, *rest: Any) -> Any:
        return honest(replace(self, least=1), *rest)

    monkeypatch.setattr(relay_fetch.Fetch, "_relay_answers", answers)


def steps_summed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step may be summed twice: a retry with a new payload, under masks of the step."""

    class Forgetful(set[Step]):
        def __contains__(self, _: object) -> bool:
            return False

    honest = relay_session.RelaySession.__init__

    def make(self: Any, *rest: Any) -> None:
        honest(self, *rest)
        self._done = Forgetful()

    monkeypatch.setattr(relay_session.RelaySession, "__init__", make)
    monkeypatch.setattr(relay_session, "DrawnMasks", kept_by(lambda step: step))


def static_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    """Targets keep the tag of their first sum."""
    for supply in (relay_masks.AgreedMasks, relay_masks.SeededMasks):
        honest = supply.openings

        def openings(self: Any, step: Step, owners: Ids, honest: Any = honest) -> Ids:
            kept = getattr(self, "kept", None)
            self.kept = honest(self, step, owners) if kept is None else kept
            return np.asarray(self.kept)

        monkeypatch.setattr(supply, "openings", openings)


def unpadded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody sends as many messages as it has."""
    honest = Plan.of
    monkeypatch.setattr(Plan, "of", lambda way, answered, coins, _=None: honest(way, answered, coins))


def nonce_without(**gone: Any) -> Patch:
    """The counter block of masks does not name some part of the step."""
    honest = relay_masks.mask_nonce

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(relay_masks, "mask_nonce", lambda step, attempt=0: honest(replace(step, **gone), attempt))

    return patch
