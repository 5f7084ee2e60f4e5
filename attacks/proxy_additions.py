"""Labelled nodes that clients add from one round to the next, as the server finds them in shares and class proxies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.proxy_fractions import joined, joined_on_grid, one_more, whole_numbers
from fgl_secure.attacks.proxy_rows import SUM, ProxyRows
from fgl_secure.attacks.truth import Truth

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Addition:
    """One labelled node more.

    Attributes:
        round: the first round with it.
        client: index of the silo; SUM where it is one of all.
        counts: int64 [C], the client's labelled nodes of each class before.
        kind: the node's class.
        proxy: float64 [d], what its proxy is if the others' have not changed.
    """

    round: int
    client: int
    counts: Ids
    kind: int
    proxy: Floats


def additions(rounds: tuple[ProxyRows, ...]) -> tuple[Addition, ...]:
    """What is found between one round and the next: of single clients where their rows are seen, else of the sum."""
    found: list[Addition] = []
    for before, after in pairwise(rounds):
        if after.round != before.round + 1:
            continue
        if before.summed or after.summed:
            found += _of_sum(before, after)
        else:
            found += _of_clients(before, after)
    return tuple(found)


def additions_of_sums(rounds: tuple[ProxyRows, ...]) -> tuple[Addition, ...]:
    """The same from the sums alone, also where single rows are seen."""
    return additions(tuple(rows if rows.summed else rows.total for rows in rounds))


def adders(truth: Truth) -> tuple[tuple[int, int], ...]:
    """Which clients do have a labelled node more than in the round before: pairs of a round and a client."""
    sizes = {(batch.round, batch.client): len(batch.nodes) for batch in truth.batches}
    return tuple(
        (number, client)
        for (number, client), size in sorted(sizes.items())
        if size == sizes.get((number - 1, client), size) + 1
    )


def _of_clients(before: ProxyRows, after: ProxyRows) -> Iterator[Addition]:
    later = {client: row for row, client in enumerate(after.clients.tolist())}
    for row, client in enumerate(before.clients.tolist()):
        if client not in later or np.array_equal(before.shares[row], after.shares[later[client]]):
            continue
        old, new = (_whole(*each) for each in ((before, row), (after, later[client])))
        found = None if old is None or new is None else one_more(old, new)
        if found is None:
            continue
        counts, kind = found
        there = int(counts[kind])
        mean = before.proxies[row, kind] if there else 0.0
        proxy = (there + 1) * after.proxies[later[client], kind] - there * mean
        yield Addition(after.round, client, counts, kind, proxy)


def _of_sum(before: ProxyRows, after: ProxyRows) -> Iterator[Addition]:
    """With m nodes before, the sum of products changes by x / (m + 1) - c_j s_j / (m (m + 1)), where x is what is new.

    The client's own s_j is not known; the mean over clients stands for it.
    """
    if not (before.summed and after.summed):
        return
    change, rounding = after.shares[0] - before.shares[0], before.rounding + after.rounding
    found = joined_on_grid(change, rounding, after.unit) if after.unit else joined(change, rounding)
    if found is None:
        return
    counts, kind = found
    labelled, there = int(counts.sum()), int(counts[kind])
    proxy = (labelled + 1) * (after.products[0, kind] - before.products[0, kind])
    if there:
        proxy = proxy + there / labelled * before.proxies[0, kind]
    yield Addition(after.round, SUM, counts, kind, proxy)


def _whole(rows: ProxyRows, row: int) -> Ids | None:
    shares = rows.shares[row]
    return whole_numbers(shares, rows.rounding + rows.unit) if shares.any() else np.zeros(len(shares), dtype=np.int64)
