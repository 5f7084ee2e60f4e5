"""A program on all silos in one process: its collectives under schemes, every message over a channel that records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import FixedPoint
from fgl_secure.algebra.quantization import Overflow, scale
from fgl_secure.errors import ProtocolError
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.collective import Code, Collective
from fgl_secure.protocols.partners import agree
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import CLIENTS, MEMBERS, NEIGHBOURS, SERVER, Grouping, Topology
from fgl_secure.runtime import Channel, Phase, Role, Step
from fgl_secure.training.calls import BEGINNING, EXCHANGE, HAND_DOWN, AnswerCall, Call, CollectiveSetting
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.gradient_sums import Factors, Sizes, gather_factors, gradient_sums, member_sums, sums_members
from fgl_secure.training.parties import Between, check_parties, most_rows, neighbour_sums, note_membership
from fgl_secure.training.program import Program, in_lockstep
from fgl_secure.training.ranges import Digits, finds_ranges, rounding_key
from fgl_secure.training.server_sums import FLOAT_BYTES, LARGEST, RECEIVED, grid_for, quotients
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array, Floats, Ids


def open_neighbours(
    scheme: Scheme, sums: Grouping, width: int, channel: Channel, code: Code | None = None
) -> Collective:
    """Opens sums over neighbours.

    Args:
        scheme: computes them. Where it bounds how many messages a device sends, devices agree on partners first, over
            the same channel.
        sums: who has whom as neighbour.
        width: most entries of a row.
        channel: between all parties.
        code: how real rows become integers; the scheme's own unless given.

    Raises:
        InputError: the scheme refuses the topology, or does not fit the parties of the channel.
        FieldRangeError: the field cannot hold the sums.
    """
    rules = scheme.partnering(sums)
    if rules is None:
        return Collective(scheme, Topology(NEIGHBOURS, sums, width), channel, code)
    partners = agree(sums, rules, channel)
    topology = Topology(NEIGHBOURS, partners.grouping, width, circuits=partners.circuits)
    return Collective(scheme.among(rules), topology, channel, code or scheme.fixed_point(rules.most))


def most_terms(scheme: Scheme, sums: Grouping) -> int:
    """Most rows in one sum over neighbours, either way, by what every party knows: D where devices agree on partners.

    Args:
        scheme: computes the sums.
        sums: who has whom as neighbour.
    """
    rules = scheme.partnering(sums)
    return max(sums.largest_group, sums.reverse().largest_group, 1) if rules is None else rules.most


_Make = Callable[[Collectives], Program]
"""Makes a silo's program, given what it talks through."""


Intermediary = Callable[["OneProcess", list[Call]], Sequence[Any]]
"""Answers what the silos of a process call together, by `OneProcess.answer` or otherwise."""


class _ClearGradients:
    """Every device sends its gradient to its silo in plaintext: HiFGL holds gradients not to be private (4.3).

    Args:
        channel: between devices and silos.
        silo_of: int64 [n], the silo of each device.
    """

    def __init__(self, channel: Channel, silo_of: NDArray[np.int64]) -> None:
        self._channel = channel
        self._devices = channel.parties.ids(Role.DEVICE)
        self._silos = channel.parties.ids(Role.SILO)[silo_of]

    def looks_at(self, step: Step) -> bool:
        """Whether gradients of a step are recorded, and not counted alone."""
        return self._channel.recording.keeps(step)

    def send(self, factors: list[Factors], step: Step) -> None:
        """One message a device and parameter, sized as the dense gradient."""
        for factor in factors:
            now, size = replace(step, layer=factor.layer), FLOAT_BYTES * factor.height * factor.width
            self._channel.send(Phase.GRADIENT, now, self._devices, self._silos, factor.payload, wire_bytes=size)

    def count(self, sizes: Sizes, step: Step) -> None:
        """The same messages, unobserved."""
        for layer, entries in sizes:
            now, size = replace(step, layer=layer), FLOAT_BYTES * entries
            self._channel.send_sizes(Phase.GRADIENT, now, self._devices, self._silos, size)


def _plain_code(code: Code | None) -> FixedPoint | None:
    """Return a map of rows that refuses what is too large; None for any other, and for none."""
    return code if isinstance(code, FixedPoint) and code.overflow is Overflow.REFUSE else None


@dataclass(frozen=True, slots=True)
class _Units:
    """Units of a grid as the reals that they stand for, and whole numbers behind them; exact up to `EXACT`.

    Attributes:
        grid: of the units.
        counts: how many whole numbers there are.
    """

    grid: FixedPoint
    counts: int

    def encode(self, rows: Floats) -> Ids:
        """Int64 [k, P] of reals [k, P]."""
        index = rows.shape[-1] - self.counts
        units = scale(rows[..., :index], self.grid.fraction_bits)
        result: Ids = np.rint(np.concatenate([units, rows[..., index:]], axis=-1)).astype(np.int64)
        return result

    def decode(self, sums: Ids) -> Floats:
        """Float64 [k, P] of integers [k, P]."""
        index = sums.shape[-1] - self.counts
        return np.concatenate([self.grid.decode(sums[..., :index]), sums[..., index:]], axis=-1)


