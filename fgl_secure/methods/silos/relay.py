"""A relay of the relay-coded scheme as a program of its own: it sees shares under tags, and answers with their sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements
from fgl_secure.coins import Coins
from fgl_secure.errors import ProtocolError
from fgl_secure.methods.silos.neighbour_sums import step_array, step_of
from fgl_secure.methods.silos.parcels import Array, Arrays, Parcel
from fgl_secure.methods.silos.program import NOTHING, Inbox, Outbox, Program, fitting, only
from fgl_secure.methods.silos.relay_keys import agreement, fresh_keys, public_keys, relay_with_devices
from fgl_secure.methods.silos.share import Ids
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.protocols.relay_delivery import Held
from fgl_secure.protocols.relay_masks import agreed_masks
from fgl_secure.protocols.relay_roles import grouped_by_tag, relay_answers
from fgl_secure.runtime import Phase, Step

DIGEST_BYTES = 32
MOST_COORDINATES = 2**16
"""Of a row: a few bytes must not make a relay expand more than it can hold."""


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """The messages of one step, by sender and slot.

    Attributes:
        step: when.
        headers: int64 [m, 5]: sender, two words of tag, slot, attempt.
        shares: elements [m, d].
    """

    step: Step
    headers: Ids
    shares: Elements

    def digest(self, relay: int) -> bytes:
        """What other relays must hold as well."""
        everything = np.ones(len(self.headers), dtype=np.bool_)
        return Held(relay, everything, np.ascontiguousarray(self.headers[:, 1:]), self.shares).digest()


class RelayProgram(Program):
    """One relay.

    Args:
        index: of the relay, from 0.
        silos: how many silos there are; the relay is party `silos + index`.
        scheme: its parameters.
        session: 16 public bytes, different in every run.
        coins: its own, secret.
    """

    def __init__(self, index: int, silos: int, scheme: RelayCoded, session: bytes, coins: Coins) -> None:
        self._index, self._silos, self._scheme, self._session = index, silos, scheme, session
        self._party = silos + index
        self._private = fresh_keys(coins, 1)
        self._devices: Ids = np.empty(0, dtype=np.int64)
        self._silo_of: Ids = np.empty(0, dtype=np.int64)
        self._keys: NDArray[np.uint8] = np.empty((0, 32), dtype=np.uint8)
        self._begun = False
        self._table: _Table | None = None
        self._wanted: list[Ids] = []

    @property
    def report(self) -> dict[str, Array] | None:
        """None: a relay finds nothing."""
        return None

    @property
    def _expands(self) -> bool:
        """Whether its shares are masks that it expands itself."""
        return self._index < self._scheme.T

    def turn(self, inbox: Inbox) -> Outbox:
        """One turn: what it does depends on what has arrived."""
        phases = {parcel.phase for parcels in inbox.values() for parcel in parcels}
        if not self._begun:
            self._begun = True
            public = Parcel(Phase.KEYS, Step(0), (public_keys(self._private)[0],))
            return {silo: [public] for silo in range(self._silos)} if self._expands else NOTHING
        if Phase.KEYS in phases:
            self._agree(inbox)
        elif Phase.SHARE_HEADERS in phases:
            return self._hold(inbox)
        elif Phase.ROSTERS in phases:
            return self._answer(inbox)
        return NOTHING

    def _agree(self, inbox: Inbox) -> None:
        """Derives the key of every device."""
        if len(self._devices) or not self._expands:
            raise ProtocolError("keys must be told once, and to relays that expand shares; they are told again")
        found = [fitting(only(inbox, s, Phase.KEYS), ("<i8", (-1,)), ("|u1", (-1, 32))) for s in range(self._silos)]
        devices, publics = (np.concatenate(each) for each in zip(*found, strict=True))
        if len(devices) != len(publics) or len(np.unique(devices)) != len(devices):
            raise ProtocolError("every device must have one key, told by one silo; at least one has not")
        order = np.argsort(devices)
        silos = np.repeat(np.arange(self._silos), [len(each) for each, _ in found])
        self._devices, self._silo_of = devices[order], silos[order]
        private = self._private[0].tobytes()
        self._keys = relay_with_devices(private, self._party, publics[order], self._devices, self._session)

    def _hold(self, inbox: Inbox) -> Outbox:
        """Takes all messages of a step, and tells the other relays which they are."""
        parts = [self._part(inbox, silo) for silo in range(self._silos)]
        steps, headers, shares, wanted = (list(each) for each in zip(*parts, strict=True))
        if len(set(steps)) != 1 or len({each.shape[1] for each in shares}) != 1:
            raise ProtocolError("silos must send shares of one step and width; they differ")
        stacked = np.concatenate(headers)
        order = np.lexsort((stacked[:, 3], stacked[:, 0]))
        ordered, step = stacked[order], steps[0]
        slots = np.arange(len(ordered)) - np.searchsorted(ordered[:, 0], ordered[:, 0])
        if not np.array_equal(slots, ordered[:, 3]):
            raise ProtocolError("every sender must number its messages from 0 on; at least one does not")
        values = np.concatenate(shares)[order] if not self._expands else self._expanded(ordered, step, shares[0])
        self._table, self._wanted = _Table(step, ordered, values), wanted
        digest = np.frombuffer(self._table.digest(self._party), dtype=np.uint8)
        return {relay: [Parcel(Phase.ROSTERS, step, (digest,))] for relay in self._others}

    def _part(self, inbox: Inbox, silo: int) -> tuple[Step, Ids, Elements, Ids]:
        """Step, headers, shares and fetches of one silo; where it expands shares, their width alone."""
        named, field = only(inbox, silo, Phase.SHARE_HEADERS), self._scheme.field
        headers, width = fitting(named, ("<i8", (-1, 5)), ("<i8", ()))
        (wanted,) = fitting(only(inbox, silo, Phase.FETCH), ("<i8", (-1, 4)))
        if not 1 <= int(width) <= MOST_COORDINATES:
            raise ProtocolError(f"silo {silo} must send rows of 1 to {MOST_COORDINATES:,} coordinates; it does not")
        if self._expands:
            place = np.minimum(np.searchsorted(self._devices, headers[:, 0]), len(self._devices) - 1)
            if not ((self._devices[place] == headers[:, 0]) & (self._silo_of[place] == silo)).all():
                raise ProtocolError(f"silo {silo} must send for devices of its own; at least one is not")
            return named.step, headers, np.empty((0, int(width)), dtype=field.dtype), wanted
        kind = field.dtype.newbyteorder("<").str
        (shares,) = fitting(only(inbox, silo, Phase.SHARES), (kind, (len(headers), int(width))))
        if shares.size and not (int(shares.min()) >= 0 and int(shares.max()) < field.modulus):
            raise ProtocolError(f"silo {silo} must send elements of the field; at least one is not")
        return named.step, headers, shares, wanted

    def _expanded(self, headers: Ids, step: Step, like: Elements) -> Elements:
        keys = agreement(self._devices, [self._keys])
        return agreed_masks(keys, self._scheme.field, step, headers[:, 0], like.shape[1])[0]

    def _answer(self, inbox: Inbox) -> Outbox:
        """Answers what was fetched, if all relays hold the same messages."""
        table = self._table
        if table is None:
            raise ProtocolError("relays must hold messages before they tell which; one tells too early")
        own = table.digest(self._party)
        for relay in self._others:
            (digest,) = fitting(only(inbox, relay, Phase.ROSTERS), ("|u1", (DIGEST_BYTES,)))
            if digest.tobytes() != own:
                raise ProtocolError(f"relays must hold the same messages; parties {self._party} and {relay} do not")
        tags, by_tag = grouped_by_tag(table.headers[:, 1:3])
        out: dict[int, list[Parcel]] = {}
        for silo, wanted in enumerate(self._wanted):
            field, least = self._scheme.field, self._scheme.k_min
            counts, sums = relay_answers(field, table.shares, tags, by_tag, wanted, least)
            out[silo] = [Parcel(Phase.COUNTS, table.step, (counts,)), Parcel(Phase.SHARE_SUMS, table.step, (sums,))]
        self._table, self._wanted = None, []
        return out

    @property
    def _others(self) -> list[int]:
        return [self._silos + j for j in range(self._scheme.R) if j != self._index]

    def state(self) -> dict[str, Array]:
        """Keys, and the messages at hand."""
        arrays: dict[str, Array] = {
            "private": self._private,
            "begun": np.asarray(self._begun),
            "devices": self._devices,
            "silo_of": self._silo_of,
            "keys": self._keys,
        }
        if self._table is not None:
            arrays |= {"step": step_array(self._table.step), "headers": self._table.headers}
            arrays |= {"shares": self._table.shares}
        return arrays | {f"wanted{n}": wanted for n, wanted in enumerate(self._wanted)}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self._private, self._begun = state["private"], bool(state["begun"])
        self._devices, self._silo_of, self._keys = state["devices"], state["silo_of"], state["keys"]
        held = "step" in state
        self._table = _Table(step_of(state["step"]), state["headers"], state["shares"]) if held else None
        self._wanted = [state[f"wanted{n}"] for n in range(self._silos) if f"wanted{n}" in state]
