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
"""From here on identifiers are aliases of partners that a process does not know."""


@dataclass(frozen=True, slots=True, eq=False)
class Partners:
    """The pairs of devices that exchange rows.

    Attributes:
        grouping: the messages between partners, both ways, sorted by receiver, then sender; also those that go into no
            sum, as they are over too few.
        circuits: routes between partners that are not neighbours.
    """

    grouping: AgreedGrouping
    circuits: Circuits


def agree(
    grouping: Grouping, rules: Partnering, channel: Channel, devices: type[PartnerDevices] = PartnerDevices
) -> Partners:
    """Let the devices of a process agree on partners.

    Args:
        grouping: the neighbours of each device: one row and one sum for each device.
        rules: how many partners there may be.
        channel: between the devices; carries and records messages, and gives coins.
        devices: the machine; others than this one are for tests, which break it.

    Raises:
        InputError: rows travel one way alone between two devices, or a device has two rows.
    """
    machine = devices(grouping.owners, grouping, rules, channel)
    simulate([machine], channel)
    return outcome(grouping, machine)


def outcome(grouping: Grouping, machine: PartnerDevices) -> Partners:
    """Return the partners that the devices of one process have agreed on, as far as it knows them.

    If the process hosts one end of a route only, the other has an identifier from `FIRST_ALIAS` on.

    Args:
        grouping: the neighbours of each device, as the devices were given it.
        machine: of the devices; the agreement is over.
    """
    table = _PairTable.of(machine)
    ends = _with_aliases(grouping, table.owners[table.far], table.others[table.far])
    places = np.argsort(ends.row_owner), np.argsort(ends.group_owner)
    one_sided, two_sided = table.partner_rows < 0, table.partner_rows >= 0
    reports = table.reports == 1
    partner_sums_ok = np.ones(len(reports), dtype=np.bool_)
    partner_sums_ok[two_sided] = reports[table.partner_rows[two_sided], 0]
    senders = np.concatenate([table.others, table.owners[one_sided]])
    receivers = np.concatenate([table.owners, table.others[one_sided]])
    forward = np.concatenate([partner_sums_ok, reports[one_sided, 0]])
    backward = np.concatenate([reports[:, 1], np.ones(np.count_nonzero(one_sided), dtype=np.bool_)])
    foreign = None if table.foreign is None else np.concatenate([table.foreign, table.foreign[one_sided]])
    forward &= _have_enough(receivers, np.ones_like(forward), foreign, machine)
    backward &= forward & _have_enough(senders, forward, foreign, machine)
    order = np.lexsort((senders, receivers))
    source, target = (
        row_order[np.searchsorted(owners[row_order], party_ids[order])]
        for row_order, owners, party_ids in zip(
            places, (ends.row_owner, ends.group_owner), (senders, receivers), strict=True
        )
    )
    agreed = AgreedGrouping(
        ends.row_owner, ends.group_owner, source, target, ends.row_custodian, ends.group_custodian,
        forward[order], backward[order],
    )  # fmt: skip
    return Partners(agreed, Circuits(_list_routes(machine, table), machine.rules.reach))


def _have_enough(ends: Ids, counted: Flags, foreign: Flags | None, machine: PartnerDevices) -> Flags:
    """Bool [m]: whether messages go into the sums of their ends, where these are hosted; True elsewhere."""
    place = np.unique(ends, return_inverse=True)[1]
    return is_computed(place, machine.rules.least, foreign, counted) | ~np.isin(ends, machine.parties)


@dataclass(frozen=True, slots=True, eq=False)
class _PairTable:
    """The partners of hosted devices, a row each; see `Tallies`.

    Attributes:
        owners: int64 [p].
        others: int64 [p], identifiers of partners, or aliases.
        tickets: int64 [p].
        far: bool [p], which are not neighbours.
        partner_rows: int64 [p], the row of the partner for the device, NOBODY where the partner is not hosted.
        reports: int8 [p, 2].
        foreign: bool [p]; None where all partners count alike.
    """

    owners: Ids
    others: Ids
    tickets: Ids
    far: Flags
    partner_rows: Ids
    reports: NDArray[np.int8]
    foreign: Flags | None

    @classmethod
    def of(cls, machine: PartnerDevices) -> _PairTable:
        """Return those partners that both ends have, as far as they are hosted."""
        tallies = machine.tallies
        active = np.flatnonzero(tallies.has_reported)
        owners, tickets, others = (tallies.owners[active], tallies.tickets[active], tallies.others[active].copy())
        far = tickets != NOBODY
        rows = _find_other_ends(np.where(far, tickets, _pair_keys(owners, others)), far)
        hosted = np.where(far, rows >= 0, np.isin(others, machine.parties))
        others[far] = np.where(rows[far] >= 0, owners[rows[far]], FIRST_ALIAS + np.arange(np.count_nonzero(far)))
        if np.isin(machine.links.others, machine.parties).all():
            hosted[:] = True  # no party is elsewhere: an end without another is left over from what was lost
        complete = ~hosted | (rows >= 0)
        shift = np.cumsum(complete) - 1
        rows = np.where(rows >= 0, shift[rows], NOBODY)[complete]
        reports = tallies.reports[active][complete]
        foreign = None if tallies.foreign is None else tallies.foreign[active][complete]
        return cls(owners[complete], others[complete], tickets[complete], far[complete], rows, reports, foreign)


def _pair_keys(one: Ids, other: Ids) -> Ids:
    return np.minimum(one, other) << 32 | np.maximum(one, other)


def _find_other_ends(names: Ids, distant: Flags) -> Ids:
    """Return the other row with the same name and of the same kind, NOBODY if there is none: int64 [p]."""
    order = np.lexsort((names, distant))
    repeats = np.flatnonzero((np.diff(names[order]) == 0) & (np.diff(distant[order].astype(np.int8)) == 0))
    other_rows = np.full(len(names), NOBODY, dtype=np.int64)
    other_rows[order[repeats]], other_rows[order[repeats + 1]] = order[repeats + 1], order[repeats]
    return other_rows


def _with_aliases(grouping: Grouping, owners: Ids, others: Ids) -> Grouping:
    """The grouping with a row and a group of each alias, administered as the device is that knows it."""
    is_alias = others >= FIRST_ALIAS
    aliases, order = others[is_alias], np.argsort(grouping.row_owner)
    silos = grouping.row_custodian[order[np.searchsorted(grouping.row_owner[order], owners[is_alias])]]
    return replace(
        grouping,
        row_owner=np.concatenate([grouping.row_owner, aliases]),
        group_owner=np.concatenate([grouping.group_owner, aliases]),
        row_custodian=np.concatenate([grouping.row_custodian, silos]),
        group_custodian=np.concatenate([grouping.group_custodian, silos]),
    )


def _list_routes(machine: PartnerDevices, table: _PairTable) -> Ids:
    """Return the table of `Circuits`: the routes at hosted devices, without ends that are no partner's."""
    others = {
        (owner, ticket): other
        for owner, ticket, other in zip(
            *(column[table.far].tolist() for column in (table.owners, table.tickets, table.others)), strict=True
        )
    }
    rows = [
        [device, ticket, previous, following, others.get((device, ticket), NOBODY)]
        for device, ticket, previous, following, _, _ in machine.requests.route_table().tolist()
        if NOBODY not in (previous, following) or (device, ticket) in others
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 5)
