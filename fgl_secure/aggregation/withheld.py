"""Entries of a mean to which few clients contribute: a sum of marks tells which they are, and nobody opens them.

An entry of a sum to which one client alone contributed is that client's. So clients first add up marks, 1 for every
entry of their vector that is not 0, and then hand in 0 at the entries that too few have marked. Clients may vanish
between the two sums, `clients` - `threshold` of them at most, or there is no mean: an entry is opened if that many more
than k_min have marked it. The server learns how many clients contribute to each entry, and nothing at all of the values
of those that stay closed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fgl_secure.aggregation.layout import Layout
from fgl_secure.algebra.quantization import Integers
from fgl_secure.errors import MalformedMessageError, ProtocolError

Flags = NDArray[np.bool_]


def marks_of(vector: Integers) -> Integers:
    """1 where a vector int64 [P + 1] is not 0, and 0 elsewhere: int64 [P], without its weight."""
    marks: Integers = (vector[:-1] != 0).astype(np.int64)
    return marks


def opened_entries(total: Integers, clients: int, least: int) -> bytes:
    """Which entries are opened, a bit for each of P, from the sum of the marks int64 [P].

    Args:
        total: of the marks.
        clients: who may have marked an entry.
        least: fewest marks of an entry that is opened.

    Raises:
        ProtocolError: an entry has more marks than there are clients, or fewer than none.
    """
    if total.size and not 0 <= int(total.min()) <= int(total.max()) <= clients:
        raise ProtocolError(
            f"entries must be marked by at most {clients} clients; one is not, so that a client must have handed in "
            "something else"
        )
    return np.packbits(total >= least).tobytes()


def read_entries(data: bytes, size: int) -> Flags:
    """Such bits, bool [size].

    Raises:
        MalformedMessageError: they are of another number of entries.
    """
    if len(data) != -(-size // 8):
        raise MalformedMessageError(f"opened entries must be a bit for each of {size}; found {len(data)} bytes")
    return np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=size).astype(np.bool_)


def only_opened(vector: Integers, opened: bytes | None) -> Integers:
    """A vector int64 [P + 1] with 0 at the entries that stay closed; None opens all."""
    if opened is None:
        return vector
    out: Integers = vector.copy()
    out[:-1][~read_entries(opened, len(vector) - 1)] = 0
    return out


def withheld_entries(layout: Layout, opened: bytes | None) -> Mapping[str, Flags]:
    """For each tensor, in its shape, which entries stay closed; empty where all are opened whoever contributes."""
    if opened is None:
        return {}
    closed = ~read_entries(opened, layout.size)
    return {entry.name: closed[place].reshape(entry.shape) for entry, place in layout.places()}
