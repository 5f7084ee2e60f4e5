"""One arm of a comparison: a protocol on fixed inputs, watched by a coalition, on all coin tapes or on samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import Coins
from fgl_secure.errors import InputError
from fgl_secure.runtime import PAYLOAD, Directory, Party, Phase, Private, Recording, Step, Transcript
from fgl_secure.runtime.view import PrivateRows, ReceivedRows
from fgl_secure.testing.coins import BatchCoins, CountingCoins, Draw, Tapes, tape_count
from fgl_secure.testing.protocol import Inputs, Protocol

Ints = NDArray[np.int64]

_OWN = "own "


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one kind in a view, and how they lie there.

    Bytes an element are not part of it: they are the business of `assert_same_trace`.

    Attributes:
        content: the phase of messages, or the name of inputs or coins.
        step: when.
        ends: (sender, receiver) of each message, or (owner, owner); party identifiers.
        item_shape: shape of one row.
    """

    content: str
    step: Step
    ends: tuple[tuple[int, int], ...]
    item_shape: tuple[int, ...]

    @property
    def width(self) -> int:
        """Coordinates of one row."""
        return int(np.prod(self.item_shape, dtype=np.int64))


Layout = tuple[Block, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Views:
    """Views with one layout: values int64 [n, coordinates]."""

    layout: Layout
    values: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Aligned:
    """Views of two arms over the same columns.

    Attributes:
        a: int64 [n, columns].
        b: int64 [m, columns].
        labels: a name for each column.
        positions: position of each column inside its message.
    """

    a: Ints
    b: Ints
    labels: tuple[str, ...]
    positions: tuple[int, ...]


def views_of(transcript: Transcript, coalition: Iterable[Party], kinds: Sequence[Private]) -> Views:
    """What a coalition received, and its own inputs or coins as `kinds` says, over all rounds.

    Real numbers enter by their bit patterns, so that equal views stay equal and different ones different. Of sealed
    messages only their ends and number do: who forwards a ciphertext cannot open it.

    Raises:
        InputError: for messages whose payload was not recorded: the view would be incomplete.
    """
    view = transcript.view(coalition)
    rows: list[ReceivedRows | PrivateRows] = [*view.received, *(own for own in view.private if own.kind in list(kinds))]
    count = 1 if not transcript.batch_axes else -1
    blocks, columns = [], []
    for part in rows:
        if isinstance(part, ReceivedRows) and part.phase is Phase.SEALED:
            blocks.append(Block(part.phase.label, part.step, _ends(part), (0,)))
            continue
        for content, ends, payload in _contents(part):
            shape = payload.shape[transcript.batch_axes + 1 :]
            blocks.append(Block(content, part.step, ends, shape))
            runs = count if count > 0 else payload.shape[0]
            columns.append(_as_integers(payload).reshape(runs, len(ends) * blocks[-1].width))
    values = np.concatenate(columns, axis=1) if columns else np.zeros((1, 0), dtype=np.int64)
    return Views(tuple(blocks), values)


def aligned(a: Sequence[Views], b: Sequence[Views], parties: Directory) -> Aligned:
    """Puts the views of two arms over the same columns.

    Where layouts differ between runs, the number of the layout becomes the first column: whoever sees a view sees
    how many messages it has and how long they are.
    """
    layouts = list(dict.fromkeys(views.layout for views in [*a, *b]))
    if len(layouts) == 1:
        labels, positions = _describe(layouts[0], parties)
        return Aligned(_stack(a), _stack(b), labels, positions)
    width = max(views.values.shape[1] for views in [*a, *b])
    labels = ("number and length of the messages", *(f"coordinate {j}" for j in range(width)))
    padded = [_stack([_padded(views, layouts.index(views.layout), width) for views in arm]) for arm in (a, b)]
    return Aligned(padded[0], padded[1], labels, (-1, *range(width)))


def _contents(
    part: ReceivedRows | PrivateRows,
) -> Iterator[tuple[str, tuple[tuple[int, int], ...], NDArray[Any]]]:
    """What is seen of each field, under the name of its phase where a message has one field alone."""
    if isinstance(part, PrivateRows):
        owners = part.owners.tolist()
        yield _OWN + part.name, tuple(zip(owners, owners, strict=True)), part.values
        return
    if part.fields is None:
        raise InputError(f"payload must be recorded for every message of the view; found none for {part.phase.label}")
    for name, value in part.fields.items():
        yield (part.phase.label if name == PAYLOAD else f"{part.phase.label}, {name}"), _ends(part), value


def _ends(part: ReceivedRows) -> tuple[tuple[int, int], ...]:
    return tuple(zip(part.senders.tolist(), part.receivers.tolist(), strict=True))


def _as_integers(payload: NDArray[Any]) -> Ints:
    if payload.dtype.kind in "iub":
        return payload.astype(np.int64)
    if payload.dtype.kind != "f" or payload.dtype.itemsize > 8:
        raise InputError(f"payload must hold integers or reals of up to 64 bits; found {payload.dtype}")
    return np.ascontiguousarray(payload).view(f"i{payload.dtype.itemsize}").astype(np.int64)


def _stack(views: Sequence[Views]) -> Ints:
    return np.concatenate([part.values for part in views])


def _padded(views: Views, layout: int, width: int) -> Views:
    values = np.pad(views.values, ((0, 0), (1, width - views.values.shape[1])))
    values[:, 0] = layout
    return Views(views.layout, values)


def _describe(layout: Layout, parties: Directory) -> tuple[tuple[str, ...], tuple[int, ...]]:
    labels: list[str] = []
    positions: list[int] = []
    for block in layout:
        for ends in block.ends:
            where = _whereabouts(block, ends, parties)
            labels += [f"{block.content}[{j}] ({where})" for j in range(block.width)]
            positions += range(block.width)
    return tuple(labels), tuple(positions)


def _whereabouts(block: Block, ends: tuple[int, int], parties: Directory) -> str:
    if block.content.startswith(_OWN):
        return str(party_at(parties, ends[0]))
    layer = f" layer {block.step.layer}" if block.step.layer >= 0 else ""
    return f"{party_at(parties, ends[0])} to {party_at(parties, ends[1])}, round {block.step.round}{layer}"


def party_at(parties: Directory, identifier: int) -> Party:
    """The party of an identifier."""
    ids = np.array([identifier])
    role = parties.roles[int(parties.role_of(ids)[0])]
    return Party(role, int(parties.index_of(ids, role)[0]))


_CHUNK = 2**14  # samples that run at once: bounds memory, not the result
_MOST_SINGLE_RUNS = 2**16


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """What is run and who watches.

    Attributes:
        protocol: what runs.
        inputs: on which inputs.
        coalition: who pools views.
        kinds: what else than messages belongs to the view: own inputs, own coins.
    """

    protocol: Protocol
    inputs: Inputs
    coalition: tuple[Party, ...]
    kinds: tuple[Private, ...] = (Private.INPUT, Private.COINS)

    def draws(self) -> tuple[Draw, ...]:
        """The coins that one run draws, found by a dry run on coins that are all zero."""
        coins = CountingCoins((1,) if self.protocol.batched else ())
        self.protocol.transcript(self.inputs, coins, Recording())
        return tuple(coins.draws)

    def on_all_tapes(self) -> list[Views]:
        """The view on every coin tape: in one run, or in as many runs as there are tapes."""
        draws = self.draws()
        if self.protocol.batched:
            return [self._on(Tapes(draws))]
        tapes = tape_count(draws)
        if tapes > _MOST_SINGLE_RUNS:
            raise InputError(
                f"coin tapes of a protocol with batched=False must number at most 2^16; found {tapes}: take a smaller "
                "field, or let the protocol carry the channel's batch_shape"
            )
        return [self._on(Tapes(draws, tape)) for tape in range(tapes)]

    def sample(self, size: int, coins: Coins) -> list[Views]:
        """The views of independent runs."""
        return [self._view(batch) for batch in self._batches(size, coins)]

    def _batches(self, size: int, coins: Coins) -> Iterator[Coins]:
        if not self.protocol.batched:
            yield from (coins for _ in range(size))
            return
        for start in range(0, size, _CHUNK):
            yield BatchCoins(coins, min(_CHUNK, size - start))

    def _on(self, tapes: Tapes) -> Views:
        views = self._view(tapes)
        if not tapes.exhausted:
            raise InputError("draws must not depend on the values of earlier coins; found a run that drew fewer")
        return views

    def _view(self, coins: Coins) -> Views:
        transcript = self.protocol.transcript(self.inputs, coins, Recording.everything())
        return views_of(transcript, self.coalition, self.kinds)
