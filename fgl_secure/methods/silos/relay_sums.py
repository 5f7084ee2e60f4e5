"""Sums over neighbours under the relay-coded scheme, as one silo sees them that hosts the devices at both ends.

Targets tell sources the fresh tags of their sums; sources send shares under these tags to the relays, and targets fetch
their sums with the openings; relays agree on what they hold, and answer. All roles are those of `relay_roles`. A sum
that is computed has at least k_min messages. Those of a silo's own devices count, and the silo could take them off.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements
from fgl_secure.coins import Coins
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.methods.silos.neighbour_sums import NeighbourSums, step_array, step_of
from fgl_secure.methods.silos.parcels import Array, Arrays, Parcel, under, within
from fgl_secure.methods.silos.program import NOTHING, Inbox, Outbox, fitting, joined, only
from fgl_secure.methods.silos.relay_keys import DeviceKeys
from fgl_secure.methods.silos.share import Ids, SiloShare
from fgl_secure.methods.silos.ways import Neighbours, Way
from fgl_secure.protocols.relay_coded import MaskOrigin, Profile, RelayCoded
from fgl_secure.protocols.relay_masks import agreed_masks
from fgl_secure.protocols.relay_roles import source_shares, tags_of, target_decode
from fgl_secure.protocols.topology import Reals
from fgl_secure.runtime import Direction, Phase, Step

_DIRECTIONS = (Direction.FORWARD, Direction.BACKWARD)


class _Due(IntEnum):
    FORWARD = 0
    BACKWARD = 1
    TAGS = 2
    ANSWERS = 3


class RelaySums(NeighbourSums):
    """One silo's part.

    Args:
        share: what it holds.
        scheme: its parameters; relays are parties K .. K + R - 1.
        session: 16 public bytes, different in every run.
        coins: its own, secret.

    Raises:
        InputError: the scheme hides who sends, or draws masks as they are: silos do neither for their devices.
        FieldRangeError: the field cannot hold the sums.
    """

    def __init__(self, share: SiloShare, scheme: RelayCoded, session: bytes, coins: Coins) -> None:
        if scheme.profile is not Profile.BASE or scheme.masks is not MaskOrigin.DERIVED:
            raise InputError(f"scheme must have profile base and derived masks between silos; found {scheme.name}")
        self._share, self._scheme, self._coins = share, scheme, coins
        self._fixed = scheme.fixed_point(max(share.facts.largest_degree, 1))
        self._neighbours = Neighbours(share, scheme.k_min)
        self._relays = range(share.facts.silos, share.facts.silos + scheme.R)
        self._due, self._step = _Due.FORWARD, Step(0)
        self._keys = DeviceKeys(share.nodes, self._relays[: scheme.T], session)
        self._orders: list[Ids] = []
        self._done: NDArray[np.int64] = np.empty((0, 4), dtype=np.int64)
        self._q: Elements = np.empty((0, 0), dtype=scheme.field.dtype)
        self._openings: Ids = np.empty((0, 2), dtype=np.int64)
        self.result = np.empty((0, 0))

    def prepare(self) -> Outbox:
        """Silos tell each other which messages are wanted; devices publish their keys."""
        return joined(self._neighbours.tell(Direction.FORWARD), self._keys.publish(self._coins))

    def begin(self, values: Reals, step: Step) -> Outbox:
        """Hands out the tags of the sums of own devices.

        Raises:
            ProtocolError: the step was summed before, so that masks would be used again.
        """
        self._check_fresh(step)
        self._step, self._q, self._due = step, self._fixed.encode(values), _Due.TAGS
        way = self._neighbours.way(step.direction)
        self._openings = self._coins.uniform(2**63, (way.devices, 2))
        tags = tags_of(self._openings)[way.in_groups]
        return {silo: [Parcel(Phase.TAGS, step, (tags[way.in_silos == silo],))] for silo in self._share.others}

    def _check_fresh(self, step: Step) -> None:
        now = step_array(step)
        if (self._done == now).all(axis=1).any() or (len(self._done) and step.round < self._done[-1, 0]):
            raise ProtocolError(f"a step must be summed once, or its masks would be used twice; found {step} again")
        self._done = np.concatenate([self._done[self._done[:, 0] == step.round], now[None]])

    def take(self, inbox: Inbox) -> Outbox | None:
        """One turn; None when all is agreed on, or when `result` is there."""
        if self._due is _Due.FORWARD:
            return self._agree(inbox)
        if self._due is _Due.BACKWARD:
            self._neighbours.hear(inbox, Direction.BACKWARD)
            ways = [self._neighbours.way(direction) for direction in _DIRECTIONS]
            self._orders = [self._coins.uniform(2**63, (len(way.out_rows),)) for way in ways]
            self._due = _Due.TAGS
            return None
        if self._due is _Due.TAGS:
            self._due = _Due.ANSWERS
            return self._send(self._tags(inbox))
        answered = any(parcel.phase is Phase.COUNTS for parcels in inbox.values() for parcel in parcels)
        if not answered:
            return NOTHING
        self._decode(inbox)
        return None

    def _agree(self, inbox: Inbox) -> Outbox:
        self._neighbours.hear(inbox, Direction.FORWARD)
        self._keys.hear(inbox)
        self._due = _Due.BACKWARD
        return self._neighbours.tell(Direction.BACKWARD)

    def _tags(self, inbox: Inbox) -> Ids:
        """The tag of each message that own devices send: int64 [o, 2]."""
        way, me = self._neighbours.way(self._step.direction), self._share.silo
        tags = np.empty((len(way.out_rows), 2), dtype=np.int64)
        tags[way.out_silos == me] = tags_of(self._openings)[way.in_groups[way.in_silos == me]]
        for silo in self._share.others:
            places = np.flatnonzero(way.out_silos == silo)
            (told,) = fitting(only(inbox, silo, Phase.TAGS), ("<i8", (len(places), 2)))
            tags[places] = told
        return tags

    def _send(self, tags: Ids) -> Outbox:
        """Headers and shares of all messages to the relays, and what is fetched."""
        scheme, way, width = self._scheme, self._neighbours.way(self._step.direction), self._q.shape[1]
        senders = self._share.nodes[way.out_rows]
        order = np.lexsort((self._orders[_DIRECTIONS.index(self._step.direction)], senders))
        senders, tags = senders[order], tags[order]
        slots = np.arange(len(order)) - np.searchsorted(senders, senders)
        masks = agreed_masks(self._keys.agreed(), scheme.field, self._step, senders, width)
        points = range(scheme.T + 1, scheme.R + 1)
        shares = source_shares(scheme.field, scheme.T, points, self._q, way.out_rows[order], masks)
        headers = np.column_stack([senders, tags, slots, np.zeros_like(slots)])
        named = Parcel(Phase.SHARE_HEADERS, self._step, (headers, np.asarray(width, dtype=np.int64)))
        fetched = Parcel(Phase.FETCH, self._step, (self._fetches(way),))
        own: list[list[Parcel]] = [[] for _ in range(scheme.T)]
        own += [[Parcel(Phase.SHARES, self._step, (share,))] for share in shares]
        return {relay: [named, fetched, *each] for relay, each in zip(self._relays, own, strict=True)}

    def _fetches(self, way: Way) -> Ids:
        """Tags and openings of the sums that are wanted, int64 [k, 4], in the order of the tags: it tells nothing."""
        openings = self._openings[self._wanted(way)]
        return np.concatenate([tags_of(openings), openings], axis=1)

    def _wanted(self, way: Way) -> Ids:
        """Own devices whose sums are fetched, in the order of their tags."""
        groups = np.flatnonzero(way.counts)
        return groups[np.argsort(tags_of(self._openings[groups])[:, 0], kind="stable")]

    def _decode(self, inbox: Inbox) -> None:
        scheme, way, width = self._scheme, self._neighbours.way(self._step.direction), self._q.shape[1]
        groups = self._wanted(way)
        kind, sums = scheme.field.dtype.newbyteorder("<").str, []
        for relay in self._relays:
            (counts,) = fitting(only(inbox, relay, Phase.COUNTS), ("<i8", (len(groups),)))
            (each,) = fitting(only(inbox, relay, Phase.SHARE_SUMS), (kind, (len(groups), width)))
            if not np.array_equal(counts, way.counts[groups]):
                raise ProtocolError(f"party {relay} must sum all messages for a device; it counts others")
            if each.size and not (int(each.min()) >= 0 and int(each.max()) < scheme.field.modulus):
                raise ProtocolError(f"party {relay} must answer with elements of the field; it does not")
            sums.append(each)
        decoded, _ = target_decode(scheme.field, scheme.T, range(1, scheme.R + 1), np.stack(sums), self._coins)
        self.result = np.zeros((way.devices, width))
        self.result[groups] = self._fixed.decode(decoded)

    def summed(self) -> NDArray[np.int64]:
        """int64 [m]: messages in the forward sum of each device."""
        return self._neighbours.way(Direction.FORWARD).counts

    def state(self) -> dict[str, Array]:
        """Keys, what is agreed on, and the sum at hand."""
        return {
            "due": np.asarray(self._due, dtype=np.int64),
            "step": step_array(self._step),
            "done": self._done,
            "q": self._q,
            "openings": self._openings,
            **{f"order{n}": order for n, order in enumerate(self._orders)},
            **under("keys", self._keys.state()),
            **under("neighbours", self._neighbours.state()),
        }

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self._due, self._step = _Due(int(state["due"])), step_of(state["step"])
        self._done, self._q, self._openings = state["done"], state["q"], state["openings"]
        self._keys.restore(within("keys", state))
        self._orders = [state[f"order{n}"] for n in range(len(_DIRECTIONS)) if f"order{n}" in state]
        self._neighbours.restore(within("neighbours", state))
