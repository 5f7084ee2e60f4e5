"""Secure sums over 10 to 10,000 clients: rounds, bytes and drop-outs, and mask expansion against Flower's SecAgg+."""

from __future__ import annotations

import os
import time
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from benchmarks.pieces import COPY, BenchPart, Piece, Pieces, measure_copy
from benchmarks.secagg_round import Round, round_alone, timed_round
from benchmarks.timing import BoundedFigure, BoundSide, Timing, measure
from fgl_secure.algebra import MERSENNE_31, MERSENNE_61
from fgl_secure.crypto.streams import add_masks
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.schemes import names, server_scheme
from fgl_secure.threads import at_most, most

CLIENTS: tuple[int, ...] = (10, 50, 100, 200)
LENGTH, BOUND = 10**6, 2**27
"""A million parameters of magnitude up to 8 with 24 bits behind the binary point."""
IN_FULL: Mapping[str, int] = {"plaintext": 200, "pairwise-masking": 100, "lightsecagg": 100, "ckks-shared-key": 100}
"""Up to so many clients a round is run at its full length; beyond, at two shorter ones, and its row says so."""
REPEATS: Mapping[str, int] = {"plaintext": 3}
"""Rounds of which the median counts, where others are held against it."""
SHARES_OF_LENGTH = (50, 10)
"""Into how many parts the length is cut where it is not run in full: two points of a line."""
GONE: Mapping[int, str] = {0: "", 1: ", 10 % drop out", 3: ", 30 % drop out"}
"""Tenths of the clients that vanish after they have shared their keys."""
MASKS = 10
"""Of nine neighbours, and a client's own."""
MASKS_BOUND, ROUND_BOUND, STREAMS_BOUND = 5.0, 6.0, 4.0
STREAM_PIECE = 2**16
"""Bytes of a key stream made at a time where nothing is done with them."""
MANY: tuple[tuple[str, int, int], ...] = (
    ("pairwise-masking[dropout=0.2]", 1000, 100_000),
    ("pairwise-masking[x25519,dropout=0.2]", 10_000, 10_000),
)
"""Rounds of many clients: scheme, clients, parameters."""
MANY_SECONDS, SERVER_SECONDS, MANY_GIB = 90.0, 5.0, 2.0
""".. which the first should take, all parties and the server alone, and the memory that the last may."""
ROUND_CLIENTS = 100
"""Of the round that is held against the plain sum; one of CLIENTS."""
_POWERS: Mapping[int, str] = {MERSENNE_61: "2^61 - 1", MERSENNE_31: "2^31 - 1"}
FLOWER_RANGE = 2**32
"""Flower's default modulus of masked parameters."""


def _pieces() -> dict[str, Callable[[], Piece]]:
    """Masks, then rounds of every scheme."""
    rounds = {f"{name}, {n} clients": partial(_rounds, name, n) for name in names("server") for n in CLIENTS}
    many = {_many_name(*item): partial(_many, *item) for item in MANY}
    return {COPY: measure_copy(), "masks": _masks, **many, **rounds}


def _cores() -> int:
    """Those that loops over masks may take."""
    return most()


def _many_name(name: str, clients: int, length: int) -> str:
    return f"{name}, {clients:,} clients of {length:,} parameters"


def _many(name: str, clients: int, length: int) -> Piece:
    """A round on all cores, in a process of its own."""
    result, what = round_alone(name, clients, length, BOUND), _many_name(name, clients, length)
    moved = f"{result.up / 1e6:.2f} MB up, {result.down / 1e6:.2f} MB down a client, {result.peak / 2**30:.2f} GiB held"
    neighbours = typing.cast("PairwiseMasking", server_scheme(name)).degree_for(clients)
    told = (
        _once(f"{what}, {neighbours} neighbours: {moved}; by the clock, cores: {_cores()}", result.wall),
        _once("  processor time of all parties", result.seconds),
        _once("  of which keys and shares", result.agreement),
        _once("  of which the server's", result.server),
    )
    return Piece(told, costs=asdict(result))


def _rounds(name: str, clients: int) -> Piece:
    """A round for each share of clients that drop out, on one core: processor time is then the time on it."""
    with at_most(1):
        timed_round(server_scheme(name), min(CLIENTS), 1, BOUND)  # compiles what is compiled at the first call
        rounds = {gone: _round(name, clients, gone) for gone in GONE}
    told = tuple(line for gone, item in rounds.items() for line in _lines(name, clients, gone, item))
    return Piece(told, costs=asdict(rounds[0]))


