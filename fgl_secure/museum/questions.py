"""Which coalitions are asked, and about which inputs: made from a promise alone, the same way for every protocol."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping

import numpy as np

from fgl_secure.museum.exhibit import Hiding
from fgl_secure.runtime import Directory, Guarantee, Party, Role, Secret
from fgl_secure.testing.protocol import Inputs

Coalition = tuple[Party, ...]
Pair = tuple[Inputs, Inputs]

_OF_INPUTS = {Secret.EMBEDDING, Secret.PARAMETER_GRADIENT, Secret.SUMMAND}


def candidates_of(zero: Inputs) -> list[Inputs]:
    """Nothing; one entry at 1 or at 2; and one entry at 1 with another at -1. Shapes and dtype are those of `zero`."""
    moves: list[Mapping[int, int]] = [{}]
    moves += [{at: by} for at in range(zero.size) for by in (1, 2)]
    moves += [{up: 1, down: -1} for up, down in itertools.permutations(range(zero.size), 2)]
    found = []
    for move in moves:
        values = zero.copy()
        values.reshape(-1)[list(move)] += np.array(list(move.values()), dtype=zero.dtype)
        found.append(values)
    return found


def questions_of(subject: Hiding) -> list[tuple[Coalition, list[Pair]]]:
    """Every coalition that a promise about inputs names, with the pairs of inputs that it may not tell apart.

    A coalition is left out where a larger one has the same inputs of its own and may learn the same: whatever the
    smaller one sees, the larger one sees too.
    """
    found: dict[Hashable, list[tuple[Coalition, list[Pair]]]] = {}
    candidates = candidates_of(subject.zero)
    named = sorted(
        {each for guarantee in subject.guarantees for each in coalitions_of(guarantee, subject.protocol.parties)},
        key=lambda coalition: (-len(coalition), coalition),
    )
    for coalition in named:
        known = [_known(subject, values, coalition) for values in candidates]
        first: dict[Hashable, int] = {}
        groups = tuple(first.setdefault(what, at) for at, what in enumerate(known))
        larger = found.setdefault(groups, [])
        if not any(set(coalition) < set(other) for other, _ in larger):
            pairs = [(candidates[at], values) for at, values in zip(groups, candidates, strict=True)]
            larger.append((coalition, [pair for pair in pairs if pair[0] is not pair[1]]))
    asked = [each for group in found.values() for each in group if each[1]]
    return sorted(asked, key=lambda each: (len(each[0]), each[0]))


def coalitions_of(guarantee: Guarantee, parties: Directory) -> Iterator[Coalition]:
    """All coalitions that a promise about inputs covers, by its numbers of parties of each role."""
    if guarantee.secret not in _OF_INPUTS:
        return
    some = [list(_some(role, most, parties)) for role, most in guarantee.coalition.items()]
    for chosen in itertools.product(*some):
        members = tuple(sorted(itertools.chain.from_iterable(chosen)))
        if members:
            yield members


def _some(role: Role, most: int, parties: Directory) -> Iterator[Coalition]:
    there = parties.counts.get(role, 0)
    for size in range(min(most, there) + 1):
        yield from itertools.combinations([Party(role, index) for index in range(there)], size)


def _known(subject: Hiding, values: Inputs, coalition: Coalition) -> Hashable:
    own = values[subject.protocol.rows_of(coalition)]
    return own.tobytes(), subject.allowed(values, coalition)