class OneProcess:
    """A program on all silos of a graph.

    Args:
        graph: who has what.
        schemes: by topology; what is not there is in plaintext.
        channel: between the parties of `hierarchy_of(graph, ...)` and the helpers of all schemes.
        make: makes a silo's program.
        width: most entries of a row that devices send their neighbours.
        message_graph: the graph along whose edges these rows travel; all of them unless given.
        between: what silos add up beforehand; None where devices send rows of their own.
        shares: what silos hold, in their order; cut out of the graph unless given.
        crossing: whether rows travel between silos alone, and silos add up inside themselves.

    Attributes:
        programs: by silo.
        intermediary: what answers calls in the place of `answer`; None for nothing.

    Raises:
        InputError: a scheme does not serve its topology, or the channel joins other parties.
        FieldRangeError: a scheme's field cannot hold the sums.
    """

    intermediary: Intermediary | None = None

    def __init__(
        self,
        graph: FederatedGraph,
        schemes: Mapping[str, Scheme],
        channel: Channel,
        make: _Make,
        *,
        width: int = 1,
        message_graph: FederatedGraph | None = None,
        between: Between | None = None,
        shares: Sequence[Silo] = (),
        crossing: bool = False,
    ) -> None:
        check_parties(graph, schemes, channel)
        note_membership(channel, graph.silo_of)
        self._channel, self._silo_of = channel, graph.silo_of
        self._clients = schemes.get(CLIENTS, Plaintext())
        self._server, members = schemes.get(SERVER, Plaintext()), schemes.get(MEMBERS)
        serves = members is not None and sums_members(members, member_sums(channel.parties, graph.silo_of))
        scheme, shares = schemes.get(NEIGHBOURS, Plaintext()), shares or Silo.all_of(graph, message_graph)
        if between is None and not crossing:
            self._neighbours = open_neighbours(scheme, neighbour_sums(message_graph or graph), width, channel)
        else:  # of as many rows as all processes know of
            along = message_graph or graph
            grouping = neighbour_sums(along, crossing=crossing) if between is None else between.grouping
            fixed = scheme.fixed_point(
                most_rows(graph.num_silos) if between else max(shares[0].facts.largest_degree, 1)
            )
            self._neighbours = Collective(scheme, Topology(NEIGHBOURS, grouping, width), channel, fixed)
        sums = self._neighbours.topology.grouping
        self._gradients = gradient_sums(members, channel, graph.silo_of) if members is not None and serves else None
        self._clear = _ClearGradients(channel, graph.silo_of)
        self._opened: dict[tuple[str, int, int], Collective] = {}
        partners = np.bincount(sums.target, minlength=graph.num_devices)
        summed = np.bincount(scheme.answered_grouping(sums).target, minlength=graph.num_devices)
        grid, most = grid_for(self._server, graph.num_silos), self._server.limit(graph.num_silos) or LARGEST
        self._notes: dict[tuple[str, Step], list[tuple[Array, Array]]] = {}
        self._nodes = [silo.nodes for silo in shares]
        silos = channel.parties.ids(Role.SILO)
        self._rows = self._nodes if between is None else [np.flatnonzero(sums.row_owner == silo) for silo in silos]
        schemes_of_silos = {CLIENTS: self._clients, SERVER: self._server}
        code = None if scheme.adds_noise else _plain_code(self._neighbours.code)  # noise is made for rows as they are
        ranged = finds_ranges(shares[0].facts, code, noisy=scheme.adds_noise)
        keyed = ranged or self._server.precision is not None
        self._talks = [
            Collectives(
                silo,
                CollectiveSetting(
                    summed[silo.nodes],
                    grid,
                    self._looks_at,
                    most,
                    None if between is None else len(rows),
                    np.empty(0, dtype=np.bool_) if between is None else between.along(silo.edges),
                    schemes_of_silos,
                    partial(self._note, silo),
                    rounding_key(channel.coins) if keyed else b"",
                    partners[silo.nodes] if between is None else None,
                    self._gradients is not None,
                    ranged,
                    code,
                ),
            )
            for silo, rows in zip(shares, self._rows, strict=True)
        ]
        self.programs = tuple(make(comm) for comm in self._talks)

    def _looks_at(self, step: Step) -> bool:
        return self._gradients is not None or self._clear.looks_at(step)

    def begin(self) -> None:
        """What comes before the first round."""
        self._together(None, [lambda p=program: p.begin() for program in self.programs])  # type: ignore[misc]

    def round(self, number: int) -> bool:
        """One round of all silos; whether there is another one."""
        result = self._together(number, [lambda p=program: p.round(number) for program in self.programs])  # type: ignore[misc]
        if len(set(result)) > 1:
            raise ProtocolError(f"programs must all go on or all end after round {number}; found {result}")
        return bool(result[0])

    def _together(self, number: int | None, works: Sequence[Callable[[], Any]]) -> list[Any]:
        def make_work(comm: Collectives, work: Callable[[], Any]) -> Callable[[AnswerCall], Any]:
            def do(ask: AnswerCall) -> Any:
                comm.start(number, ask)
                return work()

            return do

        way = self.answer if self.intermediary is None else partial(self.intermediary, self)
        result = in_lockstep([make_work(*item) for item in zip(self._talks, works, strict=True)], way)
        # All silos' notes of a name and a step as one batch, in the order of their owners.
        for (name, step), noted in self._notes.items():
            owners, rows = (np.concatenate(parts) for parts in zip(*noted, strict=True))
            order = np.argsort(owners, kind="stable")
            self._channel.note_inputs(name, step, owners[order], rows[order])
        self._notes.clear()
        return result

    def _note(self, silo: Silo, name: str, step: Step, devices: bool, rows: Callable[[], Array]) -> None:
        if not self._channel.recording.keeps(step):
            return
        result, parties = rows(), self._channel.parties
        owners = (
            parties.ids(Role.DEVICE)[silo.nodes]
            if devices
            else np.repeat(parties.ids(Role.SILO)[silo.silo], len(result))
        )
        self._notes.setdefault((name, step), []).append((owners, result))

    @property
    def neighbour_grouping(self) -> Grouping:
        """The messages that go into sums over neighbours: between partners, where devices choose some."""
        return self._neighbours.scheme.answered_grouping(self._neighbours.topology.grouping)

    @property
    def neighbour_messages(self) -> Grouping:
        """All messages of sums over neighbours, those to small groups included."""
        return self._neighbours.topology.grouping

    @property
    def row_places(self) -> Sequence[Array]:
        """By silo, the places of its rows among all that are summed over neighbours."""
        return tuple(self._rows)

    def answer(self, calls: list[Call]) -> Sequence[Any]:
        """Answer what the silos call together.

        Args:
            calls: one of each silo, in their order.

        Returns:
            What each silo gets.
        """
        first = calls[0]
        if first.topology == HAND_DOWN:
            return self._send_model(first)
        if first.topology == MEMBERS and first.sizes:
            return self._gradients_of(calls)
        if first.topology == CLIENTS:
            return self._client_sums(calls)
        if first.topology == EXCHANGE:
            return self._exchange_rows(calls)
        rows = [_rows(call) for call in calls]
        if first.topology == NEIGHBOURS:
            sums = self._neighbours.sum(_spread(rows, self._rows), first.step)
            return [sums[node] for node in self._nodes]
        return self._member_sums(rows, first) if first.topology == MEMBERS else self._server_sum(rows, first)

    def _member_sums(self, rows: list[Array], call: Call) -> Sequence[Array]:
        if self._gradients is not None:
            return list(self._gradients.sum(_spread(rows, self._nodes), call.step))
        devices, silos = self._channel.parties.ids(Role.DEVICE), self._channel.parties.ids(Role.SILO)[self._silo_of]
        size = FLOAT_BYTES * rows[0].shape[1]
        self._channel.send_sizes(Phase.CORRECT, call.step, devices, silos, size)
        return [row.sum(axis=0, dtype=np.float64) for row in rows]

    def _gradients_of(self, calls: list[Call]) -> Sequence[list[Array] | None]:
        first, order = calls[0], np.argsort(np.concatenate(self._nodes))
        if self._gradients is not None:
            sums = self._gradients.sums(gather_factors([call.factors for call in calls], order), first.step)
            return [[parameter[silo] for parameter in sums] for silo in range(len(calls))]
        step = Step(first.step.round)
        if first.factors:
            self._clear.send(gather_factors([call.factors for call in calls], order), step)
        else:
            self._clear.count(first.sizes, step)
        return [None] * len(calls)

    def _server_sum(self, rows: list[Array], call: Call) -> list[Array]:
        parties, width, bound = self._channel.parties, len(rows[0]), call.bound
        units = None if call.grid is None else _Units(call.grid, call.counts)
        code = units if call.numbers is None else call.numbers

        def open_collective() -> Collective:
            topology = Topology.to_server(parties, width, bound or None)
            return Collective(self._server, topology, self._channel, code, call.output)

        collective = (
            self._collective(f"{SERVER} {code} {call.output}", width, bound, open_collective)
            if call.numbers is None  # whose ranges are others in every round
            else open_collective()
        )
        stacked = np.stack(rows)
        result: Array = collective.sum(stacked if code is None else code.decode(stacked), call.step)
        total: Array = Digits.of(call.numbers).together((result if code is None else code.encode(result))[0])
        silos, server = parties.ids(Role.SILO), parties.ids(Role.SERVER)
        if call.least:
            enough: Array = total >= call.least
            bits = np.broadcast_to(np.packbits(enough), (len(silos), -(-width // 8)))
            self._channel.send(Phase.OPENED, call.step, np.repeat(server, len(silos)), silos, bits)
            return [enough] * len(rows)
        decoded = quotients(total, call.parts) if call.parts else total
        sizes = FLOAT_BYTES * len(decoded)
        self._channel.send_sizes(Phase.MODEL, call.step, np.repeat(server, len(silos)), silos, sizes)
        self._channel.note_inputs(RECEIVED, call.step, silos, np.broadcast_to(decoded, (len(silos), len(decoded))))
        return [decoded] * len(rows)

    def _client_sums(self, calls: list[Call]) -> list[Array]:
        silos, nothing = self._channel.parties.ids(Role.SILO), np.empty(0, dtype=np.int64)
        return [
            self._client_sum(calls, silo, silos) if silo in calls[0].terms else nothing for silo in range(len(calls))
        ]

    def _client_sum(self, calls: list[Call], receiver: int, silos: Array) -> Array:
        """The sum of all other silos' terms for one of them."""
        others = [silo for silo in range(len(calls)) if silo != receiver]
        rows = np.stack([np.asarray(calls[silo].terms[receiver]) for silo in others])
        width, parties, call = rows.shape[1], self._channel.parties, calls[0]

        def open_collective() -> Collective:
            ends = silos[others], int(silos[receiver])
            topology = Topology.to_client(parties, *ends, width, call.bound or None)
            return Collective(self._clients, topology, self._channel, output=call.output)

        if call.step.part % 2 == BEGINNING:  # of sums before the first round no two are alike, and each is large
            result: Array = open_collective().sum(rows, call.step)[0]
        else:
            result = self._collective(f"{CLIENTS} {receiver}", width, call.bound, open_collective).sum(rows, call.step)[
                0
            ]
        return result

    def _exchange_rows(self, calls: list[Call]) -> list[list[Array]]:
        """What each silo is sent, by sender: a message a row."""
        first, silos = calls[0], self._channel.parties.ids(Role.SILO)
        assert first.phase is not None, "what is exchanged has a phase"
        ends = np.array([(i, j) for i, call in enumerate(calls) for j in call.sent], dtype=np.int64)
        parts = [np.asarray(rows) for call in calls for rows in call.sent.values()]
        for (i, _), rows in zip(ends.tolist(), parts, strict=True):
            if rows.ndim != 2 or rows.shape[1:] != parts[0].shape[1:] or rows.dtype != parts[0].dtype:
                raise ProtocolError(f"silos must exchange rows of one type and width; silo {i} does not")
        senders, receivers = np.repeat(silos[ends], [len(rows) for rows in parts], axis=0).T
        result = [[parts[0][:0] for _ in calls] for _ in calls]
        if len(senders):
            arrived = self._channel.send(first.phase, first.step, senders, receivers, np.concatenate(parts))
            places, pair = silos[0] * (len(calls) + 1), arrived.senders + len(calls) * arrived.receivers
            order = np.argsort(pair, kind="stable")
            keys, starts = np.unique(pair[order], return_index=True)
            for key, rows in zip((keys - places).tolist(), np.split(arrived.payload[order], starts[1:]), strict=True):
                result[key // len(calls)][key % len(calls)] = rows
        return result

    def _send_model(self, call: Call) -> list[None]:
        devices, silos = self._channel.parties.ids(Role.DEVICE), self._channel.parties.ids(Role.SILO)[self._silo_of]
        ((_, entries),) = call.sizes
        self._channel.send_sizes(Phase.MODEL, call.step, silos, devices, FLOAT_BYTES * entries)
        return [None] * len(self._nodes)

    def _collective(self, topology: str, width: int, bound: int, opened: Callable[[], Collective]) -> Collective:
        """One collective for each width of rows, opened when it is first needed."""
        result = self._opened.get((topology, width, bound))
        if result is None:
            result = self._opened[topology, width, bound] = opened()
        return result


def _spread(rows: list[Array], places: list[Array]) -> Array:
    """Rows of all silos in one order, from those of each silo and their places."""
    out = np.empty((sum(len(place) for place in places), rows[0].shape[1]), dtype=rows[0].dtype)
    for place, part in zip(places, rows, strict=True):
        out[place] = part
    return out


def _rows(call: Call) -> Array:
    assert call.rows is not None, "only gradients and models that are handed down have none"
    return call.rows
