"""FedStruct's exchange of adjacency powers: time, bytes and memory of a hop under each way to add terms up."""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from benchmarks.ckks_rows import SLOTS, RowVectors
from benchmarks.pieces import COPY, BenchPart, Piece, Pieces, measure_copy
from benchmarks.timing import BoundedFigure, BoundSide, Timing
from fgl_secure.coins import SystemCoins
from fgl_secure.errors import DataNotFoundError
from fgl_secure.graph import FederatedGraph, SplitMasks, load, partition
from fgl_secure.graph.structure_features import looped_adjacency
from fgl_secure.methods.fedstruct.exchange import HopSettings, Pruning
from fgl_secure.methods.fedstruct.row_exchange import ClearTerms, HopExchange, SummedTerms, TermSums
from fgl_secure.protocols.ckks import Ckks
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import CLIENTS as CLIENTS_SUMS
from fgl_secure.runtime import Channel
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.program import Program
from fgl_secure.typing import Array

DATASETS: tuple[str, ...] = ("Cora", "CiteSeer", "PubMed")
CLIENTS = 10
SETTINGS = HopSettings(2, Pruning.SHARES, 30)
"""Pruned as the paper does."""
HOPS: Mapping[str, int] = {"Cora": 10, "CiteSeer": 6, "PubMed": 5}
"""Hops that are run: all of Cora's; on the others up to where rows are as full as pruning lets them be."""
DENSE_HOPS = 2
"""Hops that are run with dense vectors, whose cost is the same in every hop."""
GROWTH = ("CiteSeer", "PubMed")
"""Between which data sets the exponent of growth is taken."""
SAMPLED_ROWS = 4
"""Rows that the row-wise baseline encrypts, adds and decrypts; its cost is the same for every row."""
SKETCHES, ROW_BY_ROW = "ckks, sketches", f"one TenSEAL vector a row, from {SAMPLED_ROWS} rows"
"""Ways that figures compare."""
TIME_BOUND, BYTES_BOUND, GROWTH_BOUND = 10.0, 10.0, 1.3


@dataclass(frozen=True, slots=True)
class ExchangeCost:
    """What an exchange took, all parties' work together.

    Attributes:
        seconds: of each hop.
        sent: bytes of each hop.
        peak: bytes of arrays and messages held at most.
    """

    seconds: tuple[float, ...]
    sent: tuple[int, ...]
    peak: int

    @property
    def last(self) -> float:
        """Seconds of the last hop that was run."""
        return self.seconds[-1]


def _pieces() -> dict[str, Callable[[], Piece]]:
    """Every data set that is there; others are left out, and named where a figure wants them."""
    return {COPY: measure_copy()} | {name: partial(_dataset, name) for name in DATASETS}


def _dataset(name: str) -> Piece:
    try:
        held = _graph_without_training(name)
    except DataNotFoundError:
        return Piece()
    ways = _ways(held, HOPS.get(name, 3))
    costs = {way: _measure_hops(held, scheme, make, hops) for way, (scheme, make, hops) in ways.items()}
    costs[ROW_BY_ROW] = _row_by_row(held)
    counted = {ROW_BY_ROW: f"all rows but {SAMPLED_ROWS}"}
    timings = tuple(_timing(f"{name}, {way}", cost, counted.get(way, "")) for way, cost in costs.items())
    return Piece(timings, costs={"nodes": held.num_devices} | {way: asdict(cost) for way, cost in costs.items()})


def _graph_without_training(name: str) -> FederatedGraph:
    """A data set whose clients only exchange: none of its nodes trains anything."""
    graph = load(name)
    everyone = np.ones(graph.num_nodes, dtype=np.bool_)
    masks = SplitMasks(everyone, ~everyone, ~everyone)
    return FederatedGraph.from_assignment(graph, partition("random", graph, CLIENTS, 0), masks)


Make = Callable[[Collectives], TermSums]


def _ways(graph: FederatedGraph, hops: int) -> Mapping[str, tuple[Scheme, Make, int]]:
    most = SETTINGS.most_a_row(CLIENTS)
    ways: dict[str, tuple[Scheme, Make, int]] = {
        SKETCHES: (Ckks(), lambda comm: SummedTerms(comm, most), hops),
        "pairwise masking, sketches": (PairwiseMasking(), lambda comm: SummedTerms(comm, most), hops),
        "in the clear": (Plaintext(), ClearTerms, hops),
    }
    if graph.num_devices <= DENSE_NODES:
        ways["ckks, dense"] = (Ckks(), lambda comm: SummedTerms(comm, dense=True), DENSE_HOPS)
    return ways


DENSE_NODES = 5000
"""Largest graph for which dense vectors are run: they grow with the square."""


