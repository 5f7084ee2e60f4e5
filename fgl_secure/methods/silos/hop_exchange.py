"""One silo's part in FedStruct's exchange (ICLR 2025, App. D, Algorithm 3): it ends with its own rows of a power.

A hop is: every silo says how much room its sum needs; all add up, for each of them, the terms of the others; whoever
could not read its sum asks again for twice the room. A silo that has what it wants says so, and the next hop begins
when all have said so. Terms are computed as `hop_adjacency` says, and packed as `sketched_terms` says.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from scipy import sparse

from fgl_secure.coins import Coins
from fgl_secure.errors import InputError, SketchOverfullError
from fgl_secure.methods.silos.matrices import arrays_of, matrix_of
from fgl_secure.methods.silos.pruning import JointPruning
from fgl_secure.methods.silos.rooms import Rooms
from fgl_secure.methods.silos.share_edges import EdgeBlocks
from fgl_secure.protocols.hop_adjacency import HopSettings, Pruning, next_rows, term
from fgl_secure.protocols.sketched_terms import in_fixed_point, packed_term, unpacked_sum
from fgl_secure.protocols.term_sums import ATTEMPTS
from fgl_secure.runtime import Step
from fgl_secure.runtime.packing import Array, Arrays, under, within
from fgl_secure.training.processes.process import Inbox, Outbox, Part
from fgl_secure.training.processes.sums import SiloSums
from fgl_secure.training.silo import Silo


class _Due(IntEnum):
    """What the next turn is about."""

    START = 0
    ROOMS = 1
    SUMS = 2
    THRESHOLD = 3


class HopExchange(Part):
    """The exchange of one silo.

    Args:
        share: what the silo holds.
        settings: which power, and which entries of it are kept.
        sums: its part in sums.
        coins: its own.

    Attributes:
        rows: float64 CSR [m, n], its rows of the last power that is finished.

    Raises:
        InputError: there is nobody to exchange with; or pruning of shares is asked for, for which everybody would have
            to know whose every node is.
    """

    def __init__(self, share: Silo, settings: HopSettings, sums: SiloSums, coins: Coins) -> None:
        facts = share.facts
        if settings.pruning is Pruning.SHARES:
            raise InputError(
                f"pruning must be {Pruning.NONE} or {Pruning.MATRIX} between silos; found {settings.pruning}"
            )
        if facts.silos < 2:
            raise InputError(f"silos must be at least 2, or there is nobody to exchange with; found {facts.silos}")
        self._share, self._settings, self._sums = share, settings, sums
        self._edges = EdgeBlocks(share)
        self._rooms = Rooms(facts, share.silo, sums.company.scheme.name, sums.company.largest, coins)
        self._pruning = JointPruning(share, settings.kept * facts.nodes, sums)
        self._due, self._hop, self._attempt = _Due.START, 1, 0
        self.rows = self._fresh = self._edges.first_power()

    def take(self, inbox: Inbox) -> Outbox | None:
        """One turn; None when `rows` are those of the last power."""
        turns = {_Due.START: self._start, _Due.ROOMS: self._add, _Due.SUMS: self._read, _Due.THRESHOLD: self._prune}
        return turns[self._due](inbox)

    def _start(self, _: Inbox) -> Outbox | None:
        return self._next_hop()

    def _next_hop(self) -> Outbox | None:
        if self._hop == self._settings.hops:
            return None
        self._hop, self._attempt = self._hop + 1, 0
        self._rooms.begin()
        return self._ask()

    def _ask(self) -> Outbox:
        if self._attempt == ATTEMPTS:
            raise SketchOverfullError(f"sketches must be readable after {ATTEMPTS} attempts; one was not")
        self._due = _Due.ROOMS
        return self._rooms.ask(self._step)

    @property
    def _step(self) -> Step:
        return Step(0, self._hop, part=self._attempt)

    def _add(self, inbox: Inbox) -> Outbox | None:
        receivers = self._rooms.hear(inbox)
        if receivers:
            self._due = _Due.SUMS
            return self._sums.begin({silo: self._vector(silo) for silo in receivers}, 1, self._step)
        self.rows = self._fresh
        if self._settings.pruning is Pruning.NONE:
            return self._next_hop()
        self._due = _Due.THRESHOLD
        return self._pruning.begin(self.rows, self._step)

    def _vector(self, receiver: int) -> Array | int:
        """The packed term for a receiver; of the own sum its length alone."""
        shape, plan = self._rooms.shape(receiver), self._rooms.plan(receiver)
        if receiver == self._share.silo:
            return shape[0] * shape[1] if plan is None else plan.length
        whole = term(self._edges.to(receiver), self.rows, np.empty(0, dtype=np.int64), None)
        return packed_term(in_fixed_point(whole, self._rooms.bits(receiver)), plan)

    def _read(self, inbox: Inbox) -> Outbox | None:
        out = self._sums.take(inbox)
        if out is not None:
            return out
        self._attempt += 1
        if self._rooms.wanted:
            self._take_sum(self._sums.results[self._share.silo])
        return self._ask()

    def _take_sum(self, total: Array) -> None:
        """Makes the own rows of the next power from the sum, or wants more room."""
        me = self._share.silo
        try:
            entries = unpacked_sum(total, self._rooms.shape(me), self._rooms.plan(me))
        except SketchOverfullError:
            self._rooms.double()
            return
        self._rooms.satisfied(entries.nnz)
        own = sparse.csr_array(self._edges.to(me) @ self.rows)
        others = sparse.csr_array(entries / 2 ** self._rooms.bits(me))
        self._fresh = next_rows(own, others, self._edges.degrees)

    def _prune(self, inbox: Inbox) -> Outbox | None:
        out = self._pruning.take(inbox)
        if out is not None:
            return out
        self.rows = self._pruning.kept(self.rows)
        return self._next_hop()

    def state(self) -> dict[str, Array]:
        """How far the exchange is, and the rows of two powers."""
        return {
            "where": np.array([self._due, self._hop, self._attempt], dtype=np.int64),
            **under("rows", arrays_of(self.rows)),
            **under("fresh", arrays_of(self._fresh)),
            **under("rooms", self._rooms.state()),
            **under("pruning", self._pruning.state()),
        }

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        due, self._hop, self._attempt = state["where"].tolist()
        self._due = _Due(due)
        self.rows, self._fresh = (matrix_of(within(name, state)) for name in ("rows", "fresh"))
        self._rooms.restore(within("rooms", state))
        self._pruning.restore(within("pruning", state))
