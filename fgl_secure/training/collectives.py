"""What a silo's program talks through: sums that a party is entitled to, and gradients that pass through them.

What silos say to each other in plaintext they `exchange`, under a phase that reports name.

All silos of a run make the same calls in the same order, as programs on `torch.distributed` do. A call waits until all
have made it. Who computes the sums, in one process or with a process for each silo, is the driver's business.

Gradients pass by pieces. A collective cuts the graph of operations on both sides: what the silo goes on with and what
arrives are leaves. `backward` walks the pieces in reverse, each once, with a collective between two of them; so nothing
waits inside autograd, whose one thread a GPU would be blocked by that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fgl_secure.algebra import FixedPoint
from fgl_secure.algebra.quantization import check_lengths
from fgl_secure.errors import InputError
from fgl_secure.protocols.scheme import needed_marks
from fgl_secure.protocols.topology import CLIENTS, MEMBERS, NEIGHBOURS, SERVER
from fgl_secure.runtime import Direction, MessageKind, Step
from fgl_secure.training.calls import BEGINNING, EXCHANGE, HAND_DOWN, AnswerCall, Call, CollectiveSetting
from fgl_secure.training.gradient_sums import Collector
from fgl_secure.training.ranges import LowSums, RangedParts, Ranges, shrunk
from fgl_secure.training.server_sums import LARGEST, UPDATE_BITS, grid_for, update_grid
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array, Floats, Ids

_NO_COUNTS = np.empty(0, dtype=np.int64)
_MOST_COUNT = 2**40
"""Largest count beside numbers of few bits."""


@dataclass(slots=True, eq=False)
class _LayerPiece:
    """What is behind a sum over neighbours: the outputs of a piece, and the leaves that go on in the next one."""

    step: Step
    rows: torch.Tensor
    carried: torch.Tensor
    leaf: torch.Tensor
    sums: torch.Tensor


@dataclass(slots=True)
class _Clock:
    """Which round and pass it is; numbers collectives so that no two have the same step."""

    round: int = 0
    beginning: bool = False
    evaluation: bool = False
    layer: int = 0
    sums: Counter[tuple[str, bool]] = field(default_factory=Counter)

    def next_layer(self, layer: int | None) -> Step:
        number = self.layer if layer is None else layer
        self.layer = number + 1
        return Step(self.round, number, evaluation=self.evaluation, part=BEGINNING * self.beginning)

    def step_of(self, layer: int) -> Step:
        return Step(self.round, layer, evaluation=self.evaluation)

    def next_sum(self, topology: str, *, evaluation: bool = False) -> Step:
        apart = evaluation or self.evaluation
        part = 2 * self.sums[topology, apart] + BEGINNING * self.beginning
        self.sums[topology, apart] += 1
        return Step(self.round, evaluation=apart, part=part)


class Collectives:
    """The collectives of a run, as one silo calls them.

    Args:
        silo: what it holds.
        setting: what it knows of them.
    """

    def __init__(self, silo: Silo, setting: CollectiveSetting) -> None:
        self.silo, self._setting = silo, setting
        self._ask: AnswerCall | None = None
        self._clock, self._pieces = _Clock(), list[_LayerPiece]()
        self._collector: Collector | None = None
        self._low_sums = LowSums(setting)
        self._ranges = Ranges(setting, lambda: self._clock.next_sum(SERVER, evaluation=True), self._call)

    def start(self, number: int | None, ask: AnswerCall) -> None:
        """A round starts: drivers say so, not programs.

        Args:
            number: of the round, from 0; None for what comes before the first one.
            ask: makes its calls.
        """
        self._ask = ask
        self._clock, self._pieces = _Clock(number or 0, beginning=number is None), []
        if self._collector is not None:
            self._collector.collects = self._setting.looks_at(self._gradient_step)

    def _call(self, call: Call) -> Any:
        if self._ask is None:
            raise InputError("collectives must be called in a round, or in what comes before the first; found neither")
        return self._ask(call)

    @contextmanager
    def evaluation(self) -> Iterator[None]:
        """A pass that nothing is learnt from: no gradients, and steps of their own."""
        clock, before = self._clock, (self._clock.evaluation, self._clock.layer)
        clock.evaluation, clock.layer = True, 0
        try:
            with torch.no_grad():
                yield
        finally:
            clock.evaluation, clock.layer = before

    @property
    def message_counts(self) -> Ids:
        """int64 [m]: how many messages are in the sum of each own device; 0 where the scheme computes none."""
        return self._setting.summed

    @property
    def partners(self) -> Ids:
        """int64 [m]: from how many others each own device hears."""
        return self.silo.neighbour_counts if self._setting.partners is None else self._setting.partners

    @property
    def summed_edges(self) -> NDArray[np.bool_]:
        """Bool [e]: along which of the silo's edges its rows are sums, and those it gets; see `CollectiveSetting`."""
        return self._setting.wanted

    def neighbours(
        self, rows: torch.Tensor, carry: torch.Tensor | None = None, *, layer: int | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Every device sends a row to each of its neighbours, and gets the sum of what it was sent.

        Args:
            rows: float [m, d], a row for each of the silo's devices; or for each node of another silo that own nodes
                send to, ascending, where silos add up beforehand.
            carry: what the silo goes on with beside the sums, such as its devices' hidden states; the rows unless
                given. Of nothing else that was computed before may a gradient be wanted after.
            layer: number of the sum in this pass; the next one unless given.

        Returns:
            What was carried, and the sums float [m, d]: leaves, on the device and of the type of what was given.
        """
        step, carried = self._clock.next_layer(layer), rows if carry is None else carry
        leaf, sums = carried.detach(), self._sums(rows, step)
        if torch.is_grad_enabled() and (rows.requires_grad or carried.requires_grad):
            leaf, sums = leaf.requires_grad_(), sums.requires_grad_()
            self._pieces.append(_LayerPiece(step, rows, carried, leaf, sums))
        return leaf, sums

    def backward(self, loss: torch.Tensor) -> None:
        """Gradients of the sum of all silos' losses, for every parameter and through every sum since the last time.

        Args:
            loss: of this silo; a number.
        """
        pieces, self._pieces = self._pieces, []
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        while pieces:
            piece = pieces.pop()
            ends = [(piece.carried, _gradient_of(piece.leaf))] if piece.carried.requires_grad else []
            if piece.rows.requires_grad:
                step = Step(piece.step.round, piece.step.layer, Direction.BACKWARD, part=piece.step.part)
                ends.append((piece.rows, self._sums(_gradient_of(piece.sums), step)))
            torch.autograd.backward([tensor for tensor, _ in ends], [gradient for _, gradient in ends])

    def _sums(self, rows: torch.Tensor, step: Step) -> torch.Tensor:
        row_count = len(self.silo.nodes) if self._setting.rows is None else self._setting.rows
        if rows.ndim != 2 or len(rows) != row_count:
            raise InputError(f"rows must be [{row_count}, d]; found {list(rows.shape)}")
        payload, code, exponent = rows.detach().cpu().contiguous().numpy(), self._setting.row_code, 0
        try:
            if code is not None:
                exponent = self._ranges.of_rows(payload, code)
            sums = self._call(Call(NEIGHBOURS, step, shrunk(payload, exponent)))
        except InputError as error:
            when = f"round {step.round}, layer {step.layer}, {step.direction} pass"
            raise type(error)(f"{error} ({when})") from error
        return torch.from_numpy(shrunk(np.array(sums), -exponent)).to(dtype=rows.dtype, device=rows.device)

    @property
    def finds_row_ranges(self) -> bool:
        """Whether `neighbours` takes rows of any size, as their range is found."""
        return self._setting.finds_ranges and self._setting.row_code is not None

    def exponent(self, magnitude: float, bound: float) -> int:
        """Return e, so that what every silo is to sum, over 2^e, is within a bound; 0 unless ranges are found.

        Where the run finds ranges, this is a sum of all silos: all must ask, and in the same order.

        Args:
            magnitude: the largest of this silo's numbers.
            bound: of the sum.

        Raises:
            InputError: the magnitude is no finite number; nothing was sent.
        """
        return self._ranges.exponents([magnitude], [bound])[0]

    def members(self, rows: Array) -> Floats:
        """The sum of one row of each of the silo's devices, for the silo.

        Args:
            rows: float [m, d].

        Returns:
            float64 [d]; zero where the scheme computes no sum over so few devices.
        """
        exponents = self._ranges.of_columns(rows)
        result: Floats = self._call(Call(MEMBERS, self._clock.next_sum(MEMBERS), shrunk(rows, exponents)))
        return shrunk(result, -exponents)

    def watch(self, layers: nn.ModuleList) -> None:
        """Has devices hand their gradients of a model to the silo: see `gradients`.

        Args:
            layers: `MessageLayer`s, of which every parameter is used in each round.
        """
        self._collector = Collector(layers, alone=self._setting.sums_gradients)
        self._collector.collects = self._setting.looks_at(self._gradient_step)

    def unchanging(self, rows: torch.Tensor, bits: int | None = None) -> None:
        """Says that rows which the watched layers multiply never change: devices need hand them over once.

        Args:
            rows: float [m, d], kept as long as the program is.
            bits: behind the binary point of any of their numbers, at all silos, where every party knows; else None.
        """
        if self._collector is None:
            raise InputError("layers must be watched before rows are said not to change; found none")
        self._collector.unchanging(rows, bits)

    def gradients(self) -> None:
        """Every device's gradient of the watched model goes to the silo, after `backward`.

        Where a scheme sums them, the sums take the place of the gradients that the parameters have, 0 where the silo
        has too few devices; in plaintext they stay as they are, for the silo adds up what it gets.
        """
        if self._collector is None:
            raise InputError("layers must be watched before their gradients are handed over; found none")
        factors, back = self._ranges.of_factors(self._collector.take() if self._collector.collects else ())
        call = Call(MEMBERS, self._gradient_step, sizes=self._collector.sizes, factors=factors)
        sums: list[Floats] | None = self._call(call)
        if sums is not None:
            self._collector.put([shrunk(item, -exponent) for item, exponent in zip(sums, back, strict=True)])

    @property
    def _gradient_step(self) -> Step:
        return Step(self._clock.round, -1)

    def hand_down(self, layers: nn.Module) -> None:
        """The silo sends its devices a model that they compute with."""
        entries = sum(parameter.numel() for parameter in layers.parameters())
        self._call(Call(HAND_DOWN, Step(self._clock.round), sizes=((-1, entries),)))

    def clients(self, terms: Mapping[int, Ids | int], bound: int = 0, output: str | None = None) -> Ids:
        """For some silos the sum of a vector of each of the others, which that silo alone learns.

        Args:
            terms: by silo that gets a sum, in one order everywhere: int64; for this silo itself the length of what it
                gets.
            bound: largest magnitude of an entry; 0 for elements of the scheme's field.
            output: what recordings call the sums.

        Returns:
            int64, this silo's sum; empty where it gets none.
        """
        step = self._clock.next_sum(CLIENTS)
        result: Ids = self._call(Call(CLIENTS, step, bound=bound, terms=terms, output=output))
        return result

    @property
    def clients_limit(self) -> int:
        """The largest magnitude of a sum of one vector of each other silo for this one."""
        scheme = self._setting.schemes.get(CLIENTS)
        return (None if scheme is None else scheme.limit(self._others)) or LARGEST

    @property
    def clients_grid(self) -> FixedPoint:
        """What makes integers of gradients that are summed for one silo."""
        return grid_for(self._setting.schemes[CLIENTS], self._others)

    def required_markers(self, topology: str, k_min: int) -> int:
        """How many silos must mark an entry, so that its sum has k_min summands even if others drop out later.

        Args:
            topology: of the sums, for clients or for the server.
            k_min: at least 1.

        Raises:
            InputError: more than a sum has for certain.
        """
        silos = self._others if topology == CLIENTS else self.silo.facts.silos
        return needed_marks(self._setting.schemes[topology], silos, k_min)

    @property
    def _others(self) -> int:
        return self.silo.facts.silos - 1

    def exchange(self, phase: MessageKind, sent: Mapping[int, Array], *, layer: int = -1) -> list[Array]:
        """Every silo sends each other one some rows, in plaintext for the receiver.

        Args:
            phase: what the rows are; reports name it.
            sent: by other silo, rows [r, w] of one type and width everywhere; silos that are left out are sent none.
            layer: number of the exchange, where there are several of a phase in a round.

        Returns:
            What each silo sent to this one, [r, w], by its number; of this one none. The sender may have sent
            anything of that type and width.

        Raises:
            InputError: no silo is named, which says nothing of type and width.
        """
        if not sent:
            raise InputError("sent must have rows for at least one other silo, if none of them; found no silo")
        nothing = next(iter(sent.values()))[:0]
        outgoing = {silo: sent.get(silo, nothing) for silo in self.silo.others}
        result: list[Array] = self._call(Call(EXCHANGE, self._clock.step_of(layer), phase=phase, sent=outgoing))
        return result

    def note(
        self, name: str, rows: Callable[[], Array], *, layer: int = -1, final: bool = False, devices: bool = False
    ) -> None:
        """Takes down what the silo knows, where a party records it; nothing is sent, and no party waits.

        Args:
            name: what it is called.
            rows: lays it out, [k, ...]; asked where it is kept, which passes without gradients are not.
            layer: as of an exchange.
            final: whether it is what the silo is left with in the end.
            devices: whether it is a row of each own node, which they bring into a sum.
        """
        step = self._clock.step_of(layer)
        if not step.evaluation:
            self._setting.note(name, replace(step, final=final), devices, rows)

    def grid(self, most_bits: int = UPDATE_BITS, heaviest: int = 1) -> FixedPoint:
        """What makes integers of entries of magnitude up to 64: of so many bits, or as many as the scheme has room for.

        Args:
            most_bits: behind the binary point.
            heaviest: the largest weight of a silo's vector; public.

        Raises:
            FieldRangeError: the scheme has no room for such vectors.
        """
        return update_grid(self._setting.largest, self.silo.facts.silos, most_bits, heaviest)

    def mean(
        self, values: Array, weight: int, heaviest: int, grid: FixedPoint | None = None, parts: Sequence[int] = ()
    ) -> Floats:
        """The weighted mean of one vector of each silo; no party is told the weight of another one.

        It is the sum of the vectors times their weights over the sum of the weights, off by half a unit at most. The
        server divides, and tells the mean alone. Under a scheme with a precision parts are rounded to it; see `server`.

        Args:
            values: float [P].
            weight: of the silo's vector, at least 1.
            heaviest: the largest weight that a silo may have; public.
            grid: for the entries; that of `grid` unless given.
            parts: lengths of what has a range of its own where numbers have few bits, such as tensors; none where the
                mean has all bits under every scheme.

        Returns:
            float64 [P].

        Raises:
            InputError: a value is not finite or beyond the grid's bound, or the weight out of range; nothing was sent.
            FieldRangeError: the scheme has no room for such vectors.
        """
        if not 1 <= weight <= heaviest:
            raise InputError(f"weight must lie in 1..{heaviest:,}; it does not")
        grid, lengths = grid or self.grid(heaviest=heaviest), check_lengths(parts or (len(values),), len(values))
        exponents = self._ranges.of_entries(values, lengths, grid.bound)
        values = shrunk(np.asarray(values, dtype=np.float64), exponents)
        if parts and self._rounds:
            of, integers = RangedParts(lengths, grid, heaviest), np.array([weight])
            result, _ = self._low(of.weigh(values, weight), integers, heaviest, of, exponents, mean=True)
            return shrunk(result, -exponents)
        units = np.append(grid.encode(values) * weight, weight)
        bound, step = grid.largest * heaviest, self._clock.next_sum(SERVER)
        means: Floats = self._call(Call(SERVER, step, units, bound, grid=grid, counts=1, parts=(len(units) - 1,)))
        return shrunk(means, grid.fraction_bits - exponents)

    def ratios(
        self, parts: Sequence[Array], denominators: Array, counts: Ids = _NO_COUNTS, *, grid: FixedPoint | None = None
    ) -> tuple[list[Floats], Ids]:
        """Quotients of sums over all silos, part by part, and sums of counts beside them.

        The server adds numerators and denominators up and divides; the quotients are all that it tells.

        Args:
            parts: float [P] each, numerators.
            denominators: float [number of parts], one for each part.
            counts: int64 [c], whole numbers, which are summed exactly.
            grid: for numerators and denominators; that of `grid` unless given.

        Returns:
            The quotients, float64 [P] each, NaN where a sum of denominators is 0; and the sums of counts.

        Raises:
            InputError: a value is not finite or beyond the grid's bound, or parts and denominators differ in number;
                nothing was sent.
        """
        if len(parts) != len(denominators):
            raise InputError(f"denominators must be {len(parts)}, one for each part; found {len(denominators)}")
        grid, lengths = grid or self.grid(), tuple(len(part) for part in parts)
        values = np.concatenate([*parts, denominators]).astype(np.float64)
        exponents = self._ranges.of_entries(values, (*lengths, len(denominators)), grid.bound)
        rows = np.concatenate([grid.encode(shrunk(values, exponents)), counts])
        step = self._clock.next_sum(SERVER)
        call = Call(SERVER, step, rows, grid.largest, grid=grid, counts=len(counts), parts=lengths)
        means: Floats = self._call(call)
        index = sum(lengths)
        quotients = shrunk(means[:index], exponents[index:].max(initial=0) - exponents[:index])
        return np.split(quotients, np.cumsum(lengths))[:-1], means[index:].astype(np.int64)

    def server(
        self,
        values: Array,
        counts: Ids = _NO_COUNTS,
        *,
        grid: FixedPoint | None = None,
        output: str | None = None,
        parts: Sequence[int] = (),
    ) -> tuple[Floats, Ids]:
        """The sum of one vector of each silo, which the server adds up and tells all.

        Under a scheme with a precision the numbers of parts are rounded to so many bits, at random and right on
        average, in a range that is found for each part and round; where the scheme says so, what they are rounded by is
        added to the same part of the next round. All else keeps its bits.

        Args:
            values: float [P]; they are rounded to a grid.
            counts: int64 [c], whole numbers, which are summed exactly.
            grid: for the values; that of the run unless given. With one of its own recordings have reals.
            output: what recordings call the sum; where it is named they have reals.
            parts: lengths of the parts at the front of the values that may have few bits, such as tensors of a model;
                the values behind them, such as what they are divided by, keep all.

        Returns:
            The sums, float64 [P] and int64 [c].

        Raises:
            InputError: a value is not finite or beyond the grid's bound; nothing was sent.
        """
        given_grid, grid = grid, grid or self._setting.grid
        index = min(sum(parts), len(values))
        exponents = self._ranges.of_entries(
            values, (*parts, len(values) - index) if index else (len(values),), grid.bound
        )
        reals = shrunk(np.asarray(values, dtype=np.float64), exponents)
        if parts and self._rounds:
            of, count = RangedParts(check_lengths(parts, index), grid), len(reals) - index
            integers, most = np.concatenate([grid.encode(reals[index:]), counts]), max(grid.largest, _MOST_COUNT)
            result, sums = self._low(of.weigh(reals[:index]), integers, most, of, exponents[:index], output=output)
            return shrunk(np.concatenate([result, grid.decode(sums[:count])]), -exponents), sums[count:]
        rows = np.concatenate([grid.encode(reals), counts])
        step, code = self._clock.next_sum(SERVER), given_grid if output is None else grid
        total: Ids = self._call(Call(SERVER, step, rows, grid.largest, grid=code, counts=len(counts), output=output))
        return shrunk(grid.decode(total[: len(values)]), -exponents), total[len(values) :]

    @property
    def _rounds(self) -> bool:
        """Whether numbers of sums for the server may have few bits."""
        scheme = self._setting.schemes.get(SERVER)
        return scheme is not None and scheme.precision is not None

    def _low(
        self,
        values: Floats,
        integers: Ids,
        most: int,
        of: RangedParts,
        exponents: Ids,
        *,
        mean: bool = False,
        output: str | None = None,
    ) -> tuple[Floats, Ids]:
        """Sums or means of numbers at few bits, and sums of integers; see `LowSums`."""
        steps, ask = (self._clock.next_sum(SERVER), self._clock.next_sum(SERVER)), self._call
        return self._low_sums(values, integers, most, of, steps, ask, mean=mean, output=output, exponents=exponents)

    def state(self) -> dict[str, Array]:
        """What is kept from round to round, as arrays by name; secret, for this silo alone."""
        return self._low_sums.state()

    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken."""
        self._low_sums.restore(state)

    def enough(self, marks: NDArray[np.bool_], least: int, output: str | None = None) -> NDArray[np.bool_]:
        """Which entries so many silos mark; the server, which adds the marks up, tells no more of their numbers.

        Args:
            marks: bool [P], of this silo.
            least: at least 1.
            output: what recordings call the sum.

        Returns:
            bool [P].
        """
        call = Call(SERVER, self._clock.next_sum(SERVER), marks.astype(np.int64), 1, least=least, output=output)
        result: NDArray[np.bool_] = self._call(call)
        return result

    @property
    def gradient_grid(self) -> FixedPoint:
        """What makes integers of reals that `server` is given, and of a silo's own."""
        return self._setting.grid


def _gradient_of(leaf: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
