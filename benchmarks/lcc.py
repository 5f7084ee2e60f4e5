"""Lagrange coded computing: the figures with a bound, and growth with N, K, T and the degree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.pieces import BenchPart, Piece
from benchmarks.timing import (
    BoundedFigure,
    BoundSide,
    Timing,
    copy_timing,
    galois_field,
    measure,
    on_devices,
    random_elements,
)
from fgl_secure.algebra import LagrangeCode, PrimeField
from fgl_secure.coins import SystemCoins

ROWS, WIDTH = 200_000, 64
COLUMNS = 200_000
"""Coordinates of the wide code's encoding, and of each step of growth."""
GALOIS_COLUMNS = 10_000
"""As many as galois gets of them; its time is proportional to them."""
SHARES, COORDINATES, LIARS = 64, 1_000_000, 5

FIELD = PrimeField()
ELEMENT = FIELD.dtype.itemsize


def _pieces() -> dict[str, Callable[[], Piece]]:
    """The bounded figures, then growth."""
    return {
        "narrow code": _narrow,
        "wide code": _wide,
        "decoding": _decoding,
        "growth": lambda: Piece(tuple(_growth())),
    }


def _narrow() -> Piece:
    """K = 1, T = 1, N = 2 on 200,000 rows of 64 elements."""
    code, coins = LagrangeCode(FIELD, K=1, T=1, N=2), SystemCoins()
    blocks, masks = random_elements(FIELD, (2, 1, ROWS, WIDTH))
    items, moved, products = 2 * ROWS * WIDTH, 4 * ROWS * WIDTH * ELEMENT, 4 * ROWS * WIDTH
    label = f"encode {ROWS:,} x {WIDTH}, K=1 T=1 N=2"
    copy = copy_timing(moved)
    drawn = measure(lambda: code.encode_with_masks(blocks, masks), f"{label}, masks given", repeats=15, items=items,
                    moved=moved, multiply_adds=products)  # fmt: skip
    fresh = measure(lambda: code.encode(blocks, coins), f"{label}, SystemCoins", items=items, moved=moved,
                    multiply_adds=products)  # fmt: skip
    draw = measure(lambda: coins.uniform(FIELD.modulus, masks.shape), f"  of which SystemCoins draw {masks.size:,}",
                   items=masks.size, moved=8 * masks.size)  # fmt: skip
    stack = np.concatenate([blocks, masks]).reshape(2, -1)
    theirs = [*_galois_product(code.encoding_matrix, stack, f"{label}, galois product"), *_galois_terms(code, stack)]
    best = min(theirs, key=lambda timing: timing.median, default=None)
    terms = theirs[-1] if theirs else None
    limit = _limit(drawn, copy)
    drawing = (
        f"limited by one core's key stream and rejection, {draw.items / draw.median / 1e6:.0f} M elements/s: "
        f"{1e3 * draw.median:.1f} of {1e3 * fresh.median:.1f} ms draw masks, and a copy of the bytes that encoding "
        f"reads and writes takes {1e3 * copy.median:.1f} ms"
    )
    figures = [
        _speedup("encode, masks drawn beforehand, against galois's fastest", drawn, best, 20, limit),
        _speedup("encode, masks drawn beforehand, against galois element by element", drawn, terms, 20, limit),
        BoundedFigure("encode, masks drawn beforehand, time against a memory copy of the same bytes",
               drawn.median / copy.median, BoundSide.AT_MOST, 5, limit),
        _speedup("encode, masks from SystemCoins, against galois's fastest", fresh, best, 8, drawing),
        _speedup("encode, masks from SystemCoins, against galois element by element", fresh, terms, 8,
                 drawing),
    ]  # fmt: skip
    gpu = [timing for timing in _encodings(code, blocks, masks, label) if timing.device != "cpu"]
    return Piece((copy, drawn, fresh, draw, *theirs, *gpu), tuple(figures))


def _wide() -> Piece:
    """K + T = 32, N = 64."""
    code = LagrangeCode(FIELD, K=16, T=16, N=64)
    blocks, masks = random_elements(FIELD, (2, 16, COLUMNS))
    label = "encode K=16 T=16 N=64"
    ours = list(_encodings(code, blocks, masks, f"{label}, {COLUMNS:,} columns"))
    stack = np.concatenate([blocks, masks])[:, :GALOIS_COLUMNS]
    theirs = list(_galois_product(code.encoding_matrix, stack, f"{label}, galois, {GALOIS_COLUMNS:,} columns"))
    name, products = "encode K + T = 32, N = 64, against galois a column", ours[0].multiply_adds / ours[0].median
    value = ours[0].items / ours[0].median / (theirs[0].items / theirs[0].median) if theirs else None
    note = f"limited by arithmetic: {products / 1e9:.2f} G multiply-adds/s" if theirs else NO_GALOIS
    return Piece((*ours, *theirs), (BoundedFigure(name, value, BoundSide.AT_LEAST, 40, note),))


