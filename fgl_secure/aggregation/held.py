"""What the clients of one process hold: mappings that are in memory, and those that are made whenever they are read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeGuard

import torch

from fgl_secure.aggregation.layout import Arrays, Layout, Tree
from fgl_secure.errors import FieldRangeError, InputError

Maker = Callable[[], Tree]
"""Makes a client's mapping, the same one whenever it is called."""


class Held(Mapping[int, Arrays]):
    """The mappings of clients, by number; one that is made when it is read is not kept.

    Args:
        given: a mapping, or what makes it, of each client that is there: at least one.

    Raises:
        InputError: mappings that are in memory differ in keys, shapes or types, or a function takes arguments; names
            client and key. Others are checked whenever they are made.
    """

    def __init__(self, given: Mapping[int, Tree | Maker]) -> None:
        self._makers, in_memory = dict[int, Maker](), dict[int, Any]()
        for index, each in given.items():
            with naming(index):
                if _makes(each):
                    self._makers[index] = each
                else:
                    in_memory[index] = each
        first = next(iter(given))
        with naming(first):
            self.layout = Layout.of(self._makers[first]() if first in self._makers else in_memory[first])
        """That of the first one."""
        self._kept = {index: self._arrays(each, index) for index, each in in_memory.items()}
        self._all = tuple(given)

    def __getitem__(self, index: int) -> Arrays:
        if index in self._makers:
            return self._arrays(self._makers[index](), index)
        return self._kept[index]

    def _arrays(self, mapping: Tree, index: int) -> Arrays:
        with naming(index):
            return self.layout.arrays(mapping, f"client {index}")

    def __iter__(self) -> Iterator[int]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, index: object) -> bool:  # that of Mapping would make it
        return index in self._makers or index in self._kept


@contextmanager
def naming(index: int) -> Iterator[None]:
    """Put the number of a client before what is wrong with its input."""
    try:
        yield
    except (FieldRangeError, InputError) as error:
        kind = FieldRangeError if isinstance(error, FieldRangeError) else InputError
        raise kind(f"client {index}: {error}") from error


def _makes(each: Tree | Maker) -> TypeGuard[Maker]:
    """Return whether a value makes a mapping; models are callable, and make none.

    Raises:
        InputError: it is a function that takes arguments.
    """
    if not callable(each) or isinstance(each, torch.nn.Module | Mapping | list | tuple):
        return False
    try:
        inspect.signature(each).bind()
    except ValueError:  # some functions that are written in C have no signature
        return True
    except TypeError as error:
        found = getattr(each, "__name__", type(each).__name__)
        raise InputError(
            f"mapping must be arrays by name, or a function of no arguments that makes them; found {found}: {error}"
        ) from error
    return True
