"""Says so where one client's numbers are so large that those of the others keep next to nothing."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence, Set

from fgl_secure.aggregation.encoding import Code
from fgl_secure.aggregation.layout import Entry, Tree
from fgl_secure.errors import PrecisionWarning

LEAST_BITS = 8
"""A client's largest number must keep so many bits."""
FINE_BITS = 24
"""Numbers that are rounded as finely as this, as float32 rounds those about 1, are fine whatever is smaller."""


def warn_of_lost_precision(code: Code, mappings: Mapping[int, Tree], gone: Set[int] = frozenset()) -> None:
    """Warns where a range that was found leaves a client's numbers under `LEAST_BITS` bits.

    One warning a round, of the tensor with the largest range, with the size of it and of the client's numbers that it
    is as large as, as powers of two.

    Args:
        code: how mappings are written.
        mappings: of the clients that this process runs, by number; each is read on its own.
        gone: clients among them whose numbers are not in the mean.
    """
    wide = [entry for entry in code.layout.floats if code.units[entry.name] > 2.0**-FINE_BITS]
    if not wide:
        return
    found = {client: _sizes(code, mappings[client], wide) for client in mappings if client not in gone}
    for entry in sorted(wide, key=lambda each: -code.bounds[each.name]):
        sizes = {client: largest[entry.name] for client, largest in found.items()}
        least = math.ldexp(code.units[entry.name], LEAST_BITS)
        lost = [client for client, size in sizes.items() if 0 < size < least]
        if lost:
            warnings.warn(_words(entry, code, sizes, lost), PrecisionWarning, stacklevel=4)
            return


def _sizes(code: Code, mapping: Tree, entries: Sequence[Entry]) -> dict[str, float]:
    """The largest magnitude of some tensors of a client, by name."""
    held = code.layout.arrays(mapping)
    return {entry.name: held.largest(entry.name) for entry in entries}


def _words(entry: Entry, code: Code, sizes: Mapping[int, float], lost: list[int]) -> str:
    largest = max(sizes, key=lambda client: sizes[client])
    whose = f"the largest, of client {largest}, reach 2^{math.ceil(math.log2(sizes[largest]))}: leave that client out, "
    range_bits, unit_bits = (math.log2(size[entry.name]) for size in (code.bounds, code.units))
    return (
        f"range of {entry.name!r} must leave every client's numbers {LEAST_BITS} bits; it is "
        f"2^{range_bits:.0f}, numbers are rounded to 2^{unit_bits:.0f}, and "
        f"those of {len(lost)} of {len(sizes)} clients here are smaller; {'' if largest in lost else whose}give bound= "
        f"and clip=True, or call forget_ranges once all numbers are small again"
    )
