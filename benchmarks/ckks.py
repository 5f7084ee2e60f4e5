"""Sums under CKKS: one hop's terms of a client, packed as sketch and dense, against one TenSEAL vector a row."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.ckks_rows import RowVectors
from benchmarks.pieces import COPY, BenchPart, Piece, measure_copy
from benchmarks.timing import BoundedFigure, BoundSide, Timing, measure
from fgl_secure.coins import SystemCoins
from fgl_secure.crypto.ckks import ReceiverKey, RunningSums
from fgl_secure.crypto.ckks_parameters import Parameters, limit
from fgl_secure.methods.fedstruct.sketched_terms import LinearSketch
from fgl_secure.protocols.ckks import Ckks
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Channel, Directory, Role, Step
from fgl_secure.typing import Integers

SHAPE = (271, 2708)
"""Nodes of one of ten clients of Cora, and all nodes."""
TERMS, KEPT = 10, 3
"""Clients that send a term, and entries of it for each row: ceil(p / K) for p = 30, as FedStruct's pruning keeps."""
VALUE_BITS = 16
"""Of one entry, in fixed point."""
SAMPLED_ROWS = 8
"""Of the matrix that the row-wise baseline sums; its time and bytes are proportional to rows."""
TIME_BOUND, BYTES_BOUND = 10.0, 10.0


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to add up the terms, measured.

    Attributes:
        timing: of one sum, all parties' work, the receiver's key included.
        sent: bytes of one sum, keys included.
        peak: bytes of arrays and messages held at most during one sum, all parties together and beside the terms;
            SEAL's own buffers, a few ciphertexts, are not among them.
    """

    timing: Timing
    sent: int
    peak: int


def _pieces() -> dict[str, Callable[[], Piece]]:
    """Single ciphertexts, then whole sums."""
    return {COPY: measure_copy(), "single ciphertexts": lambda: Piece(tuple(_single_ciphertexts())), "sums": _sums}


def _sums() -> Piece:
    terms = _terms()
    ways = {"sketch": _sketch(terms), "dense": _dense(terms), "rows": _rows(terms), "plain": _plain(terms)}
    return Piece(tuple(map(_label_timing, ways.values())), tuple(_figures(ways["sketch"], ways["dense"], ways["rows"])))


def _terms() -> Integers:
    """int64 [clients, rows, columns], with KEPT positive entries in each row."""
    draw = np.random.default_rng(0)
    terms = np.zeros((TERMS, *SHAPE), dtype=np.int64)
    for term in terms:
        columns = draw.integers(0, SHAPE[1], (SHAPE[0], KEPT))
        np.put_along_axis(term, columns, draw.integers(1, 2**VALUE_BITS, columns.shape), axis=1)
    return terms


def _sketch(terms: Integers) -> _Way:
    plan = LinearSketch.for_entries(SHAPE, TERMS * KEPT * SHAPE[0], seed=1, split=False)
    bound = limit(TERMS) // TERMS

    def work() -> int:
        places = [np.nonzero(term) for term in terms]
        tables = np.stack([
            plan.encode(rows, columns, term[rows, columns]) for term, (rows, columns) in zip(terms, places, strict=True)
        ])  # fmt: skip
        total, sent = _under_ckks(tables, bound)
        rows, columns, values = plan.decode(total)
        _check(values, terms.sum(axis=0)[rows, columns])
        return sent

    return _measure_scheme(work, f"a sketch of {plan.length:,} integers")


def _dense(terms: Integers) -> _Way:
    def work() -> int:
        total, sent = _under_ckks(terms.reshape(TERMS, -1), 2**VALUE_BITS)
        _check(total, terms.sum(axis=0).reshape(-1))
        return sent

    return _measure_scheme(work, "dense, packed")


def _rows(terms: Integers) -> _Way:
    """One TenSEAL vector a row, measured on a few rows and multiplied."""
    sampled, rows = terms[:, :SAMPLED_ROWS].astype(np.float64), RowVectors()

    def work() -> int:
        sent = 0
        for index in range(SAMPLED_ROWS):
            made = [rows.encrypt(term[index].tolist()) for term in sampled]
            total = rows.add(made)
            rows.decrypt(total)
            sent += sum(map(len, made)) + len(total)
        return sent

    way, factor = _measure_scheme(work, f"one TenSEAL vector a row, from {SAMPLED_ROWS} rows"), SHAPE[0] / SAMPLED_ROWS
    timing = replace(
        way.timing,
        median=way.timing.median * factor,
        least=way.timing.least * factor,
        most=way.timing.most * factor,
        lower=way.timing.lower * factor,
        upper=way.timing.upper * factor,
        counted=f"all rows but {SAMPLED_ROWS}",
    )
    return _Way(timing, int(way.sent * factor) + (TERMS + 1) * rows.context_bytes, way.peak)


def _plain(terms: Integers) -> _Way:
    def work() -> int:
        return int(terms.sum(axis=0).nbytes) + terms.nbytes

    return _measure_scheme(work, "integers in the clear")


def _under_ckks(vectors: Integers, bound: int) -> tuple[Integers, int]:
    """The sum of vectors [TERMS, length] and the bytes it took: a new channel each time, so the key is paid for."""
    parties = Directory.hierarchy(TERMS + 1, 1)
    channel, clients = Channel(parties, SystemCoins()), parties.ids(Role.SILO)
    topology = Topology.to_client(parties, clients[1:], int(clients[0]), vectors.shape[1], bound)
    total = Collective(Ckks(), topology, channel).sum(vectors, Step(0))[0]
    return total, sum(batch.bytes for batch in channel.transcript.messages)


def _check(result: Integers, expected: Integers) -> None:
    assert (result == expected).all()


def _measure_scheme(work: Callable[[], int], name: str) -> _Way:
    label = f"sum of {TERMS} terms of {SHAPE[0]} x {SHAPE[1]}: {name}"
    sent: list[int] = []
    timing = measure(lambda: sent.append(work()), label, repeats=2)
    return _Way(timing, sent[-1], _peak(work))


def _peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _label_timing(way: _Way) -> Timing:
    """The timing with bytes and memory in its name."""
    told = f"{way.sent / 1e6:.1f} MB sent, {way.peak / 1e6:.1f} MB held at most"
    return replace(way.timing, name=f"{way.timing.name}: {told}")


def _add_ciphertexts(key: ReceiverKey, ciphertexts: list[bytes]) -> list[bytes]:
    sums = RunningSums(key.public, 1)
    for data in ciphertexts:
        sums.add([data])
    return sums.to_bytes()


def _single_ciphertexts() -> Iterator[Timing]:
    parameters = Parameters.for_sums(TERMS, 2**VALUE_BITS)
    key = ReceiverKey.generate(parameters)
    vector = np.arange(parameters.entries) % 2**VALUE_BITS
    made = key.public.encrypt(vector) * TERMS
    count, label = parameters.entries, f"ciphertext of {parameters.entries:,} entries"
    yield measure(lambda: key.public.encrypt(vector), f"encrypt a {label}", repeats=15, items=count)
    yield measure(lambda: _add_ciphertexts(key, made), f"add {TERMS} such ciphertexts", repeats=9, items=TERMS * count)
    yield measure(lambda: key.decrypt(made[:1], count), "decrypt such a ciphertext", repeats=9, items=count)
    rows, row = RowVectors(), [1.0] * SHAPE[1]
    theirs = [rows.encrypt(row)] * TERMS
    yield measure(lambda: rows.encrypt(row), f"encrypt a TenSEAL vector of {SHAPE[1]:,}", repeats=9, items=SHAPE[1])
    yield measure(lambda: rows.add(theirs), f"add {TERMS} TenSEAL vectors", repeats=9, items=TERMS * SHAPE[1])
    yield measure(lambda: rows.decrypt(theirs[0]), "decrypt a TenSEAL vector", repeats=9, items=SHAPE[1])


def _figures(sketch: _Way, dense: _Way, rows: _Way) -> Iterator[BoundedFigure]:
    from_sample = f"extrapolated from {SAMPLED_ROWS} of {SHAPE[0]} rows"
    for name, way in (("sketch", sketch), ("dense packing", dense)):
        yield BoundedFigure(f"{name}: bytes of one TenSEAL vector a row over ours", rows.sent / way.sent,
                     BoundSide.AT_LEAST, BYTES_BOUND, basis=f"{from_sample}; keys included")  # fmt: skip
    yield BoundedFigure("sketch: time of one TenSEAL vector a row over ours", rows.timing.median / sketch.timing.median,
                 BoundSide.AT_LEAST, TIME_BOUND,
                 basis=f"{from_sample}; all parties' work, one after the other")  # fmt: skip
    yield BoundedFigure("dense packing: time over the sketch's", dense.timing.median / sketch.timing.median,
                 BoundSide.AT_LEAST, 1, "a sketch of full rows is longer than the rows")  # fmt: skip


PART = BenchPart(_pieces)
