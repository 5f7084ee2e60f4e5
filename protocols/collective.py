"""A collective at work in one process: the machines of a scheme on a topology, driven over a channel that records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.scheme import Scheme, SumMachine
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS, Topology
from fgl_secure.runtime import Channel, Direction, LazyArray, Step, simulate
from fgl_secure.runtime.messages import SESSION_BYTES, take_rows
from fgl_secure.runtime.transcript import PARTICIPANTS, SECRETS
from fgl_secure.typing import Array, Flags, Floats

VECTORS = "vectors"
"""Name of the inputs of sums over clients."""


class Code(Protocol):
    """A map of real rows into what a scheme adds up, and of sums back."""

    def encode(self, rows: Floats, /) -> Array:
        """Integers for real rows.

        Raises:
            InputError: a row does not fit.
        """

    def decode(self, sums: Array, /) -> Floats:
        """The reals that sums of integers stand for."""


def _output_of(topology: str) -> str:
    """Name of the outputs of sums of a topology, as those entitled to them have them."""
    return f"{topology} sum"


class Collective:
    """Sums of one topology under one scheme, step after step.

    Args:
        scheme: how they are computed.
        topology: who adds what for whom.
        channel: between all parties; carries and records the messages, and gives the coins.
        code: how real rows become integers; the scheme's own map into its field unless given.
        output: what the sum is called where recordings say what the party entitled to it was left with.

    Raises:
        InputError: the scheme refuses the topology, or does not fit the parties of the channel.
        FieldRangeError: the field cannot hold the sums.
    """

    def __init__(
        self, scheme: Scheme, topology: Topology, channel: Channel, code: Code | None = None, output: str | None = None
    ) -> None:
        scheme.check_serves(topology)
        scheme = scheme.adapt(topology)
        if scheme.helpers:
            # The first parties of each role that helps.
            present = [
                channel.parties.ids(role)[:count]
                for role, count in scheme.helpers.items()
                if role in channel.parties.roles
            ]
            topology = replace(topology, helpers=np.concatenate([np.empty(0, dtype=np.int64), *present]))
        self.scheme, self.topology, self._channel = scheme, topology, channel
        self._code: Code | None = scheme.encoding(topology) if code is None else code
        self._output = output or _output_of(topology.name)
        named = scheme.uses_keys and not channel.batch_shape
        session = channel.session() if named else bytes(SESSION_BYTES)
        self._machines = _check_machines(scheme.machines(topology, session, channel), scheme, channel)
        self._ways = {Direction.FORWARD: topology.grouping, Direction.BACKWARD: topology.grouping.reverse()}
        hosted = [_flags(machine.parties, len(channel.parties)) for machine in self._machines]
        self._hosts = {
            direction: [
                (machine, np.flatnonzero(is_hosted[way.row_owner]), np.flatnonzero(is_hosted[way.group_owner]))
                for machine, is_hosted in zip(self._machines, hosted, strict=True)
            ]
            for direction, way in self._ways.items()
        }

    def sum(self, rows: Array | LazyArray, step: Step, vetoes: Flags | None = None) -> Array:
        """Computes the sums of one step.

        Args:
            rows: [n, d]; reals where there is a code or the scheme sums reals, integers up to the topology's bound
                else. In a backward step the rows are the groups of the forward pass. Integers may be `LazyArray`, made
                when they are handed in; they are laid out where they are recorded, or the scheme can't read them so.
            step: when; no two sums of a collective may have the same.
            vetoes: bool [n], which owners of rows veto the sum, where they may; see `is_vetoed`.

        Returns:
            [g, d] (behind a tape axis where all tapes run at once and sums depend on them): float64 for real rows,
            int64 for integers; zero where nothing was sent or a sum is not computed.

        Raises:
            InputError: rows have another shape, or a value is beyond the bound.
            ProtocolError: the step was summed before, too many parties dropped out, or a party departs from the
                protocol in a way that cannot be mended.
        """
        way = self._ways[step.direction]
        if rows.ndim != 2 or len(rows) != len(way.row_owner):
            raise InputError(f"values must be [{len(way.row_owner)}, d]; found {list(rows.shape)}")
        if isinstance(rows, LazyArray) and not (
            self.scheme.reads_one_by_one and not self._channel.recording.keeps(step)
        ):
            rows = np.asarray(rows)
        code, (wide, kind) = self._code if rows.dtype.kind == "f" else None, (rows.shape[1], rows.dtype)
        units: Any = rows if code is None else code.encode(np.asarray(rows))
        del rows  # what machines work with takes many times as much
        if code is not None and self.scheme.takes_reals:
            units, code = code.decode(units), None
        for machine, rows_hosted, _ in self._hosts[step.direction]:
            machine.begin(step, _some(units, rows_hosted) if len(rows_hosted) else None)
            if vetoes is not None and len(rows_hosted):
                machine.veto(vetoes[rows_hosted])
        name = SECRETS if self.topology.name in (NEIGHBOURS, MEMBERS) else VECTORS
        if not isinstance(units, LazyArray):
            self._channel.note_inputs(name, step, way.row_owner, units)
        width = units.shape[1]
        del units
        simulate(self._machines, self._channel)
        if self.is_vetoed:
            return np.zeros((len(way.group_owner), wide), dtype=kind)
        sums = self._gather_sums(step.direction, width)
        for machine in self._machines:
            machine.reset()
        sums = sums if code is None else code.decode(sums)
        if self.topology.is_one_sum:
            self._note_secrets(sums, step)
        return sums

    def _note_secrets(self, sums: Array, step: Step) -> None:
        """Notes the sum, and who is in it, for the party that is entitled to it."""
        owner, channel, result = self.topology.grouping.group_owner, self._channel, self.contributors
        channel.note_outputs(self._output, step, owner, np.broadcast_to(sums, (*channel.batch_shape, *sums.shape[-2:])))
        if result is not None:
            places = channel.parties.indices_of(result)[:, None]
            copies = np.broadcast_to(places, (*channel.batch_shape, len(result), 1))
            channel.note_outputs(PARTICIPANTS, step, np.repeat(owner, len(result)), copies)

    @property
    def code(self) -> Code | None:
        """How real rows become integers; None where they go in as they are."""
        return self._code

    @property
    def is_vetoed(self) -> bool:
        """Whether the last sum was vetoed, so that no party knows it."""
        return any(machine.is_vetoed for machine in self._machines)

    @property
    def contributors(self) -> NDArray[np.int64] | None:
        """Party identifiers of those whose rows are in the last sum, if any; see `SumMachine.contributors`."""
        result = [machine.contributors for machine in self._machines]
        return next((parties for parties in result if parties is not None), None)

    def _gather_sums(self, direction: Direction, width: int) -> Array:
        """The sums of all groups, from whichever machine hosts their owners."""
        out, groups = None, len(self._ways[direction].group_owner)
        for machine, _, places in self._hosts[direction]:
            sums = machine.sums
            if sums is None or not len(places):
                continue
            _check_sums(sums, len(places), width, self.scheme)
            if not sums.shape[-1] and width:  # no party was answered, and so no party knows how wide a sum would be
                sums = np.zeros((*sums.shape[:-1], width), dtype=sums.dtype)
            if len(places) == groups:
                return sums
            if out is None:
                out = np.zeros((*sums.shape[:-2], groups, width), dtype=sums.dtype)
            out[..., places, :] = sums
        if out is None and groups:
            raise ProtocolError("machines must leave a sum for those entitled to it; they left none")
        return np.zeros((0, width)) if out is None else out


def _check_machines(machines: tuple[SumMachine, ...], scheme: Scheme, channel: Channel) -> tuple[SumMachine, ...]:
    """The machines of a scheme, if that is what they are: a scheme may come from another package."""
    invalid = (
        [item for item in machines if not isinstance(item, SumMachine)] if isinstance(machines, tuple) else [machines]
    )
    if invalid:
        raise InputError(f"machines of {scheme.name} must be a tuple of SumMachines; found {type(invalid[0]).__name__}")
    hosted = np.concatenate([np.empty(0, dtype=np.int64), *(item.parties for item in machines)])
    if len(np.unique(hosted)) < len(hosted):
        raise InputError(f"machines of {scheme.name} must host every party once; one is hosted twice")
    if len(hosted) and not 0 <= int(hosted.min()) <= int(hosted.max()) < len(channel.parties):
        raise InputError(f"machines of {scheme.name} must host parties of the run; found {int(hosted.max())}")
    return machines


def _check_sums(sums: Array, groups: int, width: int, scheme: Scheme) -> None:
    fits = isinstance(sums, np.ndarray) and sums.dtype.kind in "fi" and sums.ndim >= 2 and sums.shape[-2] == groups
    if not (fits and sums.shape[-1] in (0, width)):
        result = f"{sums.dtype} {list(sums.shape)}" if isinstance(sums, np.ndarray) else type(sums).__name__
        raise ProtocolError(f"sums of {scheme.name} must be numbers [{groups}, {width}]; found {result}")


def _flags(parties: NDArray[np.int64], count: int) -> Flags:
    """Bool [count]: which parties are among some."""
    flags = np.zeros(count, dtype=np.bool_)
    flags[parties] = True
    return flags


def _some(rows: Array | LazyArray, positions: NDArray[np.int64]) -> Any:
    """Some rows; those that are not laid out are for machines that read them one by one."""
    return rows if len(positions) == len(rows) else take_rows(rows, positions)
