"""Which rows are summed together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """A partition of rows into consecutive segments of a permutation; sorted once, summed many times.

    Attributes:
        order: int64 [m], a permutation that puts the rows of one segment side by side.
        starts: int64 [s + 1], where each segment begins in `order`, and the end.
    """

    order: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def by_group(cls, group_of: NDArray[np.int64], groups: int) -> Segments:
        """Segment s holds the rows whose group is s.

        Args:
            group_of: int64 [m], the group of each row, 0 .. groups - 1.
            groups: how many groups there are; some may be empty.
        """
        if len(group_of) and not (int(group_of.min()) >= 0 and int(group_of.max()) < groups):
            raise InputError(
                f"group_of must lie in 0..{groups - 1}; found {int(group_of.min())}..{int(group_of.max())}"
            )
        counts = np.bincount(group_of, minlength=groups)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(np.argsort(group_of, kind="stable").astype(np.int64), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def rows(self) -> int:
        """How many rows the segments are made of."""
        return len(self.order)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """int64 [s]: rows in each segment."""
        return np.diff(self.starts)

    def real_sums(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        """Sums the rows of each segment over real numbers: values [m, d] to float64 [s, d]."""
        self.check_rows(len(values))
        members = sparse.csr_array((np.ones(self.rows), self.order, self.starts), shape=(len(self), self.rows))
        return np.asarray(members @ values.astype(np.float64))

    def check_rows(self, rows: int) -> None:
        """Raises unless there are as many rows as the segments are made of; compiled loops check no bounds."""
        if rows != self.rows:
            raise InputError(f"values must have the segments' {self.rows} rows; found {rows}")
