"""A part of the bench in pieces, each of which is measured once and can be kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.timing import BenchReport, BoundedFigure, BoundSide, Timing, copy_timing

COPY = "memory copy"
"""The piece, and its timing, that throughput is compared with."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What was measured at one go.

    Attributes:
        timings: for people, in order.
        figures: those that need no other piece.
        costs: JSON values by name, for figures over several pieces.
    """

    timings: tuple[Timing, ...] = ()
    figures: tuple[BoundedFigure, ...] = ()
    costs: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The piece as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Any) -> Piece:
        """The piece that `as_json` wrote."""
        figures = (BoundedFigure(**{**item, "side": BoundSide(item["side"])}) for item in found["figures"])
        return cls(tuple(Timing(**item) for item in found["timings"]), tuple(figures), found["costs"])


Pieces = Mapping[str, Piece]


def _no_more(_found: Pieces) -> Iterable[BoundedFigure]:
    return ()


@dataclass(frozen=True, slots=True)
class BenchPart:
    """A part of the bench.

    Attributes:
        pieces: by name, what measures each; sizes are read when it is called. One of them is the memory copy, unless
            it comes with another.
        across: the figures over several pieces.
    """

    pieces: Callable[[], Mapping[str, Callable[[], Piece]]]
    across: Callable[[Pieces], Iterable[BoundedFigure]] = _no_more

    def report(self, found: Pieces) -> BenchReport:
        """All pieces in one, the memory copy first."""
        timings = [timing for piece in found.values() for timing in piece.timings]
        copy = next(timing for timing in timings if timing.name == COPY)
        figures = [figure for piece in found.values() for figure in piece.figures]
        others = (timing for timing in timings if timing is not copy)
        return BenchReport(copy.moved / copy.median, (copy, *others), (*figures, *self.across(found)))

    def run(self) -> BenchReport:
        """Measures everything, and keeps nothing."""
        return self.report({name: work() for name, work in self.pieces().items()})


def measure_copy(size: int = 2**26) -> Callable[[], Piece]:
    """Measures the memory copy of so many bytes, read and written."""
    return lambda: Piece((copy_timing(size),))
