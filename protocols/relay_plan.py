"""The messages of one pass in the order in which relays may see them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import Coins
from fgl_secure.errors import InputError
from fgl_secure.protocols.topology import Grouping

Ids = NDArray[np.int64]

COVER = -1
"""Row of a message that carries zero, for padding."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Messages sorted by sender and slot.

    Slots number a sender's messages in an order drawn once a session: one that followed the targets' numbers would
    tell relays which unnamed target has the lower number.

    Attributes:
        rows: int64 [m], the row of each message; COVER for one of padding.
        groups: int64 [m], the group of each.
        senders: int64 [m], ascending party identifiers.
        proxies: int64 [m], who administers each sender.
        slots: int64 [m], from 0 for each sender.
    """

    rows: Ids
    groups: Ids
    senders: Ids
    proxies: Ids
    slots: Ids

    @classmethod
    def of(cls, way: Grouping, answered: Grouping, coins: Coins | None, padding: int | None = None) -> Plan:
        """Orders the messages of a pass.

        Args:
            way: who sends what to whom.
            answered: the part of it that goes into sums; other messages carry zero.
            coins: for the order of slots; None takes the order of groups.
            padding: how many messages every owner of a group and a row sends; None adds none.

        Raises:
            InputError: somebody has more messages than that, or sends more or fewer than it gets.
        """
        rows, groups = np.where(_within(way, answered), way.source, COVER), way.target
        senders, proxies = way.row_owner[way.source], way.row_custodian[way.source]
        if padding is not None:
            covering = _cover(way, padding)
            rows = np.concatenate([rows, np.full(len(covering), COVER)])
            groups = np.concatenate([groups, covering])
            senders = np.concatenate([senders, way.group_owner[covering]])
            proxies = np.concatenate([proxies, way.group_custodian[covering]])
        shuffle = groups if coins is None else coins.uniform(2**63, (len(rows),))
        order = np.lexsort((shuffle, senders))
        senders = senders[order]
        starts = np.searchsorted(senders, senders)
        return cls(rows[order], groups[order], senders, proxies[order], np.arange(len(senders)) - starts)


def _within(way: Grouping, answered: Grouping) -> NDArray[np.bool_]:
    """Bool [m]: which messages of a grouping are in a part of it."""
    if len(way.source) == len(answered.source):
        return np.ones(len(way.source), dtype=np.bool_)
    groups = len(way.group_owner)
    return np.isin(way.source * groups + way.target, answered.source * groups + answered.target)


def _cover(way: Grouping, padding: int) -> Ids:
    """The groups of the messages that everybody sends to itself, until it has sent as many as everybody else."""
    owners, groups = np.unique(way.group_owner, return_index=True)
    senders = way.row_owner[way.source]
    sent = np.bincount(senders, minlength=int(owners.max(initial=-1)) + 1)[owners]
    heard = np.bincount(way.target, minlength=len(way.group_owner))[groups]
    if not np.array_equal(np.union1d(owners, senders), owners) or not np.array_equal(sent, heard):
        raise InputError(
            "padding needs a grouping in which everybody sends as many messages as it gets (an undirected graph); "
            "found one in which that differs"
        )
    if int(sent.max(initial=0)) > padding:
        raise InputError(
            f"padding must be at least the most messages of one sender, {int(sent.max())}; found {padding}, which "
            f"{int((sent > padding).sum())} senders exceed"
        )
    return np.repeat(groups, padding - sent)
