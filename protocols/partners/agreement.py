"""The outcome of an agreement on partners, and the agreement in one process."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fgl_secure.protocols.partnering import REACH, Partnering
from fgl_secure.protocols.partners.machine import PartnerDevices
from fgl_secure.protocols.partners.requests import NOBODY
from fgl_secure.protocols.topology import Circuits, Grouping
from fgl_secure.runtime import Channel, simulate

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Partners:
    """Who exchanges rows with whom.

    Attributes:
        grouping: the messages between partners, both ways, sorted by receiver, then sender.
        circuits: how tags pass between partners that don't know each other.
    """

    grouping: Grouping
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
    """What the devices that one process hosts, all of them, have agreed on."""
    links, circuits = machine.links, circuits_of(machine.requests.table())
    one, other = circuits.ends
    receivers = np.concatenate([links.owners[links.taken], one, other])
    senders = np.concatenate([links.others[links.taken], other, one])
    order = np.lexsort((senders, receivers))
    rows, groups = np.argsort(grouping.row_owner), np.argsort(grouping.group_owner)
    source = rows[np.searchsorted(grouping.row_owner[rows], senders[order])]
    target = groups[np.searchsorted(grouping.group_owner[groups], receivers[order])]
    return Partners(replace(grouping, source=source, target=target), circuits)


def circuits_of(table: Ids) -> Circuits:
    """The ways of requests that were taken, from what the devices on them keep.

    Args:
        table: int64 [w, 6], see `Requests.table`; rows of ways that end somewhere are left out.
    """
    ahead = {(device, ticket): onward for device, ticket, _, onward, _, _ in table.tolist()}
    paths, tickets = [], []
    for device, ticket, back, _, _, _ in table.tolist():
        if back != NOBODY:
            continue
        path = [device]
        while len(path) < REACH + 2 and (following := ahead.get((path[-1], ticket), NOBODY)) != NOBODY:
            path.append(following)
        if ahead.get((path[-1], ticket)) == NOBODY and len(path) > 2:
            paths.append(path + [NOBODY] * (REACH + 2 - len(path)))
            tickets.append(ticket)
    return Circuits(np.array(tickets, dtype=np.int64), np.array(paths, dtype=np.int64).reshape(-1, REACH + 2))
