"""Two inputs of a game: what differs is the secret, and what the observers are entitled to stays.

A row of a sum is varied where the programs of a run hand it in: programs go on with the answers of the first run,
so that nothing else changes. Rows of clients, and of the devices of a silo, change places, which leaves each sum as it
is. Rows for neighbours are replaced where observers get no sum, and change places in pairs where the observer's sum
holds both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.attributed_graph import read_only
from fgl_secure.protocols.topology import CLIENTS, MEMBERS, NEIGHBOURS, SERVER, Grouping
from fgl_secure.runtime import Direction
from fgl_secure.training.calls import Call
from fgl_secure.training.one_process import OneProcess
from fgl_secure.typing import Array, Ids

Change = Callable[[OneProcess, list[Call]], list[Call]]
"""What silos call in the second input, given what they call in the first."""


@dataclass(frozen=True, slots=True, eq=False)
class Swaps:
    """Rows that change, so that no observer's sum does.

    Attributes:
        observers: int64 [k], owners of sums, party identifiers.
        ones: int64 [p], rows that change places with the others.
        others: int64 [p].
        free: int64 [f], rows that are in no sum of an observer.
    """

    observers: Ids
    ones: Ids
    others: Ids
    free: Ids

    @classmethod
    def of(cls, grouping: Grouping, observers: Ids, seed: int, *, whole: Grouping, most: int) -> Swaps:
        """Rows of some sums, a pair for each observer.

        Args:
            grouping: messages that go into sums.
            observers: those who may be observers, party identifiers; as many are taken as do not meet.
            seed: of the order in which they are tried.
            whole: all messages, those to groups included that are not answered.
            most: observers.
        """
        kept, changed = set[int](), set[int]()
        seen, pairs, free = list[int](), list[tuple[int, int]](), list[int]()
        for observer in np.random.default_rng(seed).permutation(observers).tolist():
            sums = _rows_by_group(grouping, observer)
            inside = set().union(*sums) if sums else set[int]()
            denied = sorted(set().union(*_rows_by_group(whole, observer)) - inside - kept)
            alike = _alike(sums, np.flatnonzero(grouping.row_owner == observer))
            pair = next((each for each in alike if kept.isdisjoint(each)), None)
            if (pair is None and not denied) or not inside.isdisjoint(changed) or len(seen) == most:
                continue
            seen.append(observer)
            kept |= inside
            if pair is not None:
                pairs.append(pair)
                changed |= set(pair)
            elif denied[0] not in changed:
                free.append(denied[0])
                changed.add(denied[0])
        ends = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return cls(np.array(sorted(seen), dtype=np.int64), ends[0], ends[1], np.array(free, dtype=np.int64))

    @classmethod
    def among(cls, grouping: Grouping, observers: Ids) -> Swaps:
        """All pairs of rows that are in the same sums of some observers, so that none of their sums changes."""
        sums = [each for observer in observers.tolist() for each in _rows_by_group(grouping, observer)]
        pairs = _alike(sums, np.flatnonzero(np.isin(grouping.row_owner, observers)))
        ones, others = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return cls(observers, ones, others, np.empty(0, dtype=np.int64))

    def __call__(self, rows: Array) -> Array:
        """The rows of the second input."""
        out = rows.copy()
        out[self.ones], out[self.others] = rows[self.others], rows[self.ones]
        out[self.free] = -rows[self.free]
        return out


def _rows_by_group(grouping: Grouping, owner: int) -> list[set[int]]:
    groups = np.flatnonzero(grouping.group_owner == owner)
    found = [set(grouping.source[grouping.target == group].tolist()) for group in groups.tolist()]
    return [each for each in found if each]


def _alike(sums: list[set[int]], own: Ids) -> list[tuple[int, int]]:
    """Pairs of rows that are in the same sums, none of them the observer's own."""
    places: dict[tuple[int, ...], list[int]] = {}
    for row in sorted(set().union(*sums) - set(own.tolist()) if sums else ()):
        places.setdefault(tuple(i for i, rows in enumerate(sums) if row in rows), []).append(row)
    return [(rows[0], rows[-1]) for rows in places.values() if len(rows) > 1]


def replaced_rows(process: OneProcess, calls: list[Call]) -> list[Call]:
    """Other rows for neighbours, for observers who get no sum of them: those of others, in the reverse order.

    Real rows change their sign as well.
    """
    if calls[0].topology != NEIGHBOURS:
        return calls
    rows = _joined(process, calls)
    return _parted(process, calls, -rows[::-1] if rows.dtype.kind == "f" else rows[::-1])


@dataclass(frozen=True, slots=True, eq=False)
class SwappedRows:
    """Rows for neighbours that change places so that no observer's sum changes.

    Attributes:
        swaps: by direction.
    """

    swaps: dict[Direction, Swaps]

    def __call__(self, process: OneProcess, calls: list[Call]) -> list[Call]:
        """The calls of the second input."""
        first = calls[0]
        if first.topology != NEIGHBOURS:
            return calls
        return _parted(process, calls, self.swaps[first.step.direction](_joined(process, calls)))