class Exchanging(Program):
    """Nothing but the exchange, a hop a round.

    Args:
        comm: the collectives of the run.
        make: how a client gets the sum of the others' terms.
    """

    def __init__(self, comm: Collectives, make: Make) -> None:
        super().__init__(comm)
        self._make = make
        self.exchange: HopExchange | None = None

    def begin(self) -> None:
        """Who has which node."""
        self.exchange = HopExchange(self.comm, SETTINGS, self._make(self.comm))

    def round(self, number: int) -> bool:
        """The next hop."""
        assert self.exchange is not None, "it has begun"
        self.exchange.hop(number + 2)
        return True

    @property
    def report(self) -> dict[str, Array]:
        """None: what is measured is the way there."""
        return {}


def _measure_hops(graph: FederatedGraph, scheme: Scheme, make: Make, hops: int) -> ExchangeCost:
    """Runs hops 2 to `hops`, pruned as the paper does."""
    channel = Channel(hierarchy_of(graph), SystemCoins())
    process = OneProcess(graph, {CLIENTS_SUMS: scheme}, channel, lambda comm: Exchanging(comm, make))
    process.begin()
    marks = [(time.perf_counter(), channel.transcript.byte_count)]
    tracemalloc.start()
    try:
        for number in range(hops - 1):
            process.round(number)
            marks.append((time.perf_counter(), channel.transcript.byte_count))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    times, sent = zip(*marks, strict=True)
    return ExchangeCost(tuple(np.diff(times).tolist()), tuple(np.diff(sent).tolist()), peak)


def _row_by_row(graph: FederatedGraph) -> ExchangeCost:
    """One hop as a first user would write it: every client encrypts its term row by row, empty rows included."""
    n = graph.num_devices
    rows, values = RowVectors(), looped_adjacency(graph.graph)[:SAMPLED_ROWS].toarray()
    start, sent = time.perf_counter(), 0
    for row in values:
        for part in np.split(row, range(SLOTS, n, SLOTS)):  # of which TenSEAL would warn if they were one vector
            terms = [rows.encrypt(part.tolist()) for _ in range(CLIENTS - 1)]
            total = rows.add(terms)
            rows.decrypt(total)
            sent += sum(map(len, terms)) + len(total)
    factor = n / SAMPLED_ROWS
    contexts = CLIENTS * CLIENTS * rows.context_bytes
    return ExchangeCost(((time.perf_counter() - start) * factor,), (int(sent * factor) + contexts,), 0)


def _timing(name: str, cost: ExchangeCost, counted: str) -> Timing:
    """The last hop stands for all: the first are cheaper, because rows are not full yet."""
    held = f", {cost.peak / 1e6:,.0f} MB held" if cost.peak else ""
    label = f"hop of {name}: {cost.sent[-1] / 1e6:,.1f} MB{held}"
    known = (cost.last, min(cost.seconds), max(cost.seconds), len(cost.seconds))
    return Timing(label, "cpu", *known, counted=counted)


def _figures(pieces: Pieces) -> Iterator[BoundedFigure]:
    for name in DATASETS:
        packed, naive = _cost(pieces, name, SKETCHES), _cost(pieces, name, ROW_BY_ROW)
        if packed is not None and naive is not None:
            per_hop = sum(packed.seconds) / len(packed.seconds), sum(packed.sent) / len(packed.sent)
            basis = f"extrapolated from {SAMPLED_ROWS} of {pieces[name].costs['nodes']:,} rows"
            yield BoundedFigure(f"{name}: seconds of one TenSEAL vector a row over sketches, mean of hops",
                         naive.last / per_hop[0], BoundSide.AT_LEAST, TIME_BOUND, basis=basis)  # fmt: skip
            yield BoundedFigure(f"{name}: bytes of one TenSEAL vector a row over sketches, mean of hops",
                         naive.sent[0] / per_hop[1], BoundSide.AT_LEAST, BYTES_BOUND,
                         basis=f"{basis}; keys included")  # fmt: skip
    few, many = (_cost(pieces, name, SKETCHES) for name in GROWTH)
    for quantity, of in (("seconds", lambda cost: cost.last), ("bytes", lambda cost: float(cost.sent[-1]))):
        value = None
        if few is not None and many is not None:
            nodes = [pieces[name].costs["nodes"] for name in GROWTH]
            value = math.log(of(many) / of(few)) / math.log(nodes[1] / nodes[0])
        yield BoundedFigure(
            f"exponent of growth in n of a full hop's {quantity}, {GROWTH[0]} to {GROWTH[1]}",
            value,
            BoundSide.AT_MOST,
            GROWTH_BOUND,
            note="these data sets are not there" if value is None else "the room that receivers ask for",
        )


def _cost(pieces: Pieces, name: str, way: str) -> ExchangeCost | None:
    """What an exchange took; None where the data set is not there."""
    costs = pieces[name].costs if name in pieces else {}
    if way not in costs:
        return None
    return ExchangeCost(tuple(costs[way]["seconds"]), tuple(costs[way]["sent"]), costs[way]["peak"])


PART = BenchPart(_pieces, _figures)
