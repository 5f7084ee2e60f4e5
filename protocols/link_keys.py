"""What two partners know, and nobody who is not between them: it names their messages where no tags are told."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fgl_secure.errors import InputError
from fgl_secure.typing import Flags, Ids


@dataclass(frozen=True, slots=True, eq=False)
class LinkKeys:
    """Keys between partners: a row for each partner of each device that a process hosts.

    Attributes:
        devices: int64 [p], hosted devices, party identifiers below 2^31.
        partners: int64 [p], the other ends, as the grouping calls them; no pair twice.
        words: int64 [p, 2], not negative, the same at both ends; secret.
        first: bool [p], whether the device is the first of the two ends; at the other end it says the opposite.
    """

    devices: Ids
    partners: Ids
    words: Ids = field(repr=False)
    first: Flags
    _order: Ids = field(init=False, repr=False)
    _pairs: Ids = field(init=False, repr=False)

    def __post_init__(self) -> None:
        pairs = self.devices << 32 | self.partners
        order = np.argsort(pairs)
        object.__setattr__(self, "_order", order)
        object.__setattr__(self, "_pairs", pairs[order])

    def find(self, devices: Ids, partners: Ids) -> Ids:
        """int64 [m]: the rows of some devices and their partners.

        Raises:
            InputError: two of them have no key.
        """
        wanted = devices << 32 | partners
        if not len(wanted):
            return wanted
        at = np.minimum(np.searchsorted(self._pairs, wanted), max(len(self._pairs) - 1, 0))
        if not len(self._pairs) or (self._pairs[at] != wanted).any():
            raise InputError("partners must have agreed on keys where no tags are told; at least two have not")
        return self._order[at]
