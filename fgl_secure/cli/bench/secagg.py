"""Secure sums over 10 to 200 clients: rounds, bytes and drop-outs, and mask expansion against Flower's SecAgg+."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numba
import numpy as np

from fgl_secure.algebra import MERSENNE_31, MERSENNE_61
from fgl_secure.cli.bench.pieces import COPY, Part, Piece, Pieces, copied
from fgl_secure.cli.bench.secagg_round import Round, timed_round
from fgl_secure.cli.bench.timing import Figure, Side, Timing, measure
from fgl_secure.crypto.prg import add_masks
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.schemes import names, server_scheme

CLIENTS: tuple[int, ...] = (10, 50, 100, 200)
LENGTH, BOUND = 10**6, 2**27
"""A million parameters of magnitude up to 8 with 24 bits behind the binary point."""
IN_FULL: Mapping[str, int] = {"plaintext": 200, "pairwise-masking": 100, "lightsecagg": 10, "ckks-shared-key": 10}
"""Up to so many clients a round is run at its full length; beyond, at two shorter ones."""
REPEATS: Mapping[str, int] = {"plaintext": 3}
"""Rounds of which the median counts, where others are held against it."""
SHARES_OF_LENGTH = (50, 10)
"""Into how many parts the length is cut where it is not run in full: two points of a line."""
GONE: Mapping[int, str] = {0: "", 1: ", 10 % drop out", 3: ", 30 % drop out"}
"""Tenths of the clients that vanish after they have shared their keys."""
MASKS = 10
"""Of nine neighbours, and a client's own."""
MASKS_BOUND, ROUND_BOUND = 5.0, 6.0
ROUND_CLIENTS = 100
"""Of the round that is held against the plain sum; one of CLIENTS."""
FLOWER_RANGE = 2**32
"""Flower's default modulus of masked parameters."""


def _pieces() -> dict[str, Callable[[], Piece]]:
    """Masks, then rounds of every scheme."""
    rounds = {f"{name}, {n} clients": partial(_rounds, name, n) for name in names("server") for n in CLIENTS}
    return {COPY: copied(), "masks": _masks, **rounds}


def _rounds(name: str, clients: int) -> Piece:
    """A round for each share of clients that drop out, on one core: processor time is then the time on it."""
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        timed_round(server_scheme(name), min(CLIENTS), 1, BOUND)  # compiles what is compiled at the first call
        found = {gone: _round(name, clients, gone) for gone in GONE}
    finally:
        numba.set_num_threads(threads)
    told = tuple(line for gone, each in found.items() for line in _lines(name, clients, gone, each))
    return Piece(told, costs=asdict(found[0]))


def _round(name: str, clients: int, gone: int) -> Round:
    scheme = server_scheme(name)
    if clients <= IN_FULL[name]:
        tries = [timed_round(scheme, clients, LENGTH, BOUND, gone) for _ in range(REPEATS.get(name, 1))]
        return sorted(tries, key=lambda found: found.seconds)[len(tries) // 2]
    short, long = (LENGTH // parts for parts in SHARES_OF_LENGTH)
    few, many = (timed_round(scheme, clients, length, BOUND, gone) for length in (short, long))
    return many.at(LENGTH, few, (short, long))


def _lines(name: str, clients: int, gone: int, found: Round) -> Iterator[Timing]:
    moved = f"{found.up / 1e6:.2f} MB up, {found.down / 1e6:.2f} MB down a client"
    part = "" if clients <= IN_FULL[name] else f", from {LENGTH // SHARES_OF_LENGTH[1]:,} parameters"
    yield _once(f"{name}, {clients} clients{GONE[gone]}: {moved}{part}; one core", found.seconds)
    if not gone and found.agreed > 0:
        yield _once("  of which keys and shares", found.agreement)


def _once(name: str, seconds: float) -> Timing:
    return Timing(name, "cpu", seconds, seconds, seconds, 1)


def _masks() -> Piece:
    keys = [os.urandom(32) for _ in range(MASKS)]
    flower, whose, items = _flower(), f"{MASKS} masks of {LENGTH:,}", MASKS * LENGTH
    ours = f"{whose} from 256-bit seeds, expanded and added modulo"
    wide = measure(_ours(keys, MERSENNE_61), f"{ours} 2^61 - 1", items=items)
    narrow = measure(_ours(keys, MERSENNE_31), f"{ours} 2^31 - 1", items=items)
    if flower is None:
        return Piece((wide, narrow), tuple(_mask_figures(wide, narrow, None)))
    theirs = f"{whose} from 32-bit seeds, {flower.name}, expanded"
    added = measure(flower.added(keys), f"{theirs} and added modulo 2^32", items=items)
    alone = measure(flower.expanded(keys), f"{theirs} alone", items=items)
    return Piece((wide, narrow, added, alone), tuple(_mask_figures(wide, narrow, added)))


def _ours(keys: list[bytes], modulus: int) -> Callable[[], object]:
    total, signs = np.zeros(LENGTH, dtype=np.int64), [1 if i % 2 else -1 for i in range(len(keys))]
    return lambda: add_masks(total, keys, signs, modulus)


@dataclass(frozen=True, slots=True)
class _Flower:
    """Flower's functions for masks, called as its SecAgg+ client calls them; seeds are folded to 32 bits there."""

    name: str
    expand: Callable[..., Any]
    add: Callable[..., Any]
    subtract: Callable[..., Any]

    def expanded(self, keys: list[bytes]) -> Callable[[], object]:
        return lambda: [self.expand(key, FLOWER_RANGE, [(LENGTH,)]) for key in keys]

    def added(self, keys: list[bytes]) -> Callable[[], object]:
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


def _mask_figures(wide: Timing, narrow: Timing, flower: Timing | None) -> Iterator[Figure]:
    for ours, field, more in (
        (narrow, "modulo 2^31 - 1", ""),
        (wide, "modulo 2^61 - 1, the default, twice as many bits as Flower's", ", 8 bytes an element"),
    ):
        value = None if flower is None else flower.median / ours.median
        note = "Flower is not installed"
        if flower is not None:
            size = 8 if more else 4
            rate = size * ours.items / ours.median / 1e9
            note = f"limited by the key stream of AES-256 on one core: {rate:.1f} GB/s with all that follows it{more}"
        yield Figure(f"masks: time of Flower's SecAgg+ over ours {field}", value, Side.AT_LEAST, MASKS_BOUND, note)


def _round_figures(found: Pieces) -> Iterator[Figure]:
    n = ROUND_CLIENTS
    secured, plain = (Round(**found[f"{name}, {n} clients"].costs) for name in ("pairwise-masking", "plaintext"))
    name = f"round of pairwise masking for {n} clients over plain sum plus key agreement"
    value = secured.seconds / (plain.seconds + secured.agreement)
    note = _limit(n, secured, found["masks"].timings[0], found[COPY].timings[0])
    yield Figure(name, value, Side.AT_MOST, ROUND_BOUND, note)


def _limit(clients: int, secured: Round, masks: Timing, copy: Timing) -> str:
    """What a round of pairwise masking spends most of its time on."""
    each, per_mask = PairwiseMasking().degree_for(clients) + 1, masks.median / MASKS
    share = clients * each * per_mask / secured.seconds
    return (
        f"limited by {each} masks a client, of {each - 1} neighbours and its own: {share:.0%} of the round are key "
        f"streams and their addition, {8 * LENGTH / per_mask / 1e9:.1f} GB/s, where a memory copy runs at "
        f"{copy.moved / copy.median / 1e9:.1f} GB/s"
    )


PART = Part(_pieces, _round_figures)
