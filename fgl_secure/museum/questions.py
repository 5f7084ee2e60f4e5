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

    A pair is asked of the largest coalitions that may not tell it apart: what a smaller one sees, they see too.
    """
    candidates = candidates_of(subject.zero)
    groups: dict[Coalition, tuple[int, ...]] = {}
    for guarantee in subject.guarantees:
        for coalition in coalitions_of(guarantee, subject.protocol.parties):
            known = [_known(subject, values, coalition) for values in candidates]
            first: dict[Hashable, int] = {}
            groups[coalition] = tuple(first.setdefault(what, at) for at, what in enumerate(known))
    found = []
    for coalition, group in groups.items():
        larger = [others for other, others in groups.items() if set(coalition) < set(other)]
        pairs = [(a, b) for b, a in enumerate(group) if a != b and not any(each[a] == each[b] for each in larger)]
        if pairs:
            found.append((coalition, [(candidates[a], candidates[b]) for a, b in pairs]))
    return found


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
