"""The outcome of an agreement on partners, and the agreement in one process."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fgl_secure.protocols.partners.machine import PartnerDevices
from fgl_secure.protocols.partners.requests import NOBODY
from fgl_secure.protocols.topology import AgreedGrouping, Circuits, Grouping, Partnering, is_computed
from fgl_secure.runtime import Channel, simulate
from fgl_secure.typing import Flags, Ids

FIRST_ALIAS = 2**30
"""Above all identifiers of parties: what partners go by of whom a process doesn't know who they are."""


@dataclass(frozen=True, slots=True, eq=False)
class Partners:
    """Who exchanges rows with whom.

    Attributes:
        grouping: the messages between partners, both ways, sorted by receiver, then sender; also those that go into no
            sum, as they are over too few.
        circuits: ways between partners that don't know each other.
    """

    grouping: AgreedGrouping
    circuits: Circuits


def agree(
    grouping: Grouping, rules: Partnering, channel: Channel, devices: type[PartnerDevices] = PartnerDevices
) -> Partners:
    """Has the devices of a process agree on partners.

    Args:
        grouping: who has whom as neighbour: one row and one sum for each device.
        rules: how many partners there may be.
        channel: between the devices; carries and records what they say, and gives their coins.
        devices: the machine; others than this one are for tests, which break it.

    Raises:
        InputError: rows travel one way alone between two devices, or a device has two rows.
    """
    machine = devices(grouping.owners, grouping, rules, channel)
    simulate([machine], channel)
    return outcome(grouping, machine)


def outcome(grouping: Grouping, machine: PartnerDevices) -> Partners:
    """What the devices that one process hosts have agreed on, and all that it knows of it.

    Where the process hosts one end of a way alone, the other goes by an identifier from `FIRST_ALIAS` on.

    Args:
        grouping: who has whom as neighbour, as the devices were given it.
        machine: of the devices; the agreement is over.
    """
    table = _Table.of(machine)
    ends = _with_aliases(grouping, table.owners[table.far], table.others[table.far])
    places = np.argsort(ends.row_owner), np.argsort(ends.group_owner)
    alone, twice = table.back < 0, table.back >= 0
    heard = table.heard == 1
    there = np.ones(len(heard), dtype=np.bool_)
    there[twice] = heard[table.back[twice], 0]
    senders = np.concatenate([table.others, table.owners[alone]])
    receivers = np.concatenate([table.owners, table.others[alone]])
    forward = np.concatenate([there, heard[alone, 0]])
    backward = np.concatenate([heard[:, 1], np.ones(np.count_nonzero(alone), dtype=np.bool_)])
    foreign = None if table.foreign is None else np.concatenate([table.foreign, table.foreign[alone]])
    forward &= _enough(receivers, np.ones_like(forward), foreign, machine)
    backward &= forward & _enough(senders, forward, foreign, machine)
    order = np.lexsort((senders, receivers))
    source, target = (
        by[np.searchsorted(owners[by], each[order])]
        for by, owners, each in zip(places, (ends.row_owner, ends.group_owner), (senders, receivers), strict=True)
    )
    agreed = AgreedGrouping(
        ends.row_owner, ends.group_owner, source, target, ends.row_custodian, ends.group_custodian,
        forward[order], backward[order],
    )  # fmt: skip
    return Partners(agreed, Circuits(_ways(machine, table), machine.rules.reach))


def _enough(ends: Ids, counted: Flags, foreign: Flags | None, machine: PartnerDevices) -> Flags:
    """Bool [m]: whether messages go into the sums of their ends, where these are hosted; True elsewhere."""
    place = np.unique(ends, return_inverse=True)[1]
    return is_computed(place, machine.rules.least, foreign, counted) | ~np.isin(ends, machine.parties)


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """The partners of hosted devices, a row each; see `Tallies`.

    Attributes:
        owners: int64 [p].
        others: int64 [p], identifiers of partners, or aliases.
        tickets: int64 [p].
        far: bool [p], which are behind others.
        back: int64 [p], the row of the partner for the device, NOBODY where the partner is not hosted.
        heard: int8 [p, 2].
        foreign: bool [p]; None where all partners count alike.
    """

    owners: Ids
    others: Ids
    tickets: Ids
    far: Flags
    back: Ids
    heard: NDArray[np.int8]
    foreign: Flags | None

    @classmethod
    def of(cls, machine: PartnerDevices) -> _Table:
        """Those partners that both ends keep, as far as they are hosted."""
        tallies = machine.tallies
        kept = np.flatnonzero(tallies.kept)
        owners, tickets, others = tallies.owners[kept], tallies.tickets[kept], tallies.others[kept].copy()
        far = tickets != NOBODY
        back = _ends_of_one(np.where(far, tickets, _pairs(owners, others)), far)
        hosted = np.where(far, back >= 0, np.isin(others, machine.parties))
        others[far] = np.where(back[far] >= 0, owners[back[far]], FIRST_ALIAS + np.arange(np.count_nonzero(far)))
        if np.isin(machine.links.others, machine.parties).all():
            hosted[:] = True  # no party is elsewhere: an end without another is left over from what was lost
        whole = ~hosted | (back >= 0)
        shift = np.cumsum(whole) - 1
        back = np.where(back >= 0, shift[back], NOBODY)[whole]
        heard = tallies.heard[kept][whole]
        foreign = None if tallies.foreign is None else tallies.foreign[kept][whole]
        return cls(owners[whole], others[whole], tickets[whole], far[whole], back, heard, foreign)


def _pairs(one: Ids, other: Ids) -> Ids:
    return np.minimum(one, other) << 32 | np.maximum(one, other)


def _ends_of_one(names: Ids, far: Flags) -> Ids:
    """int64 [p]: the other row with the same name and of the same kind, NOBODY where there is none."""
    order = np.lexsort((names, far))
    twice = np.flatnonzero((np.diff(names[order]) == 0) & (np.diff(far[order].astype(np.int8)) == 0))
    back = np.full(len(names), NOBODY, dtype=np.int64)
    back[order[twice]], back[order[twice + 1]] = order[twice + 1], order[twice]
    return back


def _with_aliases(grouping: Grouping, owners: Ids, others: Ids) -> Grouping:
    """The grouping with a row and a group of each alias, administered as the device is that knows it."""
    which = others >= FIRST_ALIAS
    aliases, order = others[which], np.argsort(grouping.row_owner)
    silos = grouping.row_custodian[order[np.searchsorted(grouping.row_owner[order], owners[which])]]
    return replace(
        grouping,
        row_owner=np.concatenate([grouping.row_owner, aliases]),
        group_owner=np.concatenate([grouping.group_owner, aliases]),
        row_custodian=np.concatenate([grouping.row_custodian, silos]),
        group_custodian=np.concatenate([grouping.group_custodian, silos]),
    )


def _ways(machine: PartnerDevices, table: _Table) -> Ids:
    """The table of `Circuits`: all that hosted devices know of ways, without ends that are no partner's."""
    others = {
        (owner, ticket): other
        for owner, ticket, other in zip(
            *(each[table.far].tolist() for each in (table.owners, table.tickets, table.others)), strict=True
        )
    }
    rows = [
        [device, ticket, back, ahead, others.get((device, ticket), NOBODY)]
        for device, ticket, back, ahead, _, _ in machine.requests.table().tolist()
        if NOBODY not in (back, ahead) or (device, ticket) in others
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 5)