def _joined(process: OneProcess, calls: list[Call]) -> Array:
    places = process.row_places
    rows = [np.asarray(call.rows) for call in calls]
    out = np.empty((sum(map(len, places)), rows[0].shape[1]), dtype=rows[0].dtype)
    for where, part in zip(places, rows, strict=True):
        out[where] = part
    return out


def _parted(process: OneProcess, calls: list[Call], rows: Array) -> list[Call]:
    return [replace(call, rows=rows[where]) for call, where in zip(calls, process.row_places, strict=True)]


def turned_members(_process: OneProcess, calls: list[Call]) -> list[Call]:
    """What the devices of a silo hand to it goes round among them, the same way in every step."""
    if calls[0].topology != MEMBERS:
        return calls

    def turned(call: Call) -> Call:
        rows = None if call.rows is None else np.roll(np.asarray(call.rows), 1, axis=0)
        factors = tuple(
            replace(each, left=np.roll(each.left, 1, axis=1), right=np.roll(each.right, 1, axis=1))
            for each in call.factors
        )
        return replace(call, rows=rows, factors=factors)

    return [turned(call) for call in calls]


def turned_clients(_process: OneProcess, calls: list[Call]) -> list[Call]:
    """Clients' vectors go round among them; of sums for a client, among those who are not that one."""
    topology = calls[0].topology
    if topology == SERVER:
        return [replace(call, rows=calls[place - 1].rows) for place, call in enumerate(calls)]
    if topology != CLIENTS:
        return calls
    terms: list[dict[int, Any]] = [dict(call.terms) for call in calls]
    for receiver in calls[0].terms:
        others = [silo for silo in range(len(calls)) if silo != receiver]
        for place, silo in enumerate(others):
            terms[silo][receiver] = calls[others[place - 1]].terms[receiver]
    return [replace(call, terms=mine) for call, mine in zip(calls, terms, strict=True)]


def change_of(topologies: Sequence[str]) -> Change:
    """How rows of sums of some topologies are varied for observers who get no sum over neighbours."""
    by_topology: dict[str, Change] = {
        NEIGHBOURS: replaced_rows,
        MEMBERS: turned_members,
        SERVER: turned_clients,
        CLIENTS: turned_clients,
    }

    def change(process: OneProcess, calls: list[Call]) -> list[Call]:
        topology = calls[0].topology
        return by_topology[topology](process, calls) if topology in topologies else calls

    return change


def swapped_edges(
    graph: FederatedGraph, seed: int, *, degrees: bool, most: int | None = None, uneven: bool = True
) -> FederatedGraph | None:
    """The graph with edges between silos elsewhere; None where none can move.

    Args:
        graph: with edges both ways.
        seed: of the edges.
        degrees: whether degrees change: an edge u-v becomes u-w, w having no fewer edges than v. Else two edges u-v and
            w-x become u-x and w-v, and every device keeps its degree.
        most: edges, or pairs of them, that move; half of those between silos unless given.
        uneven: where degrees stay, silos with most edges between them get more, if any such edge can move.
    """

    def silos_of(ends: tuple[int, int]) -> tuple[int, int]:
        one, other = (int(silo[end]) for end in ends)
        return min(one, other), max(one, other)

    source, target = graph.edges
    rng, silo, bound = np.random.default_rng(seed), graph.silo_of, int(graph.in_degree.max())
    known, degree = set(zip(source.tolist(), target.tolist(), strict=True)), graph.in_degree.copy()
    crossing = graph.edges[:, graph.crosses_silos & (source < target)].T
    edges = [(u, v) for u, v in rng.permuted(rng.permutation(crossing), axis=1).tolist() if {(u, v), (v, u)} <= known]
    moved, wanted = 0, most or max(len(edges) // (2 if degrees else 4), 1)
    between = Counter(map(silos_of, edges))
    for place, (u, v) in enumerate(edges):
        if moved == wanted:
            break
        for other in range(place + 1, len(edges)):
            w, x = edges[other]
            gained = [(u, w)] if degrees else [(u, x), (w, v)]
            lost = [(u, v)] if degrees else [(u, v), (w, x)]
            if degrees:
                fits = 1 < degree[v] <= degree[w] < bound  # a bound on degrees is public
            else:
                more, less = (sum(between[silos_of(each)] for each in ends) for ends in (gained, lost))
                fits = more > less or not uneven
            apart = all(silo[a] != silo[b] and (a, b) not in known for a, b in gained)
            if len({u, v, w, x}) < 4 or not fits or not apart:
                continue
            known -= {pair for a, b in lost for pair in ((a, b), (b, a))}
            known |= {pair for a, b in gained for pair in ((a, b), (b, a))}
            if degrees:
                degree[v], degree[w], edges[place] = degree[v] - 1, degree[w] + 1, (u, w)
            else:
                edges[place], edges[other] = (u, x), (w, v)
                between.update(map(silos_of, gained))
                between.subtract(map(silos_of, lost))
            moved += 1
            break
    if not moved:
        return None if degrees or not uneven else swapped_edges(graph, seed, degrees=False, most=most, uneven=False)
    ends = np.array(sorted(known, key=lambda pair: pair[::-1]), dtype=np.int64).T
    return replace(graph, graph=replace(graph.graph, edges=read_only(np.ascontiguousarray(ends))))
