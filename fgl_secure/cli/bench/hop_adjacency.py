"""FedStruct's exchange of adjacency powers: time, bytes and memory of a hop under each way to add terms up."""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from fgl_secure.cli.bench.timing import Figure, Report, Side, Timing, copy_timing
from fgl_secure.coins import SystemCoins
from fgl_secure.crypto.ckks_rows import SLOTS, RowVectors
from fgl_secure.errors import DataNotFoundError
from fgl_secure.graph import load, partition
from fgl_secure.graph.adjacency_powers import looped_adjacency
from fgl_secure.protocols.ckks import Ckks
from fgl_secure.protocols.hop_adjacency import Holdings, HopSettings, Pruning, acquire_powers
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.term_sums import ClearTerms, PackedTerms, Terms, TermSums
from fgl_secure.runtime import Channel, Directory, Step

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
TIME_BOUND, BYTES_BOUND, GROWTH_BOUND = 10.0, 10.0, 1.3


@dataclass(frozen=True, slots=True)
class Cost:
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


def run() -> Report:
    """Measures every data set that is there; others are left out, and named where a figure wants them."""
    copy = copy_timing(2**26)
    timings: list[Timing] = [copy]
    costs: dict[tuple[str, str], Cost] = {}
    rows: dict[str, Cost] = {}
    for name in DATASETS:
        try:
            held = _held(name)
        except DataNotFoundError:
            continue
        for way, (make, hops) in _ways(held, HOPS.get(name, 3)).items():
            costs[name, way] = _measured(held, make(), hops)
            timings.append(_timing(f"{name}, {way}", costs[name, way]))
        rows[name] = _row_by_row(held)
        timings.append(_timing(f"{name}, one TenSEAL vector a row, from {SAMPLED_ROWS} rows", rows[name]))
    return Report(copy.moved / copy.median, tuple(timings), tuple(_figures(costs, rows)))


def _held(name: str) -> Holdings:
    graph = load(name)
    return Holdings(partition("random", graph, CLIENTS, 0), looped_adjacency(graph))


def _ways(held: Holdings, hops: int) -> Mapping[str, tuple[Callable[[], TermSums], int]]:
    largest, most = int(held.looped.sum(axis=1).max()), SETTINGS.most_a_row(CLIENTS)
    ways: dict[str, tuple[Callable[[], TermSums], int]] = {
        "ckks, sketches": (lambda: PackedTerms(Ckks(), largest, most_a_row=most), hops),
        "pairwise masking, sketches": (lambda: PackedTerms(PairwiseMasking(), largest, most_a_row=most), hops),
        "in the clear": (ClearTerms, hops),
    }
    if held.looped.shape[0] <= DENSE_NODES:
        ways["ckks, dense"] = (lambda: PackedTerms(Ckks(), largest, dense=True), DENSE_HOPS)
    return ways


DENSE_NODES = 5000
"""Largest graph for which dense vectors are run: they grow with the square."""


def _measured(held: Holdings, sums: TermSums, hops: int) -> Cost:
    """Runs hops 2 to `hops`, pruned as the paper does."""
    channel = Channel(Directory.hierarchy(held.clients, len(held.client_of)), SystemCoins())
    marks = [(time.perf_counter(), 0)]

    tracemalloc.start()
    try:
        acquire_powers(channel, _Watched(sums, held.clients - 1, marks), held, replace(SETTINGS, hops=hops))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    times, sent = zip(*marks, strict=True)
    return Cost(tuple(np.diff(times).tolist()), tuple(np.diff(sent).tolist()), peak)


@dataclass(frozen=True, slots=True, eq=False)
class _Watched(TermSums):
    """Marks when the last client of a hop has its sum, and what was sent until then."""

    inner: TermSums
    last: int
    marks: list[tuple[float, int]]

    def sum(self, channel: Channel, receiver: int, terms: Terms, step: Step) -> sparse.csr_array:
        total = self.inner.sum(channel, receiver, terms, step)
        if receiver == self.last:
            self.marks.append((time.perf_counter(), channel.transcript.byte_count))
        return total


def _row_by_row(held: Holdings) -> Cost:
    """One hop as a first user would write it: every client encrypts its term row by row, empty rows included."""
    n = len(held.client_of)
    rows, values = RowVectors(), sparse.csr_array(held.looped)[:SAMPLED_ROWS].toarray()
    start, sent = time.perf_counter(), 0
    for row in values:
        for part in np.split(row, range(SLOTS, n, SLOTS)):  # of which TenSEAL would warn if they were one vector
            terms = [rows.encrypt(part.tolist()) for _ in range(CLIENTS - 1)]
            total = rows.add(terms)
            rows.decrypt(total)
            sent += sum(map(len, terms)) + len(total)
    factor = n / SAMPLED_ROWS
    contexts = CLIENTS * CLIENTS * rows.context_bytes
    return Cost(((time.perf_counter() - start) * factor,), (int(sent * factor) + contexts,), 0)


def _timing(name: str, cost: Cost) -> Timing:
    """The last hop stands for all: the first are cheaper, because rows are not full yet."""
    held = f", {cost.peak / 1e6:,.0f} MB held" if cost.peak else ""
    label = f"hop of {name}: {cost.sent[-1] / 1e6:,.1f} MB{held}"
    return Timing(label, "cpu", cost.last, min(cost.seconds), max(cost.seconds), len(cost.seconds))


def _figures(costs: Mapping[tuple[str, str], Cost], rows: Mapping[str, Cost]) -> Iterator[Figure]:
    for name in DATASETS:
        if (name, "ckks, sketches") in costs:
            packed, naive = costs[name, "ckks, sketches"], rows[name]
            per_hop = sum(packed.seconds) / len(packed.seconds), sum(packed.sent) / len(packed.sent)
            yield Figure(f"{name}: seconds of one TenSEAL vector a row over sketches, mean of hops",
                         naive.last / per_hop[0], Side.AT_LEAST, TIME_BOUND)  # fmt: skip
            yield Figure(f"{name}: bytes of one TenSEAL vector a row over sketches, mean of hops",
                         naive.sent[0] / per_hop[1], Side.AT_LEAST, BYTES_BOUND)  # fmt: skip
    for quantity, of in (("seconds", lambda cost: cost.last), ("bytes", lambda cost: float(cost.sent[-1]))):
        yield Figure(
            f"exponent of growth in n of a full hop's {quantity}, {GROWTH[0]} to {GROWTH[1]}",
            _exponent([costs.get((name, "ckks, sketches")) for name in GROWTH], of),
            Side.AT_MOST,
            GROWTH_BOUND,
            note="the room that receivers ask for"
            if all((name, "ckks, sketches") in costs for name in GROWTH)
            else "these data sets are not there",
        )


def _exponent(costs: Sequence[Cost | None], of: Callable[[Cost], float]) -> float | None:
    few, many = costs
    if few is None or many is None:
        return None
    nodes = [load(name).num_nodes for name in GROWTH]
    return math.log(of(many) / of(few)) / math.log(nodes[1] / nodes[0])
