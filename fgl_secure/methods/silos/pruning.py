"""One silo's part in finding the value that the largest entries of all silos have in common (see `hop_threshold`)."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from fgl_secure.algebra.quantization import Integers
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.hop_threshold import BINS, DIGITS, Search, in_units
from fgl_secure.runtime import Phase, Step
from fgl_secure.runtime.packing import Array, Arrays
from fgl_secure.training.processes.parcels import Parcel
from fgl_secure.training.processes.process import NOTHING, Inbox, Outbox, Part, fitting, only
from fgl_secure.training.processes.sums import SiloSums
from fgl_secure.training.silo import Silo

FINDER = 0
"""The silo that learns the sums of histograms, and tells the others what follows."""
UNKNOWN = -1


class JointPruning(Part):
    """The part of one silo.

    Args:
        share: what it holds.
        count: entries of all silos together that are kept at most.
        sums: its part in sums.
    """

    def __init__(self, share: Silo, count: int, sums: SiloSums) -> None:
        self._silo, self._silos, self._count, self._sums = share.silo, share.facts.silos, count, sums
        self._step, self._search, self._told = Step(0), Search(), False
        self._units: Integers = np.empty(0, dtype=np.int64)

    def begin(self, rows: sparse.csr_array, step: Step) -> Outbox:
        """Starts the search for the least entry that is kept.

        Args:
            rows: CSR [m, n], of a power.
            step: when.
        """
        self._units, self._step, self._search = in_units(rows.data), step, Search()
        return self._count_entries()

    def kept(self, rows: sparse.csr_array) -> sparse.csr_array:
        """The rows that the search began with, without what lies below the threshold."""
        assert self._search.least is not None
        row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        kept = self._units >= self._search.least
        return sparse.csr_array((rows.data[kept], (row[kept], rows.indices[kept])), shape=rows.shape)

    def take(self, inbox: Inbox) -> Outbox | None:
        """One turn; None when the threshold is known."""
        if not self._told:
            out = self._sums.take(inbox)
            return self._tell() if out is None else out
        if self._silo != FINDER:
            self._hear(inbox)
        return self._count_entries() if self._search.least is None else None

    def _count_entries(self) -> Outbox:
        mine, self._told = self._search.histogram(self._units), False
        step = Step(self._step.round, self._step.layer, part=self._search.digit)
        return self._sums.begin({FINDER: BINS if self._silo == FINDER else mine}, 1, step)

    def _tell(self) -> Outbox:
        self._told = True
        if self._silo != FINDER:
            return NOTHING
        total = self._search.histogram(self._units) + self._sums.results[FINDER]
        self._search = self._search.after(total, self._count)
        parcel = Parcel(Phase.THRESHOLDS, self._step, (self._known(),))
        return {silo: [parcel] for silo in range(self._silos) if silo != FINDER}

    def _known(self) -> Integers:
        search = self._search
        least = UNKNOWN if search.least is None else search.least
        return np.array([search.digit, search.prefix, least], dtype=np.int64)

    def _hear(self, inbox: Inbox) -> None:
        (known,) = fitting(only(inbox, FINDER, Phase.THRESHOLDS), ("<i8", (3,)))
        digit, prefix, least = known.tolist()
        if not 0 <= digit <= DIGITS or (digit == DIGITS and least == UNKNOWN) or prefix < 0 or least < UNKNOWN:
            raise ProtocolError(f"silo {FINDER} must tell a threshold, or another of {DIGITS} digits; it does not")
        self._search = Search(digit, prefix, 0, None if least == UNKNOWN else least)

    def state(self) -> dict[str, Array]:
        """What is known so far."""
        known = [*self._known().tolist(), self._search.above, self._told, self._step.round, self._step.layer]
        return {"units": self._units, "known": np.array(known, dtype=np.int64)}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        digit, prefix, least, above, told, number, layer = state["known"].tolist()
        self._units, self._told, self._step = state["units"], bool(told), Step(number, layer)
        self._search = Search(digit, prefix, above, None if least == UNKNOWN else least)
