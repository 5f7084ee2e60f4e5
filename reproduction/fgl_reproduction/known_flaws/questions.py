"""Which coalitions are tested on which inputs: derived from the guarantees alone, equally for all protocols."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping

import numpy as np

from fgl_reproduction.known_flaws.case import HidingProtocol
from fgl_secure.runtime import Directory, Guarantee, Party, Role, Secret
from fgl_secure.testing.protocol import Inputs

Coalition = tuple[Party, ...]
Pair = tuple[Inputs, Inputs]

_OF_INPUTS = {Secret.EMBEDDING, Secret.PARAMETER_GRADIENT, Secret.SUMMAND}


def candidates_of(zero: Inputs) -> list[Inputs]:
    """Return zeros; one entry at 1 or 2; one entry at 1 with another at -1. Shape and dtype are those of `zero`."""
    moves: list[Mapping[int, int]] = [{}]
    moves += [{entry: value} for entry in range(zero.size) for value in (1, 2)]
    moves += [{up: 1, down: -1} for up, down in itertools.permutations(range(zero.size), 2)]
    candidates = []
    for move in moves:
        values = zero.copy()
        values.reshape(-1)[list(move)] += np.array(list(move.values()), dtype=zero.dtype)
        candidates.append(values)
    return candidates


def questions_of(subject: HidingProtocol) -> list[tuple[Coalition, list[Pair]]]:
    """Return every coalition of a guarantee about inputs, with the pairs of inputs that it must not distinguish.

    Only the largest coalitions that must not distinguish a pair are tested: they see what smaller ones see.
    """
    candidates = candidates_of(subject.zero)
    groups: dict[Coalition, tuple[int, ...]] = {}
    for guarantee in subject.guarantees:
        for coalition in coalitions_of(guarantee, subject.protocol.parties):
            known = [_coalition_knowledge(subject, values, coalition) for values in candidates]
            first: dict[Hashable, int] = {}
            groups[coalition] = tuple(first.setdefault(leakage, index) for index, leakage in enumerate(known))
    questions = []
    for coalition, group in groups.items():
        larger = [others for other, others in groups.items() if set(coalition) < set(other)]
        pairs = [(a, b) for b, a in enumerate(group) if a != b and not any(other[a] == other[b] for other in larger)]
        if pairs:
            questions.append((coalition, [(candidates[a], candidates[b]) for a, b in pairs]))
    return questions


def coalitions_of(guarantee: Guarantee, parties: Directory) -> Iterator[Coalition]:
    """Yield all coalitions that a guarantee about inputs covers, by its numbers of parties of each role."""
    if guarantee.secret not in _OF_INPUTS:
        return
    choices = [list(_subsets(role, most, parties)) for role, most in guarantee.coalition.items()]
    for chosen in itertools.product(*choices):
        members = tuple(sorted(itertools.chain.from_iterable(chosen)))
        if members:
            yield members


def _subsets(role: Role, most: int, parties: Directory) -> Iterator[Coalition]:
    count = parties.counts.get(role, 0)
    for size in range(min(most, count) + 1):
        yield from itertools.combinations([Party(role, index) for index in range(count)], size)


def _coalition_knowledge(subject: HidingProtocol, values: Inputs, coalition: Coalition) -> Hashable:
    own = values[subject.protocol.rows_of(coalition)]
    return own.tobytes(), subject.allowed(values, coalition)
