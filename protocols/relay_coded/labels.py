"""What messages are called at relays where nobody tells tags: labels, which both ends work out by themselves.

Two partners share words that nobody else has, and read from them a label for every step, relay and direction by a
one-way function. The sender puts a message under its label, and the owner of a sum names the labels of all messages of
its sum, each once, to the relay. So no device talks to another one in a sum, and what one relay is shown opens nothing
at any other.
"""

from __future__ import annotations

import struct
from hashlib import sha256

import numpy as np

from fgl_secure.errors import InputError
from fgl_secure.protocols.relay_coded.plan import Plan
from fgl_secure.protocols.relay_coded.tags import one_way
from fgl_secure.protocols.stepwise import step_bytes
from fgl_secure.protocols.topology import LinkKeys
from fgl_secure.runtime import Step
from fgl_secure.typing import Flags, Ids

_PLACE = struct.Struct(">I")


class Labels:
    """The labels of one pass, of the parties that one process hosts.

    Args:
        plan: who sends what to whom.
        keys: of hosted devices and their partners.
        each: messages of every sum.

    Raises:
        InputError: two partners have no key, or a sum has more or fewer messages.
    """

    def __init__(self, plan: Plan, keys: LinkKeys, each: int) -> None:
        out, own = plan.out, plan.own
        owners = plan.way.group_owner[out.groups]
        abroad = np.flatnonzero(owners != out.sender_of)
        there = keys.find(out.sender_of[abroad].astype(np.int64), owners[abroad])
        self._words = np.zeros((len(out), 2), dtype=np.int64)
        self._words[abroad] = _towards(keys.words[there], ~keys.first[there])
        awaited = (plan.handed, plan.handed_on)
        back = np.concatenate([keys.find(told.owners, told.senders) for told in awaited])
        self._awaited = _towards(keys.words[back], keys.first[back])
        groups = np.concatenate([*(told.groups for told in awaited), out.groups[own]])
        if (np.bincount(groups, minlength=len(plan.way.group_owner))[plan.groups] != each).any():
            raise InputError(f"sums must be over {each} messages each where no tags are told; at least one is not")
        self._own, self._order, self._each = own, np.argsort(groups, kind="stable"), each
        self._starts = np.arange(len(plan.groups))[:, None] * each
        self._kept: dict[int, Ids] = {}  # asked for twice, when sums are named and when they are opened
        self._kept_of: tuple[Step, Ids] | None = None

    def sent(self, step: Step, place: int, fresh: Ids) -> Ids:
        """What hosted senders call their messages at one relay: int64 [m, 2].

        Args:
            step: when.
            place: of the relay, from 0.
            fresh: int64 [o, 2], drawn for this step, of messages that go into sums of their own senders.
        """
        words = self._words.copy()
        words[self._own] = fresh
        return _named(words, step, place)

    def awaited(self, step: Step, place: int, fresh: Ids) -> Ids:
        """The labels under which hosted groups have messages at one relay: int64 [h, each, 2], ascending in each."""
        if self._kept_of is None or self._kept_of[0] != step or self._kept_of[1] is not fresh:
            self._kept_of, self._kept = (step, fresh), {}
        if place not in self._kept:
            found = _named(np.concatenate([self._awaited, fresh])[self._order], step, place)
            ascending = np.argsort(found[:, 0].reshape(-1, self._each), axis=1) + self._starts
            self._kept[place] = found[ascending]
        return self._kept[place]


def _towards(words: Ids, to_first: Flags) -> Ids:
    """The words of messages to the first of two ends, and to the other one: they differ in a bit."""
    return words ^ np.stack([np.zeros_like(to_first), to_first], axis=1)


def _named(words: Ids, step: Step, place: int) -> Ids:
    """The labels of a step at one relay: int64 [m, 2]."""
    return one_way(words, sha256(b"fgl-secure relay-coded label" + step_bytes(step) + _PLACE.pack(place)).digest())
