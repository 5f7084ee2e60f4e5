"""Gradients of structure that are added up row by row: for the server, or for the owners of the rows.

A row belongs to a node, and a row of a sum to which one client alone contributes is that client's: it tells labels of
its nodes. So clients first add up marks, 1 for every row that is not 0, and then hand in 0 where too few have marked.
Clients may vanish between the two sums, so that a row that is opened needs as many marks more. Whoever is entitled to
the sum learns how many clients contribute to each row, and tells the others which are opened.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.quantization import largest_magnitude
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.topology import CLIENTS, SERVER
from fgl_secure.runtime import Phase
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.ranges import shrunk
from fgl_secure.typing import Floats, Ids

STRUCTURE_SUM = "structure gradient sum"
"""What the server is left with of the gradients of structure: the sum float64 [1, n d], row after row."""

CONTRIBUTORS = "contributors"
"""What whoever is entitled to a sum of rows learns beside it: how many clients contribute to each, int64 [1, n]."""

Rows = NDArray[np.floating[Any]]


class RowSums(ABC):
    """Sums of a matrix [n, d] of each client, of which rows that few clients contribute to stay closed.

    Args:
        talk: the collectives of the run.
        k_min: fewest clients that a row is opened for; 1 opens all, without marks.

    Raises:
        InputError: no row can have so many contributors.
    """

    def __init__(self, talk: Collectives, k_min: int = 1) -> None:
        self._talk, self._silo = talk, talk.silo
        self._needed = 1 if k_min == 1 else talk.needed(self._topology, k_min)

    @property
    @abstractmethod
    def _topology(self) -> str:
        """Of the sums."""

    @abstractmethod
    def own(self, rows: Rows) -> Floats:
        """The sum's rows of own nodes, float64 [m, d], from this client's matrix [n, d]; closed ones are 0."""


class SumsByServer(RowSums):
    """The server adds up, and sends the sum to all clients (Algorithm 2)."""

    @property
    def _topology(self) -> str:
        return SERVER

    def all(self, rows: Rows) -> Floats:
        """The whole sum, float64 [n, d]; rows that stay closed are 0."""
        if self._needed > 1:
            grid = self._talk.gradient_grid
            exponent = self._talk.exponent(largest_magnitude(rows), grid.bound)
            marks = (grid.encode(shrunk(rows.astype(np.float64), exponent)) != 0).any(axis=1)
            opened = self._talk.enough(marks, self._needed, CONTRIBUTORS)
            rows = closed(rows, opened)
        total, _ = self._talk.server(rows.reshape(-1), output=STRUCTURE_SUM)
        return total.reshape(rows.shape)

    def own(self, rows: Rows) -> Floats:
        """See `RowSums.own`."""
        return self.all(rows)[self._silo.nodes]


class SumsByOwners(RowSums):
    """The owner of a node learns the sum of the other clients' rows, to which it adds its own; the server sees sizes.

    Rows are sent for all nodes of the owner, zero or not, so that their number tells nothing.

    Args:
        talk: the collectives of the run.
        owners: int64 [n], whose node each is.
        k_min: fewest other clients that a row is opened for.
    """

    def __init__(self, talk: Collectives, owners: Ids, k_min: int = 1) -> None:
        super().__init__(talk, k_min)
        self._nodes = [np.flatnonzero(owners == silo) for silo in range(talk.silo.facts.silos)]
        self._grid = talk.clients_grid

    @property
    def _topology(self) -> str:
        return CLIENTS

    def own(self, rows: Rows) -> Floats:
        """See `RowSums.own`."""
        me, width = self._silo.silo, rows.shape[1]
        exponent = self._talk.exponent(largest_magnitude(rows), self._grid.bound)
        parts = [shrunk(rows[nodes], exponent) for nodes in self._nodes]
        if self._needed > 1:
            parts = [closed(*pair) for pair in zip(parts, self._opened(parts), strict=True)]
        terms: dict[int, Ids | int] = {
            silo: self._grid.encode(part.reshape(-1).astype(np.float64)) for silo, part in enumerate(parts)
        }
        total = self._talk.clients({**terms, me: parts[me].size}, self._grid.largest)
        others = shrunk(self._grid.decode(total), -exponent)
        summed: Floats = others.reshape(-1, width) + rows[self._nodes[me]]
        return summed

    def _opened(self, parts: list[Rows]) -> list[NDArray[np.bool_]]:
        """For each owner, bool [n_i]: which of its rows others contribute enough to; of its own all."""
        me, sizes = self._silo.silo, self._silo.facts.sizes
        marks: dict[int, Ids | int] = {
            silo: (self._grid.encode(part.astype(np.float64)) != 0).any(axis=1).astype(np.int64)
            for silo, part in enumerate(parts)
        }
        enough = self._talk.clients({**marks, me: sizes[me]}, 1, CONTRIBUTORS) >= self._needed
        bits = np.packbits(np.pad(enough, (0, max(sizes) - len(enough))))[None]
        heard = self._talk.exchange(Phase.OPENED, dict.fromkeys(self._silo.others, bits))
        heard[me] = np.packbits(np.ones((1, max(sizes)), dtype=np.bool_), axis=1)
        for silo, told in enumerate(heard):
            if told.shape != bits.shape:
                raise ProtocolError(f"silo {silo} must tell which of its {sizes[silo]} rows are open; it does not")
        return [np.unpackbits(told[0])[:size].astype(np.bool_) for told, size in zip(heard, sizes, strict=True)]


def closed(rows: Rows, opened: NDArray[np.bool_]) -> Rows:
    """What a client hands in of its rows: 0 for those that are not open."""
    return np.where(opened[:, None], rows, 0).astype(rows.dtype, copy=False)