def _round(name: str, clients: int, gone: int) -> Round:
    scheme = server_scheme(name)
    if clients <= IN_FULL[name]:
        tries = [timed_round(scheme, clients, LENGTH, BOUND, gone) for _ in range(REPEATS.get(name, 1))]
        return sorted(tries, key=lambda result: result.seconds)[len(tries) // 2]
    short, long = (LENGTH // parts for parts in SHARES_OF_LENGTH)
    few, many = (timed_round(scheme, clients, length, BOUND, gone) for length in (short, long))
    return many.at(LENGTH, few, (short, long))


def _lines(name: str, clients: int, gone: int, found: Round) -> Iterator[Timing]:
    moved = f"{found.up / 1e6:.2f} MB up, {found.down / 1e6:.2f} MB down a client"
    short, long = (LENGTH // parts for parts in SHARES_OF_LENGTH)
    part = "" if clients <= IN_FULL[name] else f", EXTRAPOLATED from rounds of {short:,} and {long:,} parameters"
    yield _once(f"{name}, {clients} clients{GONE[gone]}: {moved}{part}; one core", found.seconds)
    if not gone and found.agreed > 0:
        yield _once("  of which keys and shares", found.agreement)


def _once(name: str, seconds: float) -> Timing:
    return Timing(name, "cpu", seconds, seconds, seconds, 1)


def _masks() -> Piece:
    keys, cores = [os.urandom(32) for _ in range(MASKS)], _cores()
    flower, whose, items = _flower(), f"{MASKS} masks of {LENGTH:,}", MASKS * LENGTH
    alone = measure(
        _streams(keys),
        f"{whose}, their key streams alone, 8 bytes an element, processor time",
        items=items,
        clock=time.process_time,  # as rounds are timed that are held against it
    )
    ours = {
        (modulus, threads): measure(
            _ours(keys, modulus, threads),
            f"{whose} from 256-bit seeds, expanded and added modulo {_POWERS[modulus]}, cores: {threads}",
            items=items,
        )
        for modulus in _POWERS
        for threads in sorted({1, cores})
    }
    masks = [*ours.values()]
    if flower is None:
        return Piece((alone, *masks), tuple(_mask_figures(ours, None)))
    theirs = f"{whose} from 32-bit seeds, {flower.name}, expanded"
    added = measure(flower.add_masks(keys), f"{theirs} and added modulo 2^32", items=items)
    expanded = measure(flower.expand_masks(keys), f"{theirs} alone", items=items)
    return Piece((alone, *masks, added, expanded), tuple(_mask_figures(ours, added)))


def _ours(keys: list[bytes], modulus: int, threads: int) -> Callable[[], object]:
    total, signs = np.zeros(LENGTH, dtype=np.int64), [1 if i % 2 else -1 for i in range(len(keys))]

    def work() -> None:
        with at_most(threads):
            add_masks(total, keys, signs, modulus)

    return work


def _streams(keys: list[bytes]) -> Callable[[], object]:
    """Nothing but AES-256 in counter mode, into a buffer that stays in cache."""
    zeros, buffer = bytes(STREAM_PIECE), bytearray(STREAM_PIECE + 16)

    def work() -> None:
        for key in keys:
            cipher = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
            for _ in range(8 * LENGTH // STREAM_PIECE):
                cipher.update_into(zeros, buffer)

    return work


@dataclass(frozen=True, slots=True)
class _Flower:
    """Flower's functions for masks, called as its SecAgg+ client calls them; seeds are folded to 32 bits there."""

    name: str
    expand: Callable[..., Any]
    add: Callable[..., Any]
    subtract: Callable[..., Any]

    def expand_masks(self, keys: list[bytes]) -> Callable[[], object]:
        return lambda: [self.expand(key, FLOWER_RANGE, [(LENGTH,)]) for key in keys]

    def add_masks(self, keys: list[bytes]) -> Callable[[], object]:
        def work() -> object:
            total = [np.zeros(LENGTH, dtype=np.int64)]
            for i, key in enumerate(keys):
                mask = self.expand(key, FLOWER_RANGE, [(LENGTH,)])
                total = (self.add if i % 2 else self.subtract)(total, mask)
            return [part % FLOWER_RANGE for part in total]

        return work


def _flower() -> _Flower | None:
    if find_spec("flwr") is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies' deprecations are not ours
        masks = import_module("flwr.common.secure_aggregation.secaggplus_utils")
        sums = import_module("flwr.common.secure_aggregation.ndarrays_arithmetic")
    name = f"Flower {version('flwr')} SecAgg+"
    return _Flower(name, masks.pseudo_rand_gen, sums.parameters_addition, sums.parameters_subtraction)


def _mask_figures(ours: Mapping[tuple[int, int], Timing], flower: Timing | None) -> Iterator[BoundedFigure]:
    cores = max(threads for _, threads in ours)
    for modulus, size in ((MERSENNE_31, 4), (MERSENNE_61, 8)):
        mine, default = ours[modulus, cores], ", the default, twice as many bits as Flower's" * (size == 8)
        name = f"masks: time of Flower's SecAgg+ over ours modulo {_POWERS[modulus]}{default}, cores: {cores}"
        value, note = None, "Flower is not installed"
        if flower is not None:
            rate, value = size * mine.items / mine.median / 1e9, flower.median / mine.median
            one = flower.median / ours[modulus, 1].median
            note = (
                f"limited by the key stream of AES-256: {rate:.1f} GB/s with all that follows it; {one:.2f} on one core"
            )
        yield BoundedFigure(name, value, BoundSide.AT_LEAST, MASKS_BOUND, note)


def _round_figures(pieces: Pieces) -> Iterator[BoundedFigure]:
    n = ROUND_CLIENTS
    secured, plain = (Round(**pieces[f"{name}, {n} clients"].costs) for name in ("pairwise-masking", "plaintext"))
    name = f"round of pairwise masking for {n} clients over plain sum plus key agreement"
    value = secured.seconds / (plain.seconds + secured.agreement)
    streams, masks = pieces["masks"].timings[:2]
    note = _limit(n, secured, masks, pieces[COPY].timings[0])
    yield BoundedFigure(name, value, BoundSide.AT_MOST, ROUND_BOUND, note)
    item = PairwiseMasking().degree_for(n) + 1
    alone = (n * item + n) * streams.median / MASKS  # the server takes every party's own mask away
    name = f"round of pairwise masking for {n} clients over its {n * item + n:,} key streams alone, processor time"
    yield BoundedFigure(name, secured.seconds / alone, BoundSide.AT_MOST, STREAMS_BOUND, note)
    yield from _many_figures(pieces)


def _many_figures(pieces: Pieces) -> Iterator[BoundedFigure]:
    first, last = MANY[0], MANY[-1]
    whole, most = (Round(**pieces[_many_name(*item)].costs) for item in (first, last))
    note = f"keys and shares are {whole.agreement / whole.seconds:.0%} of {whole.seconds:.1f} s of processor time"
    yield BoundedFigure(
        f"seconds of {_many_name(*first)}, by the clock", whole.wall, BoundSide.AT_MOST, MANY_SECONDS, note
    )
    name = f"seconds of processor time of the server's among {_many_name(*first)}"
    yield BoundedFigure(
        name, whole.server, BoundSide.AT_MOST, SERVER_SECONDS, "keys and boxes are passed on, and shares opened"
    )
    name = f"GiB of memory for all parties of {_many_name(*last)}"
    held = "what clients and server hold between stages; of clients' vectors one at a time"
    yield BoundedFigure(name, most.peak / 2**30, BoundSide.AT_MOST, MANY_GIB, held)


def _limit(clients: int, secured: Round, masks: Timing, copy: Timing) -> str:
    """What a round of pairwise masking spends most of its time on."""
    item, per_mask = PairwiseMasking().degree_for(clients) + 1, masks.median / MASKS
    share = clients * item * per_mask / secured.seconds
    return (
        f"limited by {item} masks a client, of {item - 1} neighbours and its own: {share:.0%} of the round are key "
        f"streams and their addition, {8 * LENGTH / per_mask / 1e9:.1f} GB/s, where a memory copy runs at "
        f"{copy.moved / copy.median / 1e9:.1f} GB/s"
    )


PART = BenchPart(_pieces, _round_figures)
