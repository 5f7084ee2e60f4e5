"""Warn where rounding leaves the numbers of a client, or the mean, next to no bits.

The parties that have updates compare these with the unit that numbers are rounded to, so no zero of an untrained bias
is taken for a loss. A server has the mean alone, and compares that: its warning follows from public values.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping, Sequence

from fgl_secure.aggregation.encoding import Code
from fgl_secure.aggregation.layout import Entry, Tree
from fgl_secure.aggregation.rules import Rules
from fgl_secure.errors import PrecisionWarning

LEAST_BITS = 8
"""A client's largest number must keep so many bits."""
FINE_BITS = 24
"""Numbers that are rounded as finely as this, as float32 rounds those about 1, need no more bits, unless all numbers of
a tensor are rounded to 0."""


def warn_of_lost_updates(
    rules: Rules,
    code: Code,
    mappings: Mapping[int, Tree],
    clients: Collection[int],
    weight: float,
    mean: Tree | None = None,
) -> None:
    """Warn where the unit leaves a client's numbers under `LEAST_BITS` bits, or all numbers of a tensor none.

    One warning per round, of the tensor with the largest range, with the size of it and of the client's numbers that it
    is as large as, as powers of two. Few bits at a precision are no loss as long as the mean has any.

    Args:
        rules: of the round.
        code: how mappings are written.
        mappings: of the clients that this process runs, by number; each is read on its own.
        clients: those of them that are in the sum.
        weight: the sum of the weights in the mean, or the largest that it can be.
        mean: what came out, where this process runs all clients.
    """
    if rules.privacy is not None or not weight:
        return
    count = rules.clients if mean is None else len(clients)
    errors = _rounding_errors(rules, code, count, weight)
    doubtful = code.layout.floats if mean is None else _doubtful(rules, code, mean, errors, count)
    found = {client: _sizes(code, mappings[client], doubtful) for client in clients} if doubtful else {}
    for entry in sorted(doubtful, key=lambda each: -code.bounds[each.name]):
        sizes = {client: largest[entry.name] for client, largest in found.items()}
        lost = _lost(rules, code, entry, sizes, errors[entry.name])
        if lost:
            warnings.warn(_words(rules, code, entry, sizes, lost), PrecisionWarning, stacklevel=4)
            return


def warn_of_lost_mean(rules: Rules, code: Code, mean: Tree, clients: int, weight: float) -> None:
    """Warn where a bound that was given leaves most numbers of a mean too few bits, as its server sees it.

    A tensor may well be 0, but not most of a model: so a warning says that more than half of all numbers are of tensors
    that are lost. Ranges that were found fit the largest client's numbers, so they are not looked at.

    Args:
        rules: of the round.
        code: how mappings are written.
        mean: of the round.
        clients: how many updates are in it.
        weight: the sum of their weights.
    """
    floats = code.layout.floats
    if rules.privacy is not None or rules.bound is None or not floats:
        return
    errors, largest = _rounding_errors(rules, code, clients, weight), _sizes(code, mean, floats)
    bits = LEAST_BITS + 1 if rules.scheme.precision is None else 0  # the error is half a unit
    lost = [
        entry
        for entry in floats
        if _is_coarse(code, entry) and largest[entry.name] < math.ldexp(errors[entry.name], bits)
    ]
    if 2 * sum(entry.size for entry in lost) > sum(entry.size for entry in floats):
        name = max(lost, key=lambda entry: entry.size).name
        warnings.warn(
            f"{_sized(rules, code, name)}, and the means of {len(lost)} of {len(floats)} tensors are smaller: "
            f"{_remedy(rules)}",
            PrecisionWarning,
            stacklevel=3,
        )


def _rounding_errors(rules: Rules, code: Code, clients: int, weight: float) -> dict[str, float]:
    """Return how far rounding moves the mean of a tensor, by name.

    Half a unit at most; at a precision, where every number is less than a unit off at random, two standard deviations.
    """
    share = 0.5 if rules.scheme.precision is None else math.sqrt(clients) / weight
    return {entry.name: share * code.units[entry.name] for entry in code.layout.floats}


def _doubtful(rules: Rules, code: Code, mean: Tree, errors: Mapping[str, float], clients: int) -> tuple[Entry, ...]:
    """Return the tensors that may be lost, so that updates are read again only for these.

    Where all numbers are below the error the mean is 0, or at a precision below twice the bound of its error.
    """
    largest, rounds = _sizes(code, mean, code.layout.floats), rules.scheme.precision is not None
    most = 2 * math.sqrt(clients) if rounds else 0.0
    return tuple(
        entry
        for entry in code.layout.floats
        if largest[entry.name] <= most * errors[entry.name] or (_is_coarse(code, entry) and not rounds)
    )


def _is_coarse(code: Code, entry: Entry) -> bool:
    return code.units[entry.name] > 2.0**-FINE_BITS


def _lost(rules: Rules, code: Code, entry: Entry, sizes: Mapping[int, float], error: float) -> list[int]:
    """Return the clients whose numbers of a tensor, which are not all 0, keep too few bits or none."""
    there = {client: size for client, size in sizes.items() if size > 0}
    if rules.scheme.precision is None and _is_coarse(code, entry):
        return [client for client, size in there.items() if size < math.ldexp(code.units[entry.name], LEAST_BITS)]
    return list(there) if max(there.values(), default=math.inf) < error else []


def _sizes(code: Code, mapping: Tree, entries: Sequence[Entry]) -> dict[str, float]:
    """Return the largest magnitude of some tensors of a client, by name."""
    held = code.layout.arrays(mapping)
    return {entry.name: held.largest(entry.name) for entry in entries}


def _sized(rules: Rules, code: Code, name: str) -> str:
    """Return how large a tensor's range and unit are, in words."""
    kept = f"{LEAST_BITS} bits" if rules.scheme.precision is None else "a bit in the mean"
    range_bits, unit_bits = (math.log2(size[name]) for size in (code.bounds, code.units))
    return (
        f"range of {name!r} must leave every client's numbers {kept}; it is 2^{range_bits:.0f}, numbers are "
        f"rounded to 2^{unit_bits:.0f}"
    )


def _words(rules: Rules, code: Code, entry: Entry, sizes: Mapping[int, float], lost: list[int]) -> str:
    largest = max(sizes, key=lambda client: sizes[client])
    whose = f"the largest, of client {largest}, reach 2^{math.ceil(math.log2(sizes[largest]))}: leave that client out, "
    return (
        f"{_sized(rules, code, entry.name)}, and those of {len(lost)} of {len(sizes)} clients here are smaller; "
        f"{whose if rules.bound is None and largest not in lost else ''}{_remedy(rules)}"
    )


def _remedy(rules: Rules) -> str:
    if rules.bound is None:
        return "give bound= and clip=True, or call forget_ranges once all numbers are small again"
    if rules.fraction_bits is not None:
        return "give more fraction_bits or none, and a smaller bound"
    if rules.scheme.precision is not None:
        return "give a smaller bound or weight_bound, or more bits of precision"
    return "give a smaller bound or weight_bound"
