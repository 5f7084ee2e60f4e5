"""One arm of a comparison: a protocol on fixed inputs, watched by a coalition, on all coin tapes or on samples.

A view is what was received and what its members own, and how that lies: number, order, types and declared sizes of
messages, incidents, and the error that a run ends with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import Coins
from fgl_secure.errors import InputError
from fgl_secure.runtime import PAYLOAD, Directory, Party, Phase, Private, Recording, Step, Transcript
from fgl_secure.runtime.transcript import Incident, PrivateRows, ReceivedRows
from fgl_secure.testing.coins import BatchCoins, CoinDraw, CountingCoins, TapeError, Tapes, tape_count
from fgl_secure.testing.evidence import VacuousTestError
from fgl_secure.testing.protocol import Inputs, Protocol
from fgl_secure.typing import Integers

_OWN = "own "


@dataclass(frozen=True, slots=True)
class _RowBlock:
    """Rows of one kind in a view, and how they lie there.

    Attributes:
        content: the phase of messages, the name of inputs or coins, or what an incident or error says.
        step: when.
        ends: (sender, receiver) of each message, or (owner, owner); party identifiers.
        item_shape: shape of one row.
        dtype: of its elements.
        item_bytes: what one message was declared to have on the wire; 0 for what is no message.
    """

    content: str
    step: Step
    ends: tuple[tuple[int, int], ...]
    item_shape: tuple[int, ...]
    dtype: str = ""
    item_bytes: int = 0

    @property
    def width(self) -> int:
        """Coordinates of one row."""
        return int(np.prod(self.item_shape, dtype=np.int64))

    def __str__(self) -> str:
        text = (
            f"{len(self.ends)} of {self.content}, round {self.step.round}, shape {list(self.item_shape)} {self.dtype}"
        )
        return f"{text}, {self.item_bytes} bytes" if self.item_bytes else text


Layout = tuple[_RowBlock, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Views:
    """Views with one layout: values int64 [n, coordinates].

    Attributes:
        layout: what lies where.
        values: int64 [n, coordinates].
        error: what the run ended with; None for one that came to its end.
    """

    layout: Layout
    values: Integers
    error: Exception | None = None


@dataclass(frozen=True, slots=True, eq=False)
class AlignedViews:
    """Views of two arms over the same columns.

    Attributes:
        a: int64 [n, columns].
        b: int64 [m, columns].
        labels: a name for each column.
        positions: position of each column inside its message.
        note: where the layouts of two views differ first, in words; "" where all have one.
    """

    a: Integers
    b: Integers
    labels: tuple[str, ...]
    positions: tuple[int, ...]
    note: str = ""


def views_of(
    transcript: Transcript, coalition: Iterable[Party], kinds: Sequence[Private], error: Exception | None = None
) -> Views:
    """What a coalition received, and its own inputs or coins as `kinds` says, over all rounds.

    Real numbers enter by their bit patterns, so that equal views stay equal and different ones different. Of sealed
    messages only their ends, sizes and number do: who forwards a ciphertext cannot open it.

    Args:
        transcript: of the run.
        coalition: who pools views.
        kinds: what else than messages belongs to the view.
        error: what the run ended with; it is seen by every party, as incidents are.

    Raises:
        InputError: for messages whose payload was not recorded: the view would be incomplete.
        VacuousTestError: for messages of the phases `sealed` and `mixed` whose content was sent to a member: no party
            would look at it.
    """
    view = transcript.view(coalition)
    rows: list[ReceivedRows | PrivateRows] = [
        *view.received,
        *(private_rows for private_rows in view.private if private_rows.kind in list(kinds)),
    ]
    count = 1 if not transcript.batch_axes else -1
    blocks, columns = [], []
    for part in rows:
        sealed = part.phase in _FORWARDED if isinstance(part, ReceivedRows) else False
        if isinstance(part, ReceivedRows) and (sealed or (part.phase is Phase.CIRCUITS and part.fields is None)):
            _require_forwarded(part, transcript.parties)
            blocks.append(_RowBlock(part.phase.label, part.step, _ends(part), (0,), item_bytes=part.item_bytes))
            continue
        size = part.item_bytes if isinstance(part, ReceivedRows) else 0
        for content, ends, payload in _contents(part):
            shape = payload.shape[transcript.batch_axes + 1 :]
            blocks.append(_RowBlock(content, part.step, ends, shape, payload.dtype.str, size))
            runs = count if count > 0 else payload.shape[0]
            columns.append(_as_integers(payload).reshape(runs, len(ends) * blocks[-1].width))
    blocks += [_incident(transcript.parties, incident) for incident in transcript.incidents]
    if error is not None:
        blocks.append(_RowBlock(f"{type(error).__name__}: {error}", Step(0), (), (0,)))
    values = np.concatenate(columns, axis=1) if columns else np.zeros((1, 0), dtype=np.int64)
    return Views(tuple(blocks), values, error)


_FORWARDED = (Phase.SEALED, Phase.MIXED)


def _incident(parties: Directory, incident: Incident) -> _RowBlock:
    party = parties.id_of(incident.party)
    return _RowBlock(incident.what, incident.step, ((party, party),), (0,))


def _require_forwarded(part: ReceivedRows, parties: Directory) -> None:
    if part.fields is not None and len(part.receivers):
        member = party_at(parties, int(part.receivers[0]))
        raise VacuousTestError(
            f"payload of phase {part.phase.label} must be for somebody behind its receiver, because nobody looks "
            f"into it; found content that was sent to {member}: name the phase by what the message holds"
        )


@dataclass(frozen=True, slots=True)
class Frame:
    """The columns that samples of two arms share, as one sample of them shows.

    Attributes:
        layouts: the numbers of those that are known; others get some as they appear.
        width: coordinates behind the number of the layout; wider views are cut.
    """

    layouts: dict[Layout, int]
    width: int

    @classmethod
    def of(cls, views: Iterable[Views]) -> Frame:
        """The frame of some views: layouts by width, so that their numbers are in an order that says something."""
        widths = {view.layout: view.values.shape[1] for view in views}
        order = sorted(widths, key=lambda layout: (widths[layout], len(layout)))
        return cls({layout: number for number, layout in enumerate(order)}, max(widths.values()))

    @property
    def has_layout_column(self) -> bool:
        """Whether the number of the layout is a column."""
        return len(self.layouts) > 1

    def number(self, layout: Layout) -> int:
        """Of a layout."""
        return self.layouts.setdefault(layout, len(self.layouts))


LAYOUT = "number, order, types and lengths of the messages, incidents and errors"


def align_views(a: Sequence[Views], b: Sequence[Views], parties: Directory, frame: Frame | None = None) -> AlignedViews:
    """Puts the views of two arms over the same columns.

    Where layouts differ between runs, the number of the layout becomes the first column: a party that sees a view sees
    how many messages it has and how long they are.

    Args:
        a: of the first arm.
        b: of the second.
        parties: numbering of the parties.
        frame: of samples taken before, whose columns these are to have too; None for those of these views.

    Raises:
        Exception: what all runs of both arms ended with: a protocol that never runs shows nothing.
    """
    if all(item.error is not None for item in (*a, *b)):
        raise a[0].error or InputError("runs must end")
    frame = Frame.of([*a, *b]) if frame is None else frame
    numbers = [frame.number(views.layout) for views in (*a, *b)]
    if not frame.has_layout_column:
        labels, positions = _describe(next(iter(frame.layouts)), parties)
        return AlignedViews(_stack(a), _stack(b), labels, positions)
    numbered = [_add_layout_column(views, index, frame.width) for views, index in zip((*a, *b), numbers, strict=True)]
    labels = (LAYOUT, *(f"coordinate {j}" for j in range(frame.width)))
    first, other = list(frame.layouts)[:2]
    note = f"views differ in layout: {first_difference(first, other)}"
    return AlignedViews(_stack(numbered[: len(a)]), _stack(numbered[len(a) :]), labels, (-1, *range(frame.width)), note)


def first_difference(first: Sequence[object], others: Sequence[object]) -> str:
    """Where two layouts or traces part, in words."""
    index = next(
        (i for i, (x, y) in enumerate(zip(first, others, strict=False)) if x != y), min(len(first), len(others))
    )
    first_text, second_text = (
        str(item[index]) if index < len(item) else "no further message" for item in (first, others)
    )
    return f"first difference, batch {index}: {first_text} against {second_text}"


def _contents(part: ReceivedRows | PrivateRows) -> Iterator[tuple[str, tuple[tuple[int, int], ...], NDArray[Any]]]:
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


def _as_integers(payload: NDArray[Any]) -> Integers:
    if payload.dtype.kind in "iub":
        return payload.astype(np.int64)
    if payload.dtype.kind != "f" or payload.dtype.itemsize > 8:
        raise InputError(f"payload must hold integers or reals of up to 64 bits; found {payload.dtype}")
    return np.ascontiguousarray(payload).view(f"i{payload.dtype.itemsize}").astype(np.int64)


def _stack(views: Sequence[Views]) -> Integers:
    return np.concatenate([part.values for part in views])


def _add_layout_column(views: Views, number: int, width: int) -> Views:
    values = views.values[:, :width]
    values = np.pad(values, ((0, 0), (1, width - values.shape[1])))
    values[:, 0] = number
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


def _whereabouts(block: _RowBlock, ends: tuple[int, int], parties: Directory) -> str:
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

    def draws(self) -> tuple[CoinDraw, ...]:
        """The coins that one run draws, found by a dry run on coins that are all zero."""
        coins = CountingCoins((1,) if self.protocol.batched else ())
        self.protocol.run_once(self.inputs, coins, Recording())
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
        if not tapes.is_exhausted:
            raise TapeError("draws must not depend on the values of earlier coins; found a run that drew fewer")
        return views

    def _view(self, coins: Coins) -> Views:
        transcript, error = self.protocol.run_once(self.inputs, coins, Recording.everything())
        return views_of(transcript, self.coalition, self.kinds, error)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One batch of messages as the network sees it."""

    phase: str
    round: int
    layer: int
    direction: str
    evaluation: bool
    senders: tuple[int, ...]
    receivers: tuple[int, ...]
    item_bytes: int

    def __str__(self) -> str:
        ends = ", ".join(f"{s}-{r}" for s, r in zip(self.senders[:4], self.receivers[:4], strict=True))
        more = ", ..." if len(self.senders) > 4 else ""
        return (
            f"{len(self.senders)} messages of {self.item_bytes} bytes ({self.phase}, round {self.round}, "
            f"layer {self.layer}, {self.direction}, sender-receiver {ends}{more})"
        )


Trace = tuple[_Entry, ...]


def trace_of(transcript: Transcript) -> Trace:
    """The trace that a run left on the network."""
    return tuple(
        _Entry(
            batch.phase.label,
            batch.step.round,
            batch.step.layer,
            batch.step.direction,
            batch.step.evaluation,
            _tuple(batch.senders),
            _tuple(batch.receivers),
            batch.item_bytes,
        )
        for batch in transcript.messages
    )


def _tuple(ids: NDArray[np.int64]) -> tuple[int, ...]:
    return tuple(ids.tolist())
