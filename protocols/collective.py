"""A collective at work in one process: the machines of a scheme on a topology, driven over a channel that records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS, Topology
from fgl_secure.runtime import Channel, Direction, Step, simulate
from fgl_secure.runtime.messages import SESSION_BYTES
from fgl_secure.runtime.transcript import SECRETS

Array = NDArray[Any]

VECTORS = "vectors"
"""Name of the inputs of sums over clients."""


class Collective:
    """Sums of one topology under one scheme, step after step.

    Args:
        scheme: how they are computed.
        topology: who adds what for whom.
        channel: between all parties; carries and records the messages, and gives the coins.

    Raises:
        InputError: the scheme refuses the topology, or does not fit the parties of the channel.
        FieldRangeError: the field cannot hold the sums.
    """

    def __init__(self, scheme: Scheme, topology: Topology, channel: Channel) -> None:
        why = scheme.refuses(topology)
        if why is not None:
            raise InputError(f"scheme must serve the topology {topology.name}; {scheme.name} does not, because {why}")
        scheme = scheme.fitted(topology)
        if scheme.helpers:
            topology = replace(topology, helpers=_helpers(channel, scheme))
        self.scheme, self.topology, self._channel = scheme, topology, channel
        self.fixed = scheme.fixed_point(topology.terms)
        named = scheme.keyed and not channel.batch_shape
        session = bytes(channel.coins.uniform(256, (SESSION_BYTES,)).tolist()) if named else bytes(SESSION_BYTES)
        self._machines = scheme.machines(topology, session, channel)
        self._ways = {Direction.FORWARD: topology.grouping, Direction.BACKWARD: topology.grouping.reversed()}
        self._hosts = {
            direction: [
                (machine, _held(way.row_owner, machine.parties), _held(way.group_owner, machine.parties))
                for machine in self._machines
            ]
            for direction, way in self._ways.items()
        }

    def sum(self, rows: Array, step: Step) -> Array:
        """Computes the sums of one step.

        Args:
            rows: [n, d]; reals where the scheme maps them into a field or sums reals, integers up to the topology's
                bound else. In a backward step the rows are the groups of the forward pass.
            step: when; no two sums of a collective may have the same.

        Returns:
            [g, d] (behind a tape axis where all tapes run at once and sums depend on them): float64 for real rows,
            int64 for integers; zero where nothing was sent or a sum is not computed.

        Raises:
            InputError: rows have another shape, or a value is beyond the bound.
            ProtocolError: the step was summed before, too many parties dropped out, or somebody departs from the
                protocol in a way that cannot be mended.
        """
        grouping = self._ways[step.direction]
        if rows.ndim != 2 or len(rows) != len(grouping.row_owner):
            raise InputError(f"values must be [{len(grouping.row_owner)}, d]; found {list(rows.shape)}")
        real = rows.dtype.kind == "f"
        units = self.fixed.encode(rows) if real and self.fixed is not None else rows
        for machine, own, _ in self._hosts[step.direction]:
            machine.begin(step, (units if len(own) == len(units) else units[own]) if len(own) else None)
        name = SECRETS if self.topology.name in (NEIGHBOURS, MEMBERS) else VECTORS
        self._channel.note_inputs(name, step, grouping.row_owner, units)
        simulate(self._machines, self._channel)
        sums = self._gathered(step.direction, rows.shape[1])
        return self.fixed.decode(sums) if real and self.fixed is not None else sums

    @property
    def included(self) -> NDArray[np.int64] | None:
        """Party identifiers of those whose rows are in the last sum, where there is one; see `SumMachine.included`."""
        found = [machine.included for machine in self._machines]
        return next((parties for parties in found if parties is not None), None)

    def _gathered(self, direction: Direction, width: int) -> Array:
        """The sums of all groups, from whichever machine hosts their owners."""
        out, groups = None, len(self._ways[direction].group_owner)
        for machine, _, own in self._hosts[direction]:
            sums = machine.sums
            if sums is None or not len(own):
                continue
            if sums.shape[-1] != width:  # nobody hosted with these groups has heard how wide rows are: none came
                sums = np.zeros((*sums.shape[:-1], width), dtype=sums.dtype)
            if len(own) == groups:
                return sums
            if out is None:
                out = np.zeros((*sums.shape[:-2], groups, width), dtype=sums.dtype)
            out[..., own, :] = sums
        if out is None:
            raise ProtocolError("machines must leave a sum for those entitled to it; they left none")
        return out


def _held(owners: NDArray[np.int64], parties: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.flatnonzero(np.isin(owners, parties))


def _helpers(channel: Channel, scheme: Scheme) -> NDArray[np.int64]:
    """The first parties of each role that helps."""
    present = [
        channel.parties.ids(role)[:count] for role, count in scheme.helpers.items() if role in channel.parties.roles
    ]
    return np.concatenate([np.empty(0, dtype=np.int64), *present])
