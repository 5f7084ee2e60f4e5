"""What a run looks like to parties that must not learn its graph, and how runs on two graphs are compared.

Randomness changes most words of a view. What it leaves as it is must be equal on both graphs: counts, sizes, senders,
words, how often a word repeats, and which words stand beside it. What it changes is compared by numbers, such as how
many pairs of words are equal, over several runs on each graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations, permutations
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fgl_secure.auditing.game_views import SMALL, Batch
from fgl_secure.runtime import Step
from fgl_secure.statistics.statistical import ALPHA
from fgl_secure.typing import Flags, Ids

_WIDEST = 64
"""Bytes of a field whose words of eight bytes are looked at one by one."""
_MOST_RUNS = 64
"""Runs on each graph, at most."""
_NAMES, _FEW_NAMES = 512, 16
"""So few different words of a field may be names, and each of them is counted; and each pair of so few."""
_STEADY = (2, 4, 8)
"""Runs on each graph in which a word that randomness does not change is equal: more of them where graphs differ."""


Number = tuple[str, str, int, int, int]
"""Kind of message, what is counted, a receiver, and a sender and a word, or two words; -1 for all of them."""


_Broken = dict[tuple[str, str], tuple[Step | None, Ids]]


class Feature(NamedTuple):
    """Something that one party sees of the messages of a kind in one step: whose, the how many-th batch, and what."""

    kind: str
    step: Step
    receiver: int
    number: int
    what: str


@dataclass(frozen=True, slots=True)
class Signature:
    """What a run looks like.

    Attributes:
        exact: what may be equal in two runs.
        numbers: over all steps.
    """

    exact: dict[Feature, object] = field(default_factory=dict)
    numbers: Counter[Number] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class EdgeOutcome:
    """What a comparison of two graphs came to.

    Attributes:
        broken: by kind of message and in words what differs: the first step, None for all, and the receivers.
        features: how many things were compared.
    """

    broken: _Broken
    features: int


def signature(batches: list[Batch]) -> Signature:
    """Return what a run looks like to each party in each step, of messages and of what is opened of sealed ones."""
    out = Signature()
    seen: Counter[tuple[str, Step, int]] = Counter()
    for batch in batches:
        columns = _columns(batch)
        for receiver in np.unique(batch.receivers).tolist():
            rows = np.flatnonzero(batch.receivers == receiver)
            place = batch.kind, batch.step, receiver
            number, seen[place] = seen[place], seen[place] + 1
            _add(out, (*place, number), batch, rows, {name: value[rows] for name, value in columns.items()})
    return out


def _add(
    out: Signature, place: tuple[str, Step, int, int], batch: Batch, rows: Ids, columns: dict[str, NDArray[np.uint64]]
) -> None:
    """Add what one party sees of a batch."""
    out.exact[Feature(*place, "number of messages")] = len(rows)
    out.exact[Feature(*place, "size and types of messages")] = batch.shape
    out.exact[Feature(*place, "senders")] = tuple(np.sort(batch.senders[rows]).tolist())
    repeated = dict[str, NDArray[np.uint64]]()
    for name, value in columns.items():
        counts = np.unique(value, return_counts=True)[1]
        out.exact[Feature(*place, f"repetitions of {name}")] = tuple(np.sort(counts).tolist())
        out.exact[Feature(*place, f"words of {name}")] = np.sort(value).tobytes()
        if len(value) and int(value.max()) < SMALL:
            out.numbers[place[0], f"size of words of {name}", -1, -1, -1] += int(value.sum())
            if len(counts) <= _NAMES:
                _count_names(out.numbers, place[0], name, place[2], batch.senders[rows], value)
        if len(counts) < len(value):
            repeated[name] = value
            out.numbers[place[0], f"repetitions of {name}", -1, -1, -1] += int((counts * counts).sum())
    if batch.sent and len(rows):
        repeated["senders"] = batch.senders[rows].astype(np.uint64)
    for one, other in permutations(repeated, 2):
        what = f"which {other} stand beside one {one}"
        out.exact[Feature(*place, what)] = _beside(repeated[one], repeated[other])
        _count_pairs(
            out.numbers, (place[0], f"which {other} stand together beside {one}", place[2]), repeated, one, other
        )
    # of what was opened alone: libraries draw bytes of ciphertexts by themselves
    for other, value in ({} if batch.sent else _classes(columns)).items():
        for one in repeated:
            what = f"which {other} stand together beside {one}"
            _count_pairs(out.numbers, (place[0], what, place[2]), {**repeated, other: value}, one, other)
    for one, other in combinations(repeated, 2):
        both = np.unique(np.stack([repeated[one], repeated[other]]), axis=1, return_counts=True)[1]
        out.numbers[place[0], f"repetitions of {one} and {other} together", -1, -1, -1] += int((both * both).sum())


def _classes(columns: dict[str, NDArray[np.uint64]]) -> dict[str, NDArray[np.uint64]]:
    """Classes of words of which there are many: the last bit of large ones, and in which sixteenth small ones are."""
    out = dict[str, NDArray[np.uint64]]()
    for name, value in columns.items():
        if len(value) and int(value.max()) >= SMALL:
            out[f"last bits of {name}"] = value & np.uint64(1)
        elif len(np.unique(value)) > _FEW_NAMES:
            ranks = np.argsort(np.argsort(value, kind="stable"))
            out[f"sixteenths of {name}"] = (ranks * _FEW_NAMES // len(value)).astype(np.uint64)
    return out


def _count_names(
    numbers: Counter[Number], kind: str, name: str, receiver: int, senders: Ids, value: NDArray[np.uint64]
) -> None:
    """Count each word of a field, and each with its sender."""
    words = value.astype(np.int64)
    for what, ends in ((f"how often words of {name} come", words * 0 - 1), (f"who sends which {name}", senders)):
        pairs, counts = np.unique(np.stack([ends, words]), axis=1, return_counts=True)
        for (sender, word), count in zip(pairs.T.tolist(), counts.tolist(), strict=True):
            numbers[kind, what, receiver, sender, word] += count


def _count_pairs(
    numbers: Counter[Number], key: tuple[str, str, int], columns: dict[str, NDArray[np.uint64]], one: str, other: str
) -> None:
    """Count how often two names stand beside the same word of another column."""
    names, named = np.unique(columns[other], return_inverse=True)
    if len(names) > _FEW_NAMES or int(names.max()) >= SMALL:
        return
    words, at = np.unique(columns[one], return_inverse=True)
    beside = np.zeros((len(words), len(names)), dtype=np.int64)
    np.add.at(beside, (at.reshape(-1), named.reshape(-1)), 1)
    together, known = beside.T @ beside, names.tolist()
    for first, second in combinations(range(len(known)), 2):
        numbers[*key, known[first], known[second]] += int(together[first, second])


def _beside(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> tuple[bytes, ...]:
    """For each word of one column the words of another one that stand beside it, whatever the first word is."""
    order = np.lexsort((other, one))
    starts = np.flatnonzero(np.diff(one[order])) + 1
    return tuple(sorted(part.tobytes() for part in np.split(other[order], starts)))


def _columns(batch: Batch) -> dict[str, NDArray[np.uint64]]:
    """A number for each row of each field, and the words of eight bytes of narrow fields."""
    out = dict[str, NDArray[np.uint64]]()
    for name, value in batch.fields.items():
        blocks, label = _blocks(value), name or "opened words"
        if blocks.shape[1] > 1 and blocks.shape[1] * 8 <= _WIDEST:
            out |= {f"{label}, word {place}": blocks[:, place] for place in range(blocks.shape[1])}
        weights = np.random.default_rng(0).integers(1, 2**63, size=blocks.shape[1], dtype=np.uint64) | np.uint64(1)
        out[label] = blocks[:, 0] if blocks.shape[1] == 1 else (blocks * weights).sum(axis=1, dtype=np.uint64)
    return out


def _blocks(value: NDArray[Any]) -> NDArray[np.uint64]:
    """Rows as words of eight bytes, zeros behind the last one."""
    flat = np.ascontiguousarray(value).reshape(len(value), -1)
    flat = flat.view(np.uint8) if flat.size else np.zeros((len(value), 8), dtype=np.uint8)
    return np.pad(flat, ((0, 0), (0, -flat.shape[1] % 8))).view(np.uint64)


def sees_a_word(one: Callable[[int], list[Batch]], other: Callable[[int], list[Batch]], seed: int) -> bool:
    """Whether a comparison of two graphs finds one word that says which graph it is, beside messages of one kind.

    Args:
        one: gives what parties get in a run on the first graph under the randomness of a number, 0 or 1.
        other: the same for the second graph.
        seed: of the kind.
    """
    kinds = sorted({batch.kind for batch in one(0) if batch.sent and len(batch.receivers)})
    kind = kinds[np.random.default_rng(seed).integers(len(kinds))] if kinds else ""
    sides = []
    for number, graph in enumerate((one, other)):
        runs = [[batch for batch in graph(coins) if batch.kind == kind] for coins in range(2)]
        sides.append(
            [
                signature([_with_word(batch, number) if not place else batch for place, batch in enumerate(run)])
                for run in runs
            ]
        )
    return bool(compare_graphs(lambda coins: sides[0][coins % 2], lambda coins: sides[1][coins % 2]).broken)


def _with_word(batch: Batch, number: int) -> Batch:
    """A batch whose messages have one more word."""
    word = np.full(len(batch.receivers), number, dtype=np.int64)
    return replace(batch, fields={**batch.fields, "positive control": word})


def compare_graphs(one: Callable[[int], Signature], other: Callable[[int], Signature]) -> EdgeOutcome:
    """Compare runs on two graphs: what randomness leaves as it is, and numbers that it changes.

    A number that depends on the graph is larger in all runs on one graph than in all runs on the other. Runs are added
    until no number is, or until that is no chance.

    Args:
        one: gives what the run on the first graph looks like under the randomness of a number.
        other: the same for the second graph.
    """
    broken, features = _Broken(), 0
    for runs in _STEADY:  # what randomness changes now and then may have stayed in few runs
        steady, features = _steady([one(coins).exact for coins in range(runs)], [other(c).exact for c in range(runs)])
        if not steady:
            break
    for feature in steady:
        _note(broken, feature.kind, feature.what, feature.receiver, feature.step)
    names = list({**one(0).numbers, **other(0).numbers})
    apart = np.array([]) if broken else _apart(one, other, names)
    for place in np.flatnonzero(apart).tolist():
        kind, what, receiver, *_ = names[place]
        _note(broken, kind, what, receiver, None)
    return EdgeOutcome(broken, features + len(names))


def _apart(one: Callable[[int], Signature], other: Callable[[int], Signature], names: list[Number]) -> Flags:
    """Which numbers are larger in all runs on one graph than in all on the other."""
    low, high = (np.array([[graph(0).numbers[name] for name in names] for graph in (one, other)]) for _ in range(2))
    for runs in range(1, _MOST_RUNS):
        apart: Flags = (high[0] < low[1]) | (high[1] < low[0])
        if not apart.any() or 2 * len(names) <= ALPHA**2 * comb(2 * runs, runs):
            break
        left = np.flatnonzero(apart)
        for side, graph in enumerate((one, other)):
            values = graph(runs).numbers
            found = np.array([values[names[place]] for place in left.tolist()])
            low[side, left], high[side, left] = np.minimum(low[side, left], found), np.maximum(high[side, left], found)
    return apart


def _note(
    broken: dict[tuple[str, str], tuple[Step | None, Ids]], kind: str, what: str, receiver: int, step: Any
) -> None:
    """Add a receiver to what differs."""
    first, receivers = broken.get((kind, what), (step, np.empty(0, dtype=np.int64)))
    broken[kind, what] = first, np.union1d(receivers, [receiver] if receiver >= 0 else []).astype(np.int64)


def _steady(ones: list[dict[Feature, object]], others: list[dict[Feature, object]]) -> tuple[list[Feature], int]:
    """Features that randomness does not change and the graph does, and how many randomness does not change."""
    unsteady = {(key.kind, key.what) for runs in (ones, others) for key in _unsteady(runs)}
    kept = [each for each in {**ones[0], **others[0]} if (each.kind, each.what) not in unsteady]
    return [each for each in kept if ones[0].get(each) != others[0].get(each)], len(kept)


def _unsteady(runs: list[dict[Feature, object]]) -> Iterator[Feature]:
    """Features that randomness changes."""
    first, *rest = runs
    for other in rest:
        yield from (key for key in {**first, **other} if first.get(key) != other.get(key))
