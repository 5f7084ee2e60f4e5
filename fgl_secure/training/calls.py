"""Collectives as silos call them, and what a silo knows of them: what programs and drivers have between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import FixedPoint
from fgl_secure.algebra.quantization import LowPrecision
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import MessageKind, Step
from fgl_secure.training.gradient_sums import DeviceFactors, Sizes
from fgl_secure.training.server_sums import LARGEST
from fgl_secure.typing import Array, Ids

BEGINNING = 1
"""Part of the steps of what is summed before the first round."""
HAND_DOWN = "hand down"
"""No sum: a silo sends its devices the model, of which sizes alone are kept."""
EXCHANGE = "exchange"
"""No sum: every silo sends each other one rows in plaintext."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A collective as one silo calls it.

    Attributes:
        topology: its name.
        step: when.
        rows: what the silo adds: of its devices float [m, d], or a vector of its own, int64 [P].
        bound: largest magnitude of an entry of a vector of integers; 0 for elements of a scheme's field.
        sizes: in the place of rows, of the gradients that its devices hand to it: layer and entries of each parameter.
        factors: these gradients, parameter by parameter; empty where no party looks at them.
        terms: in the place of rows, for each silo what this one adds to its sum, int64; for itself the length alone.
        grid: what its entries stand for where recordings have reals; None where they have the integers.
        numbers: the same where its entries have few bits, and integers are in digits; None where they have not.
        counts: how many entries at the end stand for themselves.
        parts: lengths of parts of which the server tells quotients; none where it tells the sum.
        least: where it is not 0, the server tells of each entry of the sum whether it is so large, and not the sum.
        output: what the sum is called in recordings, among what the party entitled to it is left with.
        phase: of rows that silos exchange.
        sent: in the place of rows, for each silo the rows [r, w] that this one sends it; none for itself.
    """

    topology: str
    step: Step
    rows: Array | None = field(default=None, repr=False)  # secrets are in no message
    bound: int = 0
    sizes: Sizes = ()
    factors: tuple[DeviceFactors, ...] = field(default=(), repr=False)
    terms: Mapping[int, Ids | int] = field(default_factory=dict, repr=False)
    grid: FixedPoint | None = None
    numbers: LowPrecision | None = None
    counts: int = 0
    parts: tuple[int, ...] = ()
    least: int = 0
    output: str | None = None
    phase: MessageKind | None = None
    sent: Mapping[int, Array] = field(default_factory=dict, repr=False)

    @property
    def outline(self) -> tuple[object, ...]:
        """What must be the same for all silos."""
        width = None if self.rows is None else self.rows.shape[-1]
        lengths = tuple((to, term if isinstance(term, int) else len(term)) for to, term in self.terms.items())
        shape = self.grid, self.numbers, self.counts, self.parts, self.least, self.output
        return self.topology, self.step, self.bound, self.sizes, width, lengths, self.phase, *shape


AnswerCall = Callable[[Call], Any]
"""Makes a call, and waits for what the silo gets: an array of sums, or a list of them for gradients."""


_Note = Callable[[str, Step, bool, Callable[[], Array]], None]
"""Takes down for recordings what a silo knows: name, step, whether its devices know it, a row each, and what lays the
rows out where they are kept."""


def _discard_recording(_name: str, _step: Step, _devices: bool, _rows: Callable[[], Array]) -> None:
    """Takes nothing down: a silo's own process has no recordings."""


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveSetting:
    """What a silo knows of the collectives of a run.

    Attributes:
        summed: int64 [m], how many messages are in the sum of each own device: 0 where the scheme computes none.
        grid: makes integers of reals that the silos sum.
        looks_at: whether gradients of single devices are wanted in a step, to be summed or recorded.
        largest: magnitude of a sum of one vector of each silo.
        rows: how many rows it adds to sums over neighbours, where it adds up beforehand what its nodes send to a node
            of another silo; None where it has one for each of its devices.
        wanted: bool [e], along which of its edges these rows are sums.
        schemes: public, by topology: what adds up for clients and for the server.
        note: keeps what silos know in recordings.
        rounding_key: secret, of what the silo rounds at random and of its part in finding ranges; empty where neither
            is due.
        partners: int64 [m], from how many others each own device hears, where these are not all of its neighbours, or
            not its neighbours alone.
        sums_gradients: whether sums take the place of the gradients that autograd works out.
        finds_ranges: whether sums are divided by powers of two that silos find, as numbers may outgrow bounds.
        row_code: how rows for neighbours are written; None where they go in as they are, are clipped, or may wrap.
    """

    summed: Ids
    grid: FixedPoint
    looks_at: Callable[[Step], bool]
    largest: int = LARGEST
    rows: int | None = None
    wanted: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    schemes: Mapping[str, Scheme] = field(default_factory=dict)
    note: _Note = _discard_recording
    rounding_key: bytes = field(default=b"", repr=False)
    partners: Ids | None = None
    sums_gradients: bool = False
    finds_ranges: bool = False
    row_code: FixedPoint | None = None