def _decoding() -> Piece:
    """64 shares of a million elements, K + T = 32, with and without five liars."""
    code, A = LagrangeCode(FIELD, K=16, T=16, N=SHARES), LIARS
    shares = code.encode_with_masks(*random_elements(FIELD, (2, 16, COORDINATES)))
    wrong = shares.copy()
    for liar in np.linspace(0, SHARES - 1, A).astype(int):
        wrong[liar] = FIELD.add(wrong[liar], 1 + liar)
    moved, label = (SHARES + code.K) * COORDINATES * ELEMENT, f"decode {SHARES} shares of {COORDINATES:,}, K=16 T=16"
    timings = []
    for (device, clean), (_, lied) in zip(on_devices(shares), on_devices(wrong), strict=True):
        for name, held, errors in (("no errors", clean, 0), ("up to 5 errors, none there", clean, A),
                                   (f"{A} liars", lied, A)):  # fmt: skip
            work = _decode(code, held, errors)
            timings.append(measure(work, f"{label}, {name}", device=device, repeats=5, moved=moved))
    ratio = timings[2].median / timings[0].median
    note = "limited by the pass that combines all coordinates"
    return Piece(
        tuple(timings),
        (BoundedFigure("decode with 5 liars, time against no errors", ratio, BoundSide.AT_MOST, 2, note),),
    )


def _growth() -> Iterator[Timing]:
    """Encoding as N, K and T grow, one at a time; decoding as the degree grows."""
    for K, T, N in ((1, 1, 8), (1, 1, 32), (4, 1, 32), (16, 1, 32), (1, 4, 32), (1, 16, 32)):
        code, data = LagrangeCode(FIELD, K=K, T=T, N=N), random_elements(FIELD, (K + T, COLUMNS))
        yield from _encodings(code, data[:K], data[K:], f"encode K={K} T={T} N={N}, {COLUMNS:,} columns")
    for degree in (1, 2, 3):
        code = LagrangeCode(FIELD, K=4, T=2, N=16)
        results = code.zero_shares(SystemCoins(), (COLUMNS,), degree=degree)
        m = code.recovery_threshold(degree)
        for device, held in on_devices(results[:m]):
            work = _decode(code, held, 0, degree)
            label = f"decode K=4 T=2 d={degree}, {m} shares of {COLUMNS:,}"
            yield measure(work, label, device=device, repeats=5, moved=(m + 4) * COLUMNS * ELEMENT,
                          multiply_adds=4 * m * COLUMNS)  # fmt: skip


def _encodings(code: LagrangeCode, blocks: Any, masks: Any, label: str) -> Iterator[Timing]:
    columns = blocks[0].size
    moved, products = (code.K + code.T + code.N) * columns * ELEMENT, (code.K + code.T) * code.N * columns
    for (device, data), (_, hidden) in zip(on_devices(blocks), on_devices(masks), strict=True):
        yield measure(_encode(code, data, hidden), label, device=device, items=code.N * columns, moved=moved,
                      multiply_adds=products)  # fmt: skip


def _encode(code: LagrangeCode, blocks: Any, masks: Any) -> Any:
    return lambda: code.encode_with_masks(blocks, masks)


def _decode(code: LagrangeCode, shares: Any, errors: int, degree: int = 1) -> Any:
    return lambda: code.decode(shares, range(len(shares)), degree=degree, max_errors=errors)


def _galois_product(matrix: Any, stack: Any, name: str) -> Iterator[Timing]:
    GF = galois_field(FIELD.modulus)
    if GF is not None:
        left, right = GF(matrix), GF(stack)
        yield measure(lambda: left @ right, name, repeats=3, items=len(matrix) * stack.shape[1],
                      multiply_adds=matrix.size * stack.shape[1])  # fmt: skip


def _galois_terms(code: LagrangeCode, stack: Any) -> Iterator[Timing]:
    """A user's loop over workers: weight times block plus weight times mask, on galois arrays."""
    GF = galois_field(FIELD.modulus)
    if GF is not None:
        weights, (block, mask) = GF(code.encoding_matrix), GF(stack)
        yield measure(lambda: [u * block + v * mask for u, v in weights], "  the same, galois element by element",
                      repeats=3, items=2 * stack.shape[1], multiply_adds=4 * stack.shape[1])  # fmt: skip


NO_GALOIS = "galois is not installed"


def _speedup(name: str, ours: Timing, theirs: Timing | None, bound: float, note: str) -> BoundedFigure:
    value = None if theirs is None else theirs.median / ours.median
    return BoundedFigure(name, value, BoundSide.AT_LEAST, bound, NO_GALOIS if theirs is None else note)


def _limit(timing: Timing, copy: Timing) -> str:
    return (
        f"limited by memory: {timing.moved / timing.median / 1e9:.1f} GB/s read and written where a copy of the same "
        f"bytes runs at {copy.moved / copy.median / 1e9:.1f} GB/s and takes {1e3 * copy.median:.1f} ms; "
        f"{timing.multiply_adds / timing.median / 1e9:.2f} G multiply-adds/s"
    )


PART = BenchPart(_pieces)
