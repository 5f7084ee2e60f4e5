"""A round with all parties in this process: what clients hold, machines over a channel that records, and losses."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeGuard

import numpy as np
import torch

from fgl_secure.aggregation.encoding import RoundingErrors
from fgl_secure.aggregation.layout import Arrays, TensorLayout, Tree
from fgl_secure.aggregation.record import is_kept
from fgl_secure.aggregation.rules import Rules
from fgl_secure.aggregation.sums import Opening, SumKind
from fgl_secure.coins import Coins
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.runtime import LazyArray, Phase, Role, Step
from fgl_secure.typing import Flags, Ids, Integers

UpdateFactory = Callable[[], Tree]
"""Makes a client's mapping, the same one whenever it is called."""


class ClientUpdates(Mapping[int, Arrays]):
    """The mappings of clients, by number; one that is made when it is read is not kept.

    Args:
        given: a mapping, or what makes it, of each client that is there: at least one.

    Raises:
        InputError: mappings that are in memory differ in keys, shapes or types, or a function takes arguments; names
            client and key. Others are checked whenever they are made.
    """

    def __init__(self, updates: Mapping[int, Tree | UpdateFactory]) -> None:
        self._makers, in_memory = dict[int, UpdateFactory](), dict[int, Any]()
        for index, item in updates.items():
            with _naming(index):
                if _is_factory(item):
                    self._makers[index] = item
                else:
                    in_memory[index] = item
        first = next(iter(updates))
        with _naming(first):
            self.layout = TensorLayout.of(self._makers[first]() if first in self._makers else in_memory[first])
        """That of the first one."""
        self._kept = {index: self._arrays(item, index) for index, item in in_memory.items()}
        self._all = tuple(updates)

    def __getitem__(self, index: int) -> Arrays:
        if index in self._makers:
            return self._arrays(self._makers[index](), index)
        return self._kept[index]

    def _arrays(self, mapping: Tree, index: int) -> Arrays:
        with _naming(index):
            return self.layout.arrays(mapping, f"client {index}")

    def __iter__(self) -> Iterator[int]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, index: object) -> bool:  # that of Mapping would make it
        return index in self._makers or index in self._kept


@contextmanager
def _naming(index: int) -> Iterator[None]:
    """Put the number of a client before what is wrong with its input."""
    try:
        yield
    except (FieldRangeError, InputError) as error:
        kind = FieldRangeError if isinstance(error, FieldRangeError) else InputError
        raise kind(f"client {index}: {error}") from error


def _is_factory(item: Tree | UpdateFactory) -> TypeGuard[UpdateFactory]:
    """Return whether a value makes a mapping; models are callable, and make none.

    Raises:
        InputError: it is a function that takes arguments.
    """
    if not callable(item) or isinstance(item, torch.nn.Module | Mapping | list | tuple):
        return False
    try:
        inspect.signature(item).bind()
    except ValueError:  # some functions that are written in C have no signature
        return True
    except TypeError as error:
        result = getattr(item, "__name__", type(item).__name__)
        raise InputError(
            f"mapping must be arrays by name, or a function of no arguments that makes them; found {result}: {error}"
        ) from error
    return True


_EARLY = frozenset({Phase.KEYS, Phase.DRAW, Phase.SECRET_SHARES})
"""What clients still say that vanish before they hand in a vector."""


@dataclass(frozen=True, slots=True, eq=False)
class RoundInputs:
    """What clients bring to a round.

    Attributes:
        rules: of the round.
        mappings: what they hold, by number; a client that is not there never came.
        weights: one for each client, come or not.
        dropped: clients that say nothing from their vector on.
        coins: of all parties.
        kept: rounding errors of those that are there, by number; empty where they are not fed back.
    """

    rules: Rules
    mappings: ClientUpdates
    weights: Sequence[float]
    dropped: Set[int]
    coins: Coins
    kept: Mapping[int, RoundingErrors] = field(default_factory=dict)

    @property
    def layout(self) -> TensorLayout:
        """Of the mappings."""
        return self.mappings.layout

    @property
    def loses(self) -> bool:
        """Whether any message is lost."""
        return bool(self.dropped) or len(self.mappings) < self.rules.clients

    def vectors(self, purpose: SumKind, opening: Opening) -> tuple[Integers | LazyArray, Flags]:
        """The vector of every client, int64 [n, length], and whether it vetoes the sum, bool [n].

        Vectors are of zeros for those whose vector goes nowhere. Where they are many, and nothing about them is random,
        each is made twice: now, so that what does not fit is refused before anything is sent, and when it is handed in.

        Raises:
            InputError: a client refuses its mapping or weight; names the client.
        """
        width = self.rules.topology(purpose, opening).width
        shape, vetoes = (self.rules.clients, width), np.zeros(self.rules.clients, dtype=bool)
        rows = None if self._reads_later(purpose) else np.zeros(shape, dtype=np.int64)
        for index in filter(self._is_there, self.mappings):
            update = self.mappings[index]
            with _naming(index):
                vetoes[index] = self.rules.exceeds_range(purpose, opening, update)
                vector = None if vetoes[index] else self._vector(index, update, purpose, opening)
            if rows is not None and vector is not None:
                rows[index] = vector
        if rows is None:
            make_rows = partial(self._rows, width=width, purpose=purpose, opening=opening, vetoes=vetoes)
            return LazyArray(make_rows, shape, np.dtype(np.int64)), vetoes
        rows.flags.writeable = False  # recordings need no copy
        return rows, vetoes

    def _reads_later(self, purpose: SumKind) -> bool:
        """Whether a client's vector is made again when it is handed in, in place of being kept until then."""
        if purpose is SumKind.RANGES or self.rules.is_random:
            return False
        return self.rules.scheme.reads_one_by_one and not is_kept(self.rules, self.layout)

    def _is_there(self, index: int) -> bool:
        """Whether a client's vector goes somewhere."""
        return index in self.mappings and index not in self.dropped

    def _vector(self, index: int, update: Tree, purpose: SumKind, opening: Opening) -> Integers:
        rounding_errors = self.kept.get(index)
        return self.rules.vector(purpose, opening, update, self.weights[index], self.coins, rounding_errors)

    def _rows(self, places: Ids, width: int, purpose: SumKind, opening: Opening, vetoes: Flags) -> Integers:
        """The vectors of some clients: int64 [k, width]."""
        rows = np.zeros((len(places), width), dtype=np.int64)
        for row, index in zip(rows, places.tolist(), strict=True):
            if self._is_there(index) and not vetoes[index]:
                update = self.mappings[index]
                with _naming(index):
                    row[:] = self._vector(index, update, purpose, opening)
        return rows

    def arrives(self, phase: Phase, step: Step, senders: Ids, receivers: Ids) -> Flags:  # noqa: ARG002  # a `Loss`
        """Which messages arrive: none from or for clients that never came, and only the first from those that left."""
        clients = self.rules.parties.ids(Role.SILO)
        present = np.isin(np.arange(self.rules.clients), list(self.mappings))
        mask: Flags = ~(np.isin(senders, clients[~present]) | np.isin(receivers, clients[~present]))
        if phase not in _EARLY:
            mask &= ~np.isin(senders, clients[list(self.dropped)])
        return mask
