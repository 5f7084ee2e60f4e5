"""What the clients of one process hold: mappings that are in memory, and those that are made whenever they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from fgl_secure.aggregation.layout import Arrays, Layout, Tree

Maker = Callable[[], Tree]
"""Makes a client's mapping, the same one whenever it is called."""


class Held(Mapping[int, Arrays]):
    """The mappings of clients, by number; one that is made when it is read is not kept.

    Args:
        given: a mapping, or what makes it, of each client that is there: at least one.

    Raises:
        InputError: mappings that are in memory differ in keys, shapes or types; names client and key. Others are
            checked whenever they are made.
    """

    def __init__(self, given: Mapping[int, Tree | Maker]) -> None:
        self._makers = {index: each for index, each in given.items() if callable(each)}
        first = next(iter(given.values()))
        self.layout = Layout.of(first() if callable(first) else first)
        """That of the first one."""
        self._kept = {i: self.layout.arrays(each, _named(i)) for i, each in given.items() if not callable(each)}
        self._all = tuple(given)

    def __getitem__(self, index: int) -> Arrays:
        if index in self._makers:
            return self.layout.arrays(self._makers[index](), _named(index))
        return self._kept[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, index: object) -> bool:  # that of Mapping would make it
        return index in self._makers or index in self._kept


def _named(index: int) -> str:
    return f"client {index}"
