"""What parties of one role were sent in a game, field by field, and how two runs of it differ."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.auditing.game_words import Words
from fgl_secure.protocols.scheme import UniformField
from fgl_secure.runtime import Direction, Directory, Private, Role, Step, Transcript
from fgl_secure.typing import Flags, Ids

Key = tuple[str, str]
"""Kind of message, or of what is worked out from sealed ones, and field."""

SMALL = 2**32
"""Words below may agree in two runs by chance."""
REPEATS = 8
"""Runs of each input in which a word must stay in a field of random bytes, so that it counts as one that depends on it.

Compressed ciphertexts hold words that take few values, and may agree in two runs. In eight runs of each of two inputs
a word with two values of equal frequency stays and differs in one of 30,000 cases.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Messages of one kind that reached some parties in one step.

    Attributes:
        kind: of the messages.
        step: when.
        senders: int64 [m], party identifiers.
        receivers: int64 [m], party identifiers.
        item_bytes: size of one message.
        fields: by name, [m, ...]; empty where only sizes are known.
        sent: whether it was sent, and not worked out by its owner.
    """

    kind: str
    step: Step
    senders: Ids
    receivers: Ids
    item_bytes: int
    fields: Mapping[str, NDArray[Any]]
    sent: bool = True

    @property
    def shape(self) -> tuple[object, ...]:
        """What it looks like from outside."""
        fields = tuple((name, value.dtype.str, value.shape[1:]) for name, value in self.fields.items())
        return self.kind, self.step, self.item_bytes, fields


def received(run: Transcript, observers: Collection[int] | Ids) -> list[Batch]:
    """What reached some parties, and what they worked out from messages that are not recorded.

    Args:
        run: recorded in full.
        observers: party identifiers.
    """
    sees = np.zeros(len(run.parties), dtype=np.bool_)
    sees[np.asarray(observers, dtype=np.int64)] = True
    out = []
    for batch in run.messages:
        rows = np.flatnonzero(sees[batch.receivers])
        if len(rows):
            fields = {name: np.asarray(value)[rows] for name, value in (batch.fields or {}).items()}
            ends = batch.senders[rows], batch.receivers[rows]
            out.append(Batch(batch.phase.label, batch.step, *ends, batch.item_bytes, fields))
    for own in run.private:
        rows = np.flatnonzero(sees[own.owners]) if own.kind is Private.COINS else np.empty(0, dtype=np.int64)
        if len(rows):
            owners = own.owners[rows]
            out.append(Batch(own.name, own.step, owners, owners, 0, {"": np.asarray(own.values)[rows]}, sent=False))
    return out


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """One place in which two runs with equal randomness differ.

    Attributes:
        key: kind of message and field; the field is empty where sizes, counts or order differ.
        step: when.
        senders: int64 [k], of the messages that differ.
        receivers: int64 [k].
        rule: what does not hold, in words.
    """

    key: Key
    step: Step
    senders: Ids
    receivers: Ids
    rule: str

    def place(self, parties: Directory) -> str:
        """Where it is, in words."""
        return place_of(self.key, self.step, self.senders, self.receivers, parties)


def place_of(key: Key, step: Step | None, senders: Ids, receivers: Ids, parties: Directory) -> str:
    """Kind of message, field, step, senders and receivers, in words."""
    what = f"{key[1]} of {key[0]}" if key[1] not in ("", "payload") else key[0]
    when = "" if step is None else f" in {words_of(step)}"
    return f"{what}{when} from {_names(senders, parties)} to {_names(receivers, parties)}"


def words_of(step: Step) -> str:
    """A step, in words."""
    layer = "" if step.layer < 0 else f", layer {step.layer}"
    way = ", backward" if step.direction is Direction.BACKWARD else ""
    return f"round {step.round}{layer}{way}{', scoring' if step.evaluation else ''}"


def _names(parties: Ids, directory: Directory) -> str:
    found = np.unique(parties).tolist()
    roles: dict[Role, list[str]] = {}
    for each in found[:3]:
        party = directory.party_of(each)
        roles.setdefault(party.role, []).append(str(party.index))
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    parts = [f"{role}{'s' if len(each) > 1 or more else ''} {', '.join(each)}" for role, each in roles.items()]
    return (" and ".join(parts) or "no party") + more


def differences(
    one: list[Batch], other: list[Batch], again: Callable[[int], list[Batch]], other_again: Callable[[int], list[Batch]]
) -> Iterator[Difference]:
    """Where two runs differ: in what they look like from outside, which ends the comparison, or in words.

    Args:
        one: of the first input.
        other: of the second input, with equal randomness.
        again: gives the first one once more with equal randomness, for the how many-th time, from 1.
        other_again: gives the second one once more. Libraries may have entropy of their own: of fields that differ
            anywhere in two runs of one input those eight bytes count that `REPEATS` runs of each input share.
    """
    nobody, random = np.empty(0, dtype=np.int64), _random_fields(one, again(1))
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if (
            a.shape != b.shape
            or not np.array_equal(a.receivers, b.receivers)
            or not np.array_equal(a.senders, b.senders)
        ):
            rule = "changes in number, size, type, order or ends of messages"
            yield Difference((a.kind, ""), a.step, a.senders, a.receivers, rule)
            return
        for name, value in a.fields.items():
            rows = _changed(value, b.fields[name])
            if len(rows) and (a.kind, name) in random:
                runs = (
                    tuple(run(number)[place].fields[name] for run in (again, other_again))
                    for number in range(1, REPEATS)
                )
                rows = _steadily_changed(value, b.fields[name], runs, small_vary=random[a.kind, name])
            if len(rows):
                yield Difference((a.kind, name), a.step, a.senders[rows], a.receivers[rows], "depends on the secret")
    if len(one) != len(other):
        first = max(one, other, key=len)[min(len(one), len(other))]
        yield Difference((first.kind, ""), first.step, nobody, first.receivers, "is sent for one secret alone")


def sees_a_word(one: list[Batch], again: list[Batch], masked: Collection[Key], seed: int) -> bool:
    """Whether a comparison of two runs finds one word that differs, or one byte more where there is no such word.

    Args:
        one: what parties get in a run.
        again: in another run of the same input.
        masked: fields that may differ.
        seed: of the word.
    """
    varying = {*_random_fields(one, again), *masked}
    rng = np.random.default_rng(seed)
    places = [(place, name) for place, batch in enumerate(one) for name, value in batch.fields.items()
              if value.size and (batch.kind, name) not in varying]  # fmt: skip
    other = list(one)
    if places:
        place, name = places[rng.integers(len(places))]
        value = one[place].fields[name].copy()
        flat = value.reshape(-1)
        word = rng.integers(flat.size)
        flat[word] = flat[word] + 1 if value.dtype.kind == "f" else flat[word] ^ flat.dtype.type(1)
        other[place] = replace(one[place], fields={**one[place].fields, name: value})
    elif one:
        other[0] = replace(one[0], item_bytes=one[0].item_bytes + 1)
    else:
        party = np.zeros(1, dtype=np.int64)
        other = [Batch("", Step(0), party, party, 1, {})]
    return any(differences(one, other, lambda _: again, lambda _: other))


def _changed(value: NDArray[Any], other: NDArray[Any]) -> Ids:
    """Rows that differ; of real numbers, by more than rounding does."""
    if value.dtype.kind == "f":
        same: Flags = np.isclose(value, other, rtol=1e-5, atol=1e-7, equal_nan=True)
    else:
        same = value == other
    return np.flatnonzero(~same.reshape(len(same), -1).all(axis=1))


def _random_fields(one: list[Batch], again: list[Batch]) -> dict[Key, bool]:
    """Fields that differ in two runs of one input, and whether small numbers in them do."""
    found = dict[Key, bool]()
    for a, b in zip(one, again, strict=False):
        for name, value in a.fields.items():
            if len(_changed(value, b.fields[name])):
                mine, other = _blocks(value), _blocks(b.fields[name])
                small = ((mine < SMALL) & (other < SMALL) & (mine != other)).any()
                found[a.kind, name] = found.get((a.kind, name), False) or bool(small)
    return found


def _blocks(found: NDArray[Any]) -> NDArray[np.uint64]:
    """The whole groups of eight bytes of each row."""
    flat = np.ascontiguousarray(found).reshape(len(found), -1).view(np.uint8)
    return np.ascontiguousarray(flat[:, : flat.shape[1] // 8 * 8]).view(np.uint64)


def _steadily_changed(
    one: NDArray[Any], other: NDArray[Any], runs: Iterator[tuple[NDArray[Any], ...]], *, small_vary: bool
) -> Ids:
    """Rows with eight bytes that all runs of one input share, and all of another input, but not with the first.

    Small numbers, such as sizes of ciphertexts, may agree by chance: none counts in a field in which one of them
    differs between two runs of one input. Further runs start only while such rows are left.
    """
    mine, theirs = _blocks(one), _blocks(other)
    changed, small, steady_small = mine != theirs, (mine < SMALL) & (theirs < SMALL), not small_vary
    ends = [_ends(mine), _ends(theirs)]
    for again, once_more in runs:
        both = _blocks(again), _blocks(once_more)
        same = (mine == both[0]) & (theirs == both[1])
        changed &= same
        steady_small &= not (small & ~same).any()
        ends += map(_ends, both)
        # of random length: behind the shortest is padding
        shortest, longest = np.min(ends, axis=0), np.max(ends, axis=0)
        changed &= (shortest == longest)[:, None] | (np.arange(changed.shape[1]) < shortest[:, None])
        changed &= ~small | steady_small
        if not changed.any():
            break
    return np.flatnonzero(changed.any(axis=1))


def _ends(blocks: NDArray[np.uint64]) -> Ids:
    """The last block of each row that is not 0; -1 where there is none."""
    ends: Ids = np.where(blocks != 0, np.arange(blocks.shape[1]), -1).max(axis=1, initial=-1)
    return ends


def words(batches: list[Batch], fields: tuple[UniformField, ...]) -> dict[Key, list[Words]]:
    """The words of fields that must be uniform, by field: messages of one width together, and the beginnings of all.

    Streams of masks that begin alike in steps of several widths show in beginnings alone.

    Args:
        batches: of one run.
        fields: by kind of message and name; of several moduli the largest that the type of the words holds.
    """
    parts: dict[tuple[Key, int, int], list[tuple[NDArray[Any], Ids, Ids, Ids]]] = {}
    steps: dict[Step, int] = {}
    for batch in batches:
        for name, value in batch.fields.items():
            fitting = _moduli((batch.kind, name), value.dtype, fields)
            flat = value.reshape(len(value), -1) if fitting else value[:0]
            present = np.flatnonzero(flat.any(axis=1)) if flat.size else flat
            if len(present):  # zeros alone are a refusal
                number = steps.setdefault(batch.step, len(steps))
                ends = batch.senders[present], batch.receivers[present]
                part = parts.setdefault(((batch.kind, name), max(fitting), flat.shape[1]), [])
                part.append((flat[present], *ends, np.full(len(present), number)))
    out: dict[Key, list[Words]] = {}
    for (key, stated, _), found in parts.items():
        modulus = stated or _range_of([part[0] for part in found])
        values = np.concatenate([_integers(part[0], modulus) for part in found])
        senders, receivers, numbers = (np.concatenate([part[place] for part in found]) for place in (1, 2, 3))
        named = Words(f"{key[1]} of {key[0]}", modulus, values, senders, receivers, numbers, stated > 0)
        out.setdefault(key, []).append(named)
    return {key: [*found, *_beginnings(found)] for key, found in out.items()}


def _range_of(words: list[NDArray[Any]]) -> int:
    """How many values words seem to have; remainders of least magnitude take both signs."""
    low, high = min(int(each.min()) for each in words), max(int(each.max()) for each in words)
    return high + 1 if low >= 0 else 2 * max(high, -low) + 1


def _beginnings(parts: list[Words]) -> list[Words]:
    """The first words of messages of several widths; none where there is one width."""
    first, width = parts[0], min(part.values.shape[1] for part in parts)
    alike = [part for part in parts if part.modulus == first.modulus]
    if len(alike) < 2 or width < 2:
        return []
    values = np.concatenate([part.values[:, :width] for part in alike])
    senders, receivers, steps = (
        np.concatenate([getattr(part, name) for part in alike]) for name in ("senders", "receivers", "steps")
    )
    return [replace(first, values=values, senders=senders, receivers=receivers, steps=steps)]


def _moduli(key: Key, kind: np.dtype[Any], fields: tuple[UniformField, ...]) -> list[int]:
    """Those of a field that its type holds; remainders of least magnitude take both signs."""
    moduli = [each.modulus for each in fields if each.key == key]
    if kind.kind not in "iu":
        return []
    return [each for each in moduli if each <= np.iinfo(kind).max + 1] or [
        each for each in moduli if each <= 2 ** (8 * kind.itemsize)
    ]


def _integers(values: NDArray[Any], modulus: int) -> NDArray[np.int64]:
    """Words as int64 in 0 .. modulus - 1; those of 2^63 values or more by their bits."""
    if modulus >= 2**63:
        return np.ascontiguousarray(values).view(np.int64)
    return values.astype(np.int64) % modulus
